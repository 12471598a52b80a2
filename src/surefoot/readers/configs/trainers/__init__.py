"""The configuration formats, one a module; a module that is put here is found by itself.

Each defines ``FORMAT`` (or ``FORMATS``, several of one family), an instance of a subclass of
:class:`~surefoot.readers.configs.formats.ConfigFormat`. Modules whose names begin with ``_`` hold
what several formats share.
"""

from functools import cache

from surefoot.readers.configs.formats import ConfigFormat
from surefoot.readers.discover import discover
from surefoot.registry import Registry


@cache
def formats() -> Registry[ConfigFormat]:
    """Every configuration format by name."""
    return discover(__name__, __path__, "configuration format")
