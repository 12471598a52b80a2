"""Runs inside the packages' own environment: a request a line in, their reports a line out.

It imports neither surefoot nor numpy. Their output is taken as they print it; nothing is patched.
"""

import contextlib
import csv
import io
import json
import re
import sys

SPIKES = {"loss_spike", "loss_spikes", "grad_spikes"}
LOUD = {"warning", "error", "critical"}


def losslint(path):
    """The findings of ``losslint check --format json``."""
    from losslint.cli import main

    found = printed(main, ["check", path, "--format", "json"])["findings"]
    for finding in found:
        details = finding.get("details") or {}
        steps = details.get("steps") or [
            details[key] for key in ("since_step",) if details.get(key) is not None
        ]
        yield finding["check"], finding["severity"], steps


def runmedic(path):
    """The findings of ``runmedic diagnose --json``; spike steps stand in its evidence's text."""
    from runmedic.cli import main

    for run in printed(main, ["diagnose", path, "--json"]):
        for finding in run["findings"]:
            text = " ".join(finding["evidence"])
            listed = re.search(r"spike steps: ([\d, ]+)", text)
            steps = [int(step) for step in re.findall(r"\d+", listed[1])] if listed else []
            if not steps and finding["step"] is not None:
                steps = [int(finding["step"])]
            yield finding["check"], finding["severity"], steps


def trainpulse(path):
    """The alerts of its Monitor, fed row by row."""
    from trainpulse import Monitor

    monitor = Monitor()
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            step = int(row.pop("step"))
            for name, value in row.items():
                if value:
                    for alert in monitor.log(name, step, float(value)):
                        yield alert.detector, alert.severity.value, [step]


def printed(main, arguments):
    """What a command prints, parsed; its exit status says only whether it found something."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main(arguments)
    return json.loads(out.getvalue())


def reports(package, path):
    """What counts as an alarm."""
    run = {"losslint": losslint, "runmedic": runmedic, "trainpulse": trainpulse}[package]
    return [
        {"check": check, "severity": severity, "steps": list(steps)}
        for check, severity, steps in run(path)
        if severity in LOUD or check in SPIKES
    ]


def serve():
    """Answer until the input ends."""
    answers = sys.stdout
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"reports": reports(request["package"], request["path"])}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve()
