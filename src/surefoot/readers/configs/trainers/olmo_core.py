"""OLMo-core: the ``config.json`` that it saves, and YAML of the same tables with ``_CLASS_``."""

from collections.abc import Mapping
from typing import Any, ClassVar

from surefoot.readers.configs import vocabulary as words
from surefoot.readers.configs.documents.tree import Document
from surefoot.readers.configs.formats import Draft, To
from surefoot.readers.configs.trainers._shared import (
    Signed,
    class_name,
    number,
    positive,
    say_betas,
    say_each,
    share,
    under,
)

_SCHEDULES = {
    "CosWithWarmup": "cosine",
    "HalfCosWithWarmup": "half-cosine",
    "CosWithWarmupAndLinearDecay": "cosine-linear",
    "LinearWithWarmup": "linear",
    "InvSqrtWithWarmup": "inverse-sqrt",
    "ConstantWithWarmup": "constant",
    "ConstantScheduler": "constant",
    "WSD": "wsd",
    "WSDS": "wsd",
    "PowerLR": "power",
    "ExponentialScheduler": "exponential",
    "SequentialScheduler": "sequential",
    "ComposableScheduler": "composed",
}
_OPTIMIZERS = {"adam": "adamw", "adamw": "adamw", "skipstepadamw": "adamw", "lion": "lion",
               "skipsteplion": "lion", "muon": "muon", "normuon": "muon", "dion": "dion",
               "noop": "none", "olmoddpoptimizer": "adamw"}  # fmt: skip
_SHARDINGS = {"fsdp": "full", "hsdp": "hybrid", "ddp": "none"}
_RECOMPUTES = {"full": "full", "selected_blocks": "selective", "selected_modules": "selective",
               "selected_ops": "selective", "budget": "selective"}  # fmt: skip
_OPTIM = ("train_module.optim", "optim")
_SCHEDULER = ("train_module.scheduler", "trainer.callbacks.lr_scheduler.scheduler", "scheduler")
_ATTENTION = ("model.block.sequence_mixer", "model.block.attention")
_PARALLEL = ("train_module", "model", "trainer")


def _optimizer(value: Any) -> str:
    word = str(class_name(value)).lower().removesuffix("config")
    return _OPTIMIZERS.get(word, words.optimizer(word))


def _activation(value: Any) -> str:
    word = words.activation(value)
    return {"silu": "swiglu", "gelu": "geglu", "relu": "reglu"}.get(word, word)


def _keys() -> dict[str, str | To]:
    found: dict[str, str | To] = {}
    for table in _OPTIM:
        found |= {
            f"{table}._CLASS_": To("optimizer.name", _optimizer, keep=True),
            f"{table}.type": To("optimizer.name", _optimizer, keep=True),
            f"{table}.lr": "optimizer.learning_rate",
            f"{table}.eps": "optimizer.eps",
            f"{table}.weight_decay": "optimizer.weight_decay",
            f"{table}.mu": "optimizer.momentum",
            f"{table}.fused": "optimizer.fused",
            f"{table}.dtype": To("precision.moments", words.number_format),
        }
    for table in _SCHEDULER:
        found |= {
            f"{table}._CLASS_": To("schedule.kind", lambda v: _SCHEDULES.get(class_name(v))),
            f"{table}.warmup_fraction": To("schedule.warmup_fraction", share),
            f"{table}.alpha_f": "schedule.final_factor",
            f"{table}.warmup_min_lr": "schedule.warmup_from",
            f"{table}.decay_min_lr": "schedule.min_learning_rate",
        }
    for table in _ATTENTION:
        found |= {
            f"{table}.n_heads": "architecture.heads",
            f"{table}.n_kv_heads": "architecture.kv_heads",
            f"{table}.head_dim": "architecture.head_dim",
            f"{table}.bias": "architecture.bias_qkv",
            f"{table}.dropout": "architecture.attention_dropout",
            f"{table}.rope.theta": "architecture.rope_theta",
            f"{table}.rope.partial_rotary_factor": "architecture.rope_fraction",
        }
    for table in _PARALLEL:
        found |= {
            f"{table}.dp_config.name": To(
                "parallelism.fsdp", lambda v: _SHARDINGS.get(str(v).lower())
            ),
            f"{table}.dp_config.param_dtype": To("precision.compute", words.number_format),
            f"{table}.dp_config.reduce_dtype": To("precision.gradient_reduce", words.number_format),
            f"{table}.tp_config.degree": "parallelism.tensor",
            f"{table}.cp_config.degree": "parallelism.context",
            f"{table}.pp_config.degree": "parallelism.pipeline",
            f"{table}.ep_config.degree": "parallelism.expert",
            f"{table}.ac_config.mode": To(
                "parallelism.recompute", lambda v: _RECOMPUTES.get(str(v).lower())
            ),
        }
    return found


