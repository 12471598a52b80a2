"""MindFormers: the YAML of its runner, and of its PyNative trainer."""

from collections.abc import Mapping
from typing import Any, ClassVar

from surefoot.readers.configs import vocabulary as words
from surefoot.readers.configs.formats import Draft, To
from surefoot.readers.configs.trainers._mindformers_names import MODEL, OTHERS
from surefoot.readers.configs.trainers._shared import (
    Signed,
    inverted,
    number,
    positive,
    say_betas,
    say_mixture,
    share,
    under,
    word,
)

_SCHEDULES = {
    "ConstantWarmUpLR": "constant",
    "LinearWithWarmUpLR": "linear",
    "CosineWithWarmUpLR": "cosine",
    "CosineWithRestartsAndWarmUpLR": "cosine-restarts",
    "PolynomialWithWarmUpLR": "polynomial",
    "WarmUpStableDecayLR": "wsd",
    "CosineAnnealingLR": "cosine",
    "CosineAnnealingWarmRestarts": "cosine-restarts",
    "ConstantWithCoolDownLR": "wsd",
}
_OPTIMIZERS = {"fp32stateadamweightdecay": "adamw", "adamweightdecay": "adamw",
               "fusedcastadamweightdecay": "adamw", "fusedadamweightdecay": "adamw",
               "pmaadamw": "adamw", "speedadamw": "adamw"}  # fmt: skip
_LLAMAS = frozenset({"LlamaConfig", "Qwen2Config", "InternLMConfig", "DeepseekV3Config"})
_MODEL: Mapping[str, str | To] = {
    "num_layers": "architecture.layers",
    "num_hidden_layers": "architecture.layers",
    "hidden_size": "architecture.width",
    "num_heads": "architecture.heads",
    "num_attention_heads": "architecture.heads",
    "n_kv_heads": "architecture.kv_heads",
    "num_key_value_heads": "architecture.kv_heads",
    "head_dim": "architecture.head_dim",
    "kv_channels": "architecture.head_dim",
    "intermediate_size": "architecture.ff_width",
    "ffn_hidden_size": "architecture.ff_width",
    "vocab_size": "architecture.vocab_size",
    "padded_vocab_size": "architecture.padded_vocab_size",
    "seq_length": "architecture.sequence_length",
    "max_position_embeddings": "architecture.max_positions",
    "rms_norm_eps": "architecture.norm_eps",
    "layernorm_epsilon": "architecture.norm_eps",
    "rope_theta": "architecture.rope_theta",
    "theta": "architecture.rope_theta",
    "position_embedding_type": To("architecture.position", words.position),
    "tie_word_embeddings": "architecture.tied_embeddings",
    "untie_embeddings_and_output_weights": To("architecture.tied_embeddings", inverted),
    "qk_layernorm": "architecture.qk_norm",
    "add_bias_linear": "architecture.bias",
    "attention_bias": "architecture.bias_qkv",
    "add_qkv_bias": "architecture.bias_qkv",
    "qkv_has_bias": "architecture.bias_qkv",
    "hidden_dropout": "architecture.dropout",
    "hidden_dropout_rate": "architecture.dropout",
    "hidden_dropout_prob": "architecture.dropout",
    "attention_dropout": "architecture.attention_dropout",
    "attention_dropout_rate": "architecture.attention_dropout",
    "attention_probs_dropout_prob": "architecture.attention_dropout",
    "n_routed_experts": "architecture.experts",
    "num_experts": "architecture.experts",
    "num_experts_per_tok": "architecture.experts_per_token",
    "n_shared_experts": "architecture.shared_experts",
    "moe_intermediate_size": "architecture.expert_ff_width",
    "moe_z_loss_coeff": "loss.router_z_weight",
    "router_aux_loss_coef": "loss.balance_weight",
    "initializer_range": "init.std",
    "compute_dtype": To("precision.compute", words.number_format),
    "params_dtype": To("precision.master", words.number_format),
    "param_init_type": To("precision.master", words.number_format),
    "softmax_compute_dtype": To("precision.softmax_fp32", lambda v: str(v) == "float32"),
    "softmax_compute_type": To("precision.softmax_fp32", lambda v: str(v) == "float32"),
}

_SCHEDULE: Mapping[str, str | To] = {
    "type": To("schedule.kind", lambda v: _SCHEDULES.get(str(v))),
    "learning_rate": "optimizer.learning_rate",
    "lr_end": "schedule.min_learning_rate",
    "warmup_steps": "schedule.warmup_steps",
    "warmup_ratio": To("schedule.warmup_fraction", share),
    "warmup_lr_init": "schedule.warmup_from",
    "total_steps": To("schedule.steps", positive),
}


