"""Generate docs/reference/: rule pages, the recipe reference, the signal catalogue.

The texts lie beside the code that they describe; these pages only bring them together.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from surefoot.codes import CODES, FAMILIES, explanation
from surefoot.recipe import Recipe
from surefoot.recipe.kinds import default_words, expected, section_in
from surefoot.records import CATALOGUE, READ

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = Path("docs/reference")
NOTE = "<!-- Written by scripts/docs: change the source, not this page. -->\n\n"


def pages() -> dict[Path, str]:
    """Every generated page by its path below the repository."""
    found = {
        REFERENCE / "recipe.md": recipe(),
        REFERENCE / "signals.md": signals(),
        REFERENCE / "formats.md": formats(),
        REFERENCE / "codes" / "README.md": codes(),
    }
    for code in CODES:
        found[REFERENCE / "codes" / f"{code}.md"] = explanation(code).rstrip() + "\n"
    return {path: NOTE + text for path, text in found.items()}


def recipe() -> str:
    """One table a section: key, what it takes, default, meaning."""
    text = """# Recipes

A recipe is a whole run as TOML; `recipes/` holds some that are ready to use. Every field can be
given on the command line too: `--set optimizer.learning_rate=1e-3`, and into the list of sources
`--set data.sources[0].weight=2`. A key that is not listed here is an error.
"""
    for path, section in sections():
        heading = f"`{path}`" if path else "At the top"
        meaning = (section.__doc__ or "") if path else "Before the first section."
        text += f"\n## {heading}\n\n{paragraph(meaning)}\n\n"
        text += table(
            ("key", "takes", "default", "meaning"),
            (
                (f"`{name}`", expected(field), default_words(field), field.description or "")
                for name, field in section.model_fields.items()
                if section_in(field.annotation) is None
            ),
        )
    return text


def sections() -> Iterator[tuple[str, type]]:
    """``[section]`` or ``[[list.of.sections]]`` and its model, in the order of a recipe."""
    queue: list[tuple[str, type]] = [("", Recipe)]
    while queue:
        path, section = queue.pop(0)
        yield path, section
        name = path.strip("[]")
        inner = []
        for key, field in section.model_fields.items():
            if model := section_in(field.annotation):
                full = f"{name}.{key}" if name else key
                several = expected(field).startswith("a list")
                inner.append((f"[[{full}]]" if several else f"[{full}]", model))
        queue = inner + queue


def signals() -> str:
    """The catalogue."""
    text = """# Signals

What a run records, in rows of one optimizer step each. A signal "by place" has a value for each
parameter or layer, addressed as `grad_norm@layers.3.attention.wo`. "Bad" is the direction in which
it leaves its healthy range. Volatile ones depend on the clock or the memory and are outside every
promise of bit equality.

"""
    return (
        text
        + table(
            ("signal", "unit", "bad", "by place", "volatile", "definition", "source"),
            (
                (
                    f"`{signal.name}`",
                    signal.unit,
                    {"none": ""}.get(signal.bad, signal.bad),
                    "yes" if signal.per_place else "",
                    "yes" if signal.volatile else "",
                    signal.definition,
                    signal.source,
                )
                for signal in CATALOGUE.values()
            ),
        )
        + """
Only other trainers' logs bring these; a field that is not known keeps its own name.

"""
        + table(
            ("signal", "unit", "bad", "definition", "source"),
            (
                (
                    f"`{signal.name}`",
                    signal.unit,
                    {"none": ""}.get(signal.bad, signal.bad),
                    signal.definition,
                    signal.source,
                )
                for signal in READ.values()
            ),
        )
    )


def formats() -> str:
    """What is read: log formats and configuration formats."""
    from surefoot.readers import configs, logs

    text = """# Formats that are read

A format is told by the contents of a file, never by its name.

## Logs

`surefoot diagnose FILE --format-in NAME` forces one.

"""
    text += table(
        ("name", "what"), ((f"`{name}`", fmt.title) for name, fmt in sorted(logs.formats().items()))
    )
    text += """
## Configurations

Several files together make one specification: `surefoot check FILE...`.

"""
    return text + table(
        ("name", "what", "defaults taken from"),
        (
            (f"`{name}`", form.title, form.version or "")
            for name, form in sorted(configs.trainers.formats().items())
        ),
    )


def codes() -> str:
    """The table of codes by family."""
    text = """# Codes

What surefoot tells people has a code; `surefoot explain CODE` prints the page behind it. The
severity is the usual one; `error` makes a command exit with status 1.
"""
    for family, title in FAMILIES.items():
        entries = [entry for code, entry in CODES.items() if code.startswith(family)]
        if entries:
            text += f"\n## {family}: {title}\n\n" + table(
                ("code", "name", "severity", "since", "in one line"),
                (
                    (f"[{e.code}]({e.code}.md)", f"`{e.name}`", e.severity, e.since, e.title)
                    for e in entries
                ),
            )
    return text


def paragraph(text: str) -> str:
    """A docstring as one line."""
    return " ".join(text.split())


def table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    """A Markdown table; a bar inside a cell does not end it."""
    lines = [head, ("---",) * len(head)]
    lines += [tuple(paragraph(cell).replace("|", "\\|") for cell in row) for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main(arguments: list[str]) -> int:
    """Write the pages, or with ``--check`` say which are out of date."""
    if arguments not in ([], ["--check"]):
        print("usage: scripts/docs [--check]", file=sys.stderr)
        return 2
    wanted = pages()
    there = {path.relative_to(ROOT) for path in (ROOT / REFERENCE).rglob("*.md")}
    stale = [
        path
        for path, text in wanted.items()
        if path not in there or (ROOT / path).read_text(encoding="utf-8") != text
    ]
    gone = sorted(there - set(wanted))
    if arguments:
        for path in [*stale, *gone]:
            print(f"{path} is out of date: run scripts/docs", file=sys.stderr)
        return 1 if stale or gone else 0
    for path in stale:
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(wanted[path], encoding="utf-8")
    for path in gone:
        (ROOT / path).unlink()
    print(f"{len(wanted)} pages, {len(stale)} written, {len(gone)} removed", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
