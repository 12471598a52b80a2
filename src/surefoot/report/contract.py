"""The JSON that commands print: one shape for all, held by a published schema and a golden file.

The schema is ``surefoot/report/schema/findings.schema.json``. Adding a key keeps ``schema``;
changing or removing one raises it.
"""

import json
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

from surefoot.records import SCHEMA, SEVERITIES, Finding
from surefoot.records import to_json as record_to_json


def to_json(
    command: str,
    inputs: Iterable[object],
    findings: Iterable[Finding],
    not_checked: Iterable[Mapping[str, str]] = (),
    summary: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What ``--format json`` prints, as values that ``json.dumps(..., allow_nan=False)`` accepts.

    Args:
        command: the subcommand, e.g. ``diagnose``.
        inputs: what it was given (paths, names), as it was given.
        findings: in the order to print.
        not_checked: for each rule that could not be checked, its ``code`` and what it ``needs``.
        summary: numbers of the command's own; the count of findings by severity is added.

    Returns:
        The document; non-finite numbers are ``"nan"``, ``"inf"`` and ``"-inf"``.

    Raises:
        ValueError: an entry of ``not_checked`` without ``code`` or ``needs``.
    """
    findings = list(findings)
    unchecked = []
    for entry in not_checked:
        if "code" not in entry or "needs" not in entry:
            raise ValueError(f"not_checked: expected 'code' and 'needs', got {dict(entry)!r}")
        unchecked.append(record_to_json(entry))
    counts = {s: sum(f.severity == s for f in findings) for s in reversed(SEVERITIES)}
    return {
        "schema": SCHEMA,
        "command": command,
        "inputs": [str(item) for item in inputs],
        "findings": [record_to_json(finding) for finding in findings],
        "not_checked": unchecked,
        "summary": {"findings": counts, **record_to_json(summary or {})},
    }


def json_schema() -> dict[str, Any]:
    """The published JSON Schema (draft 2020-12) of :func:`to_json`."""
    text = files("surefoot.report").joinpath("schema/findings.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
