"""The bank of signals finds what leaves its course, and nothing else."""

import math

import numpy as np
import pytest

from surefoot.detect.bank import SignalBank
from surefoot.records import StepRecord

PLACES = ("embedding", "layers.0.attention", "layers.0.feed_forward", "head")


def make(columns, *, every=1, first=1, places=None, **constant):
    """Records of scalar columns; NaN is passed on, None is left out."""
    steps = len(next(iter(columns.values() if columns else places.values())))
    return [
        StepRecord(
            step=first + every * row,
            values={n: c[row] for n, c in columns.items() if c[row] is not None} | constant,
            places={n: c[row] for n, c in (places or {}).items()},
        )
        for row in range(steps)
    ]


def feed(records, bank=None, learn=True):
    """``(bank, {step: signals confirmed there})``."""
    bank = bank or SignalBank({"grad_norm": PLACES})
    opened = {}
    for record in records:
        scores = bank.update(record, learn=learn)
        if scores.opened:
            opened[record.step] = scores.opened
    return bank, opened


def norm(steps, rng, spread=0.1, level=0.3):
    return level * np.exp(spread * rng.standard_normal(steps))


def floats(column):
    return [float(value) for value in column]


def test_one_loud_record_is_an_outlier_and_no_alarm(rng):
    grads = norm(600, rng)
    grads[400] *= 8
    bank, opened = feed(make({"grad_norm": floats(grads)}))
    assert opened == {}
    (facts,) = bank.strongest(4, since=400)
    assert facts.name == "grad_norm"
    assert facts.out_since == 401
    assert facts.score > 1.5
    assert facts.extreme == pytest.approx(grads[400])
    assert facts.before == pytest.approx(0.3, rel=0.15)
    assert facts.records == 400


def test_two_loud_records_are_confirmed_and_traced_to_the_first(rng):
    grads = norm(600, rng)
    grads[400:403] *= (2.5, 6, 9)
    bank, opened = feed(make({"grad_norm": floats(grads)}))
    assert opened == {402: ("grad_norm",)}
    assert bank.earliest(since=300, until=404) == (401, "grad_norm")


def test_an_absurd_record_is_confirmed_alone(rng):
    grads = norm(600, rng)
    grads[400] *= 1000
    _, opened = feed(make({"grad_norm": floats(grads)}))
    assert opened == {401: ("grad_norm",)}


def test_two_spikes_close_together_are_two_runs(rng):
    grads = norm(600, rng)
    grads[400:402] *= 8
    grads[410:412] *= 8
    _, opened = feed(make({"grad_norm": floats(grads)}))
    assert list(opened) == [402, 412]


def test_across_a_short_gap_it_is_one_run(rng):
    grads = norm(600, rng)
    grads[400:402] *= 8
    grads[404:406] *= 20
    bank, opened = feed(make({"grad_norm": floats(grads)}))
    assert list(opened) == [402]
    run = bank.run("grad_norm", since=400)
    assert (run.start, run.end) == (401, 406)
    assert run.peak_step in (405, 406)


def test_a_step_change_is_told_once_and_becomes_the_level(rng):
    grads = norm(1200, rng)
    grads[500:] *= 3
    bank, opened = feed(make({"grad_norm": floats(grads)}))
    assert list(opened) == [502]
    assert bank.facts("grad_norm", since=1100).before == pytest.approx(0.9, rel=0.1)


def test_a_slow_drift_is_no_outlier_but_shows_as_trend(rng):
    steps = np.arange(1500)
    logits = 5 * np.exp(0.05 * rng.standard_normal(1500) + np.maximum(steps - 700, 0) * 0.004)
    bank, opened = feed(make({"attention_logit_max": floats(logits)}))
    assert opened == {}
    change, since = bank.trend("attention_logit_max")
    assert change == pytest.approx(0.4 / 0.05, rel=0.4)
    assert 720 <= since <= 900
    assert bank.facts("attention_logit_max", since=1400).trend == pytest.approx(change)


def test_a_flat_signal_has_no_trend(rng):
    bank, _ = feed(make({"grad_norm": floats(norm(2000, rng))}))
    change, since = bank.trend("grad_norm")
    assert abs(change) < 2
    assert since is None


