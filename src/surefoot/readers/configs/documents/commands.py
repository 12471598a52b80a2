"""Command lines: flags of the program and of its launcher, from what a script would run."""

import re

from surefoot.readers.configs.documents import marks
from surefoot.readers.configs.documents.shell import Command, Script
from surefoot.readers.configs.documents.tree import Document, Leaf

_FLAG = re.compile(r"--?[A-Za-z][\w.@/+~-]*(?:\[[\w.]*\])?(?:=|$)")
_PAIR = re.compile(r"[+~]{0,2}[A-Za-z_][\w.@/-]*=")
_PROGRAM = re.compile(r"(?:[^\s=]*/)?[\w.-]+\.(?:py|pyc|sif)$")
_HIDDEN = re.compile(r"(?:^|\s)--[A-Za-z]")
_REDIRECT = re.compile(r"(?:\d|&)?>{1,2}(?:&\d)?(.*)$", re.DOTALL)
_LAUNCHERS = frozenset(
    "torchrun srun deepspeed accelerate mpirun python python3 sbatch torch.distributed.run "
    "torch.distributed.launch nohup bash litgpt olmo composer axolotl llamafactory-cli xtuner "
    "swift accelerate.commands.launch".split()
)


def documents(path: str, script: Script) -> list[Document]:
    """One document for each command line with flags; a bare list of flags is one.

    If no command has flags, variables that hold some and that nothing used are taken: the file is
    a part of a script that another one sources.
    """
    commands = _joined(script.commands)
    found = [doc for command in commands if (doc := _document(path, command)) is not None]
    if not found:
        for name, value in script.variables.items():
            text = value if isinstance(value, str) else " ".join(value)
            if name not in script.used and _HIDDEN.search(marks.without_lines(text)):
                doc = _document(path, Command(text.split(), 1))
                found += [doc] if doc else []
        found = _one(found)
    started = [doc for doc in found if doc.program is not None]
    if started and len(started) < len(found):
        # A comment or a space behind a backslash ends a command; what follows is not passed on.
        rest = [leaf for doc in found if doc.program is None for leaf in doc.leaves.values()]
        started[-1].lost = rest
        found = started
    for doc in found:
        doc.comments = script.comments
    return found


def _joined(commands: list[Command]) -> list[Command]:
    """Commands that begin with a flag are a list of flags, one or several a line."""
    found: list[Command] = []
    bare: Command | None = None
    for command in commands:
        if _FLAG.match(marks.without_lines(command.words[0])):
            if bare is None:
                bare = Command([], command.line)
                found.append(bare)
            bare.words += command.words
        else:
            found.append(command)
    return found


def _one(documents: list[Document]) -> list[Document]:
    """Flags of several variables as one list."""
    if len(documents) < 2:
        return documents
    first = documents[0]
    for other in documents[1:]:
        for leaf in other.leaves.values():
            _put(first, leaf)
        first.loose += other.loose
    return [first]


def _document(path: str, command: Command) -> Document | None:
    words = _unwrapped(command.words)
    end, start, program = _program(words)
    document = Document(path, "arguments", {}, program=program)
    launcher = Document(path, "arguments", {})
    _flags(words[:end], command.line, launcher)
    document.launcher = launcher.leaves
    told = [line for word in words[:start] if (line := marks.line_of(word)) is not None]
    _flags(words[start:], told[-1] if told else command.line, document)
    return document if document.leaves else None


def _unwrapped(words: list[str]) -> list[str]:
    """With the words of ``bash -c "python x.py --lr 1"`` by themselves."""
    found: list[str] = []
    for word in words:
        text = marks.without_lines(word)
        if _HIDDEN.search(text) and re.search(r"\s", text):
            pieces, held = [], ""
            for piece in word.split():
                if marks.without_lines(piece):
                    pieces.append(held + piece)
                    held = ""
                else:
                    held += piece
            found += [piece for piece in pieces if piece != "\\"]
        else:
            found.append(word)
    return _main_run(found)


