"""Which runs make up a set: settings, kinds of fault with their strengths, look-alikes."""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import faults as f
import planned as p
from tiny import Change, Setting

EVERY = 25
"""Steps between checkpoints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a kind may know when it plans a fault.

    Attributes:
        step: of the injection.
        setting: of the clean run.
        draw: a number in [0, 1) for each name, from the seed alone.
        weights: weights of the clean run after a number of steps (a checkpoint's).
    """

    step: int
    setting: Setting
    draw: Callable[[str], float]
    weights: Callable[[int], Mapping[str, Any]]

    def pick(self, name: str, options: Sequence[Any]) -> Any:
        """One of the options."""
        return options[int(self.draw(name) * len(options))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is done to a run.

    Attributes:
        changes: faults or planned changes.
        setting: another setting than the clean one, from step 1 on; None = the same.
        last: last step at which the fault acts from outside; None = to the end.
    """

    changes: tuple[Change, ...] = ()
    setting: Setting | None = None
    last: int | None = None


Make = Callable[[Context, Any], Plan]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of fault or look-alike.

    Attributes:
        name: of the kind.
        group: kinds that are scored together.
        cause: right answer.
        make: plans it, from the context and the strength's settings.
        strengths: settings by strength.
        accepted: other right answers.
        point: whether it begins at one step.
        held_out: nobody tunes to it.
        from_start: it is in the setting: injection at step 1, nothing shared with the twin.
        healthy: a look-alike.
        families: settings that it is planted in, by a word in their name; empty = any.
        watched: signals that may be manifest, where the twin is of another architecture.
        natural: nothing is planted: the run does it by itself, and is left out where it does not.
        tail: steps after the injection.
        each: cases of each strength.
    """

    name: str
    group: str
    cause: str
    make: Make
    strengths: Mapping[str, Any]
    accepted: tuple[str, ...] = ()
    point: bool = True
    held_out: bool = False
    from_start: bool = False
    healthy: bool = False
    families: tuple[str, ...] = ()
    watched: tuple[str, ...] | None = None
    natural: bool = False
    tail: int = 170
    each: int = 2


KINDS: dict[str, Kind] = {}


def kind(**settings: Any) -> Callable[[Make], Make]:
    """Register the decorated plan as a kind."""

    def add(make: Make) -> Make:
        made = Kind(make=make, **settings)
        assert made.name not in KINDS, made.name
        KINDS[made.name] = made
        return make

    return add


# Rate and schedule ----------------------------------------------------------------------------


@kind(name="rate-creeping", group="rate", cause="rate", point=False, tail=260,
      strengths={"weak": (4, 150), "medium": (15, 150), "strong": (60, 150)})  # fmt: skip
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(f.RateTimes(c.step, None, s[0], over=s[1]),))


@kind(name="rate-slip", group="rate", cause="rate",
      strengths={"weak": (4, 20), "medium": (10, 20), "strong": (30, 40)})  # fmt: skip
def _(c: Context, s: Any) -> Plan:
    last = c.step + s[1] - 1
    return Plan(changes=(f.RateTimes(c.step, last, s[0]),), last=last)


@kind(name="rate-slip-for-good", group="rate", cause="rate",
      strengths={"weak": 4, "medium": 10, "strong": 40})  # fmt: skip
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(f.RateTimes(c.step, None, s),))


@kind(name="rate-too-high", group="rate", cause="rate", accepted=("unknown",), from_start=True,
      point=False, tail=350, strengths={"medium": 30, "strong": 90},
      watched=("loss",))  # fmt: skip
def _(c: Context, s: Any) -> Plan:
    # The peak is reached late, so that there is a healthy time before it.
    return Plan(setting=dataclasses.replace(c.setting, rate=c.setting.rate * s, warmup=220))


@kind(name="no-warmup", group="rate", cause="rate", accepted=("unknown",), from_start=True,
      point=False, tail=350, strengths={"weak": 2, "medium": 20, "strong": 60},
      watched=("loss",))  # fmt: skip
def _(c: Context, s: Any) -> Plan:
    return Plan(setting=dataclasses.replace(c.setting, warmup=0, rate=c.setting.rate * s))


@kind(name="vanilla-embedding", group="rate", cause="rate", accepted=("unknown",), from_start=True,
      point=False, tail=350, strengths={"weak": 3, "medium": 15, "strong": 40},
      watched=("loss",))  # fmt: skip
def _(c: Context, s: Any) -> Plan:
    rate = c.setting.rate * s
    setting = dataclasses.replace(c.setting, embedding_std="small", rate=rate, warmup=150)
    return Plan(setting=setting)