def test_warm_up_and_a_steep_fall_are_silent(rng):
    steps = np.arange(1500)
    rates = 1e-3 * np.minimum(1, (steps + 1) / 300)
    columns = {
        "learning_rate": floats(rates),
        "grad_norm": floats(norm(1500, rng) * (1 + 15 * np.exp(-steps / 60))),
        "update_rms": floats(norm(1500, rng, 0.05) * rates * (1 + np.exp(-steps / 80))),
        "log_z": floats(6.2 * np.exp(-steps / 50) + 0.05 * rng.standard_normal(1500)),
        "param_norm": floats(100 + 0.05 * steps * rates / 1e-3),
    }
    assert feed(make(columns))[1] == {}


@pytest.mark.parametrize("value", [0.0, 1.0, -3.5, 1e-30])
def test_a_constant_series_is_silent_and_a_jump_in_it_is_not(value):
    constant = [value] * 500 + [value + 2] * 5
    signal = "log_z"
    bank, opened = feed(make({signal: constant}))
    assert list(opened) == [502]
    assert math.isfinite(bank.facts(signal, since=500).score)


def test_nan_then_a_spike(rng):
    grads = norm(600, rng)
    grads[300:303] = math.nan
    grads[310:312] *= 9
    bank = SignalBank()
    told = {r.step: bank.update(r) for r in make({"grad_norm": floats(grads)})}
    assert [step for step, s in told.items() if s.nonfinite == ("grad_norm",)] == [301, 302, 303]
    assert [step for step, s in told.items() if s.opened] == [312]
    assert bank.facts("grad_norm", since=300).nonfinite_step == 301
    assert bank.facts("grad_norm", since=305).nonfinite_step is None


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_a_non_finite_value_is_not_learned(rng, bad):
    logs = list(0.1 * rng.standard_normal(400))
    clean, _ = feed(make({"log_z": logs[:200] + logs[201:]}))
    logs[200] = bad
    bank, opened = feed(make({"log_z": logs}))
    assert opened == {}
    facts = bank.facts("log_z", since=401), clean.facts("log_z", since=400)
    assert facts[0].before == pytest.approx(facts[1].before, abs=0.02)


def test_a_signal_that_never_was_finite_is_not_told():
    bank = SignalBank()
    for record in make({"adam_rms": [math.nan] * 50}):
        assert bank.update(record).nonfinite == ()


@pytest.mark.parametrize("odd", [None, "x", [1.0], 10**400, True])
def test_values_that_are_no_numbers_are_as_good_as_absent(rng, odd):
    grads = floats(norm(200, rng))
    bank = SignalBank()
    for number, record in enumerate(make({"grad_norm": grads})):
        values = {**record.values, "log_z": odd if number % 3 else 0.1}
        if number % 5 == 4:
            values["grad_norm"] = odd
        bank.update(StepRecord(step=record.step, values=values))
    assert math.isfinite(bank.facts("grad_norm", since=1).before)


def test_a_spike_in_the_first_50_steps(rng):
    grads = norm(100, rng)
    grads[30:32] *= 40
    _, opened = feed(make({"grad_norm": floats(grads)}))
    assert list(opened) == [32]


def test_logged_each_hundredth_step(rng):
    grads = norm(300, rng)
    grads[200:202] *= 8
    bank, opened = feed(make({"grad_norm": floats(grads)}, every=100))
    assert list(opened) == [20101]
    assert bank.every == pytest.approx(100)
    assert bank.earliest(since=19000, until=20101) == (20001, "grad_norm")


def test_sampled_signals_among_those_of_each_step(rng):
    grads, rms = norm(4000, rng), norm(4000, rng, 0.05, 1.0)
    rms[3000:3040] *= 2.5
    sampled = [float(v) if row % 20 == 0 else None for row, v in enumerate(rms)]
    bank, opened = feed(make({"grad_norm": floats(grads), "adam_rms": sampled}))
    assert opened == {3021: ("adam_rms",)}
    assert bank.facts("adam_rms", since=3001).out_since == 3001
    assert bank.facts("adam_rms", since=3001).records == 150


def test_heavy_tails_are_learned(rng):
    grads = 0.3 * np.exp(0.1 * rng.standard_t(3, 20_000))
    _, opened = feed(make({"grad_norm": floats(np.clip(grads, 1e-9, 1e9))}))
    assert len(opened) <= 2


