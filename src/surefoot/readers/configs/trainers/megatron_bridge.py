"""Megatron-Bridge's ConfigContainer and NeMo 2's recipes: YAML whose tables name their classes."""

from collections.abc import Mapping
from typing import Any, ClassVar

from surefoot.readers.configs import vocabulary as words
from surefoot.readers.configs.documents.tree import Document
from surefoot.readers.configs.formats import Draft, To
from surefoot.readers.configs.trainers._nemo_names import CORE
from surefoot.readers.configs.trainers._references import resolved
from surefoot.readers.configs.trainers._shared import (
    Signed,
    class_name,
    flag,
    number,
    positive,
    say_mixture,
    share,
    under,
)

_CORE: Mapping[str, str | To] = {
    "num_layers": "architecture.layers",
    "hidden_size": "architecture.width",
    "ffn_hidden_size": "architecture.ff_width",
    "num_attention_heads": "architecture.heads",
    "num_query_groups": "architecture.kv_heads",
    "kv_channels": "architecture.head_dim",
    "seq_length": "architecture.sequence_length",
    "vocab_size": "architecture.vocab_size",
    "make_vocab_size_divisible_by": "architecture.vocab_multiple",
    "normalization": To("architecture.norm", words.norm),
    "layernorm_epsilon": "architecture.norm_eps",
    "position_embedding_type": To("architecture.position", words.position),
    "rotary_base": "architecture.rope_theta",
    "rotary_percent": "architecture.rope_fraction",
    "share_embeddings_and_output_weights": "architecture.tied_embeddings",
    "qk_layernorm": "architecture.qk_norm",
    "add_bias_linear": "architecture.bias",
    "add_qkv_bias": "architecture.bias_qkv",
    "hidden_dropout": "architecture.dropout",
    "attention_dropout": "architecture.attention_dropout",
    "num_moe_experts": "architecture.experts",
    "moe_router_topk": "architecture.experts_per_token",
    "moe_ffn_hidden_size": "architecture.expert_ff_width",
    "moe_aux_loss_coeff": "loss.balance_weight",
    "moe_z_loss_coeff": "loss.router_z_weight",
    "init_method_std": "init.std",
    "embedding_init_method_std": "init.embedding_std",
    "tensor_model_parallel_size": "parallelism.tensor",
    "pipeline_model_parallel_size": "parallelism.pipeline",
    "virtual_pipeline_model_parallel_size": "parallelism.virtual_pipeline",
    "context_parallel_size": "parallelism.context",
    "expert_model_parallel_size": "parallelism.expert",
    "sequence_parallel": "parallelism.sequence",
    "recompute_granularity": "parallelism.recompute",
    "recompute_num_layers": "parallelism.recompute_layers",
    "tp_comm_overlap": "parallelism.overlap_tensor",
    "attention_softmax_in_fp32": "precision.softmax_fp32",
}
_OPTIMIZER: Mapping[str, str | To] = {
    "optimizer": To("optimizer.name", words.optimizer),
    "lr": "optimizer.learning_rate",
    "min_lr": "schedule.min_learning_rate",
    "weight_decay": "optimizer.weight_decay",
    "adam_beta1": "optimizer.beta1",
    "adam_beta2": "optimizer.beta2",
    "adam_eps": "optimizer.eps",
    "clip_grad": "optimizer.clip_norm",
    "bf16": To("precision.compute", flag("bf16")),
    "fp16": To("precision.compute", flag("fp16")),
    "use_distributed_optimizer": "parallelism.distributed_optimizer",
    "main_params_dtype": To(
        "precision.master", lambda v: words.number_format(class_name(v))
    ),
    "exp_avg_dtype": To("precision.moments", lambda v: words.number_format(class_name(v))),
    "initial_loss_scale": "precision.initial_loss_scale",
    "loss_scale_window": "precision.loss_scale_window",
    "hysteresis": "precision.loss_scale_hysteresis",
    "min_loss_scale": "precision.min_loss_scale",
}  # fmt: skip
_OPTIMIZER_KNOWN = """
    decoupled_lr decoupled_min_lr params_dtype use_precision_aware_optimizer store_param_remainders
    main_grads_dtype exp_avg_sq_dtype loss_scale decoupled_weight_decay sgd_momentum
    overlap_param_gather_with_optimizer_step optimizer_cpu_offload optimizer_offload_fraction
    use_torch_optimizer_for_cpu_offload overlap_cpu_optimizer_d2h_h2d pin_cpu_grads pin_cpu_params
    log_num_zeros_in_grad barrier_with_L1_time timers config_logger_dir fp8_recipe
    reuse_grad_buf_for_mxfp8_param_ag muon_momentum muon_split_qkv muon_use_nesterov
    muon_scale_mode muon_fp32_matmul_prec muon_num_ns_steps muon_tp_mode muon_extra_scale_factor
    no_weight_decay_cond scale_lr_cond lr_mult use_megatron_fsdp overlap_param_gather
    use_layer_wise_distributed_optimizer adam_eps_ apply_wd_to_qk_layernorm optimizer
"""
_CLASSES = ("_target_", "_call_", "_partial_", "_args_", "_factory_")


