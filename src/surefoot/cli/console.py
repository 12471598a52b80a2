"""What goes to the terminal: results to stdout, progress to stderr."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from surefoot.errors import StorageError


@contextmanager
def results() -> Iterator[None]:
    """Print within it what a command found: it is with the reader when the block ends.

    Raises:
        StorageError: standard output is closed, or what it leads to is full or refuses.
    """
    if sys.stdout is None:  # as after `>&-`
        raise StorageError(
            "cannot write to standard output: it is closed; give it a file or a pipe"
        )
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        # What is still in the buffer would fail once more when Python ends, with a status of its
        # own: let it go nowhere.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return  # the reader of a pipe has what it wanted (`surefoot report ... | head`)
        raise StorageError(
            f"cannot write to standard output: {error.strerror}; let it lead elsewhere, then "
            "repeat the command"
        ) from error


def show(renderable: Any) -> None:
    """Print a rich renderable to stdout."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise  # what rich is handling, for `results`; rich would leave with status 1

    Plain(highlight=False).print(renderable)


def print_json(value: Any) -> None:
    """Print strict JSON to stdout, with escapes where its encoding lacks a character."""
    text = json.dumps(value, allow_nan=False, indent=2, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # a path that is no UTF-8, too
        text = json.dumps(value, allow_nan=False, indent=2)
    sys.stdout.write(text + "\n")


def printable(line: str) -> str:
    """The line with control characters shown as escapes, spaces and tabs as they are."""
    return "".join(
        c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode() for c in line
    )


def say(line: str) -> None:
    """A line of progress, to stderr."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
