"""What the hypotheses look at: the timing of all signals of an incident, derived once.

The order in which signals move within a step is physics. The forward pass of a record (loss,
log-sum-exp, attention logits) sees the batch and the weights as they were; the gradient comes from
it; Adam's ratios and the updates come from the gradient; the weights change last. So what moves in
the forward pass of the first record was in the batch or in the weights before it, and what moves
from the gradient on, with a forward pass as ever, came in between.
"""

import math
from functools import cached_property

from surefoot.detect.causes._shape import YOUNG, LossShape
from surefoot.detect.evidence import Evidence, SignalFacts
from surefoot.records import split_name

FORWARD = ("log_z", "log_z_abs_max", "z_loss", "attention_logit_max")
BACKWARD = ("grad_norm", "adam_rms", "grad_cosine")
UPDATES = ("update_rms", "update_ratio")
NEAR_UNIFORM = 1.0
"""Nats about ln V within which a model knows nothing."""
STILL_RATE = 1e-6
"""Summed learning rates under which no run of Adam steps moves a loss by a nat: each changes a
weight by about the rate (Kingma & Ba 2014, 1412.6980, section 2.1), a ten-thousandth of it here."""
IMPOSSIBLE_NATS = 1.0
LOUDEST = 4.0
"""Score beyond which a signal is no louder."""
EARLY = "SPK005"
GROWTH = 5.0
SOON = 60
"""Records before the onset in which a jump of the rate may have caused it."""