def _recipe(value: Any) -> str | None:
    """``bf16_with_fp8_delayed_scaling_mixed`` -> ``fp8``, ``bf16_mixed`` -> ``bf16``."""
    return next((word for word in ("fp8", "fp4", "bf16", "fp16") if word in str(value)), None)


def _with(table: str, keys: Mapping[str, str | To]) -> dict[str, str | To]:
    return {f"{table}.{key}": to for key, to in keys.items()}


class _Targets(Signed):
    """What both share: tables that name a class, references, activations."""

    kinds = frozenset({"yaml", "json"})
    model: ClassVar[str]
    optimizer: ClassVar[str]
    module: ClassVar[tuple[str, ...]]

    def knows(self, key: str) -> bool:
        """Every table may name its class."""
        return any(part in _CLASSES for part in key.split(".")) or super().knows(key)

    def score(self, document: Document) -> float:
        """Its classes leave no doubt."""
        score = super().score(document)
        named = any(
            leaf.last == "_target_" and str(leaf.value).startswith(self.module)
            for leaf in document.leaves.values()
        )
        return max(score, 0.9) if named and document.kind in self.kinds else score

    def read(self, document: Document) -> Draft:
        """With the references put in."""
        return super().read(resolved(document))

    def interpret(self, draft: Draft) -> None:
        """Gates, and the number format that the model's table states."""
        gated = f"{self.model}.gated_linear_unit"
        act = draft.value(f"{self.model}.activation_func") or draft.value(
            f"{self.model}.activation_func._target_"
        )
        if act is not None and draft.has(gated):
            word = words.activation(class_name(str(act)))
            if draft.true(gated):
                word = {"silu": "swiglu", "gelu": "geglu", "relu": "reglu"}.get(word, word)
            key = f"{self.model}.activation_func"
            draft.say("architecture.activation", word, key if draft.has(key) else f"{key}._target_")
        for word in ("bf16", "fp16"):
            key = f"{self.model}.{word}"
            if draft.true(key) and "precision.compute" not in draft.statements:
                draft.say("precision.compute", word, key)
        compute = draft.statements.get("precision.compute")
        if compute is None or compute.value != "fp16":
            for field in ("initial_loss_scale", "loss_scale_window", "loss_scale_hysteresis",
                          "min_loss_scale"):  # fmt: skip
                draft.unsay(f"precision.{field}")

    def filled(self, spec: Mapping[str, Any], draft: Draft) -> Mapping[str, Any]:
        """What OptimizerConfig fills in, where the file makes one.

        Models are subclasses with values of their own, and a file without classes is put over a
        recipe.
        """
        return _FILLS if f"{self.optimizer}._target_" in draft.leaves else {}


