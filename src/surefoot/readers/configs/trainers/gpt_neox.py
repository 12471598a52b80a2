"""GPT-NeoX: its YAML files, several of which are merged, and the arguments in its logs."""

from collections.abc import Mapping
from typing import Any, ClassVar

from surefoot.readers.configs import vocabulary as words
from surefoot.readers.configs.documents.tree import Document
from surefoot.readers.configs.formats import ConfigFormat, Draft, To
from surefoot.readers.configs.trainers._gpt_neox_names import KNOWN
from surefoot.readers.configs.trainers._shared import (
    flag,
    inverted,
    number,
    positive,
    say_betas,
    share,
    word,
)


def _power(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 64:
        raise ValueError("expected a power of two, 0 to 64")
    return float(2.0**value)


class GptNeox(ConfigFormat):
    """Keys may be written with hyphens or underscores; DeepSpeed's tables are among them."""

    name = "gpt-neox"
    title = "GPT-NeoX"
    version = "GPT-NeoX 2.0"
    kinds = frozenset({"yaml", "json", "dump"})
    no_key_twice = True
    misreads = True
    autos = frozenset({"auto"})
    keys: ClassVar[Mapping[str, str | To]] = {
        "wandb_run_name": "name",
        "seed": "seed",
        "num_layers": "architecture.layers",
        "hidden_size": "architecture.width",
        "num_attention_heads": "architecture.heads",
        "num_kv_heads": "architecture.kv_heads",
        "intermediate_size": "architecture.ff_width",
        "feedforward_size": "architecture.ff_width",
        "seq_length": "architecture.sequence_length",
        "max_position_embeddings": "architecture.max_positions",
        "padded_vocab_size": "architecture.padded_vocab_size",
        "make_vocab_size_divisible_by": "architecture.vocab_multiple",
        "norm": To("architecture.norm", words.norm),
        "pos_emb": To("architecture.position", words.position),
        "rotary_pct": "architecture.rope_fraction",
        "rotary_emb_base": "architecture.rope_theta",
        "sliding_window_width": "architecture.window",
        "no_weight_tying": To("architecture.tied_embeddings", inverted),
        "use_qk_layernorm": "architecture.qk_norm",
        "gpt_j_residual": "architecture.parallel_blocks",
        "hidden_dropout": "architecture.dropout",
        "attention_dropout": "architecture.attention_dropout",
        "use_bias_in_attn_linear": "architecture.bias_qkv",
        "use_bias_in_mlp": "architecture.bias",
        "moe_num_experts": To("architecture.experts", lambda v: v if v != 1 else None),
        "num_experts": To("architecture.experts", lambda v: v if v != 1 else None),
        "moe_top_k": "architecture.experts_per_token",
        "moe_loss_coeff": "loss.balance_weight",
        "moe_aux_loss_coeff": "loss.balance_weight",
        "moe_z_loss_coeff": "loss.router_z_weight",
        "z_loss": "loss.z_loss_weight",
        "label_smoothing": "loss.label_smoothing",
        "init_method": "init.method",
        "init_method_std": "init.std",
        "output_layer_init_method": To(
            "init.depth_scaled_outputs", lambda v: "scaled" in str(v) or v == "wang_init", keep=True
        ),
        "optimizer.type": To("optimizer.name", words.optimizer, keep=True),
        "optimizer.params.lr": "optimizer.learning_rate",
        "optimizer.params.eps": "optimizer.eps",
        "optimizer.params.momentum": "optimizer.momentum",
        "lr": "optimizer.learning_rate",
        "weight_decay": "optimizer.weight_decay",
        "gradient_clipping": "optimizer.clip_norm",
        "clip_grad": "optimizer.clip_norm",
        "min_lr": "schedule.min_learning_rate",
        "lr_decay_style": To("schedule.kind", words.schedule),
        "lr_decay_iters": "schedule.decay_steps",
        "train_iters": "schedule.steps",
        "train_epochs": "schedule.epochs",
        "warmup": To("schedule.warmup_fraction", lambda v: v if v == 0 else share(v)),
        "precision": To("precision.compute", words.number_format),
        "fp16.initial_scale_power": To("precision.initial_loss_scale", _power),
        "fp16.loss_scale_window": "precision.loss_scale_window",
        "fp16.hysteresis": "precision.loss_scale_hysteresis",
        "fp16.min_loss_scale": "precision.min_loss_scale",
        "fp32_allreduce": To("precision.gradient_reduce", flag("fp32")),
        "attention_softmax_in_fp32": "precision.softmax_fp32",
        "train_batch_size": "batch.global_size",
        "train_micro_batch_size_per_gpu": "batch.micro_size",
        "batch_size": "batch.micro_size",
        "gradient_accumulation_steps": "batch.accumulation",
        "gas": "batch.accumulation",
        "pipe_parallel_size": To("parallelism.pipeline", lambda v: 1 if v == 0 else v),
        "model_parallel_size": "parallelism.tensor",
        "context_parallel_size": "parallelism.context",
        "moe_expert_parallel_size": "parallelism.expert",
        "sequence_parallel": "parallelism.sequence",
        "zero_optimization.stage": "parallelism.zero_stage",
        "zero_stage": "parallelism.zero_stage",
        "zero_optimization.overlap_comm": "parallelism.overlap_grad_reduce",
        "checkpoint_activations": To("parallelism.recompute", flag("full", "none")),
        "checkpoint_num_layers": "parallelism.recompute_layers",
        "world_size": "parallelism.world_size",
        "global_num_gpus": "parallelism.world_size",
        "num_nodes": To("parallelism.nodes", positive),
        "num_gpus": "parallelism.devices_per_node",
        "tokenizer_type": "data.tokenizer_kind",
        "vocab_file": "data.tokenizer",
        "split": "data.split",
        "num_workers": "data.workers",
        "reset_position_ids": "data.reset_positions",
        "reset_attention_mask": "data.reset_attention",
        "log_interval": "interval.log",
        "save_interval": "interval.checkpoint",
        "eval_interval": "interval.evaluate",
        "eval_iters": "interval.evaluate_batches",
    }
    known = KNOWN
    signs = frozenset(
        {"pipe_parallel_size", "model_parallel_size", "no_weight_tying", "pos_emb",
         "output_layer_init_method", "gpt_j_residual", "rotary_pct", "output_layer_parallelism",
         "scaled_upper_triang_masked_softmax_fusion", "checkpoint_factor", "pipe_partition_method",
         "checkpoint_validation_with_forward_pass", "train_data_paths", "layernorm_fusion",
         "attention_config[][]", "rotary_emb_base", "partition_activations"}
    )  # fmt: skip

    def spell(self, key: str) -> str:
        """``pipe-parallel-size`` as ``pipe_parallel_size``."""
        return super().spell(key).replace("-", "_")

    def score(self, document: Document) -> float:
        """Its second file may hold paths only; Megatron-LM has most of its names too."""
        score = super().score(document)
        if any(self.is_sign(self.spell(key)) for key in document.leaves):
            return score
        known = sum(self.knows(self.spell(key)) for key in document.leaves)
        return score if known >= 4 and document.kind != "dump" else 0.4 * score

    def interpret(self, draft: Draft) -> None:
        """Norm, gates, formats, saves, sources."""
        say_betas(draft, "optimizer.params.betas")
        if draft.has("optimizer.params.weight_decay") and not draft.has("weight_decay"):
            key = "optimizer.params.weight_decay"
            draft.say("optimizer.weight_decay", draft.value(key), key)
        named = word(draft, "optimizer_type")
        if named is not None and not draft.has("optimizer.type"):
            draft.say("optimizer.name", words.optimizer(named), "optimizer_type")
        self._layers(draft)
        self._precision(draft)
        if str(draft.value("checkpoint_scale", "linear")) == "linear":
            factor = draft.value("checkpoint_factor")
            if isinstance(factor, int):
                draft.say("interval.checkpoint", factor, "checkpoint_factor")
        for key in ("train_data_paths", "data_path"):
            paths = draft.value(key)
            if paths is not None:
                found = paths if isinstance(paths, tuple) else (paths,)
                draft.say("data.sources", tuple(map(str, found)), key)
                break
        weights = draft.value("train_data_weights")
        if weights is not None:
            draft.say("data.weights", weights, "train_data_weights")

    def _layers(self, draft: Draft) -> None:
        norm = words.norm(word(draft, "norm", "layernorm"))
        key = {"layernorm": "layernorm_epsilon", "rmsnorm": "rms_norm_epsilon",
               "scalenorm": "scalenorm_epsilon"}.get(norm, "layernorm_epsilon")  # fmt: skip
        if draft.has(key):
            draft.say("architecture.norm_eps", draft.value(key), key)
        activation = word(draft, "activation")
        if activation is not None:
            found = words.activation(activation)
            gated = str(draft.value("mlp_type", "regular")) == "llama"
            if gated:  # gate and up projections beside the activation
                found = {"silu": "swiglu", "gelu": "geglu", "relu": "reglu"}.get(found, found)
            draft.say("architecture.activation", found, "activation")

    def _precision(self, draft: Draft) -> None:
        for table in ("bf16", "fp16"):
            key = f"{table}.enabled"
            if not draft.true(key):
                continue
            kind = word(draft, f"{table}.type", table)  # "fp16": {"type": "bfloat16"} in version 1
            draft.say("precision.compute", words.number_format(kind), key)
        compute = draft.statements.get("precision.compute")
        if compute is not None and compute.value != "fp16":
            for field in ("initial_loss_scale", "loss_scale_window", "loss_scale_hysteresis",
                          "min_loss_scale"):  # fmt: skip
                draft.unsay(f"precision.{field}")
        scale = number(draft, "fp16.loss_scale")
        if scale and compute is not None and compute.value == "fp16":
            draft.say("precision.static_loss_scale", scale, "fp16.loss_scale")
            draft.unsay("precision.initial_loss_scale")
        key = "data_types.grad_accum_dtype"
        reduce = word(draft, key)
        if reduce is not None and "precision.gradient_reduce" not in draft.statements:
            draft.say("precision.gradient_reduce", words.number_format(reduce), key)

    def filled(self, spec: Mapping[str, Any], draft: Draft) -> Mapping[str, Any]:
        """What NeoXArgs fill in."""
        found = dict(_FILLS)
        if width := spec.get("architecture.width"):
            found["architecture.ff_width"] = 4 * width
        if heads := spec.get("architecture.heads"):
            found["architecture.kv_heads"] = heads
        eps = {"layernorm": 1e-5, "rmsnorm": 1e-8, "scalenorm": 1e-8}
        found["architecture.norm_eps"] = eps.get(spec.get("architecture.norm", "layernorm"), 1e-5)
        if spec.get("architecture.position") == "rope":
            found |= {"architecture.rope_theta": 10000.0, "architecture.rope_fraction": 1.0}
        found["schedule.decay_steps"] = spec.get("schedule.steps")
        if spec.get("init.method", "normal") in ("normal", "scaled_normal"):
            found["init.std"] = 0.02  # others take it from the width
        if "precision.compute" not in spec:
            found["precision.compute"] = "fp32"
        return found


_FILLS: Mapping[str, Any] = {
    "seed": 1234,
    "architecture.norm": "layernorm",
    "architecture.norm_placement": "pre",
    "architecture.activation": "gelu",
    "architecture.position": "learned",
    "architecture.tied_embeddings": True,
    "architecture.parallel_blocks": False,
    "architecture.dropout": 0.1,
    "architecture.attention_dropout": 0.1,
    "architecture.vocab_multiple": 128,
    "init.method": "normal",
    "init.depth_scaled_outputs": True,
    "optimizer.name": "adamw",
    "optimizer.beta1": 0.9,
    "optimizer.beta2": 0.999,
    "optimizer.eps": 1e-8,
    "optimizer.weight_decay": 0.01,
    "optimizer.decay_norms": False,
    "optimizer.decay_biases": False,
    "optimizer.clip_norm": 1.0,
    "schedule.kind": "linear",
    "schedule.min_learning_rate": 0.0,
    "schedule.warmup_fraction": 0.01,
    "batch.accumulation": 1,
    "parallelism.tensor": 1,
    "parallelism.pipeline": 1,
    "parallelism.recompute": "none",
    "precision.softmax_fp32": False,
    "data.split": "969, 30, 1",
    "interval.evaluate": 1000,
    "interval.evaluate_batches": 100,
}

FORMAT = GptNeox()