# Attention and output logits ------------------------------------------------------------------


@kind(name="attention-growth", group="logits", cause="attention-growth", accepted=("rate",),
      from_start=True, point=False, tail=450, families=("copies",),
      strengths={"weak": 5, "medium": 12, "strong": 30}, each=3,
      watched=("loss", "attention_logit_max"))  # fmt: skip
def _(c: Context, s: Any) -> Plan:
    setting = dataclasses.replace(c.setting, rate=c.setting.rate * s, warmup=200, weight_decay=0.0)
    return Plan(setting=setting)


@kind(name="attention-pull", group="logits", cause="attention-growth", point=False, tail=330,
      strengths={"weak": 0.007, "medium": 0.02, "strong": 0.05}, each=3,
      families=("copies",))  # fmt: skip
def _(c: Context, s: Any) -> Plan:
    every = list(range(c.setting.layers))
    layers = c.pick("layers", [every, every, every[-1:]])
    return Plan(changes=(f.AttentionPull(c.step, None, s, layers),))


@kind(name="logit-drift", group="logits", cause="output-logits", accepted=("rate",),
      from_start=True, point=False, tail=500, strengths={"medium": 6, "strong": 20},
      watched=("loss",))  # fmt: skip
def _(c: Context, s: Any) -> Plan:
    setting = dataclasses.replace(c.setting, z_loss=0.0, weight_decay=0.0, rate=c.setting.rate * s)
    return Plan(setting=setting)


@kind(name="logit-pull", group="logits", cause="output-logits", point=False, tail=280, each=3,
      strengths={"weak": 0.003, "medium": 0.012, "strong": 0.03})  # fmt: skip
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(f.LogitPull(c.step, None, s),))


# Adam -----------------------------------------------------------------------------------------


@kind(name="eps-too-large", group="adam", cause="second-moment", accepted=("unknown",),
      from_start=True, point=False, tail=350,
      strengths={"weak": 1e-4, "medium": 1e-2, "strong": 1.0},
      watched=("loss",))  # fmt: skip
def _(c: Context, s: Any) -> Plan:
    return Plan(setting=dataclasses.replace(c.setting, eps=s))


@kind(name="eps-raised", group="adam", cause="second-moment", accepted=("unknown",),
      strengths={"weak": 1e-4, "medium": 1e-2, "strong": 1.0})  # fmt: skip
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(f.EpsRaised(c.step, s),))


@kind(name="beta2-burst-rare", group="adam", cause="second-moment",
      accepted=("data-batch", "data-region"), families=("slow",), each=3,
      strengths={"weak": (0.02, 8), "medium": (0.05, 25), "strong": (0.2, 25)})  # fmt: skip
def _(c: Context, s: Any) -> Plan:
    last = c.step + s[1] - 1
    return Plan(changes=(f.RareTokens(c.step, last, s[0]),), last=last)


@kind(name="beta2-burst-shift", group="adam", cause="data-region",
      accepted=("data-batch", "second-moment"), families=("quiet",), each=3,
      strengths={"weak": 2, "medium": 10, "strong": 40})  # fmt: skip
def _(c: Context, s: Any) -> Plan:
    last = c.step + s - 1
    return Plan(changes=(f.NewData(c.step, last),), last=last)


# Data -----------------------------------------------------------------------------------------

_SHARES = {"weak": 0.13, "medium": 0.5, "strong": 1.0}


@kind(name="batch-random", group="data", cause="data-batch", strengths=_SHARES, tail=90)
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(f.Corrupt(c.step, c.step, "random", s),), last=c.step)


@kind(name="batch-one-token", group="data", cause="data-batch", strengths=_SHARES, tail=90)
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(f.Corrupt(c.step, c.step, "one-token", s),), last=c.step)


@kind(name="batch-shuffled-labels", group="data", cause="data-batch", strengths=_SHARES, tail=90,
      held_out=True, accepted=("unknown",))  # fmt: skip
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(f.Corrupt(c.step, c.step, "shuffled", s, labels=True),), last=c.step)


@kind(name="region-random", group="data", cause="data-region", point=True, tail=190,
      strengths={"weak": (0.25, 20), "medium": (0.5, 40), "strong": (1.0, 80)})  # fmt: skip
def _(c: Context, s: Any) -> Plan:
    last = c.step + s[1] - 1
    return Plan(changes=(f.Corrupt(c.step, last, "random", s[0]),), last=last)


