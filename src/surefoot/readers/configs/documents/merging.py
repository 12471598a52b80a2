"""What the branches of a condition make of the variables, where it is not known which is taken."""

from collections.abc import Sequence

from surefoot.readers.configs.documents import marks
from surefoot.readers.configs.documents.expansion import Value


def merged(ends: list[dict[str, Value]], line: int) -> dict[str, Value]:
    """The variables behind a condition.

    Args:
        ends: the variables at the end of each branch that may be taken.
        line: of the condition; named in what stays open.
    """
    if len(ends) == 1:
        return ends[0]
    found: dict[str, Value] = {}
    for name in dict.fromkeys(name for end in ends for name in end):
        values = [end.get(name) for end in ends]
        first = values[0]
        if all(value is first for value in values) and first is not None:
            found[name] = first  # most variables are none of the condition's
        elif all(_bare(value) == _bare(first) for value in values) and first is not None:
            found[name] = first
        else:
            shared = _shared(name, values, line)
            found[name] = shared or marks.opened(_either(name, values, line))
    return found


def _either(name: str, values: list[Value | None], line: int) -> str:
    """What a variable may be behind branches, in words."""
    words = dict.fromkeys("not set" if v is None else marks.shown(str(v)) for v in values)
    told = " or ".join(words) if sum(map(len, words)) <= 60 else "set differently"
    return f"${name}: {told}, by the condition in line {line}"


def _shared(name: str, values: list[Value | None], line: int) -> Value | None:
    """Flags that all branches begin with, and a mark for those that only some go on with."""
    more = marks.opened(f"{marks.MORE}${name}, by the condition in line {line}")
    if any(isinstance(value, list) for value in values):
        lists = [value if isinstance(value, list) else [value] if value else [] for value in values]
        shared = lists[0][: _common(lists)]
        starts = [rest[0] for some in lists if (rest := some[len(shared) :])]
        return [*shared, more] if all(map(_begins_a_flag, starts)) else None
    texts = [value if isinstance(value, str) else "" for value in values]
    # Each begins with the line where it was put together, then with that of its first flag.
    lead = max((marks.leading(text) for text in texts), key=len)
    texts = [text[len(marks.leading(text)) :] for text in texts]
    head = texts[0][: _common(texts)]
    if any(text[len(head) :][:1].strip() for text in texts) and not head[-1:].isspace():
        head = head[: len(head) - len(head.split()[-1])] if head.strip() else ""
    ends = (marks.without_lines(text[len(head) :]).strip() for text in texts)
    starts = [end for end in ends if end]
    return f"{lead}{head} {more}" if all(map(_begins_a_flag, starts)) else None


def _common(values: Sequence[Sequence[str]]) -> int:
    """How much they begin with in common."""
    first = values[0]
    for length, pieces in enumerate(zip(*values, strict=False)):
        if any(piece != pieces[0] for piece in pieces):
            return length
    return min(map(len, values)) if first else 0


def _begins_a_flag(text: str) -> bool:
    return marks.without_lines(text).lstrip()[:2] == "--" or marks.MORE in text[:40]


def _bare(value: Value | None) -> object:
    if isinstance(value, list):
        return [marks.without_lines(item) for item in value]
    return marks.without_lines(value) if value is not None else None
