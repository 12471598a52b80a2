"""surefoot keeps language-model pre-training runs on their feet.

The parts are plain Python packages that can be used alone; importing ``surefoot`` itself loads none
of them::

    import surefoot
    watch = surefoot.watch(model, optimizer)   # any nn.Module, any torch optimizer
    watch.loss(loss)
    verdict = watch.step()                     # a value: nothing acts unless you do
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from surefoot.watching import watch as watch

__all__ = ["__version__", "watch"]

# Public names that live in a part, loaded on first use (PEP 562): `import surefoot` is free.
_LAZY = {"watch": "surefoot.watching"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'surefoot' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
