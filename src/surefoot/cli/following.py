"""Standard input, judged while it arrives: ``tail -f train.log | surefoot diagnose -``."""

from collections.abc import Mapping

from surefoot.cli.console import results, say, show
from surefoot.detect import SpikeDetector, diagnose, for_run
from surefoot.readers import Following
from surefoot.records import Finding, Run


def follow(
    *,
    format_in: str | None,
    mapping: Mapping[str, str],
    vocab_size: int | None,
    false_alarms_per_10k: float,
    tell: bool,
) -> tuple[Run, list[Finding]]:
    """Read until the input ends or Ctrl-C is pressed; findings are told as they are made.

    A row is judged when the next one begins, or the input ends: until then more may be told of it.

    Returns:
        The run as read, and the findings with which each incident ended.
    """
    following = Following(format_in=format_in, mapping=mapping)
    detector = SpikeDetector(vocab_size=vocab_size, false_alarms_per_10k=false_alarms_per_10k)
    said = False
    try:
        for record in following.records():
            if detector.incident is None and not said:
                said = True
                title = following.title
                say(f"reading {title} from step {record.step:,}; Ctrl-C ends it with a summary")
            for finding in detector.update(record).findings:
                if tell:
                    _print(for_run(finding, following.name, data=False))
    except KeyboardInterrupt:
        say("interrupted: what was read so far is judged")
    run = following.run()
    return run, diagnose(run, vocab_size=vocab_size, false_alarms_per_10k=false_alarms_per_10k)


def _print(finding: Finding) -> None:
    from surefoot.report import render_findings

    with results():
        show(render_findings([finding]))