@kind(name="region-one-token", group="data", cause="data-region", tail=190,
      strengths={"weak": (0.13, 20), "medium": (0.5, 40), "strong": (1.0, 80)})  # fmt: skip
def _(c: Context, s: Any) -> Plan:
    last = c.step + s[1] - 1
    return Plan(changes=(f.Corrupt(c.step, last, "one-token", s[0]),), last=last)


@kind(name="region-shuffled", group="data", cause="data-region", tail=190,
      strengths={"weak": (0.25, 20), "medium": (0.5, 40), "strong": (1.0, 80)})  # fmt: skip
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


@kind(name="bit-flip-weight", group="hardware", cause="hardware", tail=120, each=3,
      strengths={"weak": (22, 1), "medium": (25, 256), "strong": (30, 1)})  # fmt: skip
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(f.FlipWeight(c.step, _tensor(c), *s),), last=c.step)


@kind(name="bit-flip-moment", group="hardware", cause="hardware", tail=120, each=3,
      accepted=("second-moment",),
      strengths={"weak": ("exp_avg_sq", 29, 1), "medium": ("exp_avg", 26, 256),
                 "strong": ("exp_avg", 30, 1)})  # fmt: skip
def _(c: Context, s: Any) -> Plan:
    moment, bit, count = s
    return Plan(changes=(f.FlipMoment(c.step, _tensor(c), bit, count, moment),), last=c.step)


@kind(name="bit-flip-gradient", group="hardware", cause="hardware", tail=120, each=3,
      accepted=("precision",),
      strengths={"weak": (25, 1), "medium": (30, 1), "strong": (30, 10)})  # fmt: skip
def _(c: Context, s: Any) -> Plan:
    last = c.step + s[1] - 1
    return Plan(changes=(f.FlipGradient(c.step, last, _tensor(c), s[0]),), last=last)


@kind(name="lost-bucket", group="hardware", cause="hardware", accepted=("unknown",),
      held_out=True,
      strengths={"weak": ("layer", 0.5), "medium": ("layer", 0.0),
                 "strong": ("all", 0.0)})  # fmt: skip
def _(c: Context, s: Any) -> Plan:
    layer = c.pick("layer", range(c.setting.layers))
    parts = [f"layers.{layer}."] if s[0] == "layer" else ["layers."]
    return Plan(changes=(f.LostBucket(c.step, None, parts, s[1]),))


@kind(name="stale-rank", group="hardware", cause="hardware", accepted=("unknown", "resume-state"),
      held_out=True, strengths={"weak": 0.9, "medium": 0.5, "strong": 0.0})  # fmt: skip
def _(c: Context, s: Any) -> Plan:
    old = c.weights(int(s * (c.step - 1)) // EVERY * EVERY)
    return Plan(changes=(f.StaleSecondRank(c.step, None, old),))


# Precision ------------------------------------------------------------------------------------


@kind(name="fp16-overflow-storm", group="precision", cause="precision", families=("fp16",), each=3,
      strengths={"weak": (2.0**6, 1000, 1), "medium": (2.0, 3, 90),
                 "strong": (2.0, 1, 90)})  # fmt: skip
def _(c: Context, s: Any) -> Plan:
    factor, every, length = s
    last = c.step + length - 1
    return Plan(changes=(f.ScaleStorm(c.step, last, factor, every),), last=last)


@kind(name="fp8-range", group="precision", cause="precision", accepted=("unknown",), held_out=True,
      strengths={"weak": (16.0, 256.0, 2.0**16), "medium": (256.0, 256.0, 2.0**16),
                 "strong": (1024.0, 4096.0, 4.0)})  # fmt: skip
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(f.Fp8(c.step, *s),))


# Resume ---------------------------------------------------------------------------------------


@kind(name="resume-moments-lost", group="resume", cause="resume-state",
      strengths={"weak": "all", "strong": "second"})  # fmt: skip
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(f.MomentsLost(c.step, second=s == "second"),), last=c.step)


@kind(name="resume-counter-reset", group="resume", cause="resume-state",
      strengths={"medium": None}, each=4)  # fmt: skip
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(f.CounterReset(c.step),), last=c.step)


@kind(name="resume-loader-restarted", group="resume", cause="resume-state",
      strengths={"medium": None}, each=4)  # fmt: skip
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(f.LoaderRestarted(c.step),), last=c.step)


@kind(name="resume-weights-stale", group="resume", cause="resume-state",
      strengths={"weak": 0.9, "medium": 0.4, "strong": 0.0})  # fmt: skip
