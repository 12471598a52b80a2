"""Read the safetensors files of a transformers folder, and check them against its configuration."""

import json
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from surefoot.errors import UsageError
from surefoot.export.families import Family
from surefoot.model import Decoder
from surefoot.recipe import Architecture


def read_weights(folder: Path, family: Family, architecture: Architecture) -> dict[str, Tensor]:
    """The state dict of ``Decoder(architecture)``, fp32.

    Args:
        folder: holds model.safetensors, or its index and shards.
        family: how tensors are called there.
        architecture: what they must fit.

    Raises:
        UsageError: if there is no safetensors file, one is damaged, or a tensor is missing,
            unknown, of another shape or a number format that is no float.
    """
    with torch.device("meta"):
        shapes = {name: t.shape for name, t in Decoder(architecture).state_dict().items()}
    ours = {theirs: name for name, theirs in family.names(architecture)}
    zeros = set(family.zeros(architecture))
    state: dict[str, Tensor] = {}
    unknown = []
    for file, name, tensor in _tensors(folder):
        if name in ours:
            wanted = shapes[ours[name]]
            if tensor.shape != wanted:
                raise UsageError(
                    f"{file}: {name} has shape {tuple(tensor.shape)}; by config.json it is "
                    f"{tuple(wanted)}"
                )
            if not tensor.is_floating_point() or tensor.element_size() < 2:
                raise UsageError(f"{file}: {name} is {tensor.dtype}; expected fp32, fp16 or bf16")
            state[ours[name]] = tensor.to(torch.float32) + family.offset(ours[name])
        elif name in zeros:
            if bool(tensor.any()):
                raise UsageError(
                    f"{file}: {name} is not zero; the norms of surefoot's decoder have no bias"
                )
        elif not _ignored(name, architecture):
            unknown.append(name)
    missing = [name for name in ours if ours[name] not in state]
    if missing or unknown:
        problems = [
            f"{word} {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")
            for word, names in (("missing", missing), ("unknown", unknown))
            if names
        ]
        raise UsageError(f"{folder}: weights that do not fit config.json: {', '.join(problems)}")
    return state


def _ignored(name: str, architecture: Architecture) -> bool:
    """RoPE tables of old versions, and a copy of the embedding where the head is tied to it."""
    tied = architecture.tied_embeddings and name == "lm_head.weight"
    return tied or name.endswith("rotary_emb.inv_freq")


def _tensors(folder: Path) -> Iterator[tuple[Path, str, Tensor]]:
    for file in _files(folder):
        try:
            with safe_open(file, framework="pt") as stored:
                for name in stored.keys():
                    yield file, name, stored.get_tensor(name)
        except (SafetensorError, OSError) as error:
            raise UsageError(f"{file}: not a readable safetensors file: {error}") from None


def _files(folder: Path) -> list[Path]:
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if single.is_file():
        return [single]
    if index.is_file():
        try:
            names = sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise UsageError(f"{index}: expected JSON with a table weight_map") from None
        for name in names:
            if not isinstance(name, str) or Path(name).name != name:
                raise UsageError(f"{index}: {name!r} is no file name of this folder")
        return [folder / name for name in names]
    pickled = sorted(p.name for p in folder.glob("*.bin")) + sorted(
        p.name for p in folder.glob("*.pt*")
    )
    if pickled:
        raise UsageError(
            f"{folder} has {pickled[0]} but no safetensors file; surefoot unpickles no weights, "
            "since that can run code: write them anew with "
            "AutoModelForCausalLM.from_pretrained(...).save_pretrained(...)"
        )
    raise UsageError(f"{folder} has no model.safetensors")