def _main_run(words: list[str]) -> list[str]:
    """Of ``eval``'s or ``bash -c``'s words the command with most flags; no redirections."""
    runs: list[list[str]] = [[]]
    target = False  # whether the next word is the file of a redirection
    for word in words:
        text = marks.without_lines(word)
        redirect = None if target else _REDIRECT.match(text)
        if redirect is not None:
            target = redirect[1] in ("", "&") and not text[-1:].isdigit()
        elif target:
            target = False
        elif text in (";", "|", "|&", "||", "&&", "&"):
            runs.append([])
        else:
            runs[-1].append(word.removesuffix(";"))
            if text[-1:] == ";":
                runs.append([])
    if len(runs) == 1:
        return runs[0]
    return max(runs, key=lambda run: sum(marks.without_lines(word)[:2] == "--" for word in run))


def _program(words: list[str]) -> tuple[int, int, str | None]:
    """(place of the program, place behind it, its name); (0, 0, None) if there is none."""
    texts = [marks.shown(word) for word in words]
    for place, word in enumerate(words):
        text = marks.shown(marks.without_open(word))  # $DIR/pretrain_gpt.py
        if _PROGRAM.match(text) and not text.startswith("-"):
            # `--config x.py` is no program, unless it comes right after the launcher's own flags.
            return place, place + 1, text.rpartition("/")[2]
    for place, text in enumerate(texts[:-1]):
        if text == "-m" and texts[place + 1] not in _LAUNCHERS:
            return place, place + 2, texts[place + 1]
    first = texts[0].rpartition("/")[2] if texts else ""
    known = bool(first) and not first.startswith("-")
    return (0, 1, first) if known else (0, 0, None)


def _flags(words: list[str], line: int, into: Document) -> None:
    name: str | None = None
    values: list[str] = []
    start = line
    for word in [*words, ""]:
        text = marks.without_lines(word)
        flag = _FLAG.match(text) if not marks.is_open(text[:2]) else None
        pair = _PAIR.match(text) if name is None or values or flag else None
        if flag is None and pair is None and text:
            if name is not None and marks.is_open(text) and marks.is_more(text):
                into.loose.append((marks.line_of(word) or line, marks.shown(text)))
            elif name is not None:
                values.append(text)
            elif marks.is_open(text):
                into.loose.append((marks.line_of(word) or line, marks.shown(text)))
            continue
        if name is not None:
            # `--lr 1e-4 $MORE`: the variable rather holds further flags.
            rest = values[1:]
            if rest and all(map(_is_whole, rest)):
                into.loose += [(start, marks.shown(text)) for text in rest]
                values = values[:1]
            _put(into, _leaf(name, values, start))
        name, values = None, []
        line = marks.line_of(word) or line
        if text:
            key, equals, value = text.partition("=")
            name, start = key.lstrip("-"), line
            values = [value] if equals else []


def _is_whole(text: str) -> bool:
    """Whether the text is one unresolved variable and nothing else."""
    return len(marks.open_names(text)) == 1 and marks.without_open(text) == ""


def _put(document: Document, leaf: Leaf) -> None:
    old = document.leaves.pop(leaf.key, None)
    if old is not None and old.value != leaf.value:
        document.repeated.append((old, leaf))
    document.leaves[leaf.key] = leaf


def _leaf(name: str, values: list[str], line: int) -> Leaf:
    why = None
    for text in values:
        if marks.is_open(text):
            what = marks.open_names(text)[0]
            why = what if ": " in what else f"{what} is not known without running the script"
    if not values:
        return Leaf(name, True, line)
    if why is not None:
        return Leaf(name, " ".join(marks.shown(text) for text in values), line, open=why)
    typed = [literal(_unquoted(text)) for text in values]
    return Leaf(name, typed[0] if len(typed) == 1 else tuple(typed), line)


def _unquoted(text: str) -> str:
    """Without quotes inside a variable, which ``eval`` or ``bash -c`` takes off."""
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text


def literal(text: str) -> object:
    """A number if the text is one as Python's ``int`` or ``float`` reads it, else the text."""
    if len(text) <= 64 and text[:1] in "+-.0123456789" and text.isascii():
        for kind in (int, float):
            try:
                return kind(text)
            except ValueError:
                continue
    return text
