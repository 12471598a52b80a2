"""Finds spikes, shifts, divergence and non-finite values, online and offline with one detector.

::

    from surefoot.detect import LossDetector
    from surefoot.records import StepRecord

    detector = LossDetector(vocab_size=50304)
    for step, loss in enumerate(losses, start=1):
        verdict = detector.update(StepRecord(step=step, values={"loss": loss}))
        for finding in verdict.findings:
            print(finding.code, finding.message)

    from surefoot.detect import diagnose
    findings = diagnose(run)              # the same, fed with a whole run

It needs neither torch nor numpy. The state is plain JSON: ``state_dict()``, ``load_state_dict()``.
"""

from surefoot.detect.diagnose import diagnose
from surefoot.detect.loss import LossDetector
from surefoot.detect.messages import FALSE_ALARM_RATE, for_run, with_checkpoints

__all__ = ["FALSE_ALARM_RATE", "LossDetector", "diagnose", "for_run", "with_checkpoints"]
