"""The first loss spike of BLOOM-176B: the gradient norm leads the loss by steps.

Iterations 31214 to 31222, 31250 and 31251 are as published in BigScience's chronicles of tr11-176B
(12 April 2022): loss, gradient norm. What lies before and between is synthetic.
"""

import numpy as np
import pytest

PUBLISHED = {
    31214: (2.1988, 0.242),
    31215: (2.2204, 0.947),
    31216: (2.5952, 2.390),
    31217: (2.2416, 15.886),
    31218: (2.3453, 145.119),
    31219: (5.0981, 960.351),
    31220: (3.4920, 353.201),
    31221: (3.2131, 379.330),
    31222: (2.8049, 650.246),
    31250: (2.2157, 0.267),
    31251: (2.2357, 0.205),
}
FIRST, LAST = 30000, 31400


@pytest.fixture(params=range(4))
def trace(request):
    rng = np.random.default_rng(request.param)
    steps = np.arange(FIRST, LAST)
    losses = 2.2 + 0.01 * rng.standard_normal(len(steps))
    grads = 0.2 * np.exp(0.15 * rng.standard_normal(len(steps)))
    between = (steps > 31222) & (steps < 31250)
    losses[between] += 0.6 * np.exp(-(steps[between] - 31222) / 6)
    grads[between] *= 3250 * np.exp(-(steps[between] - 31222) / 3.5)
    for step, (loss, grad) in PUBLISHED.items():
        losses[step - FIRST], grads[step - FIRST] = loss, grad
    return losses, grads


def test_alarm_onset_and_leading_signal(feed, trace):
    told = feed(*trace, first=FIRST)
    assert [code for _, code in told.codes] == ["SPK000", "SPK001"]
    assert 31215 <= told.codes[0][0] <= 31216
    opened, closed = told.findings
    first, last = opened.evidence["onset_interval"]
    assert opened.evidence["onset_step"] == 31215
    assert first <= 31215 <= last
    assert opened.evidence["last_healthy_step"] <= 31213
    assert opened.evidence["leading_signal"] == "grad_norm"
    assert closed.evidence["incident"] == opened.evidence["incident"]
    assert closed.evidence["peak_step"] == 31219
    assert closed.evidence["peak_nats"] == pytest.approx(2.9, abs=0.02)
    assert 31230 <= closed.evidence["recovered_step"] <= 31255


def test_by_the_loss_alone_the_spike_is_found_at_its_first_high_step(feed, trace):
    told = feed(trace[0], first=FIRST)
    assert told.codes[0] == (31216, "SPK000")
    assert told.findings[0].evidence["onset_step"] in (31215, 31216)
    assert told.findings[0].evidence["leading_signal"] == "loss"
