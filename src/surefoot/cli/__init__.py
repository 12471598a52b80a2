"""The command line: arguments to calls, and the only part that prints.

Exit status: 0 no finding of severity error; 1 at least one; 2 unusable input or usage; 3 halted by
policy; 4 internal error; 130 and 143 interrupted after a checkpoint.
"""

import os
import sys
from collections.abc import Sequence

from surefoot.errors import SurefootError

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit status and never raises."""
    from surefoot.cli.app import app

    try:
        result = app(args=arguments, prog_name="surefoot", standalone_mode=False)
        sys.stdout.flush()
        return int(result or 0)
    except SurefootError as error:
        return _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
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
        return _fail(f"{error.format_message()}{where}", 2)  # type: ignore[attr-defined]
    if isinstance(error, OSError) and error.filename is not None:
        return _fail(f"{error.filename}: {error.strerror}", 2)
    import traceback

    traceback.print_exception(error)
    return _fail(f"internal error ({type(error).__name__}); please report the lines above", 4)


def _fail(message: str, status: int) -> int:
    sys.stderr.write(f"surefoot: {message}\n")
    return status
