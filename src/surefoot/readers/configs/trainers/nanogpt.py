"""nanoGPT: settings in Python, and its ``--key=value`` flags."""

from collections.abc import Mapping
from typing import Any, ClassVar

from surefoot.readers.configs import vocabulary as words
from surefoot.readers.configs.documents.tree import Document
from surefoot.readers.configs.formats import ConfigFormat, Draft, To
from surefoot.readers.configs.trainers._shared import number


class NanoGPT(ConfigFormat):
    """``config/train_gpt2.py``: assignments that replace those at the top of ``train.py``.

    ``gradient_accumulation_steps`` counts the micro-batches of all ranks together, since April
    2023; ``train.py`` divides it by the ranks.
    """

    name = "nanogpt"
    title = "nanoGPT"
    version = "nanoGPT of 2023-06 and later"
    kinds = frozenset({"python", "toml", "arguments"})
    keys: ClassVar[Mapping[str, str | To]] = {
        "wandb_run_name": "name",
        "n_layer": "architecture.layers",
        "n_head": "architecture.heads",
        "n_embd": "architecture.width",
        "block_size": "architecture.sequence_length",
        "vocab_size": "architecture.vocab_size",
        "bias": "architecture.bias",
        "dropout": "architecture.dropout",
        "learning_rate": "optimizer.learning_rate",
        "weight_decay": "optimizer.weight_decay",
        "beta1": "optimizer.beta1",
        "beta2": "optimizer.beta2",
        "grad_clip": "optimizer.clip_norm",
        "max_iters": "schedule.steps",
        "warmup_iters": "schedule.warmup_steps",
        "lr_decay_iters": "schedule.decay_steps",
        "min_lr": "schedule.min_learning_rate",
        "dtype": To("precision.compute", words.number_format),
        "batch_size": "batch.micro_size",
        "compile": "parallelism.compile",
        "dataset": "data.sources",
        "log_interval": "interval.log",
        "eval_interval": "interval.evaluate",
        "eval_iters": "interval.evaluate_batches",
    }
    known = frozenset(
        """
        out_dir eval_only always_save_checkpoint init_from wandb_log wandb_project decay_lr backend
        device gradient_accumulation_steps seed profile meta_vocab_size start num_samples
        max_new_tokens temperature top_k real_data
        """.split()
    )
    signs = frozenset({"n_embd", "always_save_checkpoint", "lr_decay_iters"})

    def score(self, document: Document) -> float:
        """A flat list of these names; other small trainers share some of them."""
        score = super().score(document)
        if any("." in key for key in document.leaves):
            return 0.3 * score
        mine = {"block_size", "warmup_iters", "max_iters", "eval_iters", "grad_clip", "n_layer",
                "lr_decay_iters", "wandb_run_name", "always_save_checkpoint"}  # fmt: skip
        found = len(mine & document.leaves.keys())
        return score if found >= 2 else 0.5 * score

    def interpret(self, draft: Draft) -> None:
        """The whole batch, dropout of both kinds, a rate that stays."""
        if draft.has("dropout"):
            draft.say("architecture.attention_dropout", draft.value("dropout"), "dropout")
        if draft.has("decay_lr"):
            if draft.true("decay_lr"):
                draft.say("schedule.kind", "cosine", "decay_lr")
            else:  # learning_rate from the first step to the last
                draft.say("schedule.kind", "constant", "decay_lr")
                for field in ("warmup_steps", "decay_steps", "min_learning_rate"):
                    draft.unsay(f"schedule.{field}")
        micro, times = number(draft, "batch_size"), number(draft, "gradient_accumulation_steps")
        if micro and times:
            draft.say("batch.global_size", micro * times, "gradient_accumulation_steps")

    def filled(self, spec: Mapping[str, Any], draft: Draft) -> Mapping[str, Any]:
        """What stands at the top of ``train.py``."""
        found = dict(_FILLS)
        micro = spec.get("batch.micro_size", _FILLS["batch.micro_size"])
        times = number(draft, "gradient_accumulation_steps") or 40
        if float(micro * times).is_integer():
            found["batch.global_size"] = int(micro * times)
        width = spec.get("architecture.width", _FILLS["architecture.width"])
        found["architecture.ff_width"] = 4 * width
        found["architecture.kv_heads"] = spec.get("architecture.heads", 12)
        if spec.get("schedule.kind") != "constant":
            found["schedule.kind"] = "cosine"
            found["schedule.warmup_steps"] = 2000
            found["schedule.decay_steps"] = 600000
            found["schedule.min_learning_rate"] = 6e-5
        else:
            found["schedule.warmup_steps"] = 0
        if spec.get("precision.compute") == "fp16":
            found["precision.initial_loss_scale"] = 65536.0
        return found


_FILLS: Mapping[str, Any] = {
    "architecture.layers": 12,
    "architecture.width": 768,
    "architecture.heads": 12,
    "architecture.sequence_length": 1024,
    "architecture.bias": False,
    "architecture.dropout": 0.0,
    "architecture.attention_dropout": 0.0,
    "architecture.norm": "layernorm",
    "architecture.norm_eps": 1e-5,
    "architecture.norm_placement": "pre",
    "architecture.activation": "gelu",
    "architecture.position": "learned",
    "architecture.tied_embeddings": True,
    "architecture.qk_norm": False,
    "init.method": "normal",
    "init.std": 0.02,
    "init.depth_scaled_outputs": True,
    "optimizer.name": "adamw",
    "optimizer.learning_rate": 6e-4,
    "optimizer.weight_decay": 0.1,
    "optimizer.decay_embeddings": True,
    "optimizer.decay_norms": False,
    "optimizer.decay_biases": False,
    "optimizer.beta1": 0.9,
    "optimizer.beta2": 0.95,
    "optimizer.eps": 1e-8,
    "optimizer.clip_norm": 1.0,
    "schedule.steps": 600000,
    "precision.master": "fp32",
    "precision.tf32": True,
    "batch.micro_size": 12,
    "parallelism.compile": True,
    "parallelism.recompute": "none",
    "interval.log": 1,
    "interval.evaluate": 2000,
    "interval.evaluate_batches": 200,
}

FORMAT = NanoGPT()
