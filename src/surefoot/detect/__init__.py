"""Finds spikes, shifts, divergence and non-finite values, online and offline with one detector.

::

    from surefoot.detect import SpikeDetector
    from surefoot.records import StepRecord

    detector = SpikeDetector(vocab_size=50304)
    for step, loss in enumerate(losses, start=1):
        verdict = detector.update(StepRecord(step=step, values={"loss": loss}))
        for finding in verdict.findings:
            print(finding.code, finding.message)

    from surefoot.detect import diagnose
    findings = diagnose(run)              # the same, fed with a whole run

It does not need torch. The state is plain JSON: ``state_dict()``, ``load_state_dict()``.
"""

from surefoot.detect.coverage import not_checked
from surefoot.detect.diagnose import diagnose
from surefoot.detect.loss import LossDetector
from surefoot.detect.messages import FALSE_ALARM_RATE, for_run, with_checkpoints
from surefoot.detect.spikes import FALSE_ALARMS_PER_10K, SpikeDetector

__all__ = [
    "FALSE_ALARMS_PER_10K",
    "FALSE_ALARM_RATE",
    "LossDetector",
    "SpikeDetector",
    "diagnose",
    "for_run",
    "not_checked",
    "with_checkpoints",
]
