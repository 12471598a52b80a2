"""Several files as one: what they agree on, what contradicts, what the trainer fills in."""

from collections.abc import Sequence
from typing import Any

from surefoot.readers.configs.documents.hints import hints
from surefoot.readers.configs.formats import Draft, Statement
from surefoot.recipe.words import printable, short
from surefoot.records import Finding, Place, Severity


def merge(drafts: Sequence[Draft]) -> tuple[dict[str, Statement], list[Finding]]:
    """The statements by field, and the contradictions among them."""
    stated: dict[str, Statement] = {}
    findings: list[Finding] = []
    for draft in drafts:
        findings += _repeated(draft)
    findings += _shared_keys(drafts)
    for draft in drafts:
        for statement in draft.statements.values():
            _add(statement, stated, findings, drafts)
    for draft in drafts:
        for statement in _hinted(draft):
            _add(statement, stated, findings, drafts)
    return stated, findings


def fill(drafts: Sequence[Draft], stated: dict[str, Statement]) -> None:
    """Add what the trainers fill in where nobody states it, marked as assumed."""
    for draft in sorted(drafts, key=lambda item: -item.form.rank):
        values = {field: statement.value for field, statement in stated.items()}
        left = {field for field, _ in draft.left_open}  # "auto" is no default of its own
        for field, value in draft.form.filled(values, draft).items():
            if field not in stated and value is not None and field not in left:
                stated[field] = Statement(
                    field=field,
                    value=value,
                    kind="default",
                    assumed=draft.form.assumed(draft),
                    format=draft.form.name,
                )


def _hinted(draft: Draft) -> list[Statement]:
    return [
        Statement(
            field=hint.field,
            value=hint.value,
            key=hint.text,
            path=draft.document.path,
            line=hint.line,
            kind="comment" if hint.kind == "comment" else "config",
        )
        for hint in hints(draft.document)
    ]


def _add(
    new: Statement, stated: dict[str, Statement], findings: list[Finding], drafts: Sequence[Draft]
) -> None:
    old = stated.get(new.field)
    if old is None:
        stated[new.field] = new
        return
    if old.value == new.value or new.field in _MAY_DIFFER:
        return
    if new.field == "environment.device":
        return  # two comments about it
    if _is_default(old, drafts):
        stated[new.field] = new
        return
    if _is_default(new, drafts):
        return
    used = _used(old, new, drafts)
    if used == "new":
        stated[new.field] = new
    findings.append(_contradiction(old, new, used, drafts))


def _is_default(statement: Statement, drafts: Sequence[Draft]) -> bool:
    """Whether a log prints what the trainer fills in anyway: nobody need have asked for it."""
    if statement.kind != "log":
        return False
    for draft in drafts:
        if (draft.form.name, draft.document.path) == (statement.format, statement.path):
            values = {item.field: item.value for item in draft.statements.values()}
            others = {field: value for field, value in values.items() if field != statement.field}
            return bool(draft.form.filled(others, draft).get(statement.field) == statement.value)
    return False


_MAY_DIFFER = frozenset({"name", "trainer"})


def _used(old: Statement, new: Statement, drafts: Sequence[Draft]) -> str:
    """``old``, ``new``, ``refused`` (the trainer does not start) or ``unknown``."""
    if new.kind == "comment" or old.kind == "comment":
        return "old" if new.kind == "comment" else "new"
    forms = {draft.form.name: draft.form for draft in drafts}
    for one, other, mine, theirs in ((old, new, "old", "new"), (new, old, "new", "old")):
        rules = forms[one.format].against.get(other.format, {}) if one.format in forms else {}
        field = one.field
        for prefix in sorted(rules, key=len, reverse=True):
            if field.startswith(prefix):
                word = rules[prefix]
                return {"wins": mine, "yields": theirs}.get(word, "refused")
    return "unknown"


def _contradiction(old: Statement, new: Statement, used: str, drafts: Sequence[Draft]) -> Finding:
    titles = {draft.form.name: draft.form.title for draft in drafts}
    kept = new if used == "new" else old
    if new.kind == "comment":
        told, severity = "the comment counts for nothing", "warning"
    elif used in ("old", "new"):
        told = f"{titles.get(kept.format, 'the trainer')}'s value is used, silently"
        severity = "error"
    elif used == "refused":
        told, severity = "the trainer refuses to start", "warning"
    else:
        told, severity = "which one the trainer uses is not known; the first is shown", "warning"
    return _finding(
        new.field,
        (old, new),
        f"{new.field} is stated twice: {_said(old)} and {_said(new)}; {told}",
        severity,
        kept,
        used=used,
    )


def _finding(
    field: str,
    both: tuple[Statement, Statement],
    message: str,
    severity: str,
    kept: Statement,
    **more: Any,
) -> Finding:
    level: Severity = "error" if severity == "error" else "warning"
    evidence = {
        "values": [item.value for item in both],
        "files": [item.path for item in both],
        "lines": [item.line for item in both],
        **more,
    }
    places = " or ".join(dict.fromkeys(_place(item) for item in both))
    return Finding(
        code="CFG001",
        name="contradiction",
        severity=level,
        place=Place(field=field, file=kept.path, line=kept.line),
        evidence=evidence,
        message=message,
        actions=(f"state {field} once: correct {places}",),
    )


def _repeated(draft: Draft) -> list[Finding]:
    """Keys given twice in one file."""
    found = []
    for earlier, later in draft.document.repeated:
        key = draft.form.written(later, draft.document)
        both = [
            Statement(field=key, value=leaf.value, key=key, path=draft.document.path,
                      line=leaf.line, format=draft.form.name)
            for leaf in (earlier, later)
        ]  # fmt: skip
        refused = draft.form.repeats == "refused"
        # On a command line the last word is often meant to replace one of a common list.
        silent = not refused and draft.document.kind not in ("arguments", "dump")
        told = f"{draft.form.title} {'refuses this' if refused else 'uses the last'}"
        message = f"{key} is given twice in one file: {_said(both[0])} and {_said(both[1])}; {told}"
        severity = "error" if silent else "warning"
        used = "refused" if refused else "new"
        found.append(_finding(key, (both[0], both[1]), message, severity, both[1], used=used))
    return found


def _shared_keys(drafts: Sequence[Draft]) -> list[Finding]:
    """Keys of files that are merged and may share none (GPT-NeoX)."""
    found = []
    seen: dict[tuple[str, str], Statement] = {}
    for draft in drafts:
        if not draft.form.no_key_twice:
            continue
        for key, leaf in draft.leaves.items():
            new = Statement(field=key, value=leaf.value, key=leaf.key, path=draft.document.path,
                            line=leaf.line, format=draft.form.name)  # fmt: skip
            old = seen.setdefault((draft.form.name, key), new)
            if old.path != new.path:
                told = f"{draft.form.title} merges its files and refuses a key in two of them"
                message = f"{key} is in two files: {_said(old)} and {_said(new)}; {told}"
                found.append(_finding(key, (old, new), message, "warning", old, used="refused"))
    return found


def _said(statement: Statement) -> str:
    value = short(repr(statement.value))
    key = f" ({short(statement.key)})" if statement.key and statement.key != statement.field else ""
    return f"{value} in {_place(statement)}{key}"


def _place(statement: Statement) -> str:
    path = printable(statement.path or "?")
    return f"{path}:{statement.line}" if statement.line else path
