"""What the hypotheses look at: the incident's shape and timing, derived once from its Evidence.

All times are in steps, lengths of the loss curve in records. Whatever is unknown is None, and a
hypothesis says nothing of it.
"""

import math
from collections.abc import Iterable
from functools import cached_property
from statistics import median

from surefoot.detect.evidence import Evidence, SignalFacts
from surefoot.records import split_name

GONE = 0.3
"""Share of its peak under which an excess counts as gone."""
NEAR_UNIFORM = 1.0
"""Nats about ln V within which a model knows nothing."""
STILL_RATE = 1e-6
"""Summed learning rates under which no run of Adam steps moves a loss by a nat: each changes a
weight by about the rate (Kingma & Ba 2014, 1412.6980, section 2.1), a ten-thousandth of it here."""
IMPOSSIBLE_NATS = 1.0
SOON = 60
"""Records before the onset in which a jump of the rate may have caused it."""


class Picture:
    """Derived facts of one incident.

    Args:
        evidence: what the detector gathered.
    """

    def __init__(self, evidence: Evidence) -> None:
        self.e = evidence

    # ---- the loss -------------------------------------------------------------------------------

    @cached_property
    def level(self) -> float | None:
        """Where the loss ran before the onset, nats."""
        before = [x for x in self.e.loss_before if math.isfinite(x)]
        if self.e.loss is not None and math.isfinite(self.e.loss.before) and self.e.loss.records:
            return self.e.loss.before
        return median(before) if before else None

    @cached_property
    def noise(self) -> float:
        """Spread of single losses before the onset, nats; a floor where it is not known."""
        before = [x for x in self.e.loss_before if math.isfinite(x)]
        if len(before) < 4:
            return 0.03
        middle = median(before)
        return max(0.002, 1.4826 * median([abs(x - middle) for x in before]))

    @cached_property
    def excess(self) -> tuple[float, ...]:
        """Loss above the level from the onset on; infinite where it was not finite."""
        if self.level is None:
            return ()
        level = self.level
        return tuple(x - level if math.isfinite(x) else math.inf for x in self.e.loss_after)

    @cached_property
    def peak(self) -> float | None:
        """Largest finite excess, nats."""
        finite = [x for x in self.excess if math.isfinite(x)]
        return max(finite) if finite else None

    @cached_property
    def loss_index(self) -> int | None:
        """Index of the first record since the onset at which the loss itself stood out."""
        if self.peak is None:
            return None
        least = max(5.0 * self.noise, min(GONE * self.peak, 0.5))
        return next((i for i, x in enumerate(self.excess) if x >= least), None)

    @cached_property
    def loss_step(self) -> int | None:
        """Its step."""
        if self.loss_index is None or self.loss_index >= len(self.e.steps_after):
            return None
        return self.e.steps_after[self.loss_index]

    @cached_property
    def stood_out(self) -> bool:
        """Whether the loss left its level at all."""
        return self.loss_index is not None

    @cached_property
    def sudden(self) -> bool | None:
        """Whether the loss was at 60 % of its peak in the first record that stood out."""
        if self.loss_index is None or self.peak is None:
            return None
        return self.excess[self.loss_index] >= 0.6 * self.peak

    @cached_property
    def rise(self) -> int | None:
        """Records from the first that stood out to 70 % of the peak."""
        if self.loss_index is None or self.peak is None:
            return None
        later = range(self.loss_index, len(self.excess))
        top = next(i for i in later if self.excess[i] >= 0.7 * self.peak)
        return top - self.loss_index

    @cached_property
    def high(self) -> int | None:
        """Records from the first that stood out on until the loss was back for good."""
        if self.loss_index is None or self.peak is None:
            return None
        edge = max(GONE * self.peak, 3.0 * self.noise)
        out = [i for i, x in enumerate(self.excess) if x >= edge]
        return out[-1] - self.loss_index + 1 if out else 0

    @cached_property
    def back(self) -> bool:
        """Whether the newest losses are back: at least two records under the edge."""
        if self.loss_index is None or self.high is None:
            return False
        return len(self.excess) - (self.loss_index + self.high) >= 2

    @cached_property
    def cliff(self) -> float | None:
        """How abruptly it ended: share of the excess that went with one record."""
        if not self.back or self.loss_index is None or self.high is None or self.peak is None:
            return None
        end = self.loss_index + self.high
        plateau = median(self.excess[self.loss_index : end])
        after = median(self.excess[end : end + 3])
        last = self.excess[end - 1]
        if plateau <= 0.0:
            return None
        return max(0.0, (last - after) / plateau)

    @cached_property
    def flat(self) -> float | None:
        """Relative spread of the excess while it was high; small on a plateau."""
        if self.loss_index is None or not self.high or self.high < 4:
            return None
        values = [x for x in self.excess[self.loss_index : self.loss_index + self.high]]
        if not all(map(math.isfinite, values)) or median(values) <= 0.0:
            return None
        middle = median(values)
        return median([abs(x - middle) for x in values]) / middle

    @cached_property
    def to_uniform(self) -> bool:
        """Whether a loss that had learned is back at that of a uniform guess."""
        e = self.e
        if e.uniform is None or self.level is None or self.peak is None:
            return False
        reached = self.level + self.peak
        return self.level < e.uniform - 2.0 and abs(reached - e.uniform) <= NEAR_UNIFORM

    @cached_property
    def impossible(self) -> str | None:
        """Why the updates cannot have done it; None if they can, or nothing is known."""
        e = self.e
        if self.peak is None or self.loss_index is None or self.level is None:
            return None
        if self.peak < IMPOSSIBLE_NATS or not self.sudden:
            return None
        rates = [r for r in (e.rate_before, e.rate_at) if r is not None and math.isfinite(r)]
        if not rates:
            return None
        moved = max(rates) * max(1.0, e.record_every)
        if moved > STILL_RATE:
            return None
        return (
            f"the loss moved by {self.peak:.3g} nats at a learning rate of {max(rates):.2g}: "
            "an Adam step changes each weight by about the rate, so no update did this"
        )

    # ---- the rate -------------------------------------------------------------------------------

    @cached_property
    def jump(self) -> tuple[int, float | None] | None:
        """Step and factor of the newest jump of the rate in the 60 records before the onset."""
        e, every = self.e, max(1.0, self.e.record_every)
        last = e.onset_interval[1] + every
        near = [(at, by) for at, by in e.rate_jumps if last - SOON * every <= at <= last]
        if near:
            return near[-1]
        at = e.rate_jump_step
        if at is None or not last - SOON * every <= at <= last:
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

    # ---- other signals --------------------------------------------------------------------------

    def scalar(self, name: str) -> SignalFacts | None:
        """Facts of a scalar signal that was seen before the onset."""
        facts = self.e.scalars.get(name)
        return facts if facts is not None and facts.records > 0 else None

    def recorded(self, *names: str) -> bool:
        """Whether any of the signals is recorded, as a total or by place."""
        return any(name in self.e.scalars or name in self.e.place_count for name in names)

    def of(self, signal: str) -> list[SignalFacts]:
        """Facts of a signal wherever it stood out: the total first, then its places."""
        total = self.scalar(signal)
        places = [f for name, f in self.e.places.items() if split_name(name)[0] == signal]
        return ([] if total is None else [total]) + places

    def strongest(self, signals: Iterable[str], *, above: bool = True) -> SignalFacts | None:
        """The fact that is furthest out (above its course, or on either side) among signals."""
        found = [f for name in signals for f in self.of(name) if f.out_since is not None]
        if above:
            found = [f for f in found if f.score > 0.0]
        return max(found, key=lambda f: abs(f.score), default=None)

    def lead(self, facts: SignalFacts) -> int | None:
        """Steps from when a signal left its band to when the loss did; None if the loss stayed."""
        if facts.out_since is None or self.loss_step is None:
            return None
        return self.loss_step - facts.out_since

    def ratio(self, facts: SignalFacts) -> float | None:
        """Extreme over level before, for a positive signal; None where that means nothing."""
        if not (math.isfinite(facts.before) and math.isfinite(facts.extreme)):
            return None
        if facts.before <= 0.0 or facts.extreme < 0.0:
            return None
        return facts.extreme / facts.before

    @cached_property
    def share_out(self) -> tuple[float, int, int] | None:
        """Share of the places whose gradient norm left its band, with both numbers."""
        out, of = self.e.place_count.get("grad_norm", (0, 0))
        return (out / of, out, of) if of > 1 else None

    @cached_property
    def from_restart(self) -> int | None:
        """Steps from the newest restart to the onset; None without one before it."""
        resumed = self.e.resumed_step
        if resumed is None or self.e.onset_interval[1] < resumed:
            return None
        return max(0, self.e.onset_step - resumed)

    @cached_property
    def at_restart(self) -> bool:
        """Whether the trouble began with the first records of a restart."""
        return self.from_restart is not None and self.from_restart <= 3 * max(
            1.0, self.e.record_every
        )

    @cached_property
    def nonfinite(self) -> list[SignalFacts]:
        """Signals that were not finite, the earliest first."""
        known = [*self.e.scalars.values(), *self.e.places.values()]
        if self.e.loss is not None:
            known.append(self.e.loss)
        broken = [f for f in known if f.nonfinite_step is not None]
        return sorted(broken, key=lambda f: f.nonfinite_step or 0)
