"""The log formats, one a module; a module that is put here is found by itself.

Each defines ``FORMAT`` (or ``FORMATS``, several of one family): a
:class:`~surefoot.readers.formats.LineFormat` or a
:class:`~surefoot.readers.formats.FileFormat`. Modules whose names begin with ``_`` hold what
several formats share.
"""

from functools import cache

from surefoot.readers.discover import discover
from surefoot.readers.formats import LogFormat
from surefoot.registry import Registry


@cache
def formats() -> Registry[LogFormat]:
    """Every log format by name."""
    return discover(__name__, __path__, "log format")
