"""NeMo 1: the YAML of its language models, with trainer, exp_manager and model."""

from collections.abc import Mapping
from typing import Any, ClassVar

from surefoot.readers.configs import vocabulary as words
from surefoot.readers.configs.documents.tree import Document
from surefoot.readers.configs.formats import Draft, To
from surefoot.readers.configs.trainers._nemo_names import KNOWN
from surefoot.readers.configs.trainers._references import resolved
from surefoot.readers.configs.trainers._shared import (
    Signed,
    flag,
    number,
    positive,
    say_betas,
    say_mixture,
    share,
)

_ACTIVATIONS = {"fast-geglu": "geglu", "fast-swiglu": "swiglu", "fast-reglu": "reglu"}
_NORMS = {"layernorm1p": "layernorm", "low_precision_layernorm": "layernorm"}
_SCHEDULES = {
    "CosineAnnealing": "cosine",
    "WarmupAnnealing": "linear",
    "WarmupHoldPolicy": "wsd",
    "InverseSquareRootAnnealing": "inverse-sqrt",
    "PolynomialDecayAnnealing": "polynomial",
    "PolynomialHoldDecayAnnealing": "polynomial",
    "NoamAnnealing": "inverse-sqrt",
}


def _activation(value: Any) -> str:
    word = str(value).lower()
    return _ACTIVATIONS.get(word) or words.activation(word)


