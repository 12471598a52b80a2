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


def say(line: str) -> None:
    """A line of progress, to stderr."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
