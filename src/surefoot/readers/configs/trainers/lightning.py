"""Lightning CLI: YAML of a trainer, a model and data as classes with their arguments."""

from collections.abc import Mapping
from typing import Any, ClassVar

from surefoot.readers.configs import vocabulary as words
from surefoot.readers.configs.documents.tree import Document
from surefoot.readers.configs.formats import ConfigFormat, Draft, To
from surefoot.readers.configs.trainers._shared import class_name, number, positive, say_betas, under

_SCHEDULERS = {
    "CosineAnnealingLR": "cosine",
    "LinearLR": "linear",
    "PolynomialLR": "polynomial",
    "ExponentialLR": "exponential",
    "ConstantLR": "constant",
}


def _steps(value: Any) -> Any:
    """Whole batches; 0.25 is a share of an epoch."""
    return value if isinstance(value, int) and value is not True and value > 0 else None


def _sharding(value: Any) -> str | None:
    word = str(class_name(value)).lower()
    if "fsdp" in word or "modelparallel" in word:
        return "full"
    return "none" if word.startswith("ddp") else None


class Lightning(ConfigFormat):
    """``python main.py fit --config config.yaml``. Classes are the user's: any arguments may be."""

    name = "lightning"
    title = "Lightning"
    version = "Lightning 2.4"
    kinds = frozenset({"yaml", "json"})
    autos = frozenset({"auto"})
    keys: ClassVar[Mapping[str, str | To]] = {
        "seed_everything": To("seed", lambda v: None if isinstance(v, bool) else v),
        "trainer.devices": To("parallelism.devices_per_node", positive),
        "trainer.num_nodes": "parallelism.nodes",
        "trainer.precision": To("precision.compute", words.number_format),
        "trainer.max_steps": To("schedule.steps", positive),
        "trainer.max_epochs": To("schedule.epochs", positive),
        "trainer.accumulate_grad_batches": "batch.accumulation",
        "trainer.log_every_n_steps": "interval.log",
        "trainer.limit_val_batches": To("interval.evaluate_batches", _steps),
        "trainer.strategy": To("parallelism.fsdp", _sharding, keep=True),
        "trainer.strategy.class_path": To("parallelism.fsdp", _sharding, keep=True),
        "optimizer.class_path": To(
            "optimizer.name", lambda v: words.optimizer(class_name(v)), keep=True
        ),
        "optimizer.init_args.lr": "optimizer.learning_rate",
        "optimizer.init_args.eps": "optimizer.eps",
        "optimizer.init_args.weight_decay": "optimizer.weight_decay",
        "optimizer.init_args.momentum": "optimizer.momentum",
        "optimizer.init_args.fused": "optimizer.fused",
        "lr_scheduler.class_path": To(
            "schedule.kind", lambda v: _SCHEDULERS.get(class_name(v)), keep=True
        ),
        "lr_scheduler.init_args.T_max": "schedule.decay_steps",
        "lr_scheduler.init_args.eta_min": "schedule.min_learning_rate",
        "model.learning_rate": "optimizer.learning_rate",
        "model.lr": "optimizer.learning_rate",
        "data.batch_size": "batch.micro_size",
        "data.num_workers": "data.workers",
        "model.init_args.learning_rate": "optimizer.learning_rate",
        "model.init_args.lr": "optimizer.learning_rate",
        "model.init_args.weight_decay": "optimizer.weight_decay",
        "data.init_args.batch_size": "batch.micro_size",
        "data.init_args.num_workers": "data.workers",
    }
    known = under(
        "trainer",
        "accelerator accelerator.* callbacks callbacks.* plugins plugins.* plugins.* "
        "logger logger.* logger.* strategy.* min_epochs min_steps max_time "
        "limit_train_batches limit_test_batches limit_predict_batches overfit_batches "
        "val_check_interval check_val_every_n_epoch num_sanity_val_steps gradient_clip_val "
        "gradient_clip_algorithm enable_checkpointing enable_progress_bar "
        "enable_model_summary fast_dev_run deterministic benchmark inference_mode "
        "use_distributed_sampler profiler profiler.* detect_anomaly barebones "
        "sync_batchnorm reload_dataloaders_every_n_epochs default_root_dir model_registry "
        "resume_from_checkpoint gpus auto_select_gpus tpu_cores ipus replace_sampler_ddp "
        "amp_backend amp_level weights_summary track_grad_norm auto_lr_find "
        "auto_scale_batch_size move_metrics_to_cpu checkpoint_callback",
    ) | frozenset(
        """
            model model.class_path model.init_args.* model.* data data.class_path
            data.init_args.* data.* optimizer.init_args.* optimizer.* lr_scheduler.init_args.*
            lr_scheduler.* ckpt_path weights_only config subcommand fit.* return_predictions
            verbose
            """.split()
    )
    signs = frozenset(
        {"seed_everything", "trainer.callbacks[].class_path", "trainer.logger.class_path",
         "trainer.strategy.class_path", "trainer.check_val_every_n_epoch",
         "trainer.fast_dev_run", "trainer.reload_dataloaders_every_n_epochs"}
    )  # fmt: skip

    def score(self, document: Document) -> float:
        """``model.*`` and ``data.*`` are anybody's: one of its own must be there."""
        own = any(
            self.is_sign(self.spell(key)) or key.startswith("trainer.") or
            (key.split(".")[0] in ("model", "data") and key.endswith(".class_path"))
            for key in document.leaves
        )  # fmt: skip
        return super().score(document) if own else 0.0

    def interpret(self, draft: Draft) -> None:
        """Clipping by its algorithm, strategies, intervals in batches."""
        say_betas(draft, "optimizer.init_args.betas")
        if draft.has("trainer.gradient_clip_val"):
            kind = str(draft.value("trainer.gradient_clip_algorithm", "norm"))
            field = "optimizer.clip_value" if kind == "value" else "optimizer.clip_norm"
            draft.say(field, draft.value("trainer.gradient_clip_val"), "trainer.gradient_clip_val")
        if (number(draft, "trainer.accumulate_grad_batches") or 1) == 1:
            every = _steps(draft.value("trainer.val_check_interval"))
            if every is not None:
                draft.say("interval.evaluate", every, "trainer.val_check_interval")
        precision = str(draft.value("trainer.precision", ""))
        for end, word in (("-mixed", "fp32"), ("-true", precision)):
            if precision.endswith(end):
                draft.say("precision.master", words.number_format(word), "trainer.precision")
        strategy = str(draft.value("trainer.strategy", ""))
        stage = strategy.removeprefix("deepspeed_stage_")[:1]
        if strategy.startswith("deepspeed_stage_") and stage.isdigit():
            draft.say("parallelism.zero_stage", int(stage), "trainer.strategy")
        if draft.has("trainer.strategy.init_args.stage"):
            key = "trainer.strategy.init_args.stage"
            draft.say("parallelism.zero_stage", draft.value(key), key)
        for key in draft.leaves:
            if key == "trainer.callbacks[].init_args.every_n_train_steps" and draft.has(key):
                draft.say("interval.checkpoint", draft.value(key), key)

    def filled(self, spec: Mapping[str, Any], draft: Draft) -> Mapping[str, Any]:
        """The Trainer's values."""
        found = dict(_FILLS)
        if "optimizer.clip_value" in spec:
            del found["optimizer.clip_norm"]
        return found


_FILLS: Mapping[str, Any] = {
    "parallelism.nodes": 1,
    "precision.compute": "fp32",
    "batch.accumulation": 1,
    "optimizer.clip_norm": 0.0,
    "interval.log": 50,
}

FORMAT = Lightning()
