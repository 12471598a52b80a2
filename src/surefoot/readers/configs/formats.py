"""What a configuration format is: the keys of one trainer, where they go, and what it fills in.

A format is a module in ``configs/trainers/`` with ``FORMAT`` (or ``FORMATS``), an instance of a
subclass of :class:`ConfigFormat`. The table :attr:`ConfigFormat.keys` says where each key goes;
what a table cannot say (several keys that mean one thing) goes into
:meth:`ConfigFormat.interpret`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from surefoot.readers.configs.documents.tree import Document, Leaf
from surefoot.readers.configs.fields import fit


@dataclass(frozen=True, slots=True)
class To:
    """Where a key goes.

    Attributes:
        field: dotted path in a TrainSpec, or ``environment.x``.
        convert: value as written -> value of the field (which is then made to fit its type).
            ValueError = it cannot be used; None = it states nothing.
        keep: whether ``options`` holds it as well, as it was written.
    """

    field: str
    convert: Callable[[Any], Any] | None = None
    keep: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A field that a file states, or a trainer fills in."""

    field: str
    value: Any
    key: str | None = None
    path: str | None = None
    line: int | None = None
    kind: str = "config"
    assumed: str | None = None
    format: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """A key about which something is to be said.

    Attributes:
        key: as written.
        file: path.
        line: from 1.
        text: what is so: for an unresolved key, what left it open.
        nearest: the known key that was perhaps meant, where a key was not understood.
    """

    key: str
    file: str
    line: int | None
    text: str = ""
    nearest: str | None = None


class Draft:
    """What one document states in the words of one format; filled by the table and ``interpret``.

    Keys are looked up by the format's spelling (:meth:`ConfigFormat.spell`).
    """

    def __init__(self, form: "ConfigFormat", document: Document) -> None:
        self.form, self.document = form, document
        self.leaves: dict[str, Leaf] = {}
        for leaf in document.leaves.values():
            self.leaves[form.spell(leaf.key)] = leaf
        self.statements: dict[str, Statement] = {}
        self.unresolved: list[Noted] = []
        self.remarks: list[Noted] = []
        self.left_open: list[tuple[str, Noted]] = []
        self._placed: set[str] = set()
        self._read: set[str] = set()

    def has(self, key: str) -> bool:
        """Whether the key is stated with a value that is known and is not null."""
        leaf = self.leaves.get(key)
        return leaf is not None and leaf.open is None and leaf.value is not None

    def value(self, key: str, default: Any = None) -> Any:
        """Its value; ``default`` if it is absent, null or open. It counts as understood."""
        self._read.add(key)
        return self.leaves[key].value if self.has(key) else default

    def number(self, key: str) -> float | None:
        """Its value as a number; None if it is absent, null, open or none."""
        value = self.value(key)
        try:
            return None if value is None else float(fit("optimizer.eps", value))
        except (ValueError, OverflowError):
            return None

    def true(self, key: str) -> bool:
        """Whether it is stated as true."""
        value = self.value(key)
        try:
            return value is not None and bool(fit("architecture.bias", value))
        except ValueError:
            return False

    def say(self, field: str, value: Any, key: str) -> None:
        """State a field, with the place of ``key``; a later word on a field replaces an earlier.

        A value that does not fit the field is noted as unresolved.
        """
        leaf = self.leaves[key]
        try:
            fitted = fit(field, value)
        except (ValueError, OverflowError) as error:
            self.open(key, f"{_short(value)}: {error or 'out of range'}")
            return
        self._placed.add(key)
        self.statements[field] = Statement(
            field=field,
            value=fitted,
            key=self.form.written(leaf, self.document),
            path=self.document.path,
            line=leaf.line,
            kind="log" if self.document.kind == "dump" else "config",
            format=self.form.name,
        )

    def unsay(self, field: str) -> None:
        """Take a statement of this document back."""
        self.statements.pop(field, None)

    def open(self, key: str, why: str) -> None:
        """Note that a key's value is not known, or cannot be used."""
        leaf = self.leaves[key]
        self._read.add(key)
        note = Noted(key=leaf.key, file=self.document.path, line=leaf.line, text=why)
        if note not in self.unresolved:
            self.unresolved.append(note)

    def leave(self, field: str, key: str, why: str) -> None:
        """Note that a key leaves a field to another file (``auto``): open unless one states it."""
        leaf = self.leaves[key]
        self._placed.add(key)
        note = Noted(key=leaf.key, file=self.document.path, line=leaf.line, text=why)
        self.left_open.append((field, note))

    def remark(self, key: str, text: str) -> None:
        """Say something about a key."""
        leaf = self.leaves[key]
        self.remarks.append(Noted(key=leaf.key, file=self.document.path, line=leaf.line, text=text))

    def left(self) -> Iterator[tuple[str, Leaf]]:
        """Keys that have no place in the normal form, understood or not."""
        for leaf in self.document.leaves.values():
            key = self.form.spell(leaf.key)
            to = self.form.target(key)
            if key not in self._placed or (to is not None and to.keep):
                yield key, leaf

    def strange(self) -> Iterator[tuple[str, Leaf]]:
        """Keys that the format does not know."""
        for leaf in self.document.leaves.values():
            key = self.form.spell(leaf.key)
            if key not in self._placed and key not in self._read and not self.form.knows(key):
                yield key, leaf


