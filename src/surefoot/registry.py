"""One generic registry: names to objects, with collision errors, "did you mean" and ``freeze``."""

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from surefoot.errors import UsageError, nearest

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """Named things of one kind.

    ::

        SCHEDULES: Registry[Callable[..., float]] = Registry("schedule")

        @SCHEDULES.register("cosine")
        def cosine(...): ...

    Args:
        kind: what the entries are, for messages ("schedule", "log format").
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._items: dict[str, T] = {}
        self._frozen = False

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator that adds an entry.

        Raises:
            ValueError: if the name is taken by another object, or the registry is frozen.
        """

        def add(item: T) -> T:
            if self._frozen:
                raise ValueError(f"the {self.kind} registry is frozen: cannot add {name!r}")
            if name in self._items and self._items[name] is not item:
                raise ValueError(f"{self.kind} {name!r} is already {self._items[name]!r}")
            self._items[name] = item
            return item

        return add

    def freeze(self) -> None:
        """Refuse further entries."""
        self._frozen = True

    def lookup(self, name: str) -> T:
        """The entry, or UsageError naming the nearest known one."""
        if name not in self._items:
            known = ", ".join(sorted(self._items))
            hint = nearest(name, list(self._items))
            raise UsageError(f"unknown {self.kind} {name!r}{hint}; known: {known}")
        return self._items[name]

    def __getitem__(self, name: str) -> T:
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)