class OlmoCore(Signed):
    """The tables of an experiment: model, dataset, data_loader, train_module, trainer."""

    name = "olmo-core"
    title = "OLMo-core"
    version = "OLMo-core 2"
    kinds = frozenset({"json", "yaml"})
    keys: ClassVar[Mapping[str, str | To]] = {
        **_keys(),
        "run_name": "name",
        "init_seed": "seed",
        "model.d_model": "architecture.width",
        "model.n_layers": "architecture.layers",
        "model.vocab_size": "architecture.padded_vocab_size",
        "model.tie_word_embeddings": "architecture.tied_embeddings",
        "model.embed_scale": "architecture.embedding_scale",
        "model.block.layer_norm.name": To("architecture.norm", words.norm),
        "model.block.layer_norm.eps": "architecture.norm_eps",
        "model.block.feed_forward.hidden_size": "architecture.ff_width",
        "model.block.feed_forward.bias": "architecture.bias",
        "model.block.feed_forward.activation": To("architecture.activation", _activation),
        "model.block.feed_forward_moe.num_experts": "architecture.experts",
        "model.block.feed_forward_moe.hidden_size": "architecture.expert_ff_width",
        "model.block.feed_forward_moe.router.top_k": "architecture.experts_per_token",
        "model.block.feed_forward_moe.lb_loss_weight": "loss.balance_weight",
        "model.block.feed_forward_moe.z_loss_weight": "loss.router_z_weight",
        "model.block.dropout": "architecture.dropout",
        "model.init_method": "init.method",
        "model.init_std": "init.std",
        "model.embedding_init_std": "init.embedding_std",
        "model.compile": "parallelism.compile",
        "train_module.compile_model": "parallelism.compile",
        "train_module.max_sequence_length": "architecture.sequence_length",
        "dataset.sequence_length": "architecture.sequence_length",
        "train_module.max_grad_norm": "optimizer.clip_norm",
        "trainer.callbacks.grad_clipper.max_grad_norm": "optimizer.clip_norm",
        "train_module.z_loss_multiplier": "loss.z_loss_weight",
        "trainer.z_loss_multiplier": "loss.z_loss_weight",
        "train_module.autocast_precision": To("precision.compute", words.number_format),
        "data_loader.global_batch_size": "batch.tokens",
        "data_loader.seed": "data.seed",
        "data_loader.num_workers": "data.workers",
        "dataset.tokenizer.identifier": "data.tokenizer",
        "dataset.tokenizer.vocab_size": "architecture.vocab_size",
        "dataset.mix": "data.sources",
        "trainer.metrics_collect_interval": "interval.log",
        "trainer.callbacks.checkpointer.save_interval": To("interval.checkpoint", positive),
        "trainer.callbacks.lm_evaluator.eval_interval": To("interval.evaluate", positive),
        "launch.num_nodes": "parallelism.nodes",
        "launch.num_gpus": "parallelism.devices_per_node",
    }
    known = frozenset(
        """
        launch.* dataset.* data_loader.* trainer.callbacks.* trainer.checkpointer.* backend
        model.block.* model.lm_head.* model.block_overrides.* model.block_pattern
        model.float8_config.* model.embedding_norm.* model.freeze_params model.dtype model.name
        model.init_seed model.init_device model.dp_config.* model.ac_config.* model.tp_config.*
        model.cp_config.* model.ep_config.* model.compile train_module.dp_config.*
        train_module.tp_config.* train_module.cp_config.* train_module.pp_config.*
        train_module.ep_config.* train_module.ac_config.* train_module.float8_config.*
        train_module.state_dict_save_opts.* train_module.state_dict_load_opts.*
        train_module.load_key_mapping.* load_path tokenizer.* eval_dataset.* launch dataset
        cuda_launch_blocking train_module_type seed float8_config.* backend
        """.split()
    ) | frozenset().union(
        *(
            under(
                table,
                "betas group_overrides group_overrides[].params group_overrides[].opts.* compile "
                "fixed_fields fixed_fields[] foreach rolling_interval_length sigma_factor "
                "step_increment_bugfix rank_fraction rank_multiple_of nesterov adjust_lr "
                "cautious_wd flatten use_triton muon_beta2 max_grad_norm use_distributed "
                "check_nan_inf_grad reset_optimizer_moments_on_load",
            )
            for table in _OPTIM
        ),
        *(
            under(
                table,
                "warmup warmup_steps decay decay_steps decay_fraction t_max units lr_field "
                "initial_lr_field type schedulers.* schedulers_max schedulers_max_steps "
                "stages.* override_decay.* period_lengths period_lr_multipliers b lr_min",
            )
            for table in _SCHEDULER
        ),
        under(
            "train_module",
            "type rank_microbatch_size eval_rank_microbatch_size "
            "label_ignore_index scheduler optim dp_config tp_config "
            "cp_config pp_config ep_config ac_config float8_config state_dict_save_opts "
            "grad_accum_in_fp32 reset_optimizer_states_on_load "
            "reset_optimizer_states_on_resume expand_shared_qk_norm_on_load load_key_mapping",
        ),
        under(
            "trainer",
            "save_folder work_dir load_path load_strategy load_optim_state load_trainer_state "
            "device save_overwrite max_duration.value max_duration.unit cancel_check_interval "
            "hard_stop hard_stop.value hard_stop.unit async_bookkeeping "
            "bookkeeping_soft_timeout no_checkpoints no_evals steps_to_skip steps_to_skip.* "
            "checkpoints_to_eval rank_microbatch_size fused_loss compile_loss "
            "autocast_precision load_key_mapping.* max_epochs callbacks checkpointer "
            "dp_config.* label_ignore_index",
        ),
    )
    signs = frozenset(
        {"train_module.rank_microbatch_size", "train_module.max_sequence_length",
         "data_loader.global_batch_size", "trainer.rank_microbatch_size",
         "trainer.metrics_collect_interval", "train_module.optim.lr", "trainer.max_duration.unit",
         "model.block.sequence_mixer.n_heads", "model.block.feed_forward.hidden_size"}
    )  # fmt: skip

    def knows(self, key: str) -> bool:
        """Every table may name its class."""
        return key.rpartition(".")[2] == "_CLASS_" or super().knows(key)

    def score(self, document: Document) -> float:
        """Classes of ``olmo_core`` leave no doubt."""
        score = super().score(document)
        named = any(
            leaf.last == "_CLASS_" and str(leaf.value).startswith("olmo_core.")
            for leaf in document.leaves.values()
        )
        return max(score, 0.9) if named and document.kind in self.kinds else score

    def interpret(self, draft: Draft) -> None:
        """Micro-batches in tokens, units of the schedule, what groups of weights override."""
        self._durations(draft)
        length = number(draft, "train_module.max_sequence_length") or number(
            draft, "dataset.sequence_length"
        )
        for key in ("train_module.rank_microbatch_size", "trainer.rank_microbatch_size"):
            tokens = number(draft, key)
            if tokens and length and tokens % length == 0:
                draft.say("batch.micro_size", tokens // length, key)
        for table in _OPTIM:
            say_betas(draft, f"{table}.betas")
            for key, leaf in draft.leaves.items():
                if (
                    key.startswith(f"{table}.group_overrides[].opts.weight_decay")
                    and leaf.value == 0
                ):
                    names = draft.value(f"{table}.group_overrides[].params")
                    if isinstance(names, tuple) and any("embed" in str(n) for n in names):
                        draft.say("optimizer.decay_embeddings", False, key)
        for table in _ATTENTION:
            for key in draft.leaves:
                if key.startswith(f"{table}.qk_norm.") and draft.has(key):
                    draft.say("architecture.qk_norm", True, key)
                    break
            if any(key.startswith(f"{table}.rope.") for key in draft.leaves):
                key = next(k for k in draft.leaves if k.startswith(f"{table}.rope."))
                draft.say("architecture.position", "rope", key)
        for key in ("train_module.float8_config.enabled", "model.float8_config.enabled"):
            if draft.true(key):
                draft.say("precision.compute", "fp8", key)
        say_each(draft, "data.sources", "dataset.paths")

    def _durations(self, draft: Draft) -> None:
        unit = draft.value("trainer.max_duration.unit")
        if unit in ("steps", "tokens", "epochs") and draft.has("trainer.max_duration.value"):
            key = "trainer.max_duration.value"
            draft.say(f"schedule.{unit}", draft.value(key), key)
        for table in _SCHEDULER:
            unit = "tokens" if draft.value(f"{table}.units") == "tokens" else "steps"
            for name, field in (("warmup_steps", "warmup"), ("warmup", "warmup"),
                                ("t_max", "decay"), ("decay_steps", "decay"),
                                ("decay", "decay")):  # fmt: skip
                key = f"{table}.{name}"
                if draft.has(key) and not draft.has(f"{table}.{name}_fraction"):
                    draft.say(f"schedule.{field}_{unit}", draft.value(key), key)
            if str(draft.value(f"{table}._CLASS_", "")).endswith("WSD"):
                draft.say("schedule.decay_kind", "linear", f"{table}._CLASS_")

    def filled(self, spec: Mapping[str, Any], draft: Draft) -> Mapping[str, Any]:
        """The values of the dataclasses."""
        found = dict(_FILLS)
        name = spec.get("optimizer.name")
        if name == "adamw":
            found |= {"optimizer.learning_rate": 1e-3, "optimizer.beta1": 0.9,
                      "optimizer.beta2": 0.999, "optimizer.eps": 1e-8,
                      "optimizer.weight_decay": 0.01}  # fmt: skip
        if heads := spec.get("architecture.heads"):
            found["architecture.kv_heads"] = heads
        if "architecture.ff_width" in spec:
            found["architecture.activation"] = "swiglu"
        if spec.get("architecture.position") == "rope":
            found["architecture.rope_theta"] = 500000.0
        if spec.get("schedule.kind") in ("cosine", "linear", "inverse-sqrt"):
            found["schedule.final_factor"] = 0.1
        if spec.get("schedule.kind") == "wsd":
            found["schedule.min_learning_rate"] = 0.0
        return found


_FILLS: Mapping[str, Any] = {
    "seed": 12536,
    "init.method": "normal",
    "init.std": 0.02,
    "architecture.tied_embeddings": False,
    "parallelism.tensor": 1,
    "parallelism.pipeline": 1,
    "parallelism.context": 1,
    "parallelism.recompute": "none",
    "parallelism.compile": False,
    "interval.log": 5,
}

FORMAT = OlmoCore()
