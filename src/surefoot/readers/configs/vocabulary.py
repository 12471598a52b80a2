"""One word for one thing: norms, activations, schedules, optimizers, number formats."""

from typing import Any

_NORMS = {
    "rmsnorm": "rmsnorm", "rms_norm": "rmsnorm", "rms": "rmsnorm", "fusedrmsnorm": "rmsnorm",
    "layernorm": "layernorm", "layer_norm": "layernorm", "ln": "layernorm",
    "low_precision_layernorm": "layernorm", "non_parametric_layernorm": "layernorm",
}  # fmt: skip
_ACTIVATIONS = {
    "swiglu": "swiglu", "silu_and_mul": "swiglu", "fast-swiglu": "swiglu", "llamamlp": "swiglu",
    "geglu": "geglu", "reglu": "reglu", "gelu": "gelu", "gelu_new": "gelu", "gelu_fast": "gelu",
    "gelu_pytorch_tanh": "gelu", "gelu_tanh": "gelu", "relu": "relu", "relu2": "relu2",
    "squared-relu": "relu2", "squared_relu": "relu2", "sqrelu": "relu2", "silu": "silu",
    "swish": "silu", "quick_gelu": "quick-gelu",
}  # fmt: skip
_SCHEDULES = {
    "cosine": "cosine", "cosineannealing": "cosine", "cosine_with_min_lr": "cosine",
    "cosine_with_warmup": "cosine", "cosinewarmup": "cosine", "linear": "linear",
    "linear_with_warmup": "linear", "linearwithwarmup": "linear", "warmupdecaylr": "linear",
    "wsd": "wsd", "warmup_stable_decay": "wsd", "constant": "constant", "constantwithwarmup":
    "constant", "constant_with_warmup": "constant", "warmuplr": "constant", "inverse_sqrt":
    "inverse-sqrt", "inverse-square-root": "inverse-sqrt", "inv_sqrt": "inverse-sqrt",
    "polynomial": "polynomial", "exponential": "exponential", "trapezoidal": "wsd",
    "warmupcosinelr": "cosine", "cosine_warmup_with_min_lr": "cosine", "1-sqrt": "1-sqrt",
    "minus_sqrt": "1-sqrt",
}  # fmt: skip
_OPTIMIZERS = {
    "adam": "adamw", "adamw": "adamw", "adamw_torch": "adamw", "adamw_hf": "adamw",
    "adamw_torch_fused": "adamw", "adamw_apex_fused": "adamw", "fusedadam": "adamw",
    "decoupled_adamw": "adamw", "decoupledadamw": "adamw", "fused_adam": "adamw", "cpuadam":
    "adamw", "deepspeedcpuadam": "adamw", "adamw_torch_xla": "adamw", "adamw_torch_npu_fused":
    "adamw", "adamw_bnb_8bit": "adamw-8bit", "adamw_8bit": "adamw-8bit",
    "paged_adamw_32bit": "adamw", "paged_adamw_8bit": "adamw-8bit", "distributed_fused_adam":
    "adamw", "sgd": "sgd", "lion": "lion", "decoupled_lionw": "lion", "lionw": "lion", "muon":
    "muon", "adafactor": "adafactor", "lamb": "lamb", "sophia": "sophia", "shampoo": "shampoo",
    "skipstepadamw": "adamw",
}  # fmt: skip
_FORMATS = {
    "bf16": "bf16", "bfloat16": "bf16", "bf16-mixed": "bf16", "bf16-true": "bf16", "amp_bf16":
    "bf16", "fp16": "fp16", "float16": "fp16", "half": "fp16", "16": "fp16", "16-mixed": "fp16",
    "16-true": "fp16", "amp_fp16": "fp16", "fp32": "fp32", "float32": "fp32", "float": "fp32",
    "32": "fp32", "32-true": "fp32", "no": "fp32", "fp8": "fp8", "amp_fp8": "fp8", "float8": "fp8",
    "transformer-engine": "fp8", "fp64": "fp64", "float64": "fp64", "bf16-mixed-fp8": "fp8",
}  # fmt: skip
_POSITIONS = {
    "rope": "rope", "rotary": "rope", "learned_absolute": "learned", "learned": "learned",
    "absolute": "learned", "alibi": "alibi", "none": "none", "nope": "none", "yarn": "rope",
    "sinusoidal": "sinusoidal", "relative": "relative", "mrope": "rope", "rpe": "relative",
}  # fmt: skip


def norm(value: Any) -> str:
    """``rmsnorm``, ``layernorm``; another word as it is, in small letters."""
    return _look(_NORMS, value)


def activation(value: Any) -> str:
    """``swiglu``, ``geglu``, ``gelu``, ``relu``, ``relu2``, ``silu``; gated ones by their name."""
    return _look(_ACTIVATIONS, value)


def schedule(value: Any) -> str:
    """``cosine``, ``linear``, ``wsd``, ``constant``, ``inverse-sqrt``, ``polynomial``."""
    return _look(_SCHEDULES, value)


def optimizer(value: Any) -> str:
    """``adamw`` (decoupled or not), ``sgd``, ``lion``, ``muon``, ``adafactor``..."""
    return _look(_OPTIMIZERS, value)


def number_format(value: Any) -> str:
    """``bf16``, ``fp16``, ``fp32``, ``fp8``; with or without ``torch.``, ``-mixed``, ``-true``."""
    return _look(_FORMATS, str(value).removeprefix("torch."))


def position(value: Any) -> str:
    """``rope``, ``learned``, ``alibi``, ``sinusoidal``, ``relative``, ``none``."""
    return _look(_POSITIONS, value)


def _look(table: dict[str, str], value: Any) -> str:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise ValueError("expected a word")
    word = str(value).strip().lower()
    return table.get(word, word)