class MegatronBridge(_Targets):
    """The tables of a ConfigContainer: model, train, optimizer, scheduler, dataset, ddp..."""

    name = "megatron-bridge"
    title = "Megatron-Bridge"
    version = "Megatron-Bridge 0.3"
    model = "model"
    optimizer = "optimizer"
    module = ("megatron.bridge.",)
    keys: ClassVar[Mapping[str, str | To]] = {
        **_with("model", _CORE),
        **_with("optimizer", _OPTIMIZER),
        "rng.seed": "seed",
        "logger.wandb_exp_name": "name",
        "train.micro_batch_size": "batch.micro_size",
        "train.global_batch_size": "batch.global_size",
        "train.train_iters": To("schedule.steps", positive),
        "train.train_samples": To("schedule.samples", positive),
        "train.eval_interval": "interval.evaluate",
        "train.eval_iters": "interval.evaluate_batches",
        "validation.eval_interval": "interval.evaluate",
        "validation.eval_iters": "interval.evaluate_batches",
        "scheduler.lr_decay_style": To("schedule.kind", words.schedule),
        "scheduler.lr_warmup_iters": "schedule.warmup_steps",
        "scheduler.lr_warmup_samples": To("schedule.warmup_samples", positive),
        "scheduler.lr_warmup_fraction": To("schedule.warmup_fraction", share),
        "scheduler.lr_warmup_init": "schedule.warmup_from",
        "scheduler.lr_decay_iters": "schedule.decay_steps",
        "scheduler.lr_decay_samples": "schedule.decay_samples",
        "scheduler.lr_wsd_decay_style": To("schedule.decay_kind", words.schedule),
        "scheduler.end_weight_decay": "optimizer.decay_end",
        "ddp.grad_reduce_in_fp32": To("precision.gradient_reduce", flag("fp32")),
        "ddp.overlap_grad_reduce": "parallelism.overlap_grad_reduce",
        "ddp.overlap_param_gather": "parallelism.overlap_param_gather",
        "ddp.use_distributed_optimizer": "parallelism.distributed_optimizer",
        "mixed_precision": To("precision.compute", _recipe),
        "mixed_precision.bf16": To("precision.compute", flag("bf16")),
        "mixed_precision.fp16": To("precision.compute", flag("fp16")),
        "mixed_precision.grad_reduce_in_fp32": To("precision.gradient_reduce", flag("fp32")),
        "mixed_precision.fp8_recipe": To("precision.fp8_recipe", lambda v: None),
        "dataset.seq_length": "architecture.sequence_length",
        "dataset.sequence_length": "architecture.sequence_length",
        "dataset.random_seed": "data.seed",
        "dataset.split": To(
            "data.split", lambda v: ",".join(map(str, v)) if isinstance(v, tuple) else v
        ),
        "dataset.num_workers": "data.workers",
        "dataset.reset_position_ids": "data.reset_positions",
        "dataset.reset_attention_mask": "data.reset_attention",
        "tokenizer.tokenizer_type": "data.tokenizer_kind",
        "tokenizer.tokenizer_model": "data.tokenizer",
        "checkpoint.save_interval": To("interval.checkpoint", positive),
        "logger.log_interval": "interval.log",
    }
    known = (
        under("model", CORE)
        | under("optimizer", _OPTIMIZER_KNOWN)
        | under(
            "train",
            "rampup_batch_size decrease_batch_size_if_needed empty_unused_memory_level "
            "check_weight_hash_across_dp_replicas_interval train_sync_interval exit_interval "
            "exit_duration_in_mins exit_signal_handler exit_signal exit_signal.* "
            "exit_signal_handler_for_dataloader manual_gc manual_gc_interval manual_gc_eval "
            "iterations_to_skip skip_train skip_sync_grad_norm_across_mp skip_train_iters "
            "check_optimizer_step_success",
        )
        | under(
            "scheduler",
            "lr_wsd_decay_iters lr_wsd_decay_samples override_opt_param_scheduler "
            "use_checkpoint_opt_param_scheduler start_weight_decay weight_decay_incr_style "
            "no_weight_decay_cond_type lr_warmup_steps lr_decay_steps wd_incr_steps "
            "wsd_decay_steps",
        )
        | frozenset(
            """
            rng.* rerun_state_machine.* ddp.* dataset.* logger.* tokenizer.* checkpoint.* dist.*
            ft.* straggler.* nvrx_straggler.* profiling.* peft.* comm_overlap.* mixed_precision.*
            tensor_inspect.* inprocess_restart.* validation.* optimizer_config_override_provider.*
            model.generation_config.* model.rope_scaling.* model.pipeline_dtype.*
            model.params_dtype.* model.autocast_dtype.* model.activation_func.*
            model.init_method.* model.output_layer_init_method.* model.transformer_layer_spec.*
            optimizer.params_dtype.* optimizer.main_grads_dtype.* optimizer.main_params_dtype.*
            optimizer.exp_avg_dtype.* optimizer.exp_avg_sq_dtype.* model.hf_config.* peft
            comm_overlap ft straggler nvrx_straggler tensor_inspect inprocess_restart
            """.split()
        )
    )
    signs = frozenset(
        {"rerun_state_machine.*", "inprocess_restart.*", "scheduler.lr_wsd_decay_style",
         "train.check_weight_hash_across_dp_replicas_interval", "scheduler.lr_warmup_iters",
         "ddp.grad_reduce_in_fp32", "train.train_iters"}
    )  # fmt: skip

    def interpret(self, draft: Draft) -> None:
        """The ramp, the last decay, FP8 and data."""
        super().interpret(draft)
        ramp = draft.value("train.rampup_batch_size")
        if isinstance(ramp, tuple) and len(ramp) == 3:
            for name, value in zip(("from", "increment", "samples"), ramp, strict=True):
                draft.say(f"batch.ramp_{name}", value, "train.rampup_batch_size")
        if number(draft, "scheduler.lr_warmup_fraction"):
            draft.unsay("schedule.warmup_steps")
        if number(draft, "train.train_samples"):
            draft.unsay("schedule.warmup_steps")
        wsd = draft.value("scheduler.lr_decay_style") == "WSD"
        if not wsd:
            draft.unsay("schedule.decay_kind")
        for unit, field in (("iters", "steps"), ("samples", "samples")):
            key = f"scheduler.lr_wsd_decay_{unit}"
            if wsd and number(draft, key):
                draft.say(f"schedule.decay_{field}", draft.value(key), key)
        for table in ("mixed_precision", "model"):
            if draft.value(f"{table}.fp8") not in (None, False):
                draft.say("precision.compute", "fp8", f"{table}.fp8")
                draft.say("precision.fp8_format", draft.value(f"{table}.fp8"), f"{table}.fp8")
                if draft.has(f"{table}.fp8_recipe"):
                    key = f"{table}.fp8_recipe"
                    draft.say("precision.fp8_recipe", draft.value(key), key)
                break
        for key in ("dataset.data_path", "dataset.blend[0]"):
            if draft.has(key):
                say_mixture(draft, key)


