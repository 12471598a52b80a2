"""Kinds of healthy run that look like trouble."""

import dataclasses
from typing import Any

import faults as f
import planned as p
from kinds import Context, Kind, Plan, kind

KINDS: dict[str, Kind] = {}

_LOOK: dict[str, Any] = {
    "group": "look-alike", "cause": "", "healthy": True, "from_start": True, "tail": 480,
}  # fmt: skip


@kind(KINDS, name="end-of-warmup", strengths={"": None}, each=3, **_LOOK)
def _(c: Context, s: Any) -> Plan:
    return Plan(setting=dataclasses.replace(c.setting, warmup=200, rate=2 * c.setting.rate))


@kind(KINDS, name="wsd-decay", strengths={"": None}, each=3, **_LOOK)
def _(c: Context, s: Any) -> Plan:
    return Plan(setting=dataclasses.replace(c.setting, schedule="wsd", steps=460))


@kind(KINDS, name="rate-rewarm", strengths={"": 0.1}, each=3, **_LOOK)
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(p.Rewarm(c.step, s, 80),))


@kind(KINDS, name="batch-ramp", strengths={"": None}, each=3, **_LOOK)
def _(c: Context, s: Any) -> Plan:
    stages = tuple((1 + 60 * i, 4 + 4 * i) for i in range(5))
    return Plan(changes=(p.Sizes(batches=stages),))


@kind(KINDS, name="length-switch", strengths={"": None}, each=3, **_LOOK)
def _(c: Context, s: Any) -> Plan:
    full = c.setting.length
    return Plan(changes=(p.Sizes(lengths=((1, full // 2), (c.step, full))),))


@kind(KINDS, name="domain-switch", strengths={"": None}, each=3, **_LOOK)
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(p.Mixture(((1, 0.0), (c.step, 1.0)), announced=True),))


@kind(KINDS, name="domain-switch-unannounced", strengths={"": 0.3}, each=3, **_LOOK)
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(p.Mixture(((1, 0.0), (c.step, s)), announced=False),))


@kind(KINDS, name="planned-restart", strengths={"": None}, each=3, **_LOOK)
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(f.Resume(c.step), f.Resume(c.step + 90)))


@kind(KINDS, name="small-noisy-batches", strengths={"": 2}, each=3, **_LOOK)
def _(c: Context, s: Any) -> Plan:
    return Plan(setting=dataclasses.replace(c.setting, batch=s, rate=0.3 * c.setting.rate))


@kind(KINDS, name="heavy-tails", strengths={"": None}, each=3, **_LOOK)
def _(c: Context, s: Any) -> Plan:
    setting = dataclasses.replace(c.setting, clip=0.0, batch=4, rate=0.5 * c.setting.rate)
    return Plan(setting=setting, changes=(p.LoudBatches(0.06),))


@kind(KINDS, name="evaluation-interleaved", strengths={"": 20}, each=3, **_LOOK)
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(p.Evaluations(s),))


@kind(KINDS, name="curriculum", strengths={"": None}, each=3, **_LOOK)
def _(c: Context, s: Any) -> Plan:
    phases = ((1, 0.0), (120, 0.25), (240, 0.5), (360, 0.25))
    return Plan(changes=(p.Mixture(phases, announced=True),))
