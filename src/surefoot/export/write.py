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
from surefoot.export.families import Family, family_of
from surefoot.model import Decoder
from surefoot.recipe import Architecture
from surefoot.runs import fsync_dir, fsync_file


def to_transformers(model: Decoder, tokenizer_path: Path, out: Path, end_of_text: int) -> Path:
    """Write config.json, generation_config.json, model.safetensors and the tokenizer to ``out``.

    The class follows from norm, activation and QK-norm: Llama, Qwen3, Arcee, Apertus, StableLM or
    StarCoder2 (:mod:`surefoot.export.families`). The embedding scale is folded into the embedding
    and the head scale into the head; a tied head is untied where the two differ. All of it is exact
    up to the rounding of one multiplication. Weights are stored in fp32.

    Args:
        model: the model.
        tokenizer_path: its ``tokenizer.json``.
        out: the folder to make; one that exists must be empty.
        end_of_text: id of the token that ends a document.

    Returns:
        ``out``, absolute.

    Raises:
        UsageError: if no transformers class fits (the field is named), ``out`` holds something, or
            the tokenizer does not fit the model.
        StorageError: if it cannot be written; nothing is left of it then.
    """
    architecture = model.architecture
    family = family_of(architecture)
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
    """The weights under the names of the class, scales folded in; fp32, on the CPU."""
    a = model.architecture
    state = {name: t.detach().to("cpu", torch.float32) for name, t in model.state_dict().items()}
    weights = {theirs: state[ours] for ours, theirs in family.names(a)}
    embedding = state["embedding.weight"]
    weights["model.embed_tokens.weight"] = embedding * a.input_factor
    if not _stays_tied(a):
        weights["lm_head.weight"] = state.get("head.weight", embedding) * a.output_factor
    for name in family.zeros(a):
        weights[name] = torch.zeros(a.width)
    return {name: tensor.contiguous() for name, tensor in weights.items()}


def exported_config(architecture: Architecture, family: Family, end_of_text: int) -> dict[str, Any]:
    """The config.json, readable by transformers 4 (rope_theta) and 5 (rope_parameters) alike."""
    a = architecture
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": a.rope_theta}
    if "partial_rotary_factor" in family.fixed:
        rope["partial_rotary_factor"] = family.fixed["partial_rotary_factor"]
    return {
        "architectures": [family.class_name],
        "model_type": family.model_type,
        "vocab_size": a.vocab_size,
        "hidden_size": a.width,
        "intermediate_size": a.inner_width,
        "num_hidden_layers": a.layers,
        "num_attention_heads": a.heads,
        "num_key_value_heads": a.key_value_heads,
        "head_dim": a.head_size,
        "max_position_embeddings": a.sequence_length,
        family.eps_key: a.norm_eps,
        "rope_theta": a.rope_theta,
        "rope_scaling": None,
        "rope_parameters": rope,
        "tie_word_embeddings": _stays_tied(a),
        "bos_token_id": None,
        "eos_token_id": end_of_text,
        "pad_token_id": None,
        "dtype": "float32",
        **family.fixed,
    }


def _stays_tied(architecture: Architecture) -> bool:
    """Whether embedding and head are still one matrix once the scales are folded in."""
    a = architecture
    return a.tied_embeddings and a.input_factor == a.output_factor


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