class Nemo(Signed):
    """``megatron_gpt_config.yaml``."""

    name = "nemo"
    title = "NeMo"
    version = "NeMo 1.23"
    kinds = frozenset({"yaml", "json", "arguments"})
    keys: ClassVar[Mapping[str, str | To]] = {
        "exp_manager.name": "name",
        "model.seed": "seed",
        "trainer.devices": "parallelism.devices_per_node",
        "trainer.num_nodes": "parallelism.nodes",
        "trainer.precision": To("precision.compute", words.number_format),
        "model.precision": To("precision.compute", words.number_format),
        "trainer.max_steps": To("schedule.steps", positive),
        "trainer.gradient_clip_val": "optimizer.clip_norm",
        "trainer.log_every_n_steps": "interval.log",
        "trainer.val_check_interval": To(
            "interval.evaluate", lambda v: v if isinstance(v, int) and v is not True else None
        ),
        "trainer.limit_val_batches": To(
            "interval.evaluate_batches", lambda v: v if isinstance(v, int) else None
        ),
        "exp_manager.checkpoint_callback_params.every_n_train_steps": "interval.checkpoint",
        "model.micro_batch_size": "batch.micro_size",
        "model.global_batch_size": "batch.global_size",
        "model.tensor_model_parallel_size": "parallelism.tensor",
        "model.pipeline_model_parallel_size": "parallelism.pipeline",
        "model.virtual_pipeline_model_parallel_size": "parallelism.virtual_pipeline",
        "model.context_parallel_size": "parallelism.context",
        "model.expert_model_parallel_size": "parallelism.expert",
        "model.sequence_parallel": "parallelism.sequence",
        "model.fsdp": To("parallelism.fsdp", flag("full")),
        "model.ub_tp_comm_overlap": "parallelism.overlap_tensor",
        "model.activations_checkpoint_granularity": "parallelism.recompute",
        "model.activations_checkpoint_num_layers": "parallelism.recompute_layers",
        "model.recompute_granularity": "parallelism.recompute",
        "model.recompute_num_layers": "parallelism.recompute_layers",
        "model.encoder_seq_length": "architecture.sequence_length",
        "model.max_position_embeddings": "architecture.max_positions",
        "model.num_layers": "architecture.layers",
        "model.hidden_size": "architecture.width",
        "model.ffn_hidden_size": "architecture.ff_width",
        "model.num_attention_heads": "architecture.heads",
        "model.num_query_groups": "architecture.kv_heads",
        "model.kv_channels": "architecture.head_dim",
        "model.window_size": To(
            "architecture.window", lambda v: v[0] if isinstance(v, tuple) else positive(v)
        ),
        "model.init_method_std": "init.std",
        "model.use_scaled_init_method": "init.depth_scaled_outputs",
        "model.hidden_dropout": "architecture.dropout",
        "model.attention_dropout": "architecture.attention_dropout",
        "model.normalization": To(
            "architecture.norm", lambda v: _NORMS.get(str(v).lower()) or words.norm(v)
        ),
        "model.layernorm_epsilon": "architecture.norm_eps",
        "model.make_vocab_size_divisible_by": "architecture.vocab_multiple",
        "model.bias": "architecture.bias",
        "model.add_bias_linear": "architecture.bias",
        "model.add_qkv_bias": "architecture.bias_qkv",
        "model.qk_layernorm": "architecture.qk_norm",
        "model.activation": To("architecture.activation", _activation),
        "model.position_embedding_type": To("architecture.position", words.position),
        "model.rotary_percentage": "architecture.rope_fraction",
        "model.rotary_base": "architecture.rope_theta",
        "model.share_embeddings_and_output_weights": "architecture.tied_embeddings",
        "model.num_moe_experts": "architecture.experts",
        "model.moe_router_topk": "architecture.experts_per_token",
        "model.moe_aux_loss_coeff": "loss.balance_weight",
        "model.moe_z_loss_coeff": "loss.router_z_weight",
        "model.native_amp_init_scale": "precision.initial_loss_scale",
        "model.native_amp_growth_interval": "precision.loss_scale_window",
        "model.hysteresis": "precision.loss_scale_hysteresis",
        "model.fp8": To("precision.compute", flag("fp8")),
        "model.megatron_amp_O2": To("precision.master", flag("fp32")),
        "model.optim.name": To("optimizer.name", words.optimizer, keep=True),
        "model.optim.lr": "optimizer.learning_rate",
        "model.optim.weight_decay": "optimizer.weight_decay",
        "model.optim.eps": "optimizer.eps",
        "model.optim.grad_sync_dtype": To("precision.gradient_reduce", words.number_format),
        "model.optim.overlap_grad_sync": "parallelism.overlap_grad_reduce",
        "model.optim.overlap_param_sync": "parallelism.overlap_param_gather",
        "model.optim.sched.name": To(
            "schedule.kind", lambda v: _SCHEDULES.get(str(v)) or words.schedule(v)
        ),
        "model.optim.sched.warmup_steps": "schedule.warmup_steps",
        "model.optim.sched.warmup_ratio": To("schedule.warmup_fraction", share),
        "model.optim.sched.min_lr": "schedule.min_learning_rate",
        "model.data.splits_string": "data.split",
        "model.data.num_workers": "data.workers",
        "model.data.reset_position_ids": "data.reset_positions",
        "model.data.reset_attention_mask": "data.reset_attention",
        "model.tokenizer.type": "data.tokenizer_kind",
        "model.tokenizer.model": To("data.tokenizer", lambda v: v if v != "???" else None),
    }
    known = KNOWN
    signs = frozenset(
        {"model.encoder_seq_length", "model.optim.sched.name", "model.optim.sched.min_lr",
         "model.activations_checkpoint_granularity", "exp_manager.explicit_log_dir",
         "model.megatron_amp_O2", "exp_manager.create_checkpoint_callback", "model.mcore_gpt",
         "model.native_amp_init_scale", "exp_manager.resume_if_exists"}
    )  # fmt: skip

    def read(self, document: Document) -> Draft:
        """With the references put in."""
        return super().read(resolved(document))

    def interpret(self, draft: Draft) -> None:
        """FP8, the ramp, the last rate, data."""
        say_betas(draft, "model.optim.betas")
        if draft.has("name") and "name" not in draft.statements:
            draft.say("name", str(draft.value("name")), "name")
        ramp = draft.value("model.rampup_batch_size")
        if isinstance(ramp, tuple) and len(ramp) == 3:
            for name, value in zip(("from", "increment", "samples"), ramp, strict=True):
                draft.say(f"batch.ramp_{name}", value, "model.rampup_batch_size")
        if draft.true("model.fp8"):
            for key, word in (("model.fp8_e4m3", "e4m3"), ("model.fp8_hybrid", "hybrid")):
                if draft.true(key):
                    draft.say("precision.fp8_format", word, key)
        compute = draft.statements.get("precision.compute")
        if compute is not None and compute.value != "fp16":
            for field in ("initial_loss_scale", "loss_scale_window", "loss_scale_hysteresis"):
                draft.unsay(f"precision.{field}")
        name = str(draft.value("model.optim.name", ""))
        if "distributed" in name:
            draft.say("parallelism.distributed_optimizer", True, "model.optim.name")
        if name in ("mcore_distributed_optim", "megatron_fused_adam"):
            draft.say("optimizer.name", "adamw", "model.optim.name")
        steps = number(draft, "model.optim.sched.max_steps") or number(draft, "trainer.max_steps")
        constant = number(draft, "model.optim.sched.constant_steps")
        if draft.value("model.optim.sched.name") == "CosineAnnealing" and steps and constant:
            if 0 < constant < steps:  # min_lr is reached so many steps before the end
                key = "model.optim.sched.constant_steps"
                draft.say("schedule.decay_steps", steps - constant, key)
        prefix = draft.value("model.data.data_prefix")
        if prefix not in (None, "???"):
            say_mixture(draft, "model.data.data_prefix")
        if "model.data.data_prefix" not in draft.leaves:
            say_mixture(draft, "model.data.data_prefix.train")

    def filled(self, spec: Mapping[str, Any], draft: Draft) -> Mapping[str, Any]:
        """What the model's and the trainer's code fill in."""
        found = dict(_FILLS)
        if heads := spec.get("architecture.heads"):
            found["architecture.kv_heads"] = heads
        if spec.get("precision.compute") == "fp16":
            found |= {"precision.initial_loss_scale": 2.0**32, "precision.loss_scale_window": 1000,
                      "precision.loss_scale_hysteresis": 2}  # fmt: skip
        return found


_FILLS: Mapping[str, Any] = {
    "seed": 1234,
    "architecture.norm": "layernorm",
    "architecture.norm_eps": 1e-5,
    "architecture.norm_placement": "pre",
    "architecture.activation": "gelu",
    "architecture.position": "learned",
    "architecture.tied_embeddings": True,
    "architecture.bias": True,
    "architecture.qk_norm": False,
    "architecture.dropout": 0.1,
    "architecture.attention_dropout": 0.1,
    "architecture.vocab_multiple": 128,
    "init.std": 0.02,
    "init.depth_scaled_outputs": True,
    "parallelism.tensor": 1,
    "parallelism.pipeline": 1,
    "parallelism.context": 1,
    "parallelism.sequence": False,
    "parallelism.recompute": "none",
    "schedule.min_learning_rate": 0.0,
}

FORMAT = Nemo()
