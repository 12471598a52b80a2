"""What goes to the terminal: results to stdout, progress to stderr."""

import json
import sys
from typing import Any


def show(renderable: Any) -> None:
    """Print a rich renderable to stdout."""
    from rich.console import Console

    Console(highlight=False).print(renderable)


def print_json(value: Any) -> None:
    """Print strict JSON to stdout."""
    sys.stdout.write(json.dumps(value, allow_nan=False, indent=2, ensure_ascii=False) + "\n")


def printable(line: str) -> str:
    """The line with control characters shown as escapes, spaces and tabs as they are."""
    return "".join(
        c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode() for c in line
    )


def say(line: str) -> None:
    """A line of progress, to stderr."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
