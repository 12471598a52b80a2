"""Write a model as a folder that the transformers library loads, with the same logits.

The files are written directly, so that neither the library nor a version of it is needed here.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor

from surefoot.errors import StorageError, UsageError
from surefoot.export.classes import FAMILIES
from surefoot.export.families import Family, family_of
from surefoot.model import Decoder, fold, folded_architecture
from surefoot.recipe import Architecture
from surefoot.runs import fsync_dir, fsync_file


def to_transformers(model: Decoder, tokenizer_path: Path, out: Path, end_of_text: int) -> Path:
    """Write config.json, generation_config.json, model.safetensors and the tokenizer to ``out``.

    What can be folded into plain weights is (:func:`surefoot.model.fold`); the class follows from
    the rest, see :mod:`surefoot.export.classes`. All of it is exact up to the rounding of a
    multiplication. Weights are stored in fp32. Experts have no capacity in the exported model, as
    they have none in evaluation.

    Args:
        model: the model.
        tokenizer_path: its ``tokenizer.json``.
        out: the folder to make; one that exists must be empty.
        end_of_text: id of the token that ends a document.

    Returns:
        ``out``, absolute.

    Raises:
        UsageError: if no transformers class fits (the fields in the way are named), ``out`` holds
            something, or the tokenizer does not fit the model.
        StorageError: if it cannot be written; nothing is left of it then.
    """
    family = family_of(folded_architecture(model.architecture), FAMILIES)
    architecture = folded_architecture(model.architecture, embedding_scale=family.embedding_scale)
    eos = _end_token(tokenizer_path, end_of_text, architecture.vocab_size)
    out = out.absolute()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} exists and is not an empty folder: give --out a new one")
    weights = exported_weights(model, family)
    config = exported_config(architecture, family, end_of_text)
    generation = {"eos_token_id": end_of_text, "pad_token_id": end_of_text}
    tokenizer = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": eos,
        "clean_up_tokenization_spaces": False,
        "model_max_length": architecture.sequence_length,
    }
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        # A folder inside a temporary one: renamed when complete, and with ordinary permissions.
        with tempfile.TemporaryDirectory(prefix=".export-", dir=out.parent) as temporary:
            folder = Path(temporary) / out.name
            folder.mkdir()
            _write_json(folder / "config.json", config)
            _write_json(folder / "generation_config.json", generation)
            _write_json(folder / "tokenizer_config.json", tokenizer)
            (folder / "tokenizer.json").write_bytes(tokenizer_path.read_bytes())
            save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
            # The library makes files for their owner alone; what is exported follows the umask.
            (folder / "model.safetensors").chmod((folder / "config.json").stat().st_mode & 0o777)
            for file in folder.iterdir():
                fsync_file(file)
            fsync_dir(folder)
            folder.rename(out)
            fsync_dir(out.parent)
    except Exception as error:  # safetensors raises an Exception of its own for a full disk
        raise StorageError(f"cannot write {out}: {error}; nothing was left there") from error
    return out


@torch.no_grad()
def exported_weights(model: Decoder, family: Family) -> dict[str, Tensor]:
    """The weights under the names of the class, folded; fp32, on the CPU."""
    plain = fold(model, embedding_scale=family.embedding_scale).model
    state = {name: t.detach().to("cpu", torch.float32) for name, t in plain.state_dict().items()}
    weights = {}
    for ours, theirs in family.names(plain.architecture):
        offset = family.offset(ours)
        weights[theirs] = (state[ours] - offset if offset else state[ours]).contiguous()
    for name in family.zeros(plain.architecture):
        weights[name] = torch.zeros(plain.architecture.width)
    return weights


def exported_config(architecture: Architecture, family: Family, end_of_text: int) -> dict[str, Any]:
    """The config.json, readable by transformers 4 (rope_theta) and 5 (rope_parameters) alike.

    Args:
        architecture: folded, with the embedding scale of the class.
        family: the class.
        end_of_text: id of the token that ends a document.
    """
    a = architecture
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": a.rope_theta}
    if "partial_rotary_factor" in family.fixed:
        rope["partial_rotary_factor"] = family.fixed["partial_rotary_factor"]
    config: dict[str, Any] = {
        "architectures": [family.class_name],
        "model_type": family.model_type,
        "intermediate_size": a.inner_width,
        "head_dim": a.head_size,
        "rope_theta": a.rope_theta,
        "rope_scaling": None,
        "rope_parameters": rope,
        "tie_word_embeddings": a.tied_embeddings,
        "bos_token_id": None,
        "eos_token_id": end_of_text,
        "pad_token_id": None,
        "dtype": "float32",
        **family.fixed,
    }
    given = {"kv_heads": a.key_value_heads, "ff_width": a.inner_width}
    for field, key in family.all_keys.items():
        config[key] = given[field] if field in given else getattr(a, field)
    if "query_pre_attn_scalar" in family.defaults:
        config["query_pre_attn_scalar"] = a.head_size
    if "layer_types" in family.defaults:
        # Full attention everywhere; where an older version knows its own pattern only, a window
        # as long as the sequences is the same.
        config["layer_types"] = ["full_attention"] * a.layers
        config["sliding_window"] = a.sequence_length
    if family.rope_by_layer:
        config["rope_parameters"] = {"full_attention": rope, "sliding_attention": rope}
        config["rope_local_base_freq"] = a.rope_theta
    return config


def _end_token(path: Path, end_of_text: int, vocab_size: int) -> str:
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises plain Exception
        raise UsageError(f"{path}: not a readable tokenizer.json: {error}") from None
    size = tokenizer.get_vocab_size()
    if size > vocab_size:
        raise UsageError(
            f"{path}: {size} tokens, but the model has architecture.vocab_size = {vocab_size}"
        )
    token: str | None = tokenizer.id_to_token(end_of_text)
    if token is None:
        raise UsageError(f"end_of_text = {end_of_text}: {path} has no token of this id")
    return token


def _write_json(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
