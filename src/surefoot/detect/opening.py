"""How an incident begins: its level, its noise and its past, from what was known before."""

from surefoot.detect.baseline import SETTLED
from surefoot.detect.healthy import Alarm, Healthy
from surefoot.detect.incident import OpenIncident
from surefoot.detect.usability import Reading

FALLS_FROM = 100
FADING = 0.7


def open_incident(
    step: int, reading: Reading, alarm: Alarm, healthy: Healthy, *, attempt: int, horizon: int
) -> OpenIncident:
    """An incident that begins at the onset of ``alarm`` and is noticed at ``step``.

    Args:
        step: of the newest record.
        reading: the newest record.
        alarm: what was noticed.
        healthy: what was known before.
        attempt: of the newest record.
        horizon: records after which it is judged.
    """
    loss, grad, history, onset = healthy.loss, healthy.grad, healthy.history, alarm.onset
    level = alarm.level
    losses = history.losses_from(onset.index)
    # Judged by the loss wherever there is one: what is never logged cannot come back.
    seen = loss.count or reading.loss is not None or reading.nonfinite == "loss"
    signal = "loss" if seen else "grad_norm"
    course = loss if signal == "loss" else grad
    noise = course.noise() * course.doubt()
    if level is None and signal == "loss" and len(losses) > 2:
        level = history.level_before(onset.index)
    if level is None and course.count:
        level = course.expected()
    spread = healthy.shift.spread_sigma(noise) if signal == "loss" else 0.0
    leading = onset.signal
    if reading.nonfinite is not None and onset.step == step:
        leading = reading.nonfinite
    slope, age, every = 0.0, max(1, loss.count), history.every()
    if signal == "loss":
        if loss.count >= SETTLED:
            slope = history.fall(onset.index)
        elif loss.count >= FALLS_FROM:
            # The steep first fall is fading: half of where it was leading, over the logarithm of
            # the step. Carried on whole, it would leave the loss above its course for ever.
            age = max(1, onset.step // every)
            slope = FADING * healthy.trend.fall / age
    incident = OpenIncident(
        id=f"a{attempt}-s{step:05d}",
        alarm_step=step,
        onset_step=onset.step,
        onset_interval=onset.interval,
        leading_signal=leading,
        code=alarm.code,
        signal=signal,
        level=level,
        noise=noise,
        tolerance=max(2.5 * max(0.36 * noise, 1.3 * spread), 0.005),
        last_step=onset.interval[0],
        peak_step=step,
        horizon=horizon,
        slope=slope,
        age=age,
        known=onset.known and (course.count > 0 or onset.index > 0),
        every=every,
    )
    if signal == "grad_norm" and reading.log_grad is not None:
        incident.add(step, reading.log_grad, reading.log_grad)
    else:
        for past_step, past_loss in losses:
            incident.add(past_step, past_loss, None)
    if reading.nonfinite is not None:
        incident.not_finite(step, reading.nonfinite, reading.value, reading.skipped)
    return incident
