"""The configuration formats, one a module; a module that is put here is found by itself.

Each defines ``FORMAT`` (or ``FORMATS``, several of one family), an instance of a subclass of
:class:`~surefoot.readers.configs.formats.ConfigFormat`. Modules whose names begin with ``_`` hold
what several formats share.
"""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from surefoot.readers.configs.formats import ConfigFormat
from surefoot.registry import Registry


@cache
def formats() -> Registry[ConfigFormat]:
    """Every configuration format by name."""
    found: Registry[ConfigFormat] = Registry("configuration format")
    for module in sorted(iter_modules(__path__), key=lambda item: item.name):
        if module.name.startswith("_"):
            continue
        loaded = import_module(f"{__name__}.{module.name}")
        for item in getattr(loaded, "FORMATS", None) or (loaded.FORMAT,):
            found.register(item.name)(item)
    found.freeze()
    return found