def _(c: Context, s: Any) -> Plan:
    old = c.weights(int(s * (c.step - 1)) // EVERY * EVERY)
    return Plan(changes=(f.WeightsStale(c.step, old),), last=c.step)


@kind(name="resume-schedule-restarted", group="resume", cause="resume-state", accepted=("rate",),
      families=("cosine",), strengths={"weak": True, "strong": False}, each=3)  # fmt: skip
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(f.ScheduleRestarted(c.step, warm=s),), last=None)


# Look-alikes ----------------------------------------------------------------------------------

_LOOK: dict[str, Any] = {
    "group": "look-alike", "cause": "", "healthy": True, "from_start": True, "tail": 480,
}  # fmt: skip


@kind(name="end-of-warmup", strengths={"": None}, each=3, **_LOOK)
def _(c: Context, s: Any) -> Plan:
    return Plan(setting=dataclasses.replace(c.setting, warmup=200, rate=2 * c.setting.rate))


@kind(name="wsd-decay", strengths={"": None}, each=3, **_LOOK)
def _(c: Context, s: Any) -> Plan:
    return Plan(setting=dataclasses.replace(c.setting, schedule="wsd", steps=460))


@kind(name="rate-rewarm", strengths={"": 0.1}, each=3, **_LOOK)
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(p.Rewarm(c.step, s, 80),))


@kind(name="batch-ramp", strengths={"": None}, each=3, **_LOOK)
def _(c: Context, s: Any) -> Plan:
    stages = tuple((1 + 60 * i, 4 + 4 * i) for i in range(5))
    return Plan(changes=(p.Sizes(batches=stages),))


