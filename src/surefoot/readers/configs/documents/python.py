"""Python files of settings, parsed and never run: assignments of literals and simple arithmetic."""

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable
from typing import Any

from surefoot.readers.configs.documents.tree import DEEPEST, Node

LARGEST = 512 << 10
"""Bytes of a file of settings in Python."""

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_MOST = 2**63
_STEEP = re.compile(r"(?:[-+~(\[{]\s{0,8}|not\s){120}")


class NotPython(ValueError):
    """What is wrong, and the line."""

    def __init__(self, what: str, line: int) -> None:
        super().__init__(what)
        self.line = line


class _Open(Exception):
    """A value that only running the file would give."""


def parse(text: str) -> Node:
    """The assignments of a module and of its classes, as a table.

    ``a = 5 * 8`` and ``b = 2 * a`` are computed; what calls, indexes or imports is *open*; what
    stands under ``if``, ``for``, ``try`` or in a function is open too if it is assigned there.

    Raises:
        NotPython: with the line.
    """
    if len(text) > LARGEST or _STEEP.search(text):
        raise NotPython("too long or too deeply nested for a file of settings", 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in the text that is read
            tree = ast.parse(text)
    except SyntaxError as error:
        raise NotPython(error.msg or "not Python", error.lineno or 1) from None
    except (ValueError, RecursionError, MemoryError):
        raise NotPython("too deeply nested for a file of settings", 1) from None
    try:
        return Node(_body(tree.body, {}), 1)
    except RecursionError:
        raise NotPython("too deeply nested for a file of settings", 1) from None


def _body(body: list[ast.stmt], known: dict[str, Any]) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for statement in body:
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
            _assign(statement, found, known)
        elif isinstance(statement, ast.ClassDef):
            inner = _body(statement.body, dict(known))
            if inner:
                found[statement.name] = Node(inner, statement.lineno)
        elif isinstance(statement, ast.If | ast.For | ast.While | ast.Try | ast.With):
            _conditional(statement, found, known)
    return found


def _assign(
    statement: ast.Assign | ast.AnnAssign | ast.AugAssign,
    found: dict[str, Node],
    known: dict[str, Any],
) -> None:
    if statement.value is None:
        return
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    value: ast.expr = statement.value
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        old = ast.Name(statement.target.id, ast.Load())
        value = ast.BinOp(old, statement.op, statement.value)
    for target in targets:
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=False))
        for one, given in pairs:
            if isinstance(one, ast.Name):
                found[one.id] = _node(given, known, statement.lineno)
                if found[one.id].open is None:
                    known[one.id] = _value_of(found[one.id])
                else:
                    known.pop(one.id, None)


def _conditional(statement: ast.stmt, found: dict[str, Node], known: dict[str, Any]) -> None:
    for inner in ast.walk(statement):
        if not isinstance(inner, ast.Assign | ast.AnnAssign | ast.AugAssign) or not inner.value:
            continue
        for target in inner.targets if isinstance(inner, ast.Assign) else [inner.target]:
            if not isinstance(target, ast.Name):
                continue
            new, old = _node(inner.value, known, inner.lineno), found.get(target.id)
            same = old is not None and new.open is None and old.value == new.value
            if not same:
                why = f"assigned under a condition in line {inner.lineno}"
                found[target.id] = Node(ast.unparse(inner.value)[:120], inner.lineno, open=why)
                known.pop(target.id, None)


def _node(expression: ast.expr, known: dict[str, Any], line: int, depth: int = 0) -> Node:
    line = getattr(expression, "lineno", line)
    if depth > DEEPEST:
        return Node("...", line, open="nested too deeply")
    if isinstance(expression, ast.Dict) and all(
        isinstance(key, ast.Constant) for key in expression.keys
    ):
        pairs = zip(expression.keys, expression.values, strict=True)
        return Node({str(k.value): _node(v, known, line, depth + 1) for k, v in pairs}, line)  # type: ignore[union-attr]
    if isinstance(expression, ast.Call) and isinstance(expression.func, ast.Name):
        if expression.func.id == "dict" and not expression.args:
            named = {k.arg: k.value for k in expression.keywords if k.arg}
            return Node({k: _node(v, known, line, depth + 1) for k, v in named.items()}, line)
    if isinstance(expression, ast.List | ast.Tuple):
        return Node([_node(item, known, line, depth + 1) for item in expression.elts], line)
    try:
        return Node(_evaluate(expression, known), line)
    except (_Open, ArithmeticError, TypeError, ValueError):
        return Node(_source(expression), line, open="only running the file would give it")


def _evaluate(expression: ast.expr, known: dict[str, Any]) -> Any:
    if isinstance(expression, ast.Constant):
        if isinstance(expression.value, bytes | complex) or expression.value is Ellipsis:
            raise _Open
        return expression.value
    if isinstance(expression, ast.Name) and known.get(expression.id, _Unusable) is not _Unusable:
        return known[expression.id]
    if isinstance(expression, ast.UnaryOp):
        value = _evaluate(expression.operand, known)
        if isinstance(expression.op, ast.USub):
            return -value
        if isinstance(expression.op, ast.UAdd):
            return +value
        if isinstance(expression.op, ast.Not):
            return not value
    if isinstance(expression, ast.BinOp) and type(expression.op) in _OPERATORS:
        left, right = _evaluate(expression.left, known), _evaluate(expression.right, known)
        return _compute(expression.op, left, right)
    if isinstance(expression, ast.Call) and isinstance(expression.func, ast.Name):
        if expression.func.id in ("int", "float") and len(expression.args) == 1:
            value = _evaluate(expression.args[0], known)
            if isinstance(value, int | float) and math.isfinite(value):
                return int(value) if expression.func.id == "int" else float(value)
    raise _Open


def _compute(op: ast.operator, left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str) and isinstance(op, ast.Add):
        if len(left) + len(right) <= 4096:
            return left + right
    numbers = all(isinstance(item, int | float) for item in (left, right))
    if not numbers or max(abs(left), abs(right)) > _MOST:
        raise _Open
    if isinstance(op, ast.Pow) and (abs(right) > 64 or left > 1024):
        raise _Open
    value = _OPERATORS[type(op)](left, right)
    if isinstance(value, complex):
        raise _Open
    return value


def _value_of(node: Node) -> Any:
    return node.value if not isinstance(node.value, dict | list) else _Unusable


class _Unusable:
    """A table or list: not a term of arithmetic."""


def _source(expression: ast.expr) -> str:
    try:
        return " ".join(ast.unparse(expression).split())[:120]
    except RecursionError:
        return "..."
