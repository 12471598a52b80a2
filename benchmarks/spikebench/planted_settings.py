"""Kinds of fault in what people set: rate, schedule, start, logits, Adam; with their strengths."""

import dataclasses
from typing import Any

import faults as f
from kinds import Context, Kind, Plan, kind

KINDS: dict[str, Kind] = {}

# Rate and schedule ----------------------------------------------------------------------------


@kind(
    KINDS,
    name="rate-creeping",
    group="rate",
    cause="rate",
    point=False,
    tail=260,
    strengths={"weak": (4, 150), "medium": (15, 150), "strong": (60, 150)},
)
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(f.RateTimes(c.step, None, s[0], over=s[1]),))


@kind(
    KINDS,
    name="rate-slip",
    group="rate",
    cause="rate",
    strengths={"weak": (4, 20), "medium": (10, 20), "strong": (30, 40)},
)
def _(c: Context, s: Any) -> Plan:
    last = c.step + s[1] - 1
    return Plan(changes=(f.RateTimes(c.step, last, s[0]),), last=last)


@kind(
    KINDS,
    name="rate-slip-for-good",
    group="rate",
    cause="rate",
    strengths={"weak": 4, "medium": 10, "strong": 40},
)
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(f.RateTimes(c.step, None, s),))


@kind(
    KINDS,
    name="rate-too-high",
    group="rate",
    cause="rate",
    accepted=("unknown",),
    from_start=True,
    point=False,
    tail=350,
    strengths={"medium": 30, "strong": 90},
    watched=("loss",),
)
def _(c: Context, s: Any) -> Plan:
    # The peak is reached late, so that there is a healthy time before it.
    return Plan(setting=dataclasses.replace(c.setting, rate=c.setting.rate * s, warmup=220))


@kind(
    KINDS,
    name="no-warmup",
    group="rate",
    cause="rate",
    accepted=("unknown",),
    from_start=True,
    point=False,
    tail=350,
    strengths={"weak": 2, "medium": 20, "strong": 60},
    watched=("loss",),
)
def _(c: Context, s: Any) -> Plan:
    return Plan(setting=dataclasses.replace(c.setting, warmup=0, rate=c.setting.rate * s))


@kind(
    KINDS,
    name="vanilla-embedding",
    group="rate",
    cause="rate",
    accepted=("unknown",),
    from_start=True,
    point=False,
    tail=350,
    strengths={"weak": 3, "medium": 15, "strong": 40},
    watched=("loss",),
)
def _(c: Context, s: Any) -> Plan:
    rate = c.setting.rate * s
    setting = dataclasses.replace(c.setting, embedding_std="small", rate=rate, warmup=150)
    return Plan(setting=setting)


# Attention and output logits ------------------------------------------------------------------


@kind(
    KINDS,
    name="attention-growth",
    group="logits",
    cause="attention-growth",
    accepted=("rate",),
    from_start=True,
    point=False,
    tail=450,
    families=("copies",),
    strengths={"weak": 5, "medium": 12, "strong": 30},
    each=3,
    watched=("loss", "attention_logit_max"),
)
def _(c: Context, s: Any) -> Plan:
    setting = dataclasses.replace(c.setting, rate=c.setting.rate * s, warmup=200, weight_decay=0.0)
    return Plan(setting=setting)


@kind(
    KINDS,
    name="attention-pull",
    group="logits",
    cause="attention-growth",
    point=False,
    tail=330,
    strengths={"weak": 0.007, "medium": 0.02, "strong": 0.05},
    each=3,
    families=("copies",),
)
def _(c: Context, s: Any) -> Plan:
    every = list(range(c.setting.layers))
    layers = c.pick("layers", [every, every, every[-1:]])
    return Plan(changes=(f.AttentionPull(c.step, None, s, layers),))


@kind(
    KINDS,
    name="logit-drift",
    group="logits",
    cause="output-logits",
    accepted=("rate",),
    from_start=True,
    point=False,
    tail=500,
    strengths={"medium": 6, "strong": 20},
    watched=("loss",),
)
def _(c: Context, s: Any) -> Plan:
    setting = dataclasses.replace(c.setting, z_loss=0.0, weight_decay=0.0, rate=c.setting.rate * s)
    return Plan(setting=setting)


@kind(
    KINDS,
    name="logit-pull",
    group="logits",
    cause="output-logits",
    point=False,
    tail=280,
    each=3,
    strengths={"weak": 0.003, "medium": 0.012, "strong": 0.03},
)
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(f.LogitPull(c.step, None, s),))


# Adam -----------------------------------------------------------------------------------------


@kind(
    KINDS,
    name="eps-too-large",
    group="adam",
    cause="second-moment",
    accepted=("unknown",),
    from_start=True,
    point=False,
    tail=350,
    strengths={"weak": 1e-4, "medium": 1e-2, "strong": 1.0},
    watched=("loss",),
)
def _(c: Context, s: Any) -> Plan:
    return Plan(setting=dataclasses.replace(c.setting, eps=s))


@kind(
    KINDS,
    name="eps-raised",
    group="adam",
    cause="second-moment",
    accepted=("unknown",),
    strengths={"weak": 1e-4, "medium": 1e-2, "strong": 1.0},
)
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(f.EpsRaised(c.step, s),))


@kind(
    KINDS,
    name="beta2-burst-rare",
    group="adam",
    cause="second-moment",
    accepted=("data-batch", "data-region"),
    families=("slow",),
    each=3,
    strengths={"weak": (0.02, 8), "medium": (0.05, 25), "strong": (0.2, 25)},
)
def _(c: Context, s: Any) -> Plan:
    last = c.step + s[1] - 1
    return Plan(changes=(f.RareTokens(c.step, last, s[0]),), last=last)


@kind(
    KINDS,
    name="beta2-burst-shift",
    group="adam",
    cause="data-region",
    accepted=("data-batch", "second-moment"),
    families=("quiet",),
    each=3,
    strengths={"weak": 2, "medium": 10, "strong": 40},
)
def _(c: Context, s: Any) -> Plan:
    last = c.step + s - 1
    return Plan(changes=(f.NewData(c.step, last),), last=last)
