"""The command line: arguments to calls, and the only part that prints.

Exit status: 0 no finding of severity error; 1 at least one; 2 unusable input or usage; 3 halted by
policy; 4 internal error; 130 and 143 interrupted after a checkpoint.
"""

import io
import os
import sys
from collections.abc import Sequence

from surefoot.errors import SurefootError

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit status and never raises."""
    from surefoot.cli.app import app

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what it cannot show is shown as an escape
            stream.reconfigure(errors="backslashreplace")
    try:
        result = int(app(args=arguments, prog_name="surefoot", standalone_mode=False) or 0)
        if result == 130:  # typer turns Ctrl-C into this status, without a word
            return _fail("interrupted", 130)
        if sys.stdout is not None:
            sys.stdout.flush()
        return result
    except SurefootError as error:
        return _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else 1
        # Over 128 it is a signal that came outside the loop; 1 is how typer takes a reader who
        # left the pipe, which is no error of ours.
        return _fail("terminated", status) if status > 128 else 0
    except BrokenPipeError:
        # The reader of a pipe left (`surefoot report ... | head`): not an error of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        return _unexpected(error)


def _unexpected(error: Exception) -> int:
    # typer brings its own click, or uses the package, by version: both name the class so.
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "Exit" in kinds:
        return int(getattr(error, "exit_code", 0))
    if "Abort" in kinds:
        return _fail("aborted", 130)
    if "NoArgsIsHelpError" in kinds:
        sys.stderr.write(f"{error}\n")
        return 2
    if "ClickException" in kinds:
        context = getattr(error, "ctx", None)
        where = f"; type  {context.command_path} --help" if context is not None else ""
        said = error.format_message().rstrip(".")  # type: ignore[attr-defined]
        return _fail(f"{said}{where}", 2)
    if isinstance(error, OSError):
        return _fail(f"{error.filename or 'output'}: {error.strerror or error}", 2)
    import traceback

    traceback.print_exception(error)
    return _fail(f"internal error ({type(error).__name__}); please report the lines above", 4)


def _fail(message: str, status: int) -> int:
    from surefoot.cli.console import printable

    # A file name may hold an escape sequence; the terminal is not to obey it.
    sys.stderr.write(f"surefoot: {printable(message)}\n")
    return status
