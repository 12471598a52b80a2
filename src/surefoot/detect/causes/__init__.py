"""Why it happened: hypotheses weighed against the evidence of an incident, one a module.

::

    from surefoot.detect.causes import rank

    for hypothesis in rank(evidence)[:3]:
        print(f"{hypothesis.weight:.0%} {hypothesis.cause}: {'; '.join(hypothesis.supports)}")
        print("to decide:", hypothesis.experiment)

A module that is put here is found by itself. It defines ``CAUSE`` and
``weigh(evidence) -> Hypothesis``, a pure function whose weight is the exponential of a sum of
points, one for each clause (``_weighing.py``). A cause is a hypothesis until it is replayed: each
names the rerun that would decide it. Modules whose names begin with ``_`` hold what they share.
"""

from surefoot.detect.causes.rank import hypotheses, rank

__all__ = ["hypotheses", "rank"]
