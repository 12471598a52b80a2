"""What the signals of Adam's instability say where the answer is known, without any model.

The numbers are those of a stream of gradients that begin to agree, as in Molybog et al. 2023,
2304.09871, and of the one-dimensional example of Bai et al. 2025, 2506.04805: L = x^2 / 2.
"""

import math

import pytest
import torch
from torch import nn

from surefoot.signals import Meter


class Vector(nn.Module):
    """Weights whose gradient the test sets."""

    def __init__(self, start):
        super().__init__()
        self.x = nn.Parameter(start)


def _measure(model, optimizer, meter, step, gradient):
    model.x.grad = gradient.clone()
    meter.norms(step)
    optimizer.step()
    meter.after_update(step)
    meter.record(step, 0, {})
    return meter.flush()


@pytest.fixture(scope="module")
def stream():
    """Values before, and in each of ten steps of, agreement: 20 000 weights, beta 0.9 and 0.95."""
    torch.manual_seed(3)
    model = Vector(torch.zeros(20_000))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95))
    side = torch.randn(20_000).sign()
    for _ in range(299):
        model.x.grad = torch.randn(20_000)
        optimizer.step()
    meter = Meter(model, optimizer, sample_every=1)
    found = [_measure(model, optimizer, meter, 300, torch.randn(20_000)).values]
    return found + [
        _measure(model, optimizer, meter, 300 + k, 3 * side).values for k in range(1, 11)
    ]


@pytest.mark.parametrize(
    ("agreeing", "rms", "large", "bimodality"),
    [
        (0, 0.226, 0.000, 0.37),
        (1, 0.308, 0.000, 0.50),
        (3, 0.567, 0.012, 0.86),
        (5, 0.736, 0.212, 0.95),
        (10, 0.950, 0.999, 0.99),
    ],
)
def test_gradients_that_begin_to_agree(stream, agreeing, rms, large, bimodality):
    values = stream[agreeing]
    assert values["adam_update_rms"] == pytest.approx(rms, abs=0.005)
    assert values["update_large_share"] == pytest.approx(large, abs=0.02)
    assert values["update_bimodality"] == pytest.approx(bimodality, abs=0.02)


def test_two_sidedness_is_seen_before_the_update_is_at_its_limit(stream):
    told = [v["adam_update_rms"] > 0.4 or v["update_bimodality"] > 5 / 9 for v in stream]
    assert told.index(True) in (2, 3)
    assert stream[told.index(True)]["adam_update_rms"] < 0.6
    assert math.sqrt(0.1 / 1.9) == pytest.approx(stream[0]["adam_update_rms"], abs=0.01)


def test_the_second_moment_lags_at_once_and_then_follows(stream):
    lags = [v["second_moment_lag"] for v in stream]
    assert lags[0] == pytest.approx(1, abs=0.02)
    # v = 0.95 + 0.05 * 9 at the first gradient of size 3.
    assert lags[1] == pytest.approx(3 / math.sqrt(0.95 + 0.45), rel=0.01)
    assert lags[1:] == sorted(lags[1:], reverse=True)


def _example(rate, beta2, steps):
    """By hand, in float64: loss, curvature that the rule meets, and |g| / sqrt(v), step by step."""
    x, m, v, rows = 1.0, 0.0, 0.0, []
    for step in range(1, steps + 1):
        g = x
        m, v = 0.9 * m + 0.1 * g, beta2 * v + (1 - beta2) * g * g
        root = math.sqrt(v / (1 - beta2**step))
        rows.append((x * x / 2, 1 / (root + 1e-8), abs(g) / root))
        x -= rate * m / (1 - 0.9**step) / (root + 1e-8)
    return rows


@pytest.mark.parametrize(
    ("beta2", "crossing", "shown", "peak", "largest"),
    [(0.99, 790, 845, 847, 7.31), (0.95, 198, 207, 207, 2.93)],
)
def test_where_v_forgets_the_lag_shows_between_the_crossing_and_the_peak(
    beta2, crossing, shown, peak, largest
):
    rows = _example(0.15, beta2, peak + 10)
    limit = (2 + 2 * 0.9) / ((1 - 0.9) * 0.15)  # above it momentum 0.9 cannot be stable
    late = range(100, len(rows))
    assert next(i + 1 for i in late if rows[i][1] > limit) == crossing
    assert max(late, key=lambda i: rows[i][0]) + 1 == peak

    model = Vector(torch.ones((), dtype=torch.float64))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.15, betas=(0.9, beta2), eps=1e-8)
    first = crossing - 5
    for _ in range(1, first):
        model.x.grad = model.x.detach().clone()
        optimizer.step()
    meter = Meter(model, optimizer, sample_every=1)
    lags = {}
    for step in range(first, peak + 10):
        values = _measure(model, optimizer, meter, step, model.x.detach()).values
        lags[step] = values["second_moment_lag"]
        assert lags[step] == pytest.approx(rows[step - 1][2], rel=1e-6)
        # eps is far below sqrt(v) once the gradient is back: RMS_t of one weight is the same.
        if lags[step] > 2.3:
            assert values["adam_rms"] == pytest.approx(lags[step], rel=1e-4)
    assert min(step for step, lag in lags.items() if lag > 2.3) == shown
    assert crossing < shown <= peak
    assert max(lags[step] for step in range(first, crossing)) < 1  # v is far above g^2 till then
    assert max(lags.values()) == pytest.approx(largest, abs=0.005)


@pytest.mark.parametrize("beta2", [0.9, 0.999])
def test_where_v_follows_or_keeps_there_is_no_crossing_and_no_lag(beta2):
    rows = _example(0.15, beta2, 2000)
    limit = (2 + 2 * 0.9) / ((1 - 0.9) * 0.15)
    assert max(curvature for _, curvature, _ in rows[100:]) < limit
    assert max(lag for _, _, lag in rows) < 2.3
