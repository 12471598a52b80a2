"""An early warning as a finding: what moved, since when, and what can still be done."""

from surefoot.codes import lookup
from surefoot.detect.early import EarlySign
from surefoot.records import Finding, Place, number_to_json, split_name

ADVICE = {
    "attention-growth": (
        "lower the learning rate, or clip the query and key weights (QK-clip) while it grows; "
        "QK-norm is for the next run"
    ),
    "log-z-drift": (
        "switch on a z-loss (1e-4 is common), or more weight decay on the head; both work mid-run"
    ),
    "second-moment": (
        "lower beta2 (0.95 where 0.999 is used) or clip the update's RMS: Adam's second moment "
        "lags behind the gradient"
    ),
    "update-growth": "lower the learning rate: updates grow while the schedule does not ask for it",
    "grad-growth": "tighten the clip for some steps and look at the batches of these steps",
    "loss-scale": "look for overflows: fp16 runs whose scale keeps falling are close to divergence",
}
"""What helps while the loss is still on its course, by precursor."""


def warning(
    sign: EarlySign, *, incident: str, attempt: int, every: float, false_alarm_rate: float
) -> Finding:
    """SPK005.

    Args:
        sign: the warning.
        incident: id under which it is told.
        attempt: of the record.
        every: steps between records.
        false_alarm_rate: false alarms in 10 000 records that were asked for.
    """
    entry = lookup("SPK005")
    signal, place = split_name(sign.signal)
    first = max(1, min(sign.since, sign.step) - round(every))
    numbers = {name: number_to_json(value) for name, value in sign.numbers.items()}
    told = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in _numbers(sign))
    others = f"; {', '.join(sign.others)} agree" if sign.others else ""
    steps = sign.step - sign.since
    lasted = f" for {steps} steps" if steps > 0 else ""
    evidence = {
        "incident": incident,
        "judged_by": sign.signal,
        "precursor": sign.precursor,
        "onset_step": sign.since,
        "onset_interval": [first, sign.since],
        "leading_signal": sign.signal,
        "peak_step": sign.step,
        "peak_nats": 0.0,
        "recovered_step": None,
        "last_healthy_step": first - 1,
        "rewind_to_step": None,
        "score": sign.score,
        "numbers": numbers,
        "also": list(sign.others),
        "false_alarm_rate": false_alarm_rate,
    }
    keep = f"keep the newest checkpoint at or before step {first - 1}"
    advice = ADVICE.get(sign.precursor)
    return Finding(
        code="SPK005",
        name=entry.name,
        severity=entry.severity,
        place=Place(attempt=attempt, steps=(sign.since, sign.step), signal=signal, layer=place),
        evidence=evidence,
        message=(
            f"the loss is on its course, but {sign.signal} is not{lasted} "
            f"({sign.precursor}: {told}{others})"
        ),
        actions=(keep,) if advice is None else (keep, advice),
    )


def _numbers(sign: EarlySign) -> list[tuple[str, float]]:
    return [(name, float(value)) for name, value in sign.numbers.items()]