@kind(name="length-switch", strengths={"": None}, each=3, **_LOOK)
def _(c: Context, s: Any) -> Plan:
    full = c.setting.length
    return Plan(changes=(p.Sizes(lengths=((1, full // 2), (c.step, full))),))


@kind(name="domain-switch", strengths={"": None}, each=3, **_LOOK)
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(p.Mixture(((1, 0.0), (c.step, 1.0)), announced=True),))


@kind(name="domain-switch-unannounced", strengths={"": 0.3}, each=3, **_LOOK)
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(p.Mixture(((1, 0.0), (c.step, s)), announced=False),))


@kind(name="planned-restart", strengths={"": None}, each=3, **_LOOK)
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(f.Resume(c.step), f.Resume(c.step + 90)))


@kind(name="small-noisy-batches", strengths={"": 2}, each=3, **_LOOK)
def _(c: Context, s: Any) -> Plan:
    return Plan(setting=dataclasses.replace(c.setting, batch=s, rate=0.3 * c.setting.rate))


@kind(name="heavy-tails", strengths={"": None}, each=3, **_LOOK)
def _(c: Context, s: Any) -> Plan:
    setting = dataclasses.replace(c.setting, clip=0.0, batch=4, rate=0.5 * c.setting.rate)
    return Plan(setting=setting, changes=(p.LoudBatches(0.06),))


@kind(name="evaluation-interleaved", strengths={"": 20}, each=3, **_LOOK)
def _(c: Context, s: Any) -> Plan:
    return Plan(changes=(p.Evaluations(s),))


@kind(name="curriculum", strengths={"": None}, each=3, **_LOOK)
def _(c: Context, s: Any) -> Plan:
    phases = ((1, 0.0), (120, 0.25), (240, 0.5), (360, 0.25))
    return Plan(changes=(p.Mixture(phases, announced=True),))


# By itself ------------------------------------------------------------------------------------


@kind(name="natural-spike", group="adam", cause="second-moment", natural=True, from_start=True,
      families=("quiet",), strengths={"": None}, each=6, tail=900)  # fmt: skip
def _(c: Context, s: Any) -> Plan:
    # On a few samples over and over the gradients shrink, v with them, until one is too large for
    # it: the spikes of Bai et al. 2025, 2506.04805.
    rate = c.setting.rate * c.pick("rate", [1.0, 1.3, 1.6])
    setting = dataclasses.replace(c.setting, rate=rate, repeat=c.pick("repeat", [32, 40, 48, 56]))
    return Plan(setting=setting)


# Settings -------------------------------------------------------------------------------------


def settings(shapes: str) -> list[Setting]:
    """The clean settings of a set; ``test`` has other shapes and other optimizers than ``dev``."""
    if shapes == "dev":
        return [
            Setting(name="cosine", batch=16),
            Setting(name="deep-wsd", layers=4, batch=12, rate=4e-3, beta2=0.99, schedule="wsd"),
            Setting(name="noqk", qk_norm=False, batch=16, rate=4e-3, schedule="constant",
                    weight_decay=0.0, warmup=40),
            Setting(name="tied-slow", tied=True, batch=16, rate=4e-3, beta2=0.999, clip=0.0,
                    schedule="constant", warmup=80),
            Setting(name="fp16-cosine", precision="fp16", batch=16, rate=5e-3),
            Setting(name="quiet-slow", batch=16, rate=5e-3, beta2=0.999, clip=0.0, repeat=48,
                    schedule="constant", steps=500),
            Setting(name="copies-noqk", qk_norm=False, batch=16, rate=6e-3, schedule="constant",
                    weight_decay=0.0, copies=True),
        ]  # fmt: skip
    return [
        Setting(name="cosine", layers=3, width=32, heads=4, length=40, batch=16, rate=7e-3,
                beta2=0.97),
        Setting(name="deep-wsd", layers=5, batch=12, rate=3e-3, beta2=0.95, schedule="wsd",
                weight_decay=0.05),
        Setting(name="noqk", qk_norm=False, layers=3, width=48, heads=4, batch=12, rate=3e-3,
                schedule="constant", weight_decay=0.0, warmup=60, norm="layernorm",
                activation="gelu"),
        Setting(name="slow", width=48, heads=2, batch=16, rate=3e-3, beta2=0.995, clip=0.0,
                schedule="constant", eps=1e-10),
        Setting(name="fp16-cosine", precision="fp16", layers=2, width=48, heads=4, batch=12,
                rate=4e-3),
        Setting(name="quiet-slow", layers=3, batch=16, rate=4e-3, beta2=0.999, clip=0.0, repeat=40,
                schedule="constant", steps=500),
        Setting(name="copies-noqk", qk_norm=False, layers=3, heads=4, length=40, batch=12,
                rate=5e-3, schedule="cosine", weight_decay=0.0, copies=True),
    ]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One case to be made.

    Attributes:
        name: unique in the set.
        setting: of the clean run.
        seed: of weights and data.
        kind: None for a clean run.
        strength: of the kind.
        step: of the injection.
    """

    name: str
    setting: Setting
    seed: int
    kind: Kind | None = None
    strength: str = ""
    step: int = 1

    def draw(self, word: str) -> float:
        """A number in [0, 1) of this cell."""
        return drawn(self.name, word)


def drawn(*words: object) -> float:
    """A number in [0, 1) that depends on the words alone."""
    digest = hashlib.sha256(":".join(map(str, words)).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


SEEDS = 3
"""Clean runs of each setting."""


def cells(shapes: str, seed: int, *, held_out: bool | None, quick: bool = False) -> list[Cell]:
    """The cells of a set, the clean runs of a setting before what is planted in them.

    Args:
        shapes: ``dev`` or ``test``, see :func:`settings`.
        seed: of the set; every seed gives other weights, data orders and injection steps.
        held_out: only held-out kinds, only others, or (None) all.
        quick: one seed's worth for a trial.
    """
    found: list[Cell] = []
    offset = {"dev": 0, "test": 50}.get(shapes, 0) + 100 * seed
    chosen = settings(shapes)
    queues: dict[str, list[Cell]] = {s.name: [] for s in chosen}
    for setting in chosen:
        for index in range(SEEDS):
            name = f"clean-{setting.name}-{offset + index}"
            queues[setting.name].append(Cell(name=name, setting=setting, seed=offset + index))
    turn = 0
    for made in KINDS.values():
        if held_out is not None and made.held_out != held_out and not made.healthy:
            continue
        usual = [s for s in chosen if s.repeat is None and not s.copies]
        named = [s for s in chosen if any(word in s.name for word in made.families)]
        able = named if made.families else usual
        for strength in made.strengths:
            for number in range(1 if quick else made.each):
                setting = able[turn % len(able)]
                own = offset + (turn // len(able) + number) % SEEDS
                turn += 1
                name = "-".join(
                    filter(None, [made.name, strength, setting.name, f"{own}{'abcdef'[number]}"])
                )
                step = 1
                if not (made.from_start and not made.healthy):
                    low, high = (220, 400) if setting.steps >= 650 else (280, 400)
                    step = low + int(drawn(seed, name, "step") * (high - low))
                queues[setting.name].append(
                    Cell(
                        name=name,
                        setting=setting,
                        seed=own,
                        kind=made,
                        strength=strength,
                        step=step,
                    )
                )
    for setting in chosen:
        found += queues[setting.name]
    return found
