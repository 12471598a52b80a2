"""The post-mortem of a halted run: what was seen, what it rests on, where to go on from."""

import json
from collections.abc import Sequence
from pathlib import Path

from surefoot.records import Finding, to_json
from surefoot.runs.durable import write_atomic

FILE = "postmortem.md"


def write_postmortem(
    folder: Path, findings: Sequence[Finding], step: int, last_good: int | None
) -> Path:
    """Write ``postmortem.md`` into the run folder; returns its path.

    Args:
        folder: the run folder.
        findings: those that halted the run.
        step: the last step taken.
        last_good: step of the newest trusted checkpoint, if there is one.
    """
    lines = [f"# Post-mortem of {folder.name}", "", f"Halted by policy after step {step}.", ""]
    for finding in findings:
        lines += [f"## {finding.code} {finding.name}", "", finding.message, ""]
        lines += [f"- {action}" for action in finding.actions]
        evidence = json.dumps(to_json(finding.evidence), indent=2)
        lines += ["", "Evidence:", "", "```json", evidence, "```", ""]
        if finding.references:
            lines += ["Known from: " + "; ".join(finding.references), ""]
    lines += ["## Where to go on", "", _advice(folder.name, last_good), ""]
    path = folder / FILE
    write_atomic(path, "\n".join(lines).encode())
    return path


def _advice(name: str, last_good: int | None) -> str:
    if last_good is None:
        return (
            "No checkpoint from before the trouble is known: start again under another name, with "
            "a change that answers the finding above."
        )
    return (
        f"The last good checkpoint is step {last_good}. `surefoot train --name {name} --resume` "
        "goes on from there with the same settings and the same batches; where the cause is in "
        "them, the trouble comes back. Start a new run with `--set` to change a setting."
    )
