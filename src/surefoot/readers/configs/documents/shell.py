"""What a launch script would run, found without running it.

Variables, arrays, defaults (``${A:-1}``), sums (``$((A*B))``), here-documents and the branches
whose condition is known are followed. What depends on the machine, on arguments or on another
program stays open: a mark in the text says which variable it was (see ``marks``).
"""

from dataclasses import dataclass, field

from surefoot.readers.configs.documents import marks, merging, slurm
from surefoot.readers.configs.documents.conditions import truth
from surefoot.readers.configs.documents.expansion import Value, Variables
from surefoot.readers.configs.documents.shapes import (
    conditional,
    inner,
    is_script,
    is_test,
    of_arguments,
)
from surefoot.readers.configs.documents.words import Lexer, Part, Token

LARGEST = 1 << 20
"""Bytes of a script."""
_MOST_WORDS = 100_000
_DEEPEST = 500
"""Conditions inside one another."""
_MOST_COPIES = 2_000_000
"""Values that all branches start with: a few hundred variables, a few thousand conditions."""


@dataclass(slots=True)
class Command:
    """A command that would be run.

    Attributes:
        words: expanded; with marks.
        line: where it begins.
        here: the here-document that it reads, and its first line.
        target: the file that its output goes to.
    """

    words: list[str]
    line: int
    here: tuple[str, int] | None = None
    target: str | None = None


@dataclass(slots=True)
class _Branches:
    """An ``if`` or ``case`` that is being read."""

    kind: str
    line: int
    before: dict[str, Value]
    ends: list[dict[str, Value]] = field(default_factory=list)
    decided: bool = False  # a branch before this one is taken for sure
    skipped: bool = False  # this one is not taken
    sole: bool = False  # this one is taken for sure
    otherwise: bool = False  # it has an else
    subject: str | None = None  # of a case
    outer: bool = False  # what encloses it is skipped


@dataclass(slots=True)
class _Chain:
    """Commands behind a test, joined by ``&&`` and ``||``."""

    holds: bool | None  # whether the test does
    link: str  # before the next command
    line: int
    before: dict[str, Value]
    ends: dict[str, dict[str, Value]] = field(default_factory=dict)


