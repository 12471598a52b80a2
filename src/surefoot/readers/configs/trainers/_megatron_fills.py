"""What Megatron-LM's ``parse_args`` fills in, whatever else is stated."""

from collections.abc import Mapping
from typing import Any

FILLS: Mapping[str, Any] = {
    "seed": 1234,
    "architecture.norm": "layernorm",
    "architecture.norm_eps": 1e-5,
    "architecture.norm_placement": "pre",
    "architecture.activation": "gelu",
    "architecture.position": "learned",
    "architecture.tied_embeddings": True,
    "architecture.qk_norm": False,
    "architecture.bias": True,
    "architecture.dropout": 0.1,
    "architecture.attention_dropout": 0.1,
    "architecture.vocab_multiple": 128,
    "init.method": "normal",
    "init.std": 0.02,
    "init.depth_scaled_outputs": True,
    "optimizer.name": "adamw",
    "optimizer.beta1": 0.9,
    "optimizer.beta2": 0.999,
    "optimizer.eps": 1e-8,
    "optimizer.weight_decay": 0.01,
    "optimizer.decay_embeddings": True,
    "optimizer.decay_norms": False,
    "optimizer.decay_biases": False,
    "optimizer.clip_norm": 1.0,
    "schedule.kind": "linear",
    "schedule.min_learning_rate": 0.0,
    "precision.softmax_fp32": False,
    "parallelism.tensor": 1,
    "parallelism.pipeline": 1,
    "parallelism.context": 1,
    "parallelism.sequence": False,
    "parallelism.distributed_optimizer": False,
    "parallelism.recompute": "none",
}
"""Field -> value."""

LOSS_SCALE: Mapping[str, Any] = {
    "precision.initial_loss_scale": 2.0**32,
    "precision.loss_scale_window": 1000,
    "precision.loss_scale_hysteresis": 2,
    "precision.min_loss_scale": 1.0,
}
"""Of the dynamic loss scale, where fp16 is computed in."""
