"""Pydantic's errors as one line for people: file, line, field, got, expected, what to type."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from surefoot.errors import nearest
from surefoot.recipe.kinds import LARGEST, as_toml, expected, section_in
from surefoot.recipe.words import short

_LISTED = 16
_SUFFIXES = {"k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9}


def explain(
    error: ValidationError, model: type[BaseModel], where: str, at: Mapping[str, str]
) -> str:
    """The first problem in full, and how many more there are.

    Args:
        error: what validation raised.
        model: the model that was validated, for the names it knows.
        where: the file.
        at: where a dotted field was stated, e.g. ``recipe.toml:12`` or ``--set a.b=c``.
    """
    problems = error.errors(include_url=False)
    # An unknown key explains a missing one: `layer = 4` is both, and the first is the useful one.
    problems.sort(key=lambda problem: problem["type"] != "extra_forbidden")
    first = problems[0]
    path, field = _locate(model, first["loc"])
    sentence = _sentence(first, path, field, model)
    # A check over several fields has no location of its own: it names the fields it is about.
    names = [path] if path else re.findall(r"[a-z_]+\.[\w.\[\]]*\w", sentence)
    places = [next((at[p] for p in _prefixes(name) if p in at), where) for name in names]
    # The last word was the user's: a --set that does not go with the file.
    places.sort(key=lambda place: not place.startswith("--set"))
    # A list with a bad item is also reported as too short.
    paths = {_locate(model, problem["loc"])[0] for problem in problems}
    more = sum(not any(other.startswith(f"{one}[") for other in paths) for one in paths) - 1
    return f"{[*places, where][0]}: {sentence}" + (f" (and {more} more)" if more else "")


def fields_of(model: type[BaseModel], path: str) -> list[str]:
    """Names of the fields of the section at a dotted path; [] where there is none."""
    section = _section_at(model, path)
    return [] if section is None else list(section.model_fields)


def all_names(model: type[BaseModel], prefix: str = "") -> list[str]:
    """Every section and field of a recipe by dotted name; items of a list as ``name[0].field``."""
    names: list[str] = []
    for name, field in model.model_fields.items():
        names.append(f"{prefix}{name}")
        inner = section_in(field.annotation)
        if inner is not None:
            item = "[0]" if expected(field).startswith("a list") else ""
            names += all_names(inner, f"{prefix}{name}{item}.")
    return names


def unknown_key(model: type[BaseModel], path: str) -> str:
    """The sentence for an unknown key: the nearest known one, else all of its section."""
    parent, _, name = path.rpartition(".")
    known = fields_of(model, parent)
    # The right name in the wrong section says more than a similar one in this.
    same = [full for full in all_names(model) if full.rpartition(".")[2] == name]
    hint = f" (did you mean {same[0]!r}?)" if same else nearest(name, known)
    if not hint:
        place = f"in [{parent}]" if known and parent else "at the top"
        hint = f"; known {place}: {_listed(known or fields_of(model, ''))}"
    return f"unknown key {short(path)!r}{hint}"


def _listed(names: list[str]) -> str:
    """Names, those of a long section cut short: nobody reads a page of them in an error."""
    if len(names) <= _LISTED:
        return ", ".join(names)
    more = len(names) - _LISTED
    return f"{', '.join(names[:_LISTED])} and {more} more (docs/reference/recipe.md)"


def _sentence(problem: Any, path: str, field: FieldInfo | None, model: type[BaseModel]) -> str:
    kind, got = problem["type"], problem.get("input")
    if kind == "extra_forbidden":
        return unknown_key(model, path)
    if kind == "value_error":
        return str(problem["ctx"]["error"])
    assert field is not None, problem["loc"]  # only an unknown key and a check have none
    if kind == "missing":
        return _missing(path, field)
    finite = "a finite number" if kind == "finite_number" else "a number"
    wanted = expected(field).replace("a number", finite)
    if isinstance(got, int) and abs(got) > LARGEST and "<=" not in wanted:
        wanted += " that fits in 64 bits"
    return f"{path} = {as_toml(got)}: expected {wanted}{_hint(got, wanted, path)}"


def _missing(path: str, field: FieldInfo) -> str:
    section = section_in(field.annotation)
    if section is None:
        text = " ".join((field.description or "").split())
        return f"{path!r} is missing: expected {expected(field)}; {text}"
    needs = [name for name, info in section.model_fields.items() if info.is_required()]
    header = f"[[{path}]]" if expected(field).startswith("a list") else f"[{path}]"
    return f"the section {header} is missing; it needs {', '.join(needs)}"


def _hint(got: Any, wanted: str, path: str) -> str:
    """What to type instead, where what was meant is plain."""
    if "list of" in wanted and (got == [] or isinstance(got, dict)):
        return f": write [[{path}]]"
    whole, number = "a whole number" in wanted, "number" in wanted
    if isinstance(got, str) and number:
        meant = _number(got)
        if meant is not None and (not whole or meant == int(meant)):
            return f": write {int(meant) if whole else f'{meant:g}'}"
    if isinstance(got, float) and whole and got.is_integer():
        return f": write {int(got)}"
    return nearest(got, re.findall("'([^']*)'", wanted)) if isinstance(got, str) else ""


def _number(text: str) -> float | None:
    """What a number in quotes, with % or with k, M, G behind it stands for."""
    match = re.fullmatch(r"\s*([-+\d.eE]+)\s*([%kKmMgGbB]?)\s*", text)
    try:
        value = float(match[1]) if match else None
    except ValueError:
        return None
    if match is None or value is None or abs(value) > LARGEST:
        return None
    return value / 100 if match[2] == "%" else value * _SUFFIXES.get(match[2].lower(), 1)


def _section_at(model: type[BaseModel], path: str) -> type[BaseModel] | None:
    current: type[BaseModel] | None = model
    for name in [part.partition("[")[0] for part in path.split(".") if part]:
        field = None if current is None else current.model_fields.get(name)
        current = None if field is None else section_in(field.annotation)
    return current


def _locate(
    model: type[BaseModel], location: tuple[int | str, ...]
) -> tuple[str, FieldInfo | None]:
    """The dotted path of an error and its field, without what pydantic adds for unions."""
    path, field = "", None
    current: type[BaseModel] | None = model
    for item in location:
        if isinstance(item, int):
            path += f"[{item}]"
            continue
        if current is None:
            break  # inside a value: the name of a branch of its union
        field = current.model_fields.get(item)
        path += f".{item}" if path else item
        current = None if field is None else section_in(field.annotation)
    return path, field


def _prefixes(path: str) -> Iterator[str]:
    """The path and what holds it, innermost first, each also without its list indices."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        name = ".".join(parts[:end])
        yield name
        yield re.sub(r"\[\d+\]", "", name)