class Script:
    """A script that was followed.

    Attributes:
        commands: what it would run, in order, branches that may be taken included.
        comments: (line, text).
        variables: their last values; with marks.
        used: names that something expanded.
    """

    def __init__(self, text: str) -> None:
        lexer = Lexer(marks.cleaned(text))
        tokens = lexer.tokens()
        self.comments = lexer.comments
        self.commands: list[Command] = []
        self._variables = Variables()
        self._variables.values |= slurm.variables(lexer.comments)
        self._stack: list[_Branches] = []
        self._words = self._copies = 0
        self._chain: _Chain | None = None
        self._run(tokens)
        self.variables = self._variables.values
        self.used = self._variables.used

    # ------------------------------------------------------------------ following the commands

    def _run(self, tokens: list[Token]) -> None:
        command: list[Token] = []
        for number, token in enumerate(tokens):
            branches = self._stack[-1] if self._stack else None
            if branches is not None and branches.kind == "case" and branches.subject is not None:
                # Between `case x in` or `;;` and `)`, there are patterns.
                if token.kind == "op" and token.text == ")":
                    self._pattern(branches, command)
                    command = []
                elif token.kind == "word" and token.bare == "esac" and not command:
                    self._close("case")
                elif token.kind == "word":
                    command.append(token)
                continue
            if token.kind == "here":
                self._here(token)
            elif token.text in ("&&", "||") and token.kind == "op" and conditional(command):
                command.append(token)
            elif token.kind == "line" or (token.kind == "op" and token.text in _ENDS):
                self._link(command, token.text)
                command = []
                if token.text in (";;", ";;&") and self._stack and self._stack[-1].kind == "case":
                    self._next_case(self._stack[-1])
            elif token.kind == "op" and token.text == ")" and not _inside(command):
                # `case x in a)` in one line holds its first pattern.
                split = _first_pattern(command)
                self._command(command[:split])
                if split < len(command) and self._stack and self._stack[-1].kind == "case":
                    self._pattern(self._stack[-1], command[split:])
                command = []
            else:
                command.append(token)
                if number == len(tokens) - 1:
                    break
        self._command(command)

    def _link(self, tokens: list[Token], end: str) -> None:
        """A command that may stand in a chain: ``[ -n "$A" ] && B=1 || B=2``."""
        chain = self._chain
        if chain is None:
            if end in ("&&", "||") and is_test(tokens) and not self._skipping():
                before = dict(self._variables.values)
                self._chain = _Chain(self._truth(tokens), end, tokens[0].line, before)
            else:
                self._command(tokens)
            return
        if end in ("&&", "||") and is_test(tokens):
            other = self._truth(tokens)
            decisive = chain.link == "||"
            if decisive in (chain.holds, other):
                chain.holds = decisive
            elif None in (chain.holds, other):
                chain.holds = None
            chain.link = end
            return
        if chain.holds is not (chain.link == "||"):  # true, or not known
            self._variables.values = dict(chain.before if chain.holds is None else
                                          self._variables.values)  # fmt: skip
            self._command(tokens)
            chain.ends[chain.link] = self._variables.values
        if end in ("&&", "||") and tokens:
            chain.link = end
            return
        self._chain = None
        if chain.holds is None:
            ends = [chain.ends.get("&&", chain.before), chain.ends.get("||", chain.before)]
            self._variables.values = merging.merged(ends, chain.line)

    def _command(self, tokens: list[Token]) -> None:
        while tokens and tokens[0].kind == "word" and tokens[0].bare in _KEYWORDS:
            word = tokens[0].bare
            tokens = tokens[1:]
            if word in ("if", "elif", "while", "until"):
                self._open(word, tokens)
                return
            if word == "else" and self._stack:
                self._branch(self._stack[-1], None, otherwise=True)
            elif word == "fi":
                self._close("if")
            elif word == "done":
                self._close("while")
            elif word == "esac":
                self._close("case")
            elif word == "for":
                self._loop(tokens)
                return
            elif word == "case":
                self._case(tokens)
                return
            elif word == "function":
                return
        if tokens and not self._skipping():
            self._simple(tokens)

    def _simple(self, tokens: list[Token]) -> None:
        first = tokens[0].bare
        prefixed = first in ("export", "declare", "local", "readonly", "typeset")
        rest = tokens[1:] if prefixed else tokens
        kept: list[Token] = []
        for place, token in enumerate(rest):
            if token.kind == "array":
                self._variables.assign_array(token)
            elif not kept and (split := _assignment(token)) is not None:
                alone = prefixed or all(_assignment(t) is not None or t.kind == "array"
                                        for t in rest[place:])  # fmt: skip
                if alone:
                    self._variables.assign(*split, token.line)
            elif not prefixed:
                kept.append(token)
        if kept:
            self._record(kept)

    def _record(self, tokens: list[Token]) -> None:
        words: list[str] = []
        target = None
        place = 0
        while place < len(tokens):
            token = tokens[place]
            place += 1
            follows = tokens[place].text if place < len(tokens) else ""
            if (token.bare or "").isdigit() and follows in (">", ">>", ">&"):
                continue
            if token.kind == "op":
                if token.text in (">", ">>", "<", "<<<", "&>", ">&", "<&") and place < len(tokens):
                    if token.text in (">", ">>"):
                        target = marks.shown(" ".join(self._variables.expand(tokens[place].parts)))
                    place += 1
                continue
            within = is_script(tokens[max(0, place - 3) : place - 1])
            parts = inner(token.parts) if within else token.parts
            # A mark of the line before each word: a flag is found again where it stands.
            words += self._variables.expand([("line", str(token.line), True), *parts])
        self._words += len(words)
        if self._words > _MOST_WORDS:
            raise OverflowError("more words than a launch script has")
        if words:
            self.commands.append(Command(words, tokens[0].line, target=target))

    def _here(self, token: Token) -> None:
        if self.commands and not self._skipping():
            body = " ".join(self._variables.expand(token.parts))
            self.commands[-1].here = (marks.without_lines(body), token.line)

    # ------------------------------------------------------------------------------- branches

    def _begin(self, branches: _Branches) -> None:
        if len(self._stack) > _DEEPEST:
            raise OverflowError("conditions nested too deeply")
        self._copies += len(branches.before)
        if self._copies > _MOST_COPIES:
            raise OverflowError("more conditions than a launch script has")
        self._stack.append(branches)

    def _skipping(self) -> bool:
        return bool(self._stack) and (self._stack[-1].skipped or self._stack[-1].outer)

    def _open(self, word: str, condition: list[Token]) -> None:
        if word != "elif":
            outer = self._skipping()
            kind = "if" if word == "if" else "while"
            line = condition[0].line if condition else 0
            self._begin(_Branches(kind, line, dict(self._variables.values), outer=outer))
            known = self._truth(condition) if kind == "if" else None
            if kind == "while" and any(map(of_arguments, condition)):
                known = False  # as `${LR:-1e-4}` is read: nothing was given to the script
            self._take(self._stack[-1], known)
        elif self._stack:
            self._branch(self._stack[-1], self._truth(condition), otherwise=False)

    def _truth(self, condition: list[Token]) -> bool | None:
        return truth(
            [token.text if token.kind == "op" else self._text(token) for token in condition]
        )

    def _text(self, token: Token) -> str:
        return marks.without_lines(" ".join(self._variables.expand(token.parts)))

    def _take(self, branches: _Branches, known: bool | None) -> None:
        branches.skipped = branches.decided or known is False
        branches.sole = known is True and not branches.decided and not branches.ends
        branches.decided = branches.decided or known is True

    def _branch(self, branches: _Branches, known: bool | None, otherwise: bool) -> None:
        self._end_branch(branches)
        self._variables.values = dict(branches.before)
        branches.otherwise = branches.otherwise or otherwise
        self._take(branches, True if otherwise and not branches.ends else known)

    def _end_branch(self, branches: _Branches) -> None:
        if not branches.skipped and not branches.outer:
            branches.ends.append(self._variables.values)

    def _close(self, kind: str) -> None:
        if not self._stack or self._stack[-1].kind != kind:
            return
        branches = self._stack.pop()
        self._end_branch(branches)
        ends = branches.ends
        if not (branches.otherwise or branches.decided):
            ends.append(branches.before)
        self._variables.values = merging.merged(ends or [branches.before], branches.line)

    def _loop(self, tokens: list[Token]) -> None:
        name = tokens[0].bare if tokens else None
        words = [t for t in tokens[1:] if t.kind == "word" and t.bare not in ("in", "do")]
        line = tokens[0].line if tokens else 0
        before = dict(self._variables.values)
        self._begin(_Branches("while", line, before, outer=self._skipping()))
        if words and all(map(of_arguments, words)):
            self._take(self._stack[-1], False)
            return
        if name is not None:
            values = [item for token in words for item in self._variables.expand(token.parts)]
            # A loop over what is written there is run; one over files may not be.
            self._stack[-1].decided = bool(values)
            self._variables.values[name] = (
                values[0]
                if len(values) == 1
                else marks.opened(f"${name}: one of several in a loop")
            )

    def _case(self, tokens: list[Token]) -> None:
        outer = self._skipping()
        subject = " ".join(self._variables.expand(tokens[0].parts)) if tokens else ""
        line = tokens[0].line if tokens else 0
        branches = _Branches("case", line, dict(self._variables.values), outer=outer)
        branches.subject = marks.without_lines(subject)
        branches.skipped = True  # no branch yet
        self._begin(branches)

    def _pattern(self, branches: _Branches, patterns: list[Token]) -> None:
        texts = [
            marks.without_lines(" ".join(self._variables.expand(token.parts))) for token in patterns
        ]
        subject, branches.subject = branches.subject or "", None
        branches.before.setdefault("case subject", subject)
        if "*" in texts:
            branches.otherwise = True
            self._take(branches, True if not branches.ends else None)
        elif marks.is_open(subject) or any(set(text) & set("*?[") for text in texts):
            self._take(branches, None)
        else:
            self._take(branches, subject in texts)

    def _next_case(self, branches: _Branches) -> None:
        self._end_branch(branches)
        self._variables.values = dict(branches.before)
        branches.skipped = True
        subject = branches.before.get("case subject", "")
        branches.subject = subject if isinstance(subject, str) else ""


_ENDS = (";", "&&", "||", "|", "&", ";;", ";;&")
_KEYWORDS = {"if", "elif", "else", "then", "fi", "for", "while", "until", "do", "done", "case",
             "esac", "{", "}", "!", "time", "function", "exec", "eval", "("}  # fmt: skip


def _first_pattern(command: list[Token]) -> int:
    """Place behind the ``in`` of a ``case``; the length if it is none."""
    words = [token.bare for token in command]
    if "case" in words and "in" in words[words.index("case") :]:
        return words.index("in", words.index("case")) + 1
    return len(command)


def _inside(command: list[Token]) -> bool:
    return any(token.kind == "op" and token.text in ("(", "<(", ">(") for token in command)


def _assignment(token: Token) -> tuple[str, list[Part]] | None:
    """(name or ``name+``, parts of the value) of ``name=value``."""
    if token.kind != "word" or not token.parts or token.parts[0][0] != "text" or token.parts[0][2]:
        return None
    name, equals, rest = token.parts[0][1].partition("=")
    if not equals or not name.rstrip("+").isidentifier() or not name.isascii():
        return None
    return name, [("text", rest, True), *token.parts[1:]]
