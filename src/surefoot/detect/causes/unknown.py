"""Nothing known: what is left where no cause speaks loudly."""

from surefoot.detect.causes._picture import Picture
from surefoot.detect.causes._weighing import Balance
from surefoot.detect.evidence import Evidence, Hypothesis

CAUSE = "unknown"
LOUD = 2.0
"""Points that a cause must gather to be likelier than not known: its clauses must speak for it."""
TELLING = (
    ("grad_norm", ("grad_norm",), "tells a batch from an update gone wrong"),
    ("learning_rate", ("learning_rate",), "tells a rate that jumped"),
    ("adam_rms", ("adam_rms",), "tells a second moment that lags"),
    ("attention_logit_max", ("attention_logit_max",), "tells attention growth"),
    ("log_z", ("log_z", "log_z_abs_max"), "tells drifting output logits"),
    ("update_ratio", ("update_ratio", "update_rms"), "tells updates that are too large"),
)


def weigh(evidence: Evidence) -> Hypothesis:
    """The weight of a cause outside this list, or of none that what is recorded can tell."""
    p = Picture(evidence)
    experiment = (
        "from the checkpoint before the onset, run (the same batches, other batches) x (the same "
        "settings, half the learning rate): four short runs tell data, state and rate apart"
    )
    scale = Balance(CAUSE, experiment, prior=LOUD)
    missing = missing_signals(p)
    for name, why in missing:
        scale.note(f"{name} is not recorded: it {why}")
    return scale.result()


def missing_signals(p: Picture) -> list[tuple[str, str]]:
    """Signals that are not recorded and would tell causes apart, each with what it tells."""
    rate = p.e.rate_at is not None or p.e.rate_before is not None
    found = []
    for name, any_of, why in TELLING:
        known = rate if name == "learning_rate" else p.recorded(*any_of)
        if not known:
            found.append((name, why))
    return found
