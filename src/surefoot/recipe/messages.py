"""Pydantic's errors as one line for people: file, line, field, got, expected, what to type."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from surefoot.errors import nearest

_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "string_type": "a string in quotes",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "finite_number": "a finite number",
}


def explain(
    error: ValidationError, model: type[BaseModel], where: str, lines: Mapping[str, int]
) -> str:
    """The first problem in full, and how many more there are.

    Args:
        error: what validation raised.
        model: the model that was validated, for the names it knows.
        where: the file, or "--set".
        lines: line number of each dotted field, where known.
    """
    problems = error.errors(include_url=False)
    # An unknown key explains a missing one: `layer = 4` is both, and the first is the useful one.
    problems.sort(key=lambda problem: problem["type"] != "extra_forbidden")
    first = problems[0]
    path = _path(first["loc"])
    line = next((lines[p] for p in _prefixes(path) if p in lines), None)
    at = where if line is None else f"{where}:{line}"
    more = len({_path(problem["loc"]) for problem in problems}) - 1
    tail = f" (and {more} more)" if more else ""
    return f"{at}: {_sentence(first, path, model)}{tail}"


def _sentence(problem: Any, path: str, model: type[BaseModel]) -> str:
    kind, context = problem["type"], problem.get("ctx", {})
    got = _shown(problem.get("input"))
    if kind == "extra_forbidden":
        parent, _, name = path.rpartition(".")
        known = fields_of(model, parent)
        hint = nearest(name, known)
        place = f"[{parent}]" if parent else "the recipe"
        listed = "" if hint else f"; known in {place}: {', '.join(known)}"
        return f"unknown key {path!r}{hint}{listed}"
    if kind == "missing":
        return f"{path!r} is missing{_purpose(model, path)}"
    if kind == "value_error":
        return str(context.get("error", problem["msg"]))
    if kind == "literal_error":
        return f"{path} = {got}: expected {context['expected']}"
    if kind in _EXPECTED:
        return f"{path} = {got}: expected {_EXPECTED[kind]}"
    bounds = {"greater_than": ("gt", ">"), "greater_than_equal": ("ge", ">="),
              "less_than": ("lt", "<"), "less_than_equal": ("le", "<=")}  # fmt: skip
    if kind in bounds:
        key, sign = bounds[kind]
        return f"{path} = {got}: expected a number {sign} {context[key]:g}"
    return f"{path} = {got}: {problem['msg'][:1].lower()}{problem['msg'][1:]}"


def fields_of(model: type[BaseModel], path: str) -> list[str]:
    """Names of the fields of the section at a dotted path; [] where there is none."""
    current: type[BaseModel] = model
    for name in [part.split("[")[0] for part in path.split(".") if part]:
        info = current.model_fields.get(name)
        inner = None if info is None else _model_in(info.annotation)
        if inner is None:
            return []
        current = inner
    return list(current.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for item in getattr(annotation, "__args__", ()):
        found = _model_in(item)
        if found is not None:
            return found
    return None


def _purpose(model: type[BaseModel], path: str) -> str:
    parent, _, name = path.rpartition(".")
    current: type[BaseModel] | None = model
    if parent:
        info = model.model_fields.get(parent.split(".")[0])
        current = None if info is None else _model_in(info.annotation)
    info = None if current is None else current.model_fields.get(name)
    text = None if info is None else info.description
    return f": {' '.join(text.split())}" if text else ""


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for item in location:
        if isinstance(item, int):
            path += f"[{item}]"
        elif item.isidentifier() and not item.startswith(("constrained", "literal")):
            # Union branches ("float", "literal['auto']") are pydantic's, not the user's.
            if item in ("float", "int", "str", "bool"):
                continue
            path += f".{item}" if path else item
    return path


def _prefixes(path: str) -> list[str]:
    parts = path.split(".")
    return [".".join(parts[:end]).split("[")[0] for end in range(len(parts), 0, -1)]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