def test_an_autocorrelated_signal_is_silent(rng):
    noise, values = rng.standard_normal(20_000), []
    last = 0.0
    for value in noise:
        last = 0.9 * last + math.sqrt(1 - 0.81) * value
        values.append(0.3 * math.exp(0.2 * last))
    assert feed(make({"grad_norm": values}))[1] == {}


def test_the_place_that_left_is_named(rng):
    grads = np.stack([norm(600, rng) for _ in PLACES], axis=1).astype(np.float32)
    grads[500:, 2] *= 4
    bank, opened = feed(make({}, places={"grad_norm": grads}))
    name = "grad_norm@layers.0.feed_forward"
    assert opened == {502: (name,)}
    assert bank.place_count(since=480) == {"grad_norm": (1, 4)}
    (facts,) = bank.strongest(8, since=480, places=True)
    assert facts.name == name
    assert bank.strongest(8, since=480, places=False) == ()


def test_a_lost_gradient_bucket_is_told_once(rng):
    grads = np.stack([norm(300, rng) for _ in PLACES], axis=1).astype(np.float32)
    grads[200:, 3] = 0.0
    grads[:, 0] = 0.0  # frozen from the start
    bank, zeros = SignalBank({"grad_norm": PLACES}), {}
    for record in make({}, places={"grad_norm": grads}):
        if told := bank.update(record).zeros:
            zeros[record.step] = told
    assert zeros == {201: ("grad_norm@head",)}
    assert bank.zero_places(since=190) == ("grad_norm@head",)
    assert bank.zero_places(since=202) == ()


def test_places_without_names_are_numbered(rng):
    grads = np.stack([norm(50, rng)] * 3, axis=1)
    bank, _ = feed(make({}, places={"grad_norm": grads}))
    assert bank.names() == ("grad_norm@0", "grad_norm@1", "grad_norm@2")


def test_places_that_are_no_vector_are_ignored():
    bank = SignalBank()
    for odd in (None, "x", [[1.0, 2.0]], 3.0, []):
        bank.update(StepRecord(step=1, places={"grad_norm": odd}))
    assert bank.names() == ()


def test_updates_are_judged_over_the_learning_rate(rng):
    rates = np.where(np.arange(800) < 500, 1e-3, 1e-4)
    columns = {
        "learning_rate": floats(rates),
        "update_rms": floats(0.2 * rates * np.exp(0.03 * rng.standard_normal(800))),
    }
    bank, opened = feed(make(columns))
    assert opened == {}
    assert bank.facts("update_rms", since=790).last == pytest.approx(2e-5, rel=0.2)


@pytest.mark.parametrize(
    ("change", "moved"),
    [
        ({"batch_size": 64}, "grad_norm"),
        ({"tokens": 4096}, "log_z_abs_max"),
        ({"data_phase": 2}, "log_z_abs_max"),
        ({"learning_rate": 3e-3}, "grad_norm"),
    ],
)
def test_an_announced_change_explains_a_move(rng, change, moved):
    before = {"batch_size": 16, "tokens": 2048, "data_phase": 1, "learning_rate": 1e-3}
    values = norm(900, rng)
    values[500:] *= 4
    for announced in (True, False):
        bank, opened = SignalBank(), []
        for row, value in enumerate(values):
            rest = before | change if announced and row >= 500 else before
            scores = bank.update(StepRecord(step=row + 1, values={moved: float(value)} | rest))
            if scores.opened:
                opened.append(row + 1)
        assert opened == [] if announced else opened[0] in (502, 503)


def test_an_announced_change_does_not_explain_what_is_absurd(rng):
    values = norm(600, rng)
    values[500:503] *= 1000
    records = [
        StepRecord(step=r + 1, values={"grad_norm": float(v), "batch_size": 8 + 8 * (r >= 500)})
        for r, v in enumerate(values)
    ]
    assert list(feed(records)[1]) == [501]


def test_a_batch_size_does_not_move_the_parameters():
    norms = [100.0] * 500 + [110.0] * 20
    records = [
        StepRecord(step=r + 1, values={"param_norm": v, "batch_size": 8 + 8 * (r >= 500)})
        for r, v in enumerate(norms)
    ]
    assert list(feed(records)[1]) == [502]