class Nemo2(_Targets):
    """The tables of ``llm.pretrain``: model.config, trainer.strategy, data, optim, log."""

    name = "nemo-2"
    title = "NeMo 2"
    version = "NeMo 2.4"
    model = "model.config"
    optimizer = "optim.config"
    module = ("nemo.collections.llm", "nemo.lightning")
    keys: ClassVar[Mapping[str, str | To]] = {
        **_with("model.config", _CORE),
        **_with("trainer.strategy", {k: v for k, v in _CORE.items() if "parallel" in k}),
        **_with("optim.config", _OPTIMIZER),
        "log.name": "name",
        "trainer.devices": To("parallelism.devices_per_node", positive),
        "trainer.num_nodes": "parallelism.nodes",
        "trainer.max_steps": To("schedule.steps", positive),
        "trainer.log_every_n_steps": "interval.log",
        "trainer.limit_val_batches": To(
            "interval.evaluate_batches", lambda v: v if isinstance(v, int) else None
        ),
        "trainer.val_check_interval": To(
            "interval.evaluate", lambda v: v if isinstance(v, int) else None
        ),
        "trainer.plugins.precision": To("precision.compute", words.number_format),
        "trainer.plugins.grad_reduce_in_fp32": To("precision.gradient_reduce", flag("fp32")),
        "trainer.strategy.ddp.overlap_grad_reduce": "parallelism.overlap_grad_reduce",
        "trainer.strategy.ddp.overlap_param_gather": "parallelism.overlap_param_gather",
        "trainer.strategy.ddp.grad_reduce_in_fp32": To("precision.gradient_reduce", flag("fp32")),
        "data.seq_length": "architecture.sequence_length",
        "data.micro_batch_size": "batch.micro_size",
        "data.global_batch_size": "batch.global_size",
        "data.num_workers": "data.workers",
        "data.seed": "data.seed",
        "data.split": "data.split",
        "optim.lr_scheduler._target_": To(
            "schedule.kind",
            lambda v: "cosine" if "CosineAnnealing" in str(v) else None,
        ),
        "optim.lr_scheduler.warmup_steps": "schedule.warmup_steps",
        "optim.lr_scheduler.min_lr": "schedule.min_learning_rate",
        "log.ckpt.every_n_train_steps": "interval.checkpoint",
    }
    known = (
        under("model.config", CORE)
        | under("optim.config", _OPTIMIZER_KNOWN)
        | frozenset(
            """
            trainer.* data.* log.* resume.* optim.lr_scheduler.* optim.no_weight_decay_cond
            optim.scale_lr_cond optim.lr_mult tokenizer.* peft.* plugins.* callbacks.*
            model.tokenizer.* resume
            """.split()
        )
    )
    signs = frozenset(
        {"trainer.strategy.tensor_model_parallel_size", "optim.lr_scheduler.warmup_steps",
         "optim.config.use_distributed_optimizer", "log.ckpt.every_n_train_steps"}
    )  # fmt: skip

    def interpret(self, draft: Draft) -> None:
        """Data, and the steps at the last rate."""
        super().interpret(draft)
        steps = number(draft, "optim.lr_scheduler.max_steps") or number(draft, "trainer.max_steps")
        constant = number(draft, "optim.lr_scheduler.constant_steps")
        if steps and constant and 0 < constant < steps:
            draft.say("schedule.decay_steps", steps - constant, "optim.lr_scheduler.constant_steps")
        if draft.has("data.paths"):
            say_mixture(draft, "data.paths")


_FILLS: Mapping[str, Any] = {
    "optimizer.name": "adamw",
    "optimizer.beta1": 0.9,
    "optimizer.beta2": 0.999,
    "optimizer.eps": 1e-8,
    "optimizer.weight_decay": 0.01,
    "optimizer.clip_norm": 1.0,
}

FORMATS = (MegatronBridge(), Nemo2())
