"""Formats found by themselves: every module of a folder that defines one."""

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from surefoot.registry import Registry


def discover(package: str, path: list[str], kind: str) -> Registry[Any]:
    """What the modules of a package define as ``FORMAT`` or ``FORMATS``, by ``name``.

    Modules whose names begin with ``_`` hold what several formats share.

    Args:
        package: its dotted name.
        path: its ``__path__``.
        kind: what the entries are, for messages.

    Raises:
        ValueError: if two formats have one name.
    """
    found: Registry[Any] = Registry(kind)
    for module in sorted(iter_modules(path), key=lambda item: item.name):
        if module.name.startswith("_"):
            continue
        loaded = import_module(f"{package}.{module.name}")
        for item in getattr(loaded, "FORMATS", None) or (loaded.FORMAT,):
            found.register(item.name)(item)
    found.freeze()
    return found