def test_while_an_incident_is_open_the_course_stands_still(rng):
    grads = norm(900, rng)
    grads[500:700] *= 5
    bank, _ = feed(make({"grad_norm": floats(grads[:500])}))
    feed(make({"grad_norm": floats(grads[500:700])}, first=501), bank, learn=False)
    facts = bank.facts("grad_norm", since=501)
    assert facts.before == pytest.approx(0.3, rel=0.1)
    assert facts.out_since == 501
    assert facts.score > 1
    _, opened = feed(make({"grad_norm": floats(grads[700:])}, first=701), bank)
    assert opened == {}  # it is over: no second trouble is made of its end


def test_a_coincidence_does_not_pull_the_onset_back(rng):
    grads, logits = norm(600, rng), norm(600, rng, level=5.0)
    logits[440] *= 4  # alone, 60 records before
    grads[500:505] *= 8
    columns = {"grad_norm": floats(grads), "attention_logit_max": floats(logits)}
    bank, _ = feed(make(columns)[:506])
    assert bank.earliest(since=400, until=506) == (501, "grad_norm")


def test_a_run_that_ended_shortly_before_the_alarm_is_its_beginning(rng):
    grads, logits = norm(600, rng), norm(600, rng, level=5.0)
    logits[503:507] *= 6
    grads[510:515] *= 8
    columns = {"grad_norm": floats(grads), "attention_logit_max": floats(logits)}
    bank, _ = feed(make(columns)[:515])
    assert bank.earliest(since=400, until=512) == (504, "attention_logit_max")


def test_three_doubtful_signals_together_date_an_onset(rng):
    names = ("grad_norm", "attention_logit_max", "z_loss", "adam_rms")
    quiet = {name: norm(506, rng) for name in names}
    for column in quiet.values():
        column[500:] = 0.3 * math.exp(0.1 * 4.7)
        column[501] = 0.3
    bank, opened = feed(make({name: floats(c[:501]) for name, c in quiet.items()}))
    assert opened == {}
    found = bank.earliest(since=400, until=502)
    assert found is not None
    assert found[0] == 501


def test_nothing_left_its_course(rng):
    bank, _ = feed(make({"grad_norm": floats(norm(300, rng))}))
    assert bank.earliest(since=299, until=300) is None
    assert bank.facts("log_z", since=1) is None


def test_a_rewind_forgets_what_came_later(rng):
    grads = norm(520, rng)
    grads[510:520] *= 9
    bank, _ = feed(make({"grad_norm": floats(grads)}))
    bank.update(StepRecord(step=505, attempt=1, values={"grad_norm": 0.3}))
    assert bank.earliest(since=490, until=520) is None


def test_volatile_signals_counters_and_the_loss_are_not_watched():
    values = {"loss": 2.0, "step_time": 1.0, "memory": 9, "tokens": 8, "update_skipped": 0}
    bank = SignalBank()
    for step in range(1, 50):
        bank.update(StepRecord(step=step, values=values | {"epoch": 0.1, "loss_scale": 4.0}))
    assert bank.names() == ()


def test_a_norm_that_is_not_catalogued_is_followed_but_never_alarms(rng):
    norms = list(900 * np.exp(0.002 * rng.standard_normal(400))) + [5000.0] * 5
    bank, opened = feed(make({"norm_lm_head": floats(norms), "largest_batch": [3] * 405}))
    assert opened == {}
    assert bank.names() == ("norm_lm_head",)
    assert bank.facts("norm_lm_head", since=400).extreme == pytest.approx(5000)


@pytest.mark.parametrize("rate", [0.0, -1.0, 2000.0])
def test_a_rate_that_is_none_is_refused(rate):
    with pytest.raises(ValueError, match="expected false_alarms_per_10k above 0 and at most 1000"):
        SignalBank(false_alarms_per_10k=rate)


@pytest.mark.parametrize(("rate", "most"), [(0.2, 1), (20.0, 40)])
def test_the_stated_rate_is_kept_by_many_normal_signals(rate, most):
    rng = np.random.default_rng(11)
    bank, alarms = SignalBank(false_alarms_per_10k=rate), 0
    rows = np.exp(0.1 * rng.standard_normal((10_000, 100)))
    for step, row in enumerate(rows, start=1):
        alarms += bool(bank.update(StepRecord(step=step, places={"grad_norm": row})).opened)
    assert alarms <= most
