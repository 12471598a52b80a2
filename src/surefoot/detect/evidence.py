"""What is known when an incident is told: the facts from which its cause is ranked.

Evidence is plain values, gathered by the detector while it runs, so that a hypothesis is a pure
function of it and can be tested without a run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

CAUSES = (
    "data-batch",
    "data-region",
    "rate",
    "attention-growth",
    "output-logits",
    "second-moment",
    "precision",
    "hardware",
    "resume-state",
    "unknown",
)
"""Names of the hypotheses; ``unknown`` is one of them, and wins where nothing speaks loudly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalFacts:
    """How one signal behaved around an incident. Values are in the signal's own unit.

    Attributes:
        name: ``update_rms`` or ``grad_norm@layers.0.attention.wq.weight``.
        before: where it ran before the onset (robust level).
        at_onset: its value at the first record at or after the onset.
        extreme: the value furthest from its course since the onset.
        extreme_step: its step.
        last: the newest value.
        score: largest distance from its course since the onset, in units of its own threshold
            (1 = an outlier), signed: negative below the course.
        out_since: first step of the run of records out of the band that holds the extreme; None if
            it never left its band.
        trend: change over the 100 records before the onset, in noise units of a single value:
            a slow growth that no single step shows.
        nonfinite_step: first step since the onset at which it was NaN or infinite, or None.
        records: values seen before the onset: how well its course is known.
    """

    name: str
    before: float
    at_onset: float
    extreme: float
    extreme_step: int
    last: float
    score: float
    out_since: int | None
    trend: float = 0.0
    nonfinite_step: int | None = None
    records: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything known of an incident when it is told.

    Attributes:
        code: SPK000 ... SPK005, as it stands.
        onset_step: best estimate of the first abnormal step.
        onset_interval: first and last step that the onset may have had.
        alarm_step: when it was noticed.
        last_step: the newest step seen.
        leading_signal: what left its course first.
        loss: facts of the loss; None if there is no usable loss.
        scalars: facts of the other scalar signals by name, ``grad_norm`` included.
        places: facts of per-place signals that left their band, by full name, strongest first,
            at most 32.
        place_count: by per-place signal, (places that left their band, places there are).
        loss_after: losses of the records from the onset on, at most 64 (steps in ``steps_after``).
        steps_after: their steps.
        loss_before: the last losses before the onset, at most 16.
        recovered: whether the loss is back on its course; None if too early to say.
        records_seen: records since the run (or what is known of it) began.
        first_step: step of the first record.
        uniform: ln V, or the first loss of a run seen from its start; None if unknown.
        rate_before: learning rate before the onset; None if unknown.
        rate_at: learning rate of the onset step.
        rate_peak: largest learning rate so far.
        rate_jump_step: last step at which the rate jumped by more than a schedule does (factor 1.5
            in one record, warm-up's first records aside), or None.
        resumed_step: first step of the newest attempt or restart, or None if it never restarted.
        repeats: steps of earlier incidents, newest last, at most 8.
        skipped_updates: updates skipped within 50 records of the onset.
        scale_before: loss scale before the onset, or None.
        scale_last: the newest loss scale.
        zero_grad_places: places whose gradient norm became exactly 0 at the onset.
        record_every: median distance of records in steps.
        rate_jumps: newest jumps of the rate by more than a schedule makes, as (step, factor), at
            most 8: a slip that ends has two, and only the first is near the onset.
        contradictions: codes and steps of what the monitors told of this run before (CKP001 ...),
            newest last, at most 8.
        rate_earlier: the rate about 100 records before the onset (the oldest that is kept).
    """

    code: str
    onset_step: int
    onset_interval: tuple[int, int]
    alarm_step: int
    last_step: int
    leading_signal: str
    loss: SignalFacts | None = None
    scalars: Mapping[str, SignalFacts] = field(default_factory=dict)
    places: Mapping[str, SignalFacts] = field(default_factory=dict)
    place_count: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    loss_after: tuple[float, ...] = ()
    steps_after: tuple[int, ...] = ()
    loss_before: tuple[float, ...] = ()
    recovered: bool | None = None
    records_seen: int = 0
    first_step: int = 1
    uniform: float | None = None
    rate_before: float | None = None
    rate_at: float | None = None
    rate_peak: float | None = None
    rate_jump_step: int | None = None
    resumed_step: int | None = None
    repeats: tuple[int, ...] = ()
    skipped_updates: int = 0
    scale_before: float | None = None
    scale_last: float | None = None
    zero_grad_places: tuple[str, ...] = ()
    record_every: float = 1.0
    rate_jumps: tuple[tuple[int, float], ...] = ()
    rate_earlier: float | None = None
    contradictions: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """One possible cause.

    Attributes:
        cause: one of :data:`CAUSES`.
        weight: relative weight, 0 and up; the ranking shows shares of the sum.
        supports: facts for it, each a short clause with its numbers.
        contradicts: facts against it.
        experiment: the rerun that would decide it.
    """

    cause: str
    weight: float
    supports: tuple[str, ...] = ()
    contradicts: tuple[str, ...] = ()
    experiment: str = ""
