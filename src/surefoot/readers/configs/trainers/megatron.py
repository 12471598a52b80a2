"""Megatron-LM and Megatron-DeepSpeed: flags, launch scripts, argument dumps, flat YAML."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from surefoot.readers.configs import vocabulary as words
from surefoot.readers.configs.documents.tree import Document
from surefoot.readers.configs.formats import ConfigFormat, Draft, To
from surefoot.readers.configs.trainers._megatron_fills import FILLS, LOSS_SCALE
from surefoot.readers.configs.trainers._megatron_names import FORKS, KNOWN

_DEEPSPEED = frozenset(
    "abort_on_unmet_fused_kernel_constraints cpu_optimizer create_moe_param_group "
    "curriculum_learning deepspeed deepspeed_activation_checkpointing deepspeed_config "
    "ds_inference embed_layernorm kill_switch_path no_pipeline_parallel pad_vocab_size_to "
    "remote_device sync_tp_duplicated_parameters universal_checkpoint zero_stage".split()
)
"""Arguments that only the code bases with DeepSpeed have; they read --loss-scale otherwise."""


def _not(value: Any) -> bool:
    return not value


def _if(word: str) -> Any:
    """A flag that, set, means a word."""
    return lambda value: word if value is True else None


class Megatron(ConfigFormat):
    """The arguments of ``pretrain_gpt.py``. Keys are spelled as in the code: ``num_layers``."""

    name = "megatron"
    title = "Megatron-LM"
    version = "Megatron-LM core 0.12"
    kinds = frozenset({"arguments", "dump", "yaml", "json"})
    keys: ClassVar[Mapping[str, str | To]] = {
        "wandb_exp_name": "name",
        "wandb_name": "name",
        "seed": "seed",
        "num_layers": "architecture.layers",
        "encoder_num_layers": "architecture.layers",
        "hidden_size": "architecture.width",
        "num_attention_heads": "architecture.heads",
        "kv_channels": "architecture.head_dim",
        "ffn_hidden_size": "architecture.ff_width",
        "vocab_size": "architecture.vocab_size",
        "padded_vocab_size": "architecture.padded_vocab_size",
        "pad_vocab_size_to": "architecture.padded_vocab_size",
        "make_vocab_size_divisible_by": "architecture.vocab_multiple",
        "seq_length": "architecture.sequence_length",
        "encoder_seq_length": "architecture.sequence_length",
        "max_position_embeddings": "architecture.max_positions",
        "normalization": To("architecture.norm", words.norm),
        "norm_epsilon": "architecture.norm_eps",
        "layernorm_epsilon": "architecture.norm_eps",
        "position_embedding_type": To("architecture.position", words.position),
        "use_rotary_position_embeddings": To("architecture.position", _if("rope")),
        "rotary_base": "architecture.rope_theta",
        "rotary_percent": "architecture.rope_fraction",
        "untie_embeddings_and_output_weights": To("architecture.tied_embeddings", _not),
        "qk_layernorm": "architecture.qk_norm",
        "qk_norm": "architecture.qk_norm",
        "attn_logit_softcapping": "architecture.attention_softcap",
        "final_logit_softcapping": "architecture.logit_softcap",
        "output_logit_softcapping": "architecture.logit_softcap",
        "qk_clip_threshold": "architecture.qk_clip",
        "window_size": To("architecture.window", lambda v: v[0] if isinstance(v, tuple) else v),
        "embed_layernorm": "architecture.embedding_norm",
        "add_bias_linear": "architecture.bias",
        "disable_bias_linear": To("architecture.bias", _not),
        "add_qkv_bias": "architecture.bias_qkv",
        "hidden_dropout": "architecture.dropout",
        "attention_dropout": "architecture.attention_dropout",
        "num_experts": To("architecture.experts", lambda v: v[0] if isinstance(v, tuple) else v),
        "moe_router_topk": "architecture.experts_per_token",
        "topk": "architecture.experts_per_token",
        "moe_intermediate_size": "architecture.expert_ff_width",
        "moe_ffn_hidden_size": "architecture.expert_ff_width",
        "n_shared_experts": "architecture.shared_experts",
        "moe_aux_loss_coeff": To(
            "loss.balance_weight", lambda v: sum(v) if isinstance(v, tuple) else v
        ),
        "moe_loss_coeff": "loss.balance_weight",
        "moe_z_loss_coeff": "loss.router_z_weight",
        "z_loss": "loss.z_loss_weight",
        "init_method_std": "init.std",
        "embedding_init_method_std": "init.embedding_std",
        "optimizer": To("optimizer.name", words.optimizer),
        "lr": "optimizer.learning_rate",
        "adam_beta1": "optimizer.beta1",
        "adam_beta2": "optimizer.beta2",
        "adam_eps": "optimizer.eps",
        "muon_momentum": "optimizer.momentum",
        "weight_decay": "optimizer.weight_decay",
        "end_weight_decay": "optimizer.decay_end",
        "clip_grad": "optimizer.clip_norm",
        "min_lr": "schedule.min_learning_rate",
        "lr_decay_style": To("schedule.kind", words.schedule),
        "lr_warmup_init": "schedule.warmup_from",
        "lr_warmup_iters": "schedule.warmup_steps",
        "lr_warmup_samples": "schedule.warmup_samples",
        "lr_warmup_tokens": "schedule.warmup_tokens",
        "lr_warmup_fraction": "schedule.warmup_fraction",
        "warmup": "schedule.warmup_fraction",
        "lr_decay_iters": "schedule.decay_steps",
        "lr_decay_samples": "schedule.decay_samples",
        "lr_decay_tokens": "schedule.decay_tokens",
        "lr_wsd_decay_style": To("schedule.decay_kind", words.schedule),
        "train_iters": "schedule.steps",
        "train_samples": "schedule.samples",
        "train_tokens": "schedule.tokens",
        "bf16": To("precision.compute", _if("bf16")),
        "fp16": To("precision.compute", _if("fp16")),
        "fp8_recipe": "precision.fp8_recipe",
        "fp8_format": "precision.fp8_format",
        "fp8": "precision.fp8_format",
        "main_params_dtype": To("precision.master", words.number_format),
        "exp_avg_dtype": To("precision.moments", words.number_format),
        "initial_loss_scale": "precision.initial_loss_scale",
        "min_scale": "precision.min_loss_scale",
        "min_loss_scale": "precision.min_loss_scale",
        "loss_scale_window": "precision.loss_scale_window",
        "hysteresis": "precision.loss_scale_hysteresis",
        "attention_softmax_in_fp32": "precision.softmax_fp32",
        "accumulate_allreduce_grads_in_fp32": To("precision.gradient_reduce", _if("fp32")),
        "grad_reduce_in_bf16": To("precision.gradient_reduce", _if("bf16")),
        "global_batch_size": "batch.global_size",
        "micro_batch_size": "batch.micro_size",
        "batch_size": "batch.micro_size",
        "world_size": "parallelism.world_size",
        "data_parallel_size": "parallelism.data",
        "tensor_model_parallel_size": "parallelism.tensor",
        "model_parallel_size": "parallelism.tensor",
        "pipeline_model_parallel_size": "parallelism.pipeline",
        "context_parallel_size": "parallelism.context",
        "ds_sequence_parallel_size": "parallelism.context",
        "expert_model_parallel_size": "parallelism.expert",
        "moe_expert_parallel_size": "parallelism.expert",
        "virtual_pipeline_model_parallel_size": "parallelism.virtual_pipeline",
        "num_virtual_stages_per_pipeline_rank": "parallelism.virtual_pipeline",
        "sequence_parallel": "parallelism.sequence",
        "zero_stage": "parallelism.zero_stage",
        "use_distributed_optimizer": "parallelism.distributed_optimizer",
        "use_torch_fsdp2": To("parallelism.fsdp", _if("full")),
        "use_megatron_fsdp": To("parallelism.fsdp", _if("full")),
        "use_custom_fsdp": To("parallelism.fsdp", _if("full")),
        "overlap_grad_reduce": "parallelism.overlap_grad_reduce",
        "overlap_param_gather": "parallelism.overlap_param_gather",
        "tp_comm_overlap": "parallelism.overlap_tensor",
        "recompute_granularity": "parallelism.recompute",
        "recompute_activations": To("parallelism.recompute", _if("selective")),
        "checkpoint_activations": To("parallelism.recompute", _if("full")),
        "recompute_num_layers": "parallelism.recompute_layers",
        "checkpoint_num_layers": "parallelism.recompute_layers",
        "optimizer_cpu_offload": To("parallelism.offload", _if("optimizer")),
        "cpu_optimizer": To("parallelism.offload", _if("optimizer")),
        "tokenizer_type": "data.tokenizer_kind",
        "tokenizer_model": "data.tokenizer",
        "tokenizer_name_or_path": "data.tokenizer",
        "split": To("data.split", lambda v: ",".join(map(str, v)) if isinstance(v, tuple) else v),
        "num_workers": "data.workers",
        "reset_position_ids": "data.reset_positions",
        "reset_attention_mask": "data.reset_attention",
        "log_interval": "interval.log",
        "save_interval": "interval.checkpoint",
        "eval_interval": "interval.evaluate",
        "eval_iters": "interval.evaluate_batches",
        "transformer_engine": "environment.transformer_engine",
        "megatron_core": "environment.megatron_core",
        "num_query_groups": "architecture.kv_heads",
        "num_key_value_heads": "architecture.kv_heads",
        "data_path": To("data.sources", lambda v: None),
        "train_data_path": To("data.sources", lambda v: None),
    }
    known = KNOWN | FORKS | {"model", "swiglu", "squared_relu", "geglu", "no_position_embedding",
                     "lr_wsd_decay_iters", "lr_wsd_decay_samples", "main_grads_dtype"}  # fmt: skip
    signs = frozenset(
        {"tensor_model_parallel_size", "pipeline_model_parallel_size", "rampup_batch_size",
         "untie_embeddings_and_output_weights", "use_distributed_optimizer", "lr_decay_style",
         "adam_beta1", "adam_eps", "init_method_std", "megatron_core", "sequence_parallel",
         "recompute_granularity", "lr_warmup_samples", "use_mcore_models", "clip_grad"}
    )  # fmt: skip

    def spell(self, key: str) -> str:
        """``num-layers`` as ``num_layers``."""
        return super().spell(key).replace("-", "_")

    def score(self, document: Document) -> float:
        """A flat list; nested keys (GPT-NeoX, NeMo) are another trainer's."""
        nested = sum("." in key for key in document.leaves)
        share = 1 - nested / max(1, len(document.leaves))
        score = super().score(document) * share
        # JSON or YAML with a handful of these words may be anybody's.
        return score if document.kind in ("arguments", "dump") else 0.9 * score

    def interpret(self, draft: Draft) -> None:
        """Flags that mean something together."""
        self._precision(draft)
        self._layers(draft)
        self._batch_and_data(draft)
        self._dense(draft)
        if draft.document.kind == "dump":
            self._idle(draft)

    def _dense(self, draft: Draft) -> None:
        """One expert, or in a dump none, is a model without experts."""
        experts = draft.statements.get("architecture.experts")
        if experts is None and draft.document.kind != "dump":
            return
        if experts is None or experts.value <= 1:
            for field in ("architecture.experts", "architecture.experts_per_token",
                          "architecture.expert_ff_width", "loss.balance_weight",
                          "loss.router_z_weight"):  # fmt: skip
                draft.unsay(field)

    def _idle(self, draft: Draft) -> None:
        """A dump prints every argument: those that have no effect in this run state nothing."""
        position = draft.statements.get("architecture.position")
        if position is not None and position.value != "rope":
            draft.unsay("architecture.rope_theta")
            draft.unsay("architecture.rope_fraction")
        if not draft.true("fp16"):
            for field in LOSS_SCALE:
                draft.unsay(field)
        if not draft.true("qk_clip"):
            draft.unsay("architecture.qk_clip")

    def _precision(self, draft: Draft) -> None:
        for key in ("fp8_format", "fp8"):
            if draft.value(key) not in (None, False):
                draft.say("precision.compute", "fp8", key)
        if draft.true("apply_query_key_layer_scaling"):
            draft.say("precision.softmax_fp32", True, "apply_query_key_layer_scaling")
        scale = draft.number("loss_scale")
        if scale is None or not (draft.has("fp16") and draft.true("fp16")):
            return
        if not with_deepspeed(draft.leaves):
            draft.say("precision.static_loss_scale", scale, "loss_scale")
            for field in LOSS_SCALE:
                draft.unsay(field)
        elif 0 < scale <= 32:
            # DeepSpeed's initial_scale_power; nobody trains at a static scale of 12.
            draft.say("precision.initial_loss_scale", 2.0**scale, "loss_scale")
            draft.remark(
                "loss_scale",
                f"with DeepSpeed this is taken as an exponent: a dynamic loss scale that begins at "
                f"2^{scale:g} = {2.0**scale:g}; Megatron-LM without DeepSpeed would read a static "
                f"scale of {scale:g}",
            )

    def _layers(self, draft: Draft) -> None:
        for key, word in (("swiglu", "swiglu"), ("geglu", "geglu"), ("squared_relu", "relu2")):
            if draft.true(key):
                draft.say("architecture.activation", word, key)
        if draft.has("glu_activation"):
            draft.say("architecture.activation", draft.value("glu_activation"), "glu_activation")
        if draft.true("no_position_embedding") and not draft.has("position_embedding_type"):
            if not draft.true("use_rotary_position_embeddings"):
                draft.say("architecture.position", "none", "no_position_embedding")
        # In a dump the number of groups is 1 where grouping is off.
        if draft.has("group_query_attention") and not draft.true("group_query_attention"):
            draft.unsay("architecture.kv_heads")
        each = draft.number("num_layers_per_virtual_pipeline_stage")
        layers, stages = draft.number("num_layers"), draft.number("pipeline_model_parallel_size")
        if each and layers and stages and layers % (each * stages) == 0:
            chunks = int(layers // (each * stages))
            key = "num_layers_per_virtual_pipeline_stage"
            draft.say("parallelism.virtual_pipeline", chunks, key)

    def _batch_and_data(self, draft: Draft) -> None:
        ramp = draft.value("rampup_batch_size")
        if isinstance(ramp, tuple) and len(ramp) == 3:
            for name, value in zip(("from", "increment", "samples"), ramp, strict=True):
                draft.say(f"batch.ramp_{name}", value, "rampup_batch_size")
        elif ramp is not None:
            draft.open("rampup_batch_size", "expected three numbers: first, increment, samples")
        if draft.number("lr_warmup_fraction") is not None:
            # It wins over both; a dump prints them as 0.
            draft.unsay("schedule.warmup_steps")
            draft.unsay("schedule.warmup_samples")
        elif draft.number("train_samples"):
            draft.unsay("schedule.warmup_steps")
        elif draft.number("train_iters"):
            draft.unsay("schedule.warmup_samples")
        tokens, iters = draft.number("train_tokens"), draft.number("train_iters")
        whole, length = draft.number("global_batch_size"), draft.number("seq_length")
        if tokens and iters and whole and length and tokens / (whole * length) < iters:
            draft.unsay("schedule.steps")  # it stops at the tokens; the steps are a far limit
        for unit in ("iters", "samples"):
            key = f"lr_wsd_decay_{unit}"
            if draft.has(key):
                place = "steps" if unit == "iters" else unit
                draft.unsay(f"schedule.decay_{place}")
                draft.say(f"schedule.decay_{place}", draft.value(key), key)
        for key in ("train_data_path", "data_path"):
            paths = draft.value(key)
            if paths is not None and paths is not True:
                _sources(draft, key, paths if isinstance(paths, tuple) else (paths,))

    def trainer(self, draft: Draft) -> str:
        """The code base."""
        return "Megatron-DeepSpeed" if with_deepspeed(draft.leaves) else self.title

    def assumed(self, draft: Draft) -> str:
        """The version whose defaults are filled in."""
        return "Megatron-DeepSpeed 2.x" if with_deepspeed(draft.leaves) else self.version

    def filled(self, spec: Mapping[str, Any], draft: Draft) -> Mapping[str, Any]:
        """What ``parse_args`` fills in; a list too short to be a run's has only been begun."""
        found = dict(FILLS)
        width, heads = spec.get("architecture.width"), spec.get("architecture.heads")
        gated = spec.get("architecture.activation") in ("swiglu", "geglu", "reglu")
        if width:
            found["architecture.ff_width"] = (
                int(4 * width * 2 / 3 / 64) * 64 if gated else 4 * width
            )
        if heads:
            grouped = draft.true("group_query_attention")
            found["architecture.kv_heads"] = 1 if grouped else heads
        compute = spec.get("precision.compute")
        if compute in ("bf16", "fp8"):
            found["precision.gradient_reduce"] = "fp32"
        elif compute == "fp16":
            found["precision.gradient_reduce"] = "fp16"
            if "precision.static_loss_scale" not in spec:
                found |= LOSS_SCALE
        elif compute is None:
            found["precision.compute"] = "fp32"
        if spec.get("architecture.position") == "rope":
            found["architecture.rope_theta"] = 10000.0
        if spec.get("architecture.experts"):
            found["architecture.experts_per_token"] = 2
            found["loss.balance_weight"] = 0.0
        steps = {name: spec.get(f"schedule.{name}") for name in ("steps", "samples")}
        if spec.get("schedule.kind") != "wsd" and not spec.get("schedule.decay_tokens"):
            found["schedule.decay_steps"] = steps["steps"]
            found["schedule.decay_samples"] = steps["samples"]
        if not any(spec.get(f"schedule.warmup_{unit}") for unit in ("samples", "tokens",
                                                                    "fraction")):  # fmt: skip
            found["schedule.warmup_steps"] = 0
        return found


def with_deepspeed(keys: Iterable[str]) -> bool:
    """Whether the arguments are those of a code base with DeepSpeed."""
    return not _DEEPSPEED.isdisjoint(keys)


def _sources(draft: Draft, key: str, items: tuple[Any, ...]) -> None:
    """``0.3 a 0.7 b`` or ``a b``: files with or without weights."""
    weights, paths = items[::2], items[1::2]
    weighted = len(items) % 2 == 0 and all(
        isinstance(item, int | float) and not isinstance(item, bool) for item in weights
    )
    if weighted:
        draft.say("data.sources", tuple(map(str, paths)), key)
        draft.say("data.weights", weights, key)
    else:
        draft.say("data.sources", tuple(map(str, items)), key)


FORMAT = Megatron()
