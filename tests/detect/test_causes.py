"""Causes: each kind of trouble, as its evidence shows it, gets its own cause first."""

import ast
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import surefoot.detect.causes as package
from surefoot.detect.causes import hypotheses, rank
from surefoot.detect.evidence import CAUSES, Evidence, SignalFacts

ONSET = 500
LEVEL = 3.0
QUIET = {
    "grad_norm": 0.4, "update_ratio": 2e-3, "update_rms": 1e-4, "adam_rms": 1.0, "log_z": 1.0,
    "log_z_abs_max": 6.0, "attention_logit_max": 8.0, "param_norm": 40.0, "eps_share": 0.01,
    "grad_cosine": 0.1,
}  # fmt: skip
PLACES = tuple(f"layers.{i}.{part}" for i in range(4) for part in ("attention", "feed_forward"))


def fact(
    name, before, extreme=None, *, since=None, until=None, score=None, trend=0.0, nonfinite=None
):
    """Facts of a signal; it left its band at ``since`` and went to ``extreme`` at ``until``."""
    went = before if extreme is None else extreme
    if score is None:
        score = 0.3 if since is None else math.copysign(4.0, went - before)
    return SignalFacts(
        name=name, before=before, at_onset=went, extreme=went, extreme_step=until or since or ONSET,
        last=before, score=score, out_since=since, trend=trend, nonfinite_step=nonfinite,
        records=400,
    )  # fmt: skip


def incident(after, *signals, quiet=True, **known):
    """Evidence of a loss that ran at 3.0 and then went through ``after`` from step 500 on."""
    scalars = {name: fact(name, value) for name, value in QUIET.items()} if quiet else {}
    places = {}
    for facts in signals:
        (places if "@" in facts.name else scalars)[facts.name] = facts
    steps = tuple(range(ONSET, ONSET + len(after)))
    out = [x for x in after if math.isfinite(x)]
    settings = {
        "code": "SPK000", "onset_step": ONSET, "onset_interval": (ONSET - 1, ONSET),
        "alarm_step": ONSET, "last_step": steps[-1], "leading_signal": "loss",
        "loss": fact("loss", LEVEL, max(out, default=LEVEL), since=ONSET),
        "loss_before": (3.0, 3.02, 2.98, 3.01, 2.99, 3.0), "loss_after": tuple(after),
        "steps_after": steps, "records_seen": ONSET + len(after), "uniform": 10.4,
        "rate_before": 1e-3, "rate_at": 1e-3, "rate_peak": 2e-3,
        "place_count": {"grad_norm": (0, 8)},
    }  # fmt: skip
    if not quiet:
        settings |= {"place_count": {}, "rate_before": None, "rate_at": None, "rate_peak": None}
    return Evidence(**(settings | {"scalars": scalars, "places": places} | known))


def spike(height=1.5, records=1, after=10):
    return [LEVEL + height] * records + [LEVEL + 0.02] * after


def climb(height=2.0, records=40):
    return [LEVEL + height * (i + 1) / records for i in range(records)]


