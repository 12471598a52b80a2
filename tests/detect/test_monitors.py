"""Monitors: one record is enough where a run contradicts itself, and nothing else is told."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.detect.monitors import Monitor, Monitors
from surefoot.detect.monitors.startup import unloaded
from surefoot.records import (
    ArchitectureSpec,
    BatchSpec,
    Event,
    OptimizerSpec,
    ParallelismSpec,
    ScheduleSpec,
    StepRecord,
    TrainSpec,
)

NAN = math.nan
PEAK = 2e-5


def rows(columns, *, first=1, every=1, attempt=0):
    length = max(len(column) for column in columns.values())
    return [
        StepRecord(
            step=first + every * row,
            attempt=attempt,
            values={n: c[row] for n, c in columns.items() if row < len(c) and c[row] is not None},
        )
        for row in range(length)
    ]


def told(records, *, spec=None, events=()):
    """``(step, code)`` of all findings, and the findings."""
    monitors = Monitors(spec=spec)
    found = []
    for record in records:
        for event in events:
            if event.step == record.step:
                monitors.tell(event)
        found += [(record.step, finding) for finding in monitors.update(record)]
    last = records[-1].step
    found += [(last, finding) for finding in monitors.finish()]
    return [(step, finding.code) for step, finding in found], [finding for _, finding in found]


def warm_up(steps, peak=PEAK, length=100):
    return [peak * min(1.0, step / length) for step in range(1, steps + 1)]


# ---- CKP001: the rate begins anew ---------------------------------------------------------------


def test_a_rate_that_restarts_is_told_on_the_first_record_of_the_restart():
    before = rows({"learning_rate": warm_up(500)})
    after = rows({"learning_rate": warm_up(50, 2 * PEAK, 2000)}, first=401, attempt=1)
    codes, (finding,) = told(before + after)
    assert codes == [(401, "CKP001")]
    assert finding.severity == "error"
    assert finding.evidence["due"] == pytest.approx(PEAK)
    assert finding.evidence["factor"] == pytest.approx(1e-3)
    assert "a factor of 1e+03 too low" in finding.message
    assert finding.place.steps == (401, 401)


def test_what_is_said_of_the_restart_is_quoted():
    before = rows({"learning_rate": [1.78e-5] * 9}, first=28960, every=5)
    after = rows({"learning_rate": [9.375e-8, 1.875e-7]}, first=29005, every=5, attempt=1)
    resumed = Event(kind="resumed", step=29005, data={"note": "base_lr was doubled"})
    codes, (finding,) = told(before + after, events=[resumed])
    assert codes == [(29005, "CKP001")]
    assert "base_lr was doubled" in finding.message
    assert finding.evidence["due"] == pytest.approx(1.78e-5)


def test_what_a_start_up_log_says_of_state_that_was_not_loaded_is_quoted():
    lines = [
        "INFO loading states from opt_step-29000",
        "INFO all model weights loaded",
        "WARNING found 2 custom checkpoint files but 1 registered object; custom states were not "
        "loaded",
        "INFO all optimizer states loaded",
        "step: 3 loss: 2.1 samples not found: 0 keys",
    ]
    events = list(unloaded(lines, step=510))
    assert [event.data["line"] for event in events] == [3]
    before = rows({"learning_rate": warm_up(500)})
    after = rows({"learning_rate": [1e-8]}, first=510, attempt=1)
    resumed = Event(kind="resumed", step=510, data={"checkpoint": 500})
    _, (finding,) = told(before + after, events=[resumed, *events])
    assert "custom states were not loaded" in finding.message


@pytest.mark.parametrize(
    ("line", "lost"),
    [
        ("Warning: the scheduler state could not be loaded", True),
        ("optimizer states not loaded (finetune=True)", True),
        ("Missing key(s) in state_dict: lm_head.weight", True),
        ("failed to load the rng state", True),
        ("Ignoring unexpected keys: rotary_emb.inv_freq", True),
        ("loaded optimizer state of step 1000", False),
        ("0 missing keys, 0 unexpected keys", False),
        ("iteration 100: checkpoint not found in 0.1 s, loss: 2.1", False),
        ("wandb: run not found", False),
    ],
)
def test_lines_that_say_so(line, lost):
    assert bool(list(unloaded([line]))) is lost


def test_a_restart_of_a_decaying_schedule_that_begins_at_its_peak_again():
    cosine = [PEAK * 0.5 * (1 + math.cos(math.pi * t / 1000)) for t in range(800)]
    before, after = rows({"learning_rate": cosine}), rows({"learning_rate": cosine[:5]})
    after = [
        StepRecord(step=record.step + 800, attempt=1, values=record.values) for record in after
    ]
    codes, (finding,) = told(before + after)
    assert codes == [(801, "CKP001")]
    assert "what the schedule began with" in finding.message


def test_a_schedule_that_jumps_back_to_its_peak_behind_its_warm_up():
    rates = [*warm_up(100), *(PEAK * (1 - t / 1000) for t in range(500))]
    after = rows({"learning_rate": [PEAK, PEAK * 0.999]}, first=601, attempt=1)
    codes, (finding,) = told(rows({"learning_rate": rates}) + after)
    assert codes == [(601, "CKP001")]
    assert "too high" in finding.message


def test_a_small_fall_is_told_when_it_goes_on_as_a_warm_up():
    before = rows({"learning_rate": warm_up(500)})
    after = rows({"learning_rate": [PEAK / 10, PEAK / 5, 0.3 * PEAK]}, first=510, every=10,
                 attempt=1)  # fmt: skip
    codes, (finding,) = told(before + after)
    assert codes == [(520, "CKP001")]
    assert finding.place.steps == (510, 520)


def test_a_restart_that_nobody_marked_is_told_by_its_warm_up():
    rates = warm_up(500) + warm_up(100, length=2000)
    codes, (finding,) = told(rows({"learning_rate": rates}))
    assert codes == [(502, "CKP001")]
    assert finding.evidence["resumed_step"] is None


def _wsd_and_rewarm():
    decay = list(np.linspace(PEAK, PEAK / 10, 100))
    return warm_up(300) + decay + list(np.linspace(PEAK / 10, PEAK, 200)) + [PEAK] * 50


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (warm_up(500), [PEAK] * 50),
        (warm_up(500), [PEAK / 2] * 50),
        (warm_up(500), [PEAK / 10] * 50),
        (warm_up(60), [PEAK * t / 100 for t in range(61, 90)]),
        (_wsd_and_rewarm(), [PEAK] * 9),
        ([PEAK / 10] * 100, list(np.linspace(PEAK / 10, PEAK, 100))),
        (warm_up(300), list(np.linspace(PEAK, PEAK / 100, 50))),
        ([PEAK] * 2, [PEAK / 1000] * 2),
        ([PEAK * (1 - t / 1000) for t in range(500)], list(np.linspace(PEAK / 2, PEAK, 60))),
    ],
    ids=[
        "same",
        "halved",
        "a tenth",
        "in warm-up",
        "wsd",
        "re-warm",
        "decay",
        "hardly known",
        "re-warm to the peak",
    ],
)
def test_planned_rates_at_a_restart_are_silent(before, after):
    for attempt in (0, 1):
        later = rows({"learning_rate": after}, first=len(before) + 1, attempt=attempt)
        assert told(rows({"learning_rate": before}) + later)[0] == []


def test_a_restart_far_beyond_what_is_known_is_silent():
    before = rows({"learning_rate": warm_up(500)})
    after = rows({"learning_rate": [PEAK / 50] * 9}, first=20_000, attempt=1)
    assert told(before + after)[0] == []


def test_an_announced_new_phase_may_begin_its_own_warm_up():
    before = rows({"learning_rate": warm_up(500), "data_phase": [0] * 500})
    after = rows({"learning_rate": warm_up(50), "data_phase": [1] * 50}, first=501, attempt=1)
    assert told(before + after)[0] == []


def test_a_run_that_starts_over_from_its_first_step_is_no_lost_schedule():
    records = [
        record
        for attempt in range(4)
        for record in rows({"learning_rate": warm_up(150 + attempt),
                            "consumed_samples": [8 * t for t in range(1, 151 + attempt)]},
                           attempt=attempt)
    ]  # fmt: skip
    assert told(records)[0] == []


def test_sparse_records_of_a_decay_to_nothing_are_silent():
    rates = [PEAK] * 20 + [0.5 * PEAK, 0.01 * PEAK, 0.0]
    assert told(rows({"learning_rate": rates}, every=1000))[0] == []


# ---- CKP002: the data begin anew ----------------------------------------------------------------


def test_consumed_samples_that_go_back_at_a_restart():
    before = rows({"consumed_samples": [8 * t for t in range(1, 501)]})
    after = rows({"consumed_samples": [8, 16, 24]}, first=451, attempt=1)
    codes, (finding,) = told(before + after)
    assert codes == [(451, "CKP002")]
    assert finding.evidence["before_step"] <= 450
    assert finding.evidence["value"] == 8


def test_a_rewind_takes_the_data_back_with_the_steps():
    samples = [8 * t for t in range(1, 501)]
    before = rows({"consumed_samples": samples, "epoch": [t / 300 for t in range(500)]})
    after = rows({"consumed_samples": samples[200:], "epoch": [t / 300 for t in range(200, 500)]},
                 first=201, attempt=1)  # fmt: skip
    assert told(before + after)[0] == []


def test_a_loader_that_begins_at_its_first_shard_again():
    before = rows({"shard": [1 + t // 25 for t in range(100)]}, every=250)
    after = rows({"shard": [1] * 20}, first=25001, every=250, attempt=1)
    codes, (finding,) = told(before + after)
    assert codes == [(25001, "CKP002")]
    assert "shard is 1" in finding.message


def test_shards_that_turn_over_with_each_pass_are_silent():
    shard = [1 + (t // 10) % 4 for t in range(200)]
    before = rows({"shard": shard, "offset": [t % 10 for t in range(200)]})
    after = rows({"shard": [1] * 9, "offset": list(range(9))}, first=201, attempt=1)
    assert told(before + after)[0] == []


def test_skipping_data_at_a_restart_is_silent():
    before = rows({"consumed_samples": [8 * t for t in range(1, 101)]})
    after = rows({"consumed_samples": [4000 + 8 * t for t in range(9)]}, first=91, attempt=1)
    assert told(before + after)[0] == []


# ---- CKP003: weights replaced -------------------------------------------------------------------


def test_a_jump_of_nine_nats_at_a_rate_of_a_billionth():
    records = rows({"loss": [2.2758, 11.05449], "learning_rate": [1.212e-9, 2.424e-9]})
    codes, (finding,) = told(records)
    assert codes == [(2, "CKP003")]
    assert "weights were replaced" in finding.message
    assert "learning rate too high" not in finding.message
    spec = TrainSpec(architecture=ArchitectureSpec(vocab_size=32000))
    (finding,) = told(records, spec=spec)[1]
    assert "ln V = 10.37" in finding.message


def test_the_first_loss_of_a_restart_is_that_of_a_fresh_model():
    before = rows({"loss": [10.4, *np.linspace(9, 3, 300)], "learning_rate": [1e-3] * 301})
    after = rows({"loss": [10.3, 10.2], "learning_rate": [1e-3] * 2}, first=302, attempt=1)
    codes, (finding,) = told(before + after)
    assert codes == [(302, "CKP003")]
    assert "as loaded" in finding.message


def test_a_bad_batch_at_a_tiny_rate_is_not_replaced_weights():
    losses = [2.5] * 50 + [4.5] + [2.5] * 50
    assert told(rows({"loss": losses, "learning_rate": [1e-9] * 101}))[0] == []


def test_a_level_that_stays_at_a_tiny_rate_is():
    losses = [2.5] * 50 + [6.5, 6.4, 6.4]
    codes, _ = told(rows({"loss": losses, "learning_rate": [1e-9] * 53}))
    assert codes == [(53, "CKP003")]


@pytest.mark.parametrize("rate", [0.0, 1e-4, None, NAN])
def test_a_jump_that_an_optimizer_can_make_is_silent(rate):
    records = rows({"loss": [2.3] * 30 + [11.0] * 5, "learning_rate": [rate] * 35})
    assert told(records)[0] == []


def test_noisy_first_losses_of_a_fine_tuning_are_silent():
    rng = np.random.default_rng(3)
    losses = list(np.clip(1.5 + rng.standard_normal(40), 0.1, None))
    records = rows({"loss": losses, "learning_rate": [1e-9 * t for t in range(1, 41)]})
    spec = TrainSpec(architecture=ArchitectureSpec(vocab_size=32000))
    assert told(records, spec=spec)[0] == []


# ---- SCH001: the schedule runs k times too fast -------------------------------------------------


def asked(kind="linear", *, world=4, accumulation=None, warmup=None):
    return TrainSpec(
        optimizer=OptimizerSpec(learning_rate=1e-4),
        schedule=ScheduleSpec(kind=kind, steps=10_000, warmup_steps=warmup),
        parallelism=ParallelismSpec(world_size=world),
        batch=BatchSpec(accumulation=accumulation),
    )


def linear(step, speed):
    return 1e-4 * max(0.0, 1 - speed * step / 10_000)


def test_a_schedule_four_times_too_fast_is_told_at_the_second_point():
    records = rows({"learning_rate": [linear(t, 4) for t in range(0, 5001, 100)]}, first=0,
                   every=100)  # fmt: skip
    codes, (finding,) = told(records, spec=asked())
    assert codes == [(100, "SCH001")]
    assert finding.evidence["factor"] == 4
    assert finding.evidence["end_step"] == 2500
    assert "4 times too fast, the factor equals the number of processes" in finding.message
    assert "the other 7500 steps would run at 0" in finding.message


def test_a_factor_that_is_no_size_of_the_run_needs_three_points():
    records = rows({"learning_rate": [linear(t, 3) for t in range(0, 3000, 100)]}, first=0,
                   every=100)  # fmt: skip
    codes, (finding,) = told(records, spec=asked(world=None))
    assert codes == [(300, "SCH001")]
    assert finding.evidence["factor"] == 3


def test_a_schedule_stepped_once_in_eight_updates():
    records = rows({"learning_rate": [linear(t, 1 / 8) for t in range(0, 9000, 500)]}, first=0,
                   every=500)  # fmt: skip
    codes, (finding,) = told(records, spec=asked(accumulation=8))
    assert codes[0][1] == "SCH001"
    assert finding.evidence["factor"] == pytest.approx(1 / 8)


@pytest.mark.parametrize(
    "rates",
    [
        [linear(t, 1) for t in range(0, 10_000, 100)],
        [linear(t, 1) * 0.9 + 1e-5 for t in range(0, 10_000, 100)],  # an end that is not stated
        [1e-4] * 100,
        [0.5 * linear(t, 1) for t in range(0, 10_000, 100)],
        [1e-4 * min(1, t / 20) * linear(t, 1) / 1e-4 for t in range(100)],
        [0.0] * 100,
    ],
    ids=["asked", "other end", "constant", "halved", "warm-up not stated", "zero"],
)
def test_other_schedules_are_silent(rates):
    records = rows({"learning_rate": rates}, first=0, every=100)
    assert told(records, spec=asked())[0] == []
    assert told(records)[0] == []


# ---- SCH002: the loss rises while the rate falls ------------------------------------------------


def creep(rises, rng, steps=480):
    """Losses that fall to the middle of a decay and then rise by ``rises`` nats to its end."""
    t = np.linspace(0.0, 1.0, steps)
    loss = 2.4 - 0.05 * np.minimum(t, 0.5) * 2 + rises * np.maximum(t - 0.5, 0.0) * 2
    return list(loss + 0.006 * rng.standard_normal(steps)), list(PEAK * (1.0 - 0.9 * t))


def test_a_loss_that_creeps_up_in_a_decay_names_the_norm_that_grows():
    losses, rates = creep(0.06, np.random.default_rng(0))
    norms = [900.0 * 1.004**i for i in range(480)]
    others = {"norm_layers_mean": [210.0] * 480, "grad_norm": [0.2] * 480}
    columns = {"loss": losses, "learning_rate": rates, "norm_lm_head": norms, **others}
    records = rows(columns, every=50)
    codes, (finding,) = told(records)
    assert [code for _, code in codes] == ["SCH002"]
    assert 200 * 50 < finding.evidence["lowest_step"] < 320 * 50
    assert list(finding.evidence["grown"]) == ["norm_lm_head"]
    assert finding.evidence["causes"][0]["cause"] == "output-logits"
    assert "z-loss of weight 1e-4" in finding.actions[0]
    assert "optimizer reset" in finding.actions[0]


def test_without_a_norm_the_creep_is_told_and_no_cause_is_named():
    losses, rates = creep(0.06, np.random.default_rng(1))
    _, (finding,) = told(rows({"loss": losses, "learning_rate": rates}, every=50))
    assert finding.code == "SCH002"
    assert "causes" not in finding.evidence


@pytest.mark.parametrize("seed", range(5))
def test_decays_that_go_well_are_silent(seed):
    rng = np.random.default_rng(seed)
    losses, rates = creep(-0.03, rng)
    assert told(rows({"loss": losses, "learning_rate": rates}))[0] == []
    flat, _ = creep(0.0, rng)
    assert told(rows({"loss": flat, "learning_rate": rates}))[0] == []
    rising, _ = creep(0.06, rng)
    assert told(rows({"loss": rising, "learning_rate": [PEAK] * 480}))[0] == []
    wander = 0.0003 * np.cumsum(rng.standard_normal(480)) + 0.006 * rng.standard_normal(480)
    drift = list(2.4 + wander)
    assert told(rows({"loss": drift, "learning_rate": rates}))[0] == []


def test_harder_data_that_were_announced_begin_anew():
    losses, rates = creep(0.0, np.random.default_rng(2))
    phases = [0] * 240 + [1] * 240
    harder = [x + 0.3 * (i >= 240) for i, x in enumerate(losses)]
    assert told(rows({"loss": harder, "learning_rate": rates, "data_phase": phases}))[0] == []


# ---- LOG005 to LOG008, PRC001, PRC002 -----------------------------------------------------------


def test_a_loss_scale_that_falls_while_the_counter_says_nothing():
    scale = [32768.0, 32768.0, 65536.0, 8192.0, 4096.0, 4096.0]
    records = rows({"loss_scale": scale, "skipped_iterations": [0] * 6}, first=29020, every=10)
    codes, (finding,) = told(records)
    assert codes == [(29050, "LOG005")]
    assert finding.evidence == {
        "scale_before": 65536.0, "scale": 8192.0, "halvings": 3, "skipped_counted": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("scale", "skipped"),
    [
        ([65536.0, 65536.0, 32768.0, 8192.0], [0, 0, 1, 2]),
        ([65536.0, 65536.0, 32768.0, 16384.0], [0, 1, 1, 0]),
        ([65536.0, 32768.0, 32768.0], [0, 0, 0]),
        ([1024.0, 2048.0, 4096.0], [0, 0, 0]),
        ([65536.0, 8192.0], [None, None]),
    ],
    ids=["counted", "counted a record early", "one halving", "rising", "no counter"],
)
def test_loss_scales_that_the_counter_explains(scale, skipped):
    assert told(rows({"loss_scale": scale, "skipped_iterations": skipped}))[0] == []


def test_a_rate_that_stands_still_after_a_nan():
    rates = [4.6e-6, 4.592e-6, 4.584e-6, 4.576e-6, 4.568e-6, 4.5499e-6, 4.5499e-6, 4.5499e-6]
    records = rows({"loss": [1.4] * 5 + [0.0] * 3, "grad_norm": [2.0] * 4 + [NAN] * 4,
                    "learning_rate": rates})  # fmt: skip
    codes, (finding,) = told(records)
    assert codes == [(8, "LOG006")]
    assert finding.evidence["since_step"] == 5
    constant = rows({"loss": [1.4] * 9, "grad_norm": [2.0] * 5 + [NAN] * 4,
                     "learning_rate": [1e-4] * 9})  # fmt: skip
    assert told(constant)[0] == []


def test_a_loss_that_is_no_longer_printed():
    columns = {"learning_rate": [1e-5] * 6, "skipped_iterations": [0] * 6}
    codes, _ = told(rows({**columns, "loss": [0.73, 0.71, 0.72]}))
    assert codes == [(4, "LOG007")]
    without = {"learning_rate": [1e-5] * 20, "loss": [0.7] * 10}
    assert told(rows(without))[0] == [(15, "LOG007")]


@pytest.mark.parametrize(
    "columns",
    [
        {"learning_rate": [1e-5] * 40, "loss": [0.7, None] * 20},
        {"learning_rate": [1e-5] * 12, "loss": [0.7] * 9, "skipped_iterations": [0] * 9 + [1] * 3},
        {"validation_loss": [1.0] * 30, "loss": [0.7] * 10},
        {"learning_rate": [1e-5] * 40},
    ],
    ids=["every second", "skipped", "evaluations", "never"],
)
def test_losses_that_are_missing_for_a_reason(columns):
    assert told(rows(columns))[0] == []


def test_zero_losses_with_a_validation_loss_that_is_nan():
    records = rows({"loss": [0.0] * 5, "validation_loss": [None, None, NAN]}, every=20)
    codes, (finding,) = told(records)
    assert codes == [(41, "LOG008")]
    assert finding.evidence["zeros"] == 3
    assert told(rows({"loss": [0.0] * 5, "validation_loss": [0.1] * 5}))[0] == []
    assert told(rows({"loss": [0.5] * 5, "validation_loss": [NAN] * 5}))[0] == []


def test_nothing_is_trained_when_every_update_is_skipped():
    records = rows({"update_skipped": [1] * 100, "loss_scale": [2.0**32] * 100})
    assert told(records)[0] == [(40, "PRC001")]
    later = rows({"update_skipped": [0] * 9 + [1] * 60})
    assert told(later)[0] == [(29, "PRC001")]
    bottom = rows({"update_skipped": [0] * 9 + [1] * 60, "loss_scale": [1.0] * 69})
    assert told(bottom)[0] == [(14, "PRC001")]
    windows = rows({"skipped_iterations": [10] * 9}, first=10, every=10)
    assert [code for _, code in told(windows)[0]] == ["PRC001"]


def test_single_skips_and_the_first_halvings_are_silent():
    first = [1] * 33 + [0] * 50
    assert told(rows({"update_skipped": first}))[0] == []
    assert told(rows({"update_skipped": [1, 0] * 200}))[0] == []
    sparse = rows({"update_skipped": [None if t % 2 else 1 for t in range(200)]}, every=10)
    assert told(sparse)[0] == []
    assert told(rows({"skipped_iterations": [3] * 100}, first=10, every=10))[0] == []


def test_a_nan_that_is_not_the_first():
    records = rows({"loss": [2.17, 2.05, None], "inf_nan_skip_batches": [3, 3, None],
                    "update_skipped": [None, None, 1],
                    "consumed_tokens": [674234368, 675282944]}, first=642)  # fmt: skip
    codes, (finding,) = told(records)
    assert codes == [(644, "PRC002")]
    assert finding.severity == "info"
    assert finding.evidence["before"] == 3
    assert "(tokens from 675,282,944 on)" in finding.actions[1]
    assert told(rows({"inf_nan_skip_batches": [3] * 50, "loss": [2.0] * 50}))[0] == []


# ---- all of them --------------------------------------------------------------------------------

NAMES = ("loss", "learning_rate", "grad_norm", "loss_scale", "skipped_iterations", "shard",
         "update_skipped", "consumed_samples", "validation_loss", "inf_nan_skip_batches",
         "data_phase", "epoch")  # fmt: skip
VALUES = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0, 1, 2.0, 1e-9, 1e-3, 11.0, None, "nan", True, 10**400, [1.0], {}]),
)
RECORDS = st.lists(
    st.builds(
        StepRecord,
        step=st.integers(-3, 40),
        attempt=st.integers(0, 3),
        values=st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=8),
    ),
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(RECORDS, st.integers(0, 30))
def test_garbage_never_raises_and_any_split_says_the_same(records, cut):
    whole = Monitors(spec=asked())
    expected = [whole.update(record) for record in records] + [whole.finish()]
    monitors = Monitors(spec=asked())
    found = [monitors.update(record) for record in records[:cut]]
    state = json.loads(json.dumps(monitors.state_dict(), allow_nan=False))
    monitors = Monitors(spec=asked())
    monitors.load_state_dict(state)
    found += [monitors.update(record) for record in records[cut:]]
    assert [*found, monitors.finish()] == expected
    for finding in (finding for found in expected for finding in found):
        assert all(not isinstance(v, float) or math.isfinite(v) for v in finding.evidence.values())


def test_a_newer_state_is_refused_and_an_older_one_starts_the_new_monitors_anew():
    monitors = Monitors()
    state = monitors.state_dict()
    del state["monitors"]["rate-restart"]
    monitors.load_state_dict(state)
    with pytest.raises(ValueError, match="expected monitor state of format 1, got 2"):
        monitors.load_state_dict({"format": 2})


def test_memory_stays_flat():
    monitors = Monitors(spec=asked())
    sizes = []
    for step in range(1, 20_001):
        monitors.update(
            StepRecord(step=step, values={"loss": 3.0, "learning_rate": 1e-4 + 1e-9 * step,
                                          "consumed_samples": 8 * step, "shard": step // 100})
        )  # fmt: skip
        if step in (5_000, 20_000):
            sizes.append(len(json.dumps(monitors.state_dict())))
    assert sizes[1] < 1.3 * sizes[0]


def test_each_is_a_monitor_with_a_name_of_its_own():
    monitors = Monitors().monitors
    assert all(isinstance(monitor, Monitor) for monitor in monitors)
    assert len({monitor.name for monitor in monitors}) == len(monitors)


# ---- public logs --------------------------------------------------------------------------------

SHARED = Path(__file__).resolve().parents[3] / "shared"
EXPECTED = {
    "bigscience-chronicles/tr1-13B-base_chronicles_iter29020-29090.log": ["LOG005"],
    "issue-epfllm-megatron-33/issue33.log": ["LOG007"],
    "issue-llamafactory-8439-npu910b/trainer_log.jsonl": ["LOG008"],
}


def codes_of(path):
    from surefoot.detect.rows import histories
    from surefoot.readers import read_run

    run = read_run(path)
    found = []
    for records in histories(run):
        found += [code for _, code in told(list(records), spec=run.spec)[0]]
    return found


@pytest.mark.slow
@pytest.mark.skipif(not (SHARED / "corpus").is_dir(), reason="the corpus of public logs is absent")
def test_public_logs_are_silent_but_where_something_of_the_kind_happened():
    from surefoot.errors import SurefootError

    found = {}
    for path in sorted((SHARED / "corpus").glob("*/*")):
        try:
            codes = codes_of(path)
        except SurefootError:
            continue
        if codes:
            found[f"{path.parent.name}/{path.name}"] = codes
    assert found == EXPECTED


@pytest.mark.skipif(not (SHARED / "cases").is_dir(), reason="the field cases are absent")
@pytest.mark.parametrize(
    ("case", "codes"),
    [
        ("01-megatron-fast-spike", []),
        ("03-megatron-fp16-spike-dead-gradnorm", ["LOG005"]),
        ("08-neox-bf16-master-stale/bf16.log", ["CKP003"]),
        ("08-neox-bf16-master-stale/fp16.log", []),
        ("09-accelerate-lr-restart", ["CKP001"]),
        ("11-hf-npu-nan-then-zero", ["LOG006"]),
        ("13-accelerate-lr-4x-fast", ["SCH001"]),
        ("18-torchtitan-pp-loss-minus1", []),
        ("19-levanter-small-unrecovered", []),
        ("21-levanter-cooldown-creep", ["SCH002"]),
        ("23-loader-restart-repeat", ["CKP002"]),
        ("24-nanogpt-fp16-nan", []),
        ("31-rewarm-healthy", []),
        ("34-internevo-nan-skip", ["PRC002"]),
    ],
)
def test_field_cases(case, codes):
    assert sorted(set(codes_of(SHARED / "cases" / case))) == codes
