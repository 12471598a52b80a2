"""Kinds of fault that come from outside: data, hardware, formats, resumes; with their strengths."""

from typing import Any

import faults as f
from kinds import EVERY, Context, Kind, Plan, kind

KINDS: dict[str, Kind] = {}

# Data -----------------------------------------------------------------------------------------

_SHARES = {"weak": 0.13, "medium": 0.5, "strong": 1.0}


@kind(KINDS, name="batch-random", group="data", cause="data-batch", strengths=_SHARES, tail=90)
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(f.Corrupt(c.step, c.step, "random", s),), last=c.step)


@kind(KINDS, name="batch-one-token", group="data", cause="data-batch", strengths=_SHARES, tail=90)
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(f.Corrupt(c.step, c.step, "one-token", s),), last=c.step)


@kind(
    KINDS,
    name="batch-shuffled-labels",
    group="data",
    cause="data-batch",
    strengths=_SHARES,
    tail=90,
    held_out=True,
    accepted=("unknown",),
)
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(f.Corrupt(c.step, c.step, "shuffled", s, labels=True),), last=c.step)


@kind(
    KINDS,
    name="region-random",
    group="data",
    cause="data-region",
    point=True,
    tail=190,
    strengths={"weak": (0.25, 20), "medium": (0.5, 40), "strong": (1.0, 80)},
)
def _(c: Context, s: Any) -> Plan:
    last = c.step + s[1] - 1
    return Plan(changes=(f.Corrupt(c.step, last, "random", s[0]),), last=last)


@kind(
    KINDS,
    name="region-one-token",
    group="data",
    cause="data-region",
    tail=190,
    strengths={"weak": (0.13, 20), "medium": (0.5, 40), "strong": (1.0, 80)},
)
def _(c: Context, s: Any) -> Plan:
    last = c.step + s[1] - 1
    return Plan(changes=(f.Corrupt(c.step, last, "one-token", s[0]),), last=last)


@kind(
    KINDS,
    name="region-shuffled",
    group="data",
    cause="data-region",
    tail=190,
    strengths={"weak": (0.25, 20), "medium": (0.5, 40), "strong": (1.0, 80)},
)
def _(c: Context, s: Any) -> Plan:
    last = c.step + s[1] - 1
    return Plan(changes=(f.Corrupt(c.step, last, "shuffled", s[0]),), last=last)


# Hardware -------------------------------------------------------------------------------------


def _tensor(c: Context) -> str:
    layer = c.pick("layer", range(c.setting.layers))
    options = [
        "embedding.weight", f"layers.{layer}.attention.wq.weight",
        f"layers.{layer}.attention.wo.weight", f"layers.{layer}.feed_forward.w2.weight",
        f"layers.{layer}.feed_forward.w3.weight", f"layers.{layer}.attention_norm.weight",
        "norm.weight",
    ]  # fmt: skip
    name: str = c.pick("tensor", options)
    return name


@kind(
    KINDS,
    name="bit-flip-weight",
    group="hardware",
    cause="hardware",
    tail=120,
    each=3,
    strengths={"weak": (22, 1), "medium": (25, 256), "strong": (30, 1)},
)
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(f.FlipWeight(c.step, _tensor(c), *s),), last=c.step)


@kind(
    KINDS,
    name="bit-flip-moment",
    group="hardware",
    cause="hardware",
    tail=120,
    each=3,
    accepted=("second-moment",),
    strengths={
        "weak": ("exp_avg_sq", 29, 1),
        "medium": ("exp_avg", 26, 256),
        "strong": ("exp_avg", 30, 1),
    },
)
def _(c: Context, s: Any) -> Plan:
    moment, bit, count = s
    return Plan(changes=(f.FlipMoment(c.step, _tensor(c), bit, count, moment),), last=c.step)


@kind(
    KINDS,
    name="bit-flip-gradient",
    group="hardware",
    cause="hardware",
    tail=120,
    each=3,
    accepted=("precision",),
    strengths={"weak": (25, 1), "medium": (30, 1), "strong": (30, 10)},
)
def _(c: Context, s: Any) -> Plan:
    last = c.step + s[1] - 1
    return Plan(changes=(f.FlipGradient(c.step, last, _tensor(c), s[0]),), last=last)


@kind(
    KINDS,
    name="lost-bucket",
    group="hardware",
    cause="hardware",
    accepted=("unknown",),
    held_out=True,
    strengths={"weak": ("layer", 0.5), "medium": ("layer", 0.0), "strong": ("all", 0.0)},
)
def _(c: Context, s: Any) -> Plan:
    layer = c.pick("layer", range(c.setting.layers))
    parts = [f"layers.{layer}."] if s[0] == "layer" else ["layers."]
    return Plan(changes=(f.LostBucket(c.step, None, parts, s[1]),))


@kind(
    KINDS,
    name="stale-rank",
    group="hardware",
    cause="hardware",
    accepted=("unknown", "resume-state"),
    held_out=True,
    strengths={"weak": 0.9, "medium": 0.5, "strong": 0.0},
)
def _(c: Context, s: Any) -> Plan:
    old = c.weights(int(s * (c.step - 1)) // EVERY * EVERY)
    return Plan(changes=(f.StaleSecondRank(c.step, None, old),))


# Precision ------------------------------------------------------------------------------------


@kind(
    KINDS,
    name="fp16-overflow-storm",
    group="precision",
    cause="precision",
    families=("fp16",),
    each=3,
    strengths={"weak": (2.0**6, 1000, 1), "medium": (2.0, 3, 90), "strong": (2.0, 1, 90)},
)
def _(c: Context, s: Any) -> Plan:
    factor, every, length = s
    last = c.step + length - 1
    return Plan(changes=(f.ScaleStorm(c.step, last, factor, every),), last=last)


@kind(
    KINDS,
    name="fp8-range",
    group="precision",
    cause="precision",
    accepted=("unknown",),
    held_out=True,
    strengths={
        "weak": (16.0, 256.0, 2.0**16),
        "medium": (256.0, 256.0, 2.0**16),
        "strong": (1024.0, 4096.0, 4.0),
    },
)
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(f.Fp8(c.step, *s),))


# Resume ---------------------------------------------------------------------------------------


@kind(
    KINDS,
    name="resume-moments-lost",
    group="resume",
    cause="resume-state",
    strengths={"weak": "all", "strong": "second"},
)
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(f.MomentsLost(c.step, second=s == "second"),), last=c.step)


@kind(
    KINDS,
    name="resume-counter-reset",
    group="resume",
    cause="resume-state",
    strengths={"medium": None},
    each=4,
)
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(f.CounterReset(c.step),), last=c.step)


@kind(
    KINDS,
    name="resume-loader-restarted",
    group="resume",
    cause="resume-state",
    strengths={"medium": None},
    each=4,
)
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(f.LoaderRestarted(c.step),), last=c.step)


@kind(
    KINDS,
    name="resume-weights-stale",
    group="resume",
    cause="resume-state",
    strengths={"weak": 0.9, "medium": 0.4, "strong": 0.0},
)
def _(c: Context, s: Any) -> Plan:
    old = c.weights(int(s * (c.step - 1)) // EVERY * EVERY)
    return Plan(changes=(f.WeightsStale(c.step, old),), last=c.step)


@kind(
    KINDS,
    name="resume-schedule-restarted",
    group="resume",
    cause="resume-state",
    accepted=("rate",),
    families=("cosine",),
    strengths={"weak": True, "strong": False},
    each=3,
)
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(f.ScheduleRestarted(c.step, warm=s),), last=None)
