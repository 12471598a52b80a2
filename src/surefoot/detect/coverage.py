"""What of a run could not be judged, and what it would take: said, never passed over."""

from surefoot.records import Run

SUDDEN_FROM = 16
SHIFT_FROM = 96
OUTCOME_FROM = 216
TAIL_FROM = 400

PRECURSORS = {
    "grad_norm": "the global gradient norm before clipping",
    "attention_logit_max": "the largest attention logit",
    "log_z": "the mean log-sum-exp of the output logits",
    "adam_rms": "Adam's RMS_t (2304.13013)",
    "update_rms": "the size of the update",
}
"""Signals that move before the loss does, and what each is."""


def not_checked(run: Run) -> tuple[dict[str, str], ...]:
    """What the detector could not judge of a run.

    Args:
        run: any run, also an empty one.

    Returns:
        For each code that was not or not wholly checked ``{"code", "needs"}``, in order.
    """
    missing: list[dict[str, str]] = []
    records = _values(run, "loss") or _values(run, "perplexity")  # its logarithm is judged

    def needs(code: str, what: str) -> None:
        missing.append({"code": code, "needs": what})

    if not records:
        needs("SPK001", "a loss that is logged: spikes are judged by the gradient norm at most")
    elif records < SUDDEN_FROM:
        needs("SPK000", f"{SUDDEN_FROM} records of the loss, this run has {records}: too short")
    elif records < SHIFT_FROM:
        needs(
            "SPK002",
            f"{SHIFT_FROM} records for a small shift or a slow climb, this run has {records}: too "
            "short for more than sudden spikes",
        )
    elif records < OUTCOME_FROM:
        needs(
            "SPK003",
            f"about 200 records after a spike for its outcome, this run has {records}",
        )
    absent = [f"{name} ({what})" for name, what in PRECURSORS.items() if not _values(run, name)]
    if absent:
        needs("SPK005", f"signals that move before the loss; not logged: {', '.join(absent)}")
    return tuple(missing)


def _values(run: Run, name: str) -> int:
    """Records that hold a value of the signal which is not the exact zero of one not recorded."""
    if name not in run.signals.columns:
        return 0
    column = run.signals[name].drop_nulls()
    if not column.dtype.is_numeric():
        return 0
    used = column if name == "loss" else column.filter(column != 0)
    return len(used)
