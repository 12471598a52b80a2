"""The arguments as Megatron-LM and its relatives print them into their logs.

::

    ------------------------ arguments ------------------------
      adam_beta1 ...................................... 0.9
    -------------------- end of arguments ---------------------

So print transformers' examples, one argument a line: ``TrainingArguments(``, ``adam_beta1=0.9,``;
before version 4.10 all in one line.
"""

import re
from collections.abc import Iterator

from surefoot.readers.configs.documents import jsons
from surefoot.readers.configs.documents.commands import literal
from surefoot.readers.configs.documents.tree import Document, Leaf, flatten

_BEGIN = re.compile(r"-{6,200} {1,4}arguments {1,4}-{6,200}\s*$")
_END = re.compile(r"-{6,200} {1,4}end of arguments {1,4}-{6,200}\s*$")
_LINE = re.compile(r"(?:^|\s{1,2})([A-Za-z_][\w-]{0,120})(?: \.{1,64} | {2})(.*)$")
_HOW = re.compile(r"(?<=.)(updated|default)$")  # GPT-NeoX says where a value is from
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,12}m")
_JSON = re.compile(r"\s{2,4}json = (?=\{)")
_CALL = re.compile(r"(?:^|\s)(?:Seq2Seq)?TrainingArguments\(\s*$")
_ONE_LINE = re.compile(r"TrainingArguments\((?=[A-Za-z_]\w{0,80}=)([^\n)]{0,20000})\)")
_NEXT = re.compile(r"(?:^|, )([A-Za-z_]\w{0,80})=")
_PAIR = re.compile(r"\s{0,4}([A-Za-z_]\w{0,80})=(.*?),?\s*$")
_MEMBER = re.compile(r"[A-Z]\w{0,60}\.([A-Z_0-9]{1,60})$")
_LONGEST = 4000
_MOST = 4000


def documents(path: str, text: str) -> list[Document]:
    """The last block of arguments of each kind, and the configuration DeepSpeed printed last."""
    found = []
    if (pairs := _last_call(text)) is not None:
        leaves = {name: Leaf(name, _member(value), line) for line, name, value in pairs}
        found.append(Document(path, "dump", leaves))
    if (block := _last_block(text)) is not None:
        found.append(_document(path, block))
    starts = list(_JSON.finditer(text)) if " json = {" in text else []
    for match in starts[-1:]:
        line = text.count("\n", 0, match.end()) + 1
        try:
            node, repeated, _ = jsons.parse(text, start=match.end(), first_line=line, whole=False)
            found.append(Document(path, "json", flatten(node), repeated))
        except ValueError:
            continue  # torn by other ranks' lines
    return [document for document in found if document.leaves]


def has_block(text: str) -> bool:
    """Whether a block may be there."""
    return " arguments ---" in text or "TrainingArguments(" in text or " json = {" in text


def _last_block(text: str) -> list[tuple[int, str]] | None:
    block: list[tuple[int, str]] | None = None
    reading = False
    for number, line in _lines_near(text):
        if _END.search(line):
            reading = False
        elif _BEGIN.search(line):
            block, reading = [], True
        elif reading and block is not None and len(block) < _MOST:
            block.append((number, line))
    return block


def _last_call(text: str) -> list[tuple[int, str, str]] | None:
    found: list[tuple[int, str, str]] | None = None
    if "TrainingArguments(" not in text:
        return None
    if (told := _in_one_line(text)) is not None:
        return told
    reading = False
    for number, line in _lines_near(text):
        if _CALL.search(line):
            found, reading = [], True
        elif reading and found is not None and len(found) < _MOST:
            pair = _PAIR.fullmatch(line)
            reading = pair is not None and line.strip() != ")"
            if pair is not None:
                found.append((number, pair[1], pair[2]))
    return found


def _in_one_line(text: str) -> list[tuple[int, str, str]] | None:
    calls = list(_ONE_LINE.finditer(text))
    if not calls:
        return None
    line = text.count("\n", 0, calls[-1].start()) + 1
    pieces = _NEXT.split(calls[-1][1])[1:]
    return [
        (line, name, value.strip("'\"") if value[:1] in "'\"" else value)
        for name, value in zip(pieces[::2], pieces[1::2], strict=True)
    ]


def _member(text: str) -> object:
    """``SchedulerType.COSINE`` is written ``cosine`` in files."""
    match = _MEMBER.fullmatch(text)
    return match[1].lower() if match else _value(text)


def _lines_near(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if len(line) <= _LONGEST:
            yield (
                number,
                _COLOUR.sub("", line.rstrip("\r")) if "\x1b" in line else line.rstrip("\r"),
            )


def _document(path: str, block: list[tuple[int, str]]) -> Document:
    found: list[tuple[int, str, str]] = []
    for number, line in block:
        match = _LINE.search(line)
        if match is not None:
            found.append((number, match[1], match[2].strip()))
    marked = sum(bool(_HOW.search(value)) for _, _, value in found)
    leaves = {}
    for number, name, value in found:
        if marked > 0.8 * len(found):
            value = _HOW.sub("", value).strip()
        leaves[name] = Leaf(name, _value(value), number)
    return Document(path, "dump", leaves)


_WORDS = {"None": None, "True": True, "False": False}


def _value(text: str) -> object:
    if text in _WORDS:
        return _WORDS[text]
    if text[:1] == "[" and text[-1:] == "]" and "[" not in text[1:]:
        items = [item.strip() for item in text[1:-1].split(",")]
        return tuple(literal(item.strip("'\"")) for item in items if item)
    return literal(text)