def _optimizer(value: Any) -> str:
    return _OPTIMIZERS.get(str(value).lower()) or words.optimizer(value)


class MindFormers(Signed):
    """``run_mindformer.py --config``; ranks are counted by data, model and pipeline."""

    name = "mindformers"
    title = "MindFormers"
    version = "MindFormers 2.1"
    kinds = frozenset({"yaml", "json"})
    misreads = True
    keys: ClassVar[Mapping[str, str | To]] = {
        **{f"model.{key}": to for key, to in _MODEL.items()},
        **{f"model.model_config.{key}": to for key, to in _MODEL.items()},
        "seed": "seed",
        "training.seed": "seed",
        "runner_config.epochs": "schedule.epochs",
        "runner_config.batch_size": "batch.micro_size",
        "training.local_batch_size": "batch.micro_size",
        "training.global_batch_size": To("batch.global_size", positive),
        "training.steps": "schedule.steps",
        "training.max_norm": "optimizer.clip_norm",
        "optimizer.type": To("optimizer.name", _optimizer, keep=True),
        "optimizer.beta1": "optimizer.beta1",
        "optimizer.beta2": "optimizer.beta2",
        "optimizer.eps": "optimizer.eps",
        "optimizer.weight_decay": "optimizer.weight_decay",
        "optimizer.learning_rate": "optimizer.learning_rate",
        "optimizer.momentum": "optimizer.momentum",
        "optimizer.qk_clip_threshold": "architecture.qk_clip",
        **{
            f"{table}.{key}": to
            for table in ("lr_schedule", "lr_scheduler")
            for key, to in _SCHEDULE.items()
        },
        "parallel_config.data_parallel": "parallelism.data",
        "parallel_config.model_parallel": "parallelism.tensor",
        "parallel_config.pipeline_stage": "parallelism.pipeline",
        "parallel_config.context_parallel": "parallelism.context",
        "parallel_config.expert_parallel": "parallelism.expert",
        "parallel_config.use_seq_parallel": "parallelism.sequence",
        "parallelism.tensor_parallel": "parallelism.tensor",
        "parallelism.pipeline_parallel": "parallelism.pipeline",
        "parallelism.context_parallel": "parallelism.context",
        "parallelism.expert_parallel": "parallelism.expert",
        "parallelism.sequence_parallel": "parallelism.sequence",
        "parallel.enable_parallel_optimizer": "parallelism.distributed_optimizer",
        "runner_wrapper.scale_sense.loss_scale_value": "precision.initial_loss_scale",
        "runner_wrapper.scale_sense.scale_window": "precision.loss_scale_window",
        "runner_wrapper.max_grad_norm": "optimizer.clip_norm",
        "train_dataset.num_parallel_workers": "data.workers",
        "train_dataset.data_loader.shuffle": "data.shuffle",
        "train_dataset.data_loader.config.split": "data.split",
        "train_dataset.data_loader.config.seed": "data.seed",
        "train_dataset.data_loader.config.reset_position_ids": "data.reset_positions",
        "train_dataset.data_loader.config.reset_attention_mask": "data.reset_attention",
        "callbacks[].save_checkpoint_steps": To("interval.checkpoint", positive),
        "callbacks[].per_print_times": To("interval.log", positive),
        "context.device_target": "environment.device",
    }
    known = under("model", MODEL) | under("model.model_config", MODEL) | frozenset(OTHERS.split())
    signs = frozenset(
        {"runner_config.epochs", "runner_config.batch_size", "context.device_target",
         "parallel_config.pipeline_stage", "parallel_config.model_parallel", "auto_trans_ckpt",
         "runner_wrapper.type", "recompute_config.recompute", "model.arch.type",
         "train_dataset_task.type", "micro_batch_interleave_num", "parallelism.tensor_parallel"}
    )  # fmt: skip

    def interpret(self, draft: Draft) -> None:
        """Micro-batches, clipping, loss scale, recomputation, the model's kind, data."""
        say_betas(draft, "optimizer.betas")
        say_betas(draft, "optimizer.adamw_betas")
        self._batch(draft)
        self._precision(draft)
        self._layers(draft)
        for table in ("lr_schedule", "lr_scheduler"):
            if draft.value(f"{table}.type") in ("WarmUpStableDecayLR",):
                draft.say("schedule.decay_kind", "linear", f"{table}.type")
        if draft.true("runner_wrapper.use_clip_grad"):
            norm = number(draft, "runner_wrapper.max_grad_norm")
            if norm is None:
                draft.say("optimizer.clip_norm", 1.0, "runner_wrapper.use_clip_grad")
        elif draft.has("runner_wrapper.use_clip_grad"):
            draft.say("optimizer.clip_norm", 0.0, "runner_wrapper.use_clip_grad")
        chosen = (("recompute_config.select_recompute", "selective"),
                  ("recompute_config.recompute", "full"))  # fmt: skip
        for key, kind in chosen:
            if draft.has(key) and draft.value(key) is not False:
                draft.say("parallelism.recompute", kind, key)
        if draft.value("recompute_config.recompute") is False and not draft.true(chosen[0][0]):
            draft.say("parallelism.recompute", "none", "recompute_config.recompute")
        if draft.has("recompute.mode"):
            modes = {"full": "full", "select": "selective", "selective": "selective"}
            mode = str(draft.value("recompute.mode")).lower()
            draft.say("parallelism.recompute", modes.get(mode, "none"), "recompute.mode")
        for key in ("train_dataset.data_loader.config.data_path",
                    "train_dataset.dataloader.config.data_path",
                    "train_dataset.data_loader.dataset_dir"):  # fmt: skip
            if draft.value(key):
                say_mixture(draft, key)
                break

    def _batch(self, draft: Draft) -> None:
        stages = number(draft, "parallel_config.pipeline_stage")
        interleave = number(draft, "micro_batch_interleave_num") or 1
        # The micro-batches of a pipeline; without one, accumulated gradients.
        key = "parallel_config.micro_batch_num"
        if not stages or stages <= 1:
            key = "runner_config.gradient_accumulation_steps"
        times = number(draft, key)
        if times:
            draft.say("batch.accumulation", times * interleave, key)

    def _precision(self, draft: Draft) -> None:
        compute = draft.statements.get("precision.compute")
        scale = number(draft, "runner_wrapper.scale_sense")
        if compute is None or compute.value != "fp16":
            draft.unsay("precision.initial_loss_scale")
            draft.unsay("precision.loss_scale_window")
        elif scale is not None:
            draft.say("precision.static_loss_scale", scale, "runner_wrapper.scale_sense")
        if str(draft.value("optimizer.type", "")).startswith("FP32State"):
            draft.say("precision.moments", "fp32", "optimizer.type")

    def _layers(self, draft: Draft) -> None:
        for table in ("model.model_config", "model"):
            act = word(draft, f"{table}.hidden_act")
            kind = word(draft, f"{table}.type")
            if act is not None:
                found = words.activation(act)
                if draft.true(f"{table}.gated_linear_unit") or kind in _LLAMAS:
                    found = {"silu": "swiglu", "gelu": "geglu"}.get(found, found)
                draft.say("architecture.activation", found, f"{table}.hidden_act")
            elif kind in _LLAMAS:
                draft.say("architecture.activation", "swiglu", f"{table}.type")
            if draft.has(f"{table}.rms_norm_eps"):
                draft.say("architecture.norm", "rmsnorm", f"{table}.rms_norm_eps")
            heads = [f"{table}.qk_nope_head_dim", f"{table}.qk_rope_head_dim"]
            sizes = [number(draft, key) for key in heads]
            if sizes[0] and sizes[1]:  # latent attention: not the width over the heads
                draft.say("architecture.head_dim", sizes[0] + sizes[1], heads[0])
            if kind in _LLAMAS:
                draft.say("architecture.position", "rope", f"{table}.type")

    def filled(self, spec: Mapping[str, Any], draft: Draft) -> Mapping[str, Any]:
        """The defaults of its optimizers, schedules and wrappers."""
        found = dict(_FILLS)
        if spec.get("optimizer.name") == "adamw":
            kept = str(draft.value("optimizer.type", "")).startswith("FP32State")
            found["optimizer.eps"] = 1e-6 if kept else 1e-8
            found["optimizer.beta1"], found["optimizer.beta2"] = 0.9, 0.999
            found["optimizer.weight_decay"] = 0.0
        if heads := spec.get("architecture.heads"):
            found["architecture.kv_heads"] = heads
        if spec.get("schedule.kind") in ("cosine", "cosine-restarts"):
            found["schedule.min_learning_rate"] = 0.0
        return found


_FILLS: Mapping[str, Any] = {
    "parallelism.tensor": 1,
    "parallelism.pipeline": 1,
    "parallelism.context": 1,
    "schedule.warmup_from": 0.0,
}

FORMAT = MindFormers()