class ConfigFormat:
    """The configuration of one trainer.

    Subclasses set:

    * ``name``, ``title``: as options take it, as people call it.
    * ``kinds``: kinds of documents it is written in (see ``documents.tree.Document``).
    * ``keys``: key -> dotted field, or :class:`To` where the value must be converted. Keys are
      dotted, lists as ``sources[].path``.
    * ``known``: further keys of the trainer, with no place in the normal form; ``x.*`` for all
      below ``x``. A key in neither is reported as not understood.
    * ``signs``: keys that hardly any other trainer has; one of them is evidence enough.
    * ``fills``: field -> value that the trainer fills in where nobody states it.
    * ``version``: the version whose ``fills`` these are, as people say it.
    * ``rank``: whose word goes first for ``trainer`` and ``fills`` when several formats are read
      together: 2 a trainer, 1 a library's arguments, 0 a part such as DeepSpeed.
    * ``against``: other format -> {field or prefix: ``wins`` | ``yields`` | ``refuses``}: which of
      two different values is used when both are read together, if that is known.
    * ``no_key_twice``: several files of this format are merged and may share no key.
    * ``repeats``: a key given twice in a file: ``last`` is used, or ``refused``.
    * ``autos``: words that leave a field to another file (``auto``).
    * ``nested``: tables that are another program's configuration (``deepspeed``); they are read
      by themselves.
    * ``misreads``: the trainer reads ``1e-4`` in YAML as text (PyYAML without a resolver).
    """

    name: ClassVar[str]
    title: ClassVar[str]
    kinds: ClassVar[frozenset[str]]
    keys: ClassVar[Mapping[str, "str | To"]] = {}
    known: ClassVar[frozenset[str]] = frozenset()
    signs: ClassVar[frozenset[str]] = frozenset()
    fills: ClassVar[Mapping[str, Any]] = {}
    version: ClassVar[str] = ""
    rank: ClassVar[int] = 2
    against: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    no_key_twice: ClassVar[bool] = False
    repeats: ClassVar[str] = "last"
    misreads: ClassVar[bool] = False
    autos: ClassVar[frozenset[str]] = frozenset()
    nested: ClassVar[tuple[str, ...]] = ()

    def spell(self, key: str) -> str:
        """The key as the tables spell it; by default places in lists lose their number."""
        return key if "[" not in key else _unnumbered(key)

    def written(self, leaf: Leaf, document: Document) -> str:
        """The key as people wrote it, for messages."""
        return f"--{leaf.key}" if document.kind == "arguments" else leaf.key

    def target(self, key: str) -> To | None:
        """Where a key goes, if the table says so."""
        to = self.keys.get(key)
        return To(to) if isinstance(to, str) else to

    def knows(self, key: str) -> bool:
        """Whether the trainer has such a key."""
        if key in self.keys or key in self.known or key in self.signs:
            return True
        bare = key.replace("[]", "")
        parts = bare.split(".")
        return bare in self.known or any(
            ".".join([*parts[:i], "*"]) in self._wild for i in range(len(parts))
        )

    @cached_property
    def _wild(self) -> frozenset[str]:
        return frozenset(key for key in (*self.known, *self.signs) if key.endswith("*"))

    def names(self) -> list[str]:
        """Every key that it knows, for "did you mean"."""
        return [key for key in (*self.keys, *self.known) if not key.endswith("*")]

    def score(self, document: Document) -> float:
        """How sure it is that the document is of this format, 0 to 1; must never raise.

        The share of keys that it knows; a key of ``signs`` is worth much.
        """
        if document.kind not in self.kinds or not document.leaves:
            return 0.0
        spelled = {self.spell(key) for key in document.leaves}
        known = sum(self.knows(key) for key in spelled)
        share = known / len(spelled)
        if any(self.is_sign(key) for key in spelled):
            return 0.5 + 0.5 * share
        return 0.8 * share * (1 - 0.5**known)

    def is_sign(self, key: str) -> bool:
        """Whether the key is one of ``signs``."""
        parts = key.split(".")
        return key in self.signs or any(
            ".".join([*parts[:i], "*"]) in self.signs for i in range(1, len(parts))
        )

    def read(self, document: Document) -> Draft:
        """What the document states: the table first, then :meth:`interpret`."""
        draft = Draft(self, document)
        for key, leaf in draft.leaves.items():
            to = self.target(key)
            if leaf.open is not None:
                if to is not None or self.knows(key):
                    draft.open(key, leaf.open)
                continue
            if leaf.misread and self.misreads:
                draft.remark(
                    key,
                    f"{self.title} reads this number as text, as it has no dot or no sign in its "
                    "exponent (YAML 1.1): write 1.0e-4",
                )
            if to is None or leaf.value is None:
                continue
            if isinstance(leaf.value, str) and leaf.value in self.autos:
                draft.leave(to.field, key, f"{leaf.value!r}: left to the trainer")
                continue
            try:
                value = to.convert(leaf.value) if to.convert else leaf.value
            except (ValueError, TypeError, ArithmeticError) as error:
                draft.open(key, f"{_short(leaf.value)}: {error or 'not understood'}")
                continue
            if value is not None:
                draft.say(to.field, value, key)
        self.interpret(draft)
        return draft

    def interpret(self, draft: Draft) -> None:
        """Say what the table cannot: several keys that make one field, or fields of one key."""

    def trainer(self, draft: Draft) -> str:
        """What the trainer is called; for families, which member it is."""
        return self.title

    def assumed(self, draft: Draft) -> str:
        """The trainer and version whose values :meth:`filled` gives."""
        return self.version or self.title

    def filled(self, spec: Mapping[str, Any], draft: Draft) -> Mapping[str, Any]:
        """Field -> value that this trainer fills in; ``spec`` is what all files state, by field.

        Only what is not stated is taken. Default: ``fills``.
        """
        return self.fills


def _unnumbered(key: str) -> str:
    pieces = key.split("[")
    return pieces[0] + "".join("[" + piece.lstrip("0123456789") for piece in pieces[1:])


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
