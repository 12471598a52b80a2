"""Many incidents of one run in a line: how many, how often, the worst."""

from collections.abc import Sequence

from surefoot.records import Finding

MANY = 4


def summary(findings: Sequence[Finding], records: int) -> str | None:
    """One line on the spikes of a run that came back; None if there are fewer than four.

    Args:
        findings: of one run, one an incident.
        records: records of the run.
    """
    back = [finding for finding in findings if finding.code == "SPK001"]
    if len(back) < MANY:
        return None
    worst = max(back, key=_peak)
    first, last = back[0].evidence["onset_step"], back[-1].evidence["onset_step"]
    half = (first + last) / 2
    late = sum(1 for finding in back if finding.evidence["onset_step"] > half)
    trend = ""
    if late >= 3 * (len(back) - late):
        trend = ", most of them in the later half"
    elif len(back) - late >= 3 * late:
        trend = ", most of them in the earlier half"
    rest = [finding for finding in findings if finding.code in ("SPK002", "SPK003", "SPK004")]
    other = f"; {len(rest)} more did not come back or were not finite" if rest else ""
    return (
        f"{len(back)} spikes that came back, {1000 * len(back) / max(records, 1):.2g} a thousand "
        f"records, between steps {first} and {last}{trend}; worst {_peak(worst):+.3g} nat at step "
        f"{worst.evidence['peak_step']}{other}"
    )


def _peak(finding: Finding) -> float:
    return float(finding.evidence["peak_nats"])
