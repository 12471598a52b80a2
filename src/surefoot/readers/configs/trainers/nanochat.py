"""nanochat: flags of ``scripts.base_train``, and assignments of its older settings files."""

from collections.abc import Mapping
from typing import Any, ClassVar

from surefoot.readers.configs.documents.tree import Document
from surefoot.readers.configs.formats import Draft, To
from surefoot.readers.configs.trainers._shared import Signed, number, positive, share


class Nanochat(Signed):
    """``base_train --depth=20``. Matrices are trained by Muon, the rest by AdamW."""

    name = "nanochat"
    title = "nanochat"
    version = "nanochat of 2026-03"
    kinds = frozenset({"arguments", "python", "toml", "json", "yaml"})
    keys: ClassVar[Mapping[str, str | To]] = {
        "run": "name",
        "depth": "architecture.layers",
        "head_dim": "architecture.head_dim",
        "max_seq_len": "architecture.sequence_length",
        "num_iterations": To("schedule.steps", positive),
        "warmup_steps": "schedule.warmup_steps",
        "warmup_ratio": To("schedule.warmup_fraction", share),
        "final_lr_frac": "schedule.final_factor",
        "device_batch_size": "batch.micro_size",
        "total_batch_size": To("batch.tokens", positive),
        "matrix_lr": "optimizer.learning_rate",
        "weight_decay": "optimizer.weight_decay",
        "grad_clip": "optimizer.clip_norm",
        "fp8_recipe": To("precision.fp8_recipe", lambda v: None),
        "eval_every": To("interval.evaluate", positive),
        "save_every": To("interval.checkpoint", positive),
    }
    known = frozenset(
        """
        device_type aspect_ratio window_pattern target_flops target_param_data_ratio embedding_lr
        unembedding_lr scalar_lr adam_beta1 adam_beta2 warmdown_ratio resume_from_step eval_tokens
        core_metric_every core_metric_max_per_task sample_every model_tag fp8 user_config.*
        embedding_weight_decay embedding_wd muon_momentum num_scaling_params dtype
        """.split()
    )
    signs = frozenset(
        {"device_batch_size", "target_param_data_ratio", "embedding_lr", "unembedding_lr",
         "matrix_lr", "core_metric_every", "warmdown_ratio", "final_lr_frac"}
    )  # fmt: skip

    def spell(self, key: str) -> str:
        """``--max-seq-len`` and the older ``max_seq_len``."""
        return super().spell(key).replace("-", "_")

    def score(self, document: Document) -> float:
        """Flat; and not the metadata of a checkpoint."""
        score = super().score(document)
        return 0.3 * score if any("." in key for key in document.leaves) else score

    def interpret(self, draft: Draft) -> None:
        """The last decay; FP8."""
        steps = number(draft, "num_iterations")
        ratio = number(draft, "warmdown_ratio")
        if ratio is not None and 0 <= ratio <= 1:
            draft.say("schedule.kind", "wsd", "warmdown_ratio")
            draft.say("schedule.decay_kind", "linear", "warmdown_ratio")
            if steps and steps > 0:
                draft.say("schedule.decay_steps", round(steps * ratio), "warmdown_ratio")
        if draft.true("fp8"):
            draft.say("precision.compute", "fp8", "fp8")
            if draft.has("fp8_recipe"):
                draft.say("precision.fp8_recipe", draft.value("fp8_recipe"), "fp8_recipe")

    def filled(self, spec: Mapping[str, Any], draft: Draft) -> Mapping[str, Any]:
        """What argparse fills in, and the width that follows from the depth."""
        found = dict(_FILLS)
        depth = spec.get("architecture.layers", 20)
        head = spec.get("architecture.head_dim", 128)
        aspect = number(draft, "aspect_ratio") or 64
        if head and head > 0:
            width = int(-(-depth * aspect // head) * head)
            found["architecture.width"] = width
            found["architecture.ff_width"] = 4 * width
            found["architecture.heads"] = found["architecture.kv_heads"] = width // head
        if "schedule.warmup_fraction" not in spec:
            found["schedule.warmup_steps"] = 40
        return found


_FILLS: Mapping[str, Any] = {
    "architecture.layers": 20,
    "architecture.head_dim": 128,
    "architecture.sequence_length": 2048,
    "architecture.norm": "rmsnorm",
    "architecture.norm_placement": "pre",
    "architecture.activation": "relu2",
    "architecture.position": "rope",
    "architecture.tied_embeddings": False,
    "architecture.qk_norm": True,
    "architecture.bias": False,
    "optimizer.name": "muon",
    "optimizer.learning_rate": 0.02,
    "optimizer.weight_decay": 0.28,
    "schedule.kind": "wsd",
    "schedule.decay_kind": "linear",
    "schedule.final_factor": 0.05,
    "batch.micro_size": 32,
    "interval.evaluate": 250,
}

FORMAT = Nanochat()
