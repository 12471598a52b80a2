"""A class of the transformers library as a subject: its own code and its own initialisation."""

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn

from surefoot.errors import ConfigError
from surefoot.init import FAMILIES, roles_of
from surefoot.probe.class_config import first_line, quiet, transformers
from surefoot.probe.profile import Sizes
from surefoot.probe.subject import (
    Build,
    Run,
    Subject,
    SubLayers,
    head_rows,
    places,
    wider_logits,
)

_ATTENTION = ("self_attn", "attn", "attention")
_FEED_FORWARD = ("mlp", "block_sparse_moe")
# Where the norm stands that is meant: of `pre`, what a sub-layer reads; else what is added.
_READ_BY_ATTENTION = ("input_layernorm", "ln_1")
_READ_BY_FEED_FORWARD = {
    "pre": ("post_attention_layernorm", "ln_2", "ln_1"),
    "sandwich": ("pre_feedforward_layernorm",),
}
_NORMED_OUTPUTS = ("sandwich", "reordered")
_GATED = {"silu": "swiglu", "swish": "swiglu", "relu": "reglu"}


def class_builder(config: Any, full: Sizes, *, seed: int, where: str) -> Build:
    """How to build the class at any width; see :data:`surefoot.probe.subject.Build`."""

    def build(sizes: Sizes) -> Subject:
        narrow = _resized(config, sizes, full)
        try:
            with quiet(), torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                model = _from_config(narrow)
        except Exception as error:  # as above
            raise ConfigError(
                f"{where}: {config.model_type} cannot be built: {first_line(error)}"
            ) from None
        return _subject(model.float().eval(), sizes, full, where)

    return build


def _resized(config: Any, sizes: Sizes, full: Sizes) -> Any:
    narrow = copy.deepcopy(config)
    narrow.num_hidden_layers = sizes.layers
    narrow.hidden_size = sizes.width
    narrow.num_attention_heads = sizes.heads
    narrow.vocab_size = sizes.vocab_size
    if hasattr(config, "num_key_value_heads"):
        narrow.num_key_value_heads = sizes.kv_heads
    if hasattr(config, "head_dim"):
        narrow.head_dim = sizes.head_size
    for name in ("moe_intermediate_size", "intermediate_size", "n_inner"):
        if hasattr(config, name) and (name == "n_inner" or getattr(config, name) is not None):
            setattr(narrow, name, sizes.ff_width)
            break
    for name in ("num_local_experts", "num_experts"):
        if sizes.experts > 1 and getattr(config, name, None) is not None:
            setattr(narrow, name, sizes.experts)
    if getattr(config, "layer_types", None):
        narrow.layer_types = list(config.layer_types)[: sizes.layers]
    for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
        if hasattr(config, name):
            setattr(narrow, name, None)
    narrow.use_cache = False
    return narrow


def _from_config(config: Any) -> nn.Module:
    library: Any = transformers()
    make = library.AutoModelForCausalLM.from_config
    try:
        model = make(config, attn_implementation="sdpa")
    except ValueError:  # a family that has no fused attention, such as Gemma 2
        model = make(config, attn_implementation="eager")
    assert isinstance(model, nn.Module)
    return model


def _subject(model: nn.Module, sizes: Sizes, full: Sizes, where: str) -> Subject:
    roles = roles_of(model)
    family = FAMILIES[model.config.model_type]  # type: ignore[index, union-attr]
    blocks = _blocks(model, sizes.layers)
    reduction = full.width / sizes.width
    tied = "head" not in roles.values()
    if family.scales_embedding and reduction != 1:
        # The class multiplies by the root of the width that it has.
        blocks[0].register_forward_pre_hook(
            lambda _m, inputs: (inputs[0] * math.sqrt(reduction), *inputs[1:])
        )
    factor = math.sqrt(full.width) if family.scales_embedding else 1.0
    return Subject(
        model=model,
        run=_runner(model, reduction if tied else 1.0, where),
        roles=roles,
        sub_layers=tuple(_sub_layers(block, family.placement) for block in blocks),
        placement=family.placement,
        sizes=sizes,
        input_factor=factor,
        tied=tied,
        gradient_share=1.0,
        activation=_activation(model, sizes),
    )


def _runner(model: nn.Module, reduction: float, where: str) -> Run:
    """The class's own forward pass; whatever it does to its logits comes behind the correction."""
    head: Any = model.get_output_embeddings()  # type: ignore[operator]
    path, _, name = next(n for n, m in model.named_modules() if m is head).rpartition(".")
    holder = model.get_submodule(path)
    weight, bias = head.weight, getattr(head, "bias", None)

    def run(tokens: Tensor, rows: Tensor) -> Tensor:
        def widen(_module: nn.Module, _inputs: Any, logits: Tensor) -> Tensor:
            if bias is not None:
                logits = logits + bias[rows]
            return logits if reduction == 1 else wider_logits(logits, own, reduction)

        own = places(tokens, rows)
        with head_rows(holder, name, weight, rows):
            getattr(holder, name).register_forward_hook(widen)
            try:
                logits: Tensor = model(input_ids=tokens, use_cache=False).logits
            except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
                raise ConfigError(
                    f"{where}: {type(model).__name__} does not run: {first_line(error)}"
                ) from None
        return logits

    return run


def _blocks(model: nn.Module, layers: int) -> nn.ModuleList:
    for module in model.modules():
        if isinstance(module, nn.ModuleList) and len(module) == layers:
            return module
    raise ConfigError(f"no list of {layers} blocks in {type(model).__name__}")


def _sub_layers(block: nn.Module, placement: str) -> SubLayers:
    attention, feed_forward = _child(block, _ATTENTION), _child(block, _FEED_FORWARD)
    assert attention is not None
    assert feed_forward is not None
    added: tuple[nn.Module, nn.Module] = (attention, feed_forward)
    if placement in _NORMED_OUTPUTS:
        outputs = [
            _child(block, (f"post_{part}_layernorm",)) for part in ("attention", "feedforward")
        ]
        added = (outputs[0] or attention, outputs[1] or feed_forward)
    reads = _READ_BY_FEED_FORWARD.get(placement)
    return SubLayers(
        block=block,
        attention=attention,
        attention_added=added[0],
        feed_forward_added=added[1],
        attention_norm=_child(block, _READ_BY_ATTENTION) if reads else None,
        feed_forward_norm=_child(block, reads) if reads else None,
    )


def _child(block: nn.Module, names: tuple[str, ...]) -> nn.Module | None:
    found = dict(block.named_children())
    return next((found[name] for name in names if name in found), None)


def _activation(model: nn.Module, sizes: Sizes) -> str:
    config: Any = model.config
    for name in ("hidden_activation", "hidden_act", "activation_function"):
        act = getattr(config, name, None)
        if isinstance(act, str):
            plain = "gelu" if act.startswith("gelu") else act
            gated = "geglu" if plain == "gelu" else _GATED.get(plain, plain)
            return gated if sizes.ff_matrices == 3 else plain
    return "identity"