class Picture:
    """Derived facts of one incident; what is unknown is None.

    Args:
        evidence: what the detector gathered.
    """

    def __init__(self, evidence: Evidence) -> None:
        self.e = evidence
        self.loss = LossShape(evidence)
        self.every = max(1.0, evidence.record_every)

    # ---- signals --------------------------------------------------------------------------------

    def scalar(self, name: str) -> SignalFacts | None:
        """Facts of a scalar signal that was seen before the onset."""
        facts = self.e.scalars.get(name)
        return facts if facts is not None and facts.records > 0 else None

    def recorded(self, *names: str) -> bool:
        """Whether any of the signals is recorded, as a total or by place."""
        return any(name in self.e.scalars or name in self.e.place_count for name in names)

    def of(self, *signals: str) -> list[SignalFacts]:
        """Facts of signals wherever they stood out: totals first, then places."""
        totals = [facts for name in signals if (facts := self.scalar(name)) is not None]
        return totals + [f for n, f in self.e.places.items() if split_name(n)[0] in signals]

    def out(self, *signals: str) -> list[SignalFacts]:
        """Those of them that left their band for sure, the earliest first."""
        found = [f for f in self.of(*signals) if f.out_since is not None and abs(f.score) >= 1.0]
        return sorted(found, key=lambda f: (f.out_since or 0, -abs(f.score)))

    @cached_property
    def main(self) -> int:
        """The step at which most left its course, the loss included.

        The onset is the first step at which anything did, and may be a lone outlier before; what a
        cause does at once, it does here.
        """
        moved = [
            (f.out_since, min(abs(f.score), LOUDEST))
            for f in [*self.e.scalars.values(), *self.e.places.values()]
            if f.out_since is not None and abs(f.score) >= 1.0
        ]
        for stretch in (self.loss.above, self.loss.below):
            step = self.loss.step_of(stretch)
            if step is not None:
                moved.append((step, LOUDEST))
        if self.e.code == EARLY or not moved:
            return self.e.onset_step
        weight = {
            step: sum(loud for at, loud in moved if 0 <= at - step <= self.every)
            for step, _ in moved
        }
        most = max(weight.values())
        return min(step for step, loud in weight.items() if loud >= 0.5 * most)

    def now(self, *signals: str) -> list[SignalFacts]:
        """Those of them that left their band at :attr:`main`."""
        return [
            f
            for f in self.out(*signals)
            if f.out_since is not None and abs(f.out_since - self.main) <= self.every
        ]

    def before(self, *signals: str) -> list[SignalFacts]:
        """Those that left their band before :attr:`main`, for more than a record."""
        return [
            f
            for f in self.out(*signals)
            if f.out_since is not None
            and f.out_since < self.main - self.every
            and (f.extreme_step >= self.main or f.extreme_step >= f.out_since + 2 * self.every)
        ]

    def led_by(self, *signals: str) -> bool:
        """Whether the first signal out was one of these."""
        return split_name(self.e.leading_signal)[0] in signals

    def lead(self, facts: SignalFacts) -> float | None:
        """Steps from when a signal left its band to when the loss did; None if the loss stayed."""
        if facts.out_since is None or self.loss.step is None:
            return None
        return float(self.loss.step - facts.out_since)

    @staticmethod
    def ratio(facts: SignalFacts) -> float | None:
        """Extreme over level before, for a positive signal; None where that means nothing."""
        if not (math.isfinite(facts.before) and math.isfinite(facts.extreme)):
            return None
        if facts.before <= 0.0 or facts.extreme < 0.0:
            return None
        ratio = facts.extreme / facts.before
        return ratio if math.isfinite(ratio) else None

    # ---- what moved first -----------------------------------------------------------------------

    @cached_property
    def loss_now(self) -> bool:
        """Whether the loss itself moved, up or down, at :attr:`main`."""
        steps = [self.loss.step_of(s) for s in (self.loss.above, self.loss.below)]
        return any(abs(step - self.main) <= self.every for step in steps if step is not None)

    @cached_property
    def blip(self) -> float | None:
        """Loss off its level, nats, at :attr:`main` alone: three noise units, and back after it."""
        steps, excess = self.e.steps_after, self.loss.excess
        at = next((i for i, s in enumerate(steps) if abs(s - self.main) < self.every), None)
        if at is None or at + 3 > len(excess):
            return None
        value, edge = excess[at], 3.0 * self.loss.noise
        after = excess[at + 1 : at + 3]
        calm = all(abs(x) < max(edge, 0.5 * abs(value)) for x in after)
        return value if abs(value) >= edge and calm else None

    @cached_property
    def forward_now(self) -> bool:
        """Whether its forward pass was off."""
        return self.loss_now or bool(self.now(*FORWARD))

    @cached_property
    def backward_now(self) -> bool:
        """Whether its gradient, or Adam's view of it, was off."""
        return bool(self.now(*BACKWARD))

    @cached_property
    def nonfinite(self) -> list[SignalFacts]:
        """Signals that were not finite, the earliest first."""
        known = [*self.e.scalars.values(), *self.e.places.values()]
        if self.e.loss is not None:
            known.append(self.e.loss)
        broken = [f for f in known if f.nonfinite_step is not None]
        return sorted(broken, key=lambda f: f.nonfinite_step or 0)

    @cached_property
    def forward_finite(self) -> bool:
        """Whether loss and log-sum-exp were finite where another signal was not."""
        names = {split_name(f.name)[0] for f in self.nonfinite}
        return bool(names) and not names & {"loss", *FORWARD}

    @cached_property
    def share_out(self) -> tuple[float, int, int] | None:
        """Share of the places whose gradient norm left its band, with both numbers."""
        out, of = self.e.place_count.get("grad_norm", (0, 0))
        return (out / of, out, of) if of > 1 else None

    @cached_property
    def grows(self) -> SignalFacts | None:
        """A gradient norm that grew from record to record, fivefold or more, up to the peak."""
        for facts in self.out("grad_norm"):
            took = facts.extreme_step - (facts.out_since or 0)
            grown = facts.at_onset > 0.0 and facts.extreme / facts.at_onset >= GROWTH
            # Up to a peak that the loss reaches with it or later, not in the wake of a jump.
            first = self.loss.step is None or (facts.out_since or 0) < self.loss.step
            if facts.score > 0.0 and grown and took >= 3 * self.every and first:
                return facts
        return None

    # ---- rate and restart -----------------------------------------------------------------------

    @cached_property
    def jump(self) -> tuple[int, float | None] | None:
        """Step and factor of the newest jump of the rate in the 60 records before the onset."""
        e = self.e
        last = max(e.onset_interval[1], self.main) + self.every
        first = last - SOON * self.every
        near = [(at, by) for at, by in e.rate_jumps if first <= at <= last]
        if near:
            return near[-1]
        at = e.rate_jump_step
        if at is None or not first <= at <= last:
            return None
        by = None
        if e.rate_before and e.rate_at is not None and math.isfinite(e.rate_at / e.rate_before):
            by = e.rate_at / e.rate_before
        return at, by if by is not None and abs(by - 1.0) > 0.2 else None

    @cached_property
    def grown(self) -> float | None:
        """Rate at the onset over the rate about 100 records before."""
        at = self.e.rate_at if self.e.rate_at is not None else self.e.rate_before
        if at is None or not self.e.rate_earlier:
            return None
        ratio = at / self.e.rate_earlier
        return ratio if math.isfinite(ratio) else None

    @cached_property
    def from_restart(self) -> int | None:
        """Steps from the newest restart to the onset; None without one before it."""
        resumed = self.e.resumed_step
        if resumed is None or self.main < resumed - self.every:
            return None
        return max(0, self.main - resumed)

    @cached_property
    def at_restart(self) -> bool:
        """Whether the trouble began with the first records of a restart."""
        return self.from_restart is not None and self.from_restart <= 3 * self.every

    @cached_property
    def young(self) -> bool:
        """Whether the run is seen from its start and had made at most 200 steps."""
        return self.e.first_step <= 2 and self.e.alarm_step - self.e.first_step <= YOUNG

    # ---- impossible steps -----------------------------------------------------------------------

    @cached_property
    def to_uniform(self) -> bool:
        """Whether a loss that had learned is back at that of a uniform guess."""
        uniform, level, above = self.e.uniform, self.loss.level, self.loss.above
        if uniform is None or level is None or above is None:
            return False
        return level < uniform - 2.0 and abs(level + above.peak - uniform) <= NEAR_UNIFORM

    @cached_property
    def impossible(self) -> str | None:
        """Why the updates cannot have done it; None if they can, or nothing is known."""
        e, above = self.e, self.loss.above
        if above is None or above.peak < IMPOSSIBLE_NATS or not self.loss.sudden:
            return None
        rates = [r for r in (e.rate_before, e.rate_at) if r is not None and math.isfinite(r)]
        if not rates or max(rates) * self.every > STILL_RATE:
            return None
        return (
            f"the loss moved by {above.peak:.3g} nats at a learning rate of {max(rates):.2g}: "
            "an Adam step changes each weight by about the rate, so no update did this"
        )
