"""Errors that say what was got, what was expected and what to type.

::

    SurefootError                exit 2: unusable input or usage, one line
    ├── UsageError               a command or call that cannot be meant
    ├── RecipeError              a recipe or --set that cannot be used
    ├── DataError                a corpus, tokenizer or token file that cannot be used
    ├── RunFolderError           a run folder that is missing, taken, foreign or newer
    ├── CheckpointError          a checkpoint that is missing, torn or altered
    ├── LogError                 a log that cannot be read, or holds no metrics
    ├── ConfigError              a configuration of another trainer that cannot be read
    ├── StorageError             the disk is full or refuses to write
    └── MissingExtraError        a package of an extra is not installed

Programming mistakes raise the built-in errors; these are for people.
"""

from importlib import import_module
from types import ModuleType


class SurefootError(Exception):
    """Base of what surefoot raises for its users; ``str(error)`` is one line."""

    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class UsageError(SurefootError):
    """A command or call that cannot be meant."""


class RecipeError(SurefootError):
    """A recipe, configuration or ``--set`` that cannot be used."""


class DataError(SurefootError):
    """A corpus, tokenizer or token file that cannot be used."""


class RunFolderError(SurefootError):
    """A run folder that is missing, taken, foreign or of a newer format."""


class CheckpointError(SurefootError):
    """A checkpoint that is missing, torn or altered."""


class LogError(SurefootError):
    """A log that cannot be read, or in which no metrics were found."""


class ConfigError(SurefootError):
    """A configuration of another trainer that cannot be read."""


class StorageError(SurefootError):
    """The disk is full or refuses to write; what was committed before is untouched."""


class MissingExtraError(SurefootError):
    """A package of an optional extra is not installed."""


def require(module: str, extra: str) -> ModuleType:
    """Import ``module``, or raise MissingExtraError that names the extra to install."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        raise MissingExtraError(
            f"this needs the package {module.partition('.')[0]!r}, which is not installed: "
            f"type  pip install 'surefoot[{extra}]'"
        ) from None


def nearest(word: str, known: list[str]) -> str:
    """``" (did you mean 'X'?)"`` for the nearest known word, "" if none is near."""
    from difflib import get_close_matches

    close = get_close_matches(word, known, n=1, cutoff=0.6)
    return f" (did you mean {close[0]!r}?)" if close else ""