KINDS = {
    "one bad batch": (
        incident(spike(), fact("grad_norm", 0.4, 3.0, since=ONSET),
                 fact("log_z", 1.0, 3.0, since=ONSET), fact("adam_rms", 1.0, 2.0, since=ONSET),
                 place_count={"grad_norm": (8, 8)}),
        "data-batch",
    ),
    "a corrupted region": (
        incident(spike(1.0, 30), fact("grad_norm", 0.4, 0.9, since=ONSET),
                 place_count={"grad_norm": (8, 8)}),
        "data-region",
    ),
    "the rate times ten": (
        incident(climb(), fact("update_ratio", 2e-3, 2e-2, since=ONSET), rate_at=1e-2,
                 rate_jump_step=ONSET),
        "rate",
    ),
    "no warm-up": (
        replace(incident(climb(), fact("update_ratio", 2e-3, 9e-3, since=30), onset_step=40,
                         onset_interval=(39, 40), alarm_step=40, rate_at=2e-3, rate_before=2e-3),
                steps_after=tuple(range(40, 80))),
        "rate",
    ),
    "attention logits": (
        incident(climb(), fact("attention_logit_max", 80.0, 900.0, since=ONSET - 120,
                               until=ONSET + 30, trend=9.0),
                 leading_signal="attention_logit_max@layers.1"),
        "attention-growth",
    ),
    "the log-sum-exp drifts": (
        incident(climb(), fact("log_z", 4.0, 30.0, since=ONSET - 150, until=ONSET + 30, trend=8.0),
                 fact("log_z_abs_max", 20.0, 60.0, since=ONSET - 140, until=ONSET + 30, trend=8.0),
                 leading_signal="log_z"),
        "output-logits",
    ),
    "a head that grows in the cool-down": (
        incident(climb(0.1, 60), fact("norm_lm_head", 1500.0, 4400.0, since=ONSET - 50, trend=20.0),
                 fact("norm_layers_mean", 210.0), fact("grad_norm", 0.2), quiet=False,
                 rate_before=9e-5, rate_at=9e-5, rate_peak=1.7e-4),
        "output-logits",
    ),
    "a second moment that lags": (
        incident(climb(1.0, 8) + [LEVEL + 1.0] * 5, fact("adam_rms", 1.0, 4.0, since=ONSET - 3),
                 fact("adam_rms@layers.0.attention", 1.0, 7.0, since=ONSET - 4),
                 fact("grad_norm", 0.4, 3.0, since=ONSET - 3), leading_signal="adam_rms"),
        "second-moment",
    ),
    "eps that is too large": (
        incident(climb(0.2, 40), fact("eps_share", 0.02, 0.8, since=ONSET - 20, trend=6.0),
                 fact("update_ratio", 2e-3, 3e-4, since=ONSET)),
        "second-moment",
    ),
    "a storm of overflows": (
        incident(climb(0.5), fact("grad_norm", 0.4, 0.4, nonfinite=ONSET), scale_before=65536.0,
                 scale_last=64.0, skipped_updates=12),
        "precision",
    ),
    "a flipped bit of a gradient": (
        incident([3.0] * 20, fact("grad_norm", 0.4, 4e6, since=ONSET),
                 fact("grad_norm@layers.2.attention", 0.1, 4e6, since=ONSET),
                 place_count={"grad_norm": (1, 8)}, leading_signal="grad_norm"),
        "hardware",
    ),
    "a gradient bucket that was lost": (
        incident([LEVEL + 0.05] * 30, zero_grad_places=("layers.2.attention",)),
        "hardware",
    ),
    "lost moments at a restart": (
        incident([*climb(0.4, 6), 3.3, 3.2, 3.1], fact("update_ratio", 2e-3, 2e-2, since=ONSET),
                 fact("adam_rms", 1.0, 0.6, since=ONSET, score=-3.0), resumed_step=ONSET),
        "resume-state",
    ),
    "stale masters at a restart": (
        incident([9.9, 9.8, 9.7], resumed_step=ONSET),
        "resume-state",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_gets_its_cause_first(kind):
    evidence, cause = KINDS[kind]
    ranked = rank(evidence)
    assert ranked[0].cause == cause
    assert ranked[0].weight >= 0.4
    assert ranked[0].supports
    assert ranked[0].experiment


@pytest.mark.parametrize("kind", KINDS)
def test_from_the_loss_alone_no_cause_is_sure(kind):
    evidence, _ = KINDS[kind]
    bare = replace(
        evidence, scalars={}, places={}, place_count={}, zero_grad_places=(), rate_before=None,
        rate_at=None, rate_peak=None, rate_jump_step=None, scale_before=None, scale_last=None,
        skipped_updates=0, leading_signal="loss",
    )  # fmt: skip
    ranked = rank(bare)
    assert all(h.weight <= 0.35 + 1e-9 for h in ranked if h.cause != "unknown")
    unknown = next(h for h in ranked if h.cause == "unknown")
    for name in ("grad_norm", "learning_rate", "adam_rms", "attention_logit_max", "log_z"):
        assert any(clause.startswith(f"{name} is not recorded") for clause in unknown.supports)


@pytest.mark.parametrize("name", ["num_zeros", "epoch", "clip_factor", "perplexity"])
def test_counters_do_not_make_a_cause_surer(name):
    evidence = incident(spike(), fact(name, 3.0), quiet=False)
    assert max(h.weight for h in rank(evidence) if h.cause != "unknown") <= 0.35 + 1e-9


def test_with_the_gradient_norm_alone_a_cause_is_half_sure_at_most():
    evidence = incident(spike(), fact("grad_norm", 0.4, 3.0, since=ONSET), quiet=False)
    ranked = rank(evidence)
    assert ranked[0].cause == "data-batch"
    assert ranked[0].weight <= 0.6


def test_a_jump_at_a_rate_that_moves_nothing_is_no_rate_and_no_batch():
    evidence = incident(
        [11.05], quiet=False, onset_step=2, onset_interval=(1, 2), alarm_step=2, last_step=2,
        steps_after=(2,), loss_before=(2.2758,), loss=fact("loss", 2.2758, 11.05, since=2),
        rate_before=1.2e-9, rate_at=2.4e-9, rate_peak=2.4e-9, uniform=math.log(32000),
        records_seen=2,
    )  # fmt: skip
    ranked = rank(evidence)
    assert ranked[0].cause == "resume-state"
    assert ranked[0].weight > 0.9
    assert any("no update did this" in clause for clause in ranked[0].supports)
    shares = {h.cause: h.weight for h in ranked}
    assert max(shares["rate"], shares["data-batch"], shares["data-region"]) < 0.02


def test_a_shape_that_fits_nothing_is_unknown():
    hill = [LEVEL + 0.3 * min(i, 40 - i) / 20 for i in range(41)]
    evidence = incident(hill + [LEVEL] * 9)
    assert rank(evidence)[0].cause == "unknown"


def test_a_gradient_that_grows_for_four_steps_is_neither_data_nor_hardware():
    """The first spike of BLOOM-176B: 0.242, 0.947, 2.39, 15.9, 145, 960 before the loss peaked."""
    grad = replace(fact("grad_norm", 0.24, 960.0, since=ONSET, until=ONSET + 4), at_onset=0.947)
    loss = [3.02, 3.4, 3.04, 3.15, 5.9, 4.3, 4.0, 3.6, 3.3, 3.2, *[3.05] * 6]
    ranked = rank(incident(loss, grad, quiet=False, leading_signal="grad_norm"))
    shares = {h.cause: h.weight for h in ranked}
    assert ranked[0].cause == "unknown"
    assert max(shares["data-batch"], shares["data-region"], shares["hardware"]) < 0.2
    assert any("grew from record to record" in clause for h in ranked for clause in h.supports)


def test_a_lone_outlier_before_does_not_hide_a_bad_batch():
    steps = tuple(range(ONSET - 17, ONSET + 8))
    evidence = incident(
        [LEVEL + 0.01] * 17 + spike(6.0, after=7),
        fact("adam_rms", 1.0, 1.8, since=ONSET),
        fact("grad_norm", 0.4, 3.0, since=ONSET),
        fact("log_z", 1.0, 3.0, since=ONSET),
        fact("adam_rms@head", 0.8, 1.1, since=ONSET - 17, score=1.1),
        onset_step=ONSET - 17,
        onset_interval=(ONSET - 18, ONSET - 17),
        leading_signal="adam_rms@head",
        steps_after=steps,
        place_count={"grad_norm": (8, 8)},
    )
    assert rank(evidence)[0].cause == "data-batch"


@pytest.mark.parametrize(
    ("leading", "cause"),
    [
        ("attention_logit_max@layers.2", "attention-growth"),
        ("log_z", "output-logits"),
        ("log_z_abs_max", "output-logits"),
        ("adam_rms@embedding", "second-moment"),
        ("loss_scale", "precision"),
    ],
)
def test_an_early_warning_speaks_for_what_it_watches(leading, cause):
    evidence = incident(
        [LEVEL] * 40, code="SPK005", onset_step=200, onset_interval=(190, 200),
        steps_after=tuple(range(200, 240)), leading_signal=leading, alarm_step=600,
        scale_before=65536.0, scale_last=16384.0 if leading == "loss_scale" else 65536.0,
    )  # fmt: skip
    assert rank(evidence)[0].cause == cause


@pytest.mark.parametrize("code", ["CKP001", "CKP002", "CKP003"])
def test_what_a_monitor_told_before_is_remembered(code):
    evidence = incident(climb(), contradictions=((code, 100),))
    first, *_ = rank(evidence)
    assert first.cause == "resume-state"
    assert any(clause.startswith(f"{code} at step 100") for clause in first.supports)


def test_a_slip_of_the_rate_is_found_by_its_beginning_not_its_end():
    evidence = incident(
        climb(1.5, 20), rate_at=1e-2, rate_jump_step=ONSET + 20,
        rate_jumps=((ONSET, 10.0), (ONSET + 20, 0.1)),
    )  # fmt: skip
    first, *_ = rank(evidence)
    assert first.cause == "rate"
    assert "jumped (x10) at step 500" in first.supports[0]


def test_a_restart_long_ago_is_no_restart():
    evidence = incident(climb(), resumed_step=20)
    shares = {h.cause: h.weight for h in rank(evidence)}
    assert shares["resume-state"] < 0.1
    without = incident(climb())
    assert {h.cause: h.weight for h in rank(without)}["resume-state"] < 0.01


def test_advice_for_output_logits_is_what_helped():
    evidence, _ = KINDS["a head that grows in the cool-down"]
    (first, *_) = rank(evidence)
    assert "z-loss of weight 1e-4" in first.experiment
    assert "optimizer reset" in first.experiment
    assert any("x2.9 to 4400" in clause for clause in first.supports)
    assert any("stand still" in clause for clause in first.supports)


def test_shares_sum_to_one_and_every_cause_is_ranked_once():
    for evidence, _ in KINDS.values():
        ranked = rank(evidence)
        assert sorted(h.cause for h in ranked) == sorted(CAUSES)
        assert sum(h.weight for h in ranked) == pytest.approx(1.0)
        assert list(ranked) == sorted(ranked, key=lambda h: -h.weight)
        assert rank(evidence) == ranked


def test_every_module_is_a_hypothesis_that_is_found():
    assert set(hypotheses()) == set(CAUSES)
    folder = Path(package.__file__).parent
    names = {p.stem for p in folder.glob("*.py")} - {"__init__", "rank"}
    assert {n for n in names if not n.startswith("_")} == {c.replace("-", "_") for c in CAUSES}


def test_hypotheses_ask_for_no_file_name_and_no_case():
    for path in Path(package.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        words = {node.value for node in ast.walk(tree)
                 if isinstance(node, ast.Constant) and isinstance(node.value, str)}  # fmt: skip
        assert not any("spikebench" in word.lower() for word in words), path


ANY = st.floats(allow_nan=True, allow_infinity=True)
MAYBE = st.one_of(st.none(), ANY)
FACTS = st.builds(
    SignalFacts,
    name=st.sampled_from([*QUIET, "adam_rms@embedding", "grad_norm@head", "loss_scale"]),
    before=ANY, at_onset=ANY, extreme=ANY, extreme_step=st.integers(0, 99), last=ANY, score=ANY,
    out_since=st.one_of(st.none(), st.integers(0, 99)), trend=ANY,
    nonfinite_step=st.one_of(st.none(), st.integers(0, 99)), records=st.integers(0, 3),
)  # fmt: skip
LISTS = st.lists(ANY, max_size=12).map(tuple)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_garbage_never_raises(data):
    facts = data.draw(st.lists(FACTS, max_size=8))
    after = data.draw(LISTS)
    evidence = Evidence(
        code="SPK000", onset_step=50, onset_interval=(49, 50), alarm_step=50, last_step=60,
        leading_signal="loss", loss=data.draw(st.one_of(st.none(), FACTS)),
        scalars={f.name: f for f in facts if "@" not in f.name},
        places={f.name: f for f in facts if "@" in f.name},
        place_count={"grad_norm": (data.draw(st.integers(0, 4)), data.draw(st.integers(0, 4)))},
        loss_after=after, steps_after=tuple(range(50, 50 + len(after))),
        loss_before=data.draw(LISTS), uniform=data.draw(MAYBE), rate_before=data.draw(MAYBE),
        rate_at=data.draw(MAYBE), rate_peak=data.draw(MAYBE),
        rate_jump_step=data.draw(st.one_of(st.none(), st.integers(0, 60))),
        resumed_step=data.draw(st.one_of(st.none(), st.integers(0, 60))),
        scale_before=data.draw(MAYBE), scale_last=data.draw(MAYBE),
    )  # fmt: skip
    ranked = rank(evidence)
    assert sum(h.weight for h in ranked) == pytest.approx(1.0)
    assert all(math.isfinite(h.weight) and h.weight >= 0.0 for h in ranked)
