"""What words of a shell script are about, told by their form."""

from surefoot.readers.configs.documents.words import Part, Token, here_parts


def conditional(command: list[Token]) -> bool:
    """Whether a condition is being read, which may hold several tests."""
    if not command:
        return False
    if command[0].bare == "[[":
        return all(token.bare != "]]" for token in command)
    return command[0].bare in ("if", "elif", "while", "until")


def of_arguments(token: Token) -> bool:
    """Whether a word is about the arguments of the script: ``$#``, ``"$@"``, ``$1``."""
    names = [text for kind, text, _ in token.parts if kind == "variable"]
    return token.bare == "getopts" or any(name in ("#", "@", "*", "1", "1:-") for name in names)


def is_test(command: list[Token]) -> bool:
    """Whether a command is a test: ``[ ... ]``, ``[[ ... ]]``, ``test ...``."""
    return bool(command) and command[0].bare in ("[", "[[", "test")


def is_script(before: list[Token]) -> bool:
    """Whether the next word is what another shell runs: ``srun bash -c '$LAUNCHER $CMD'``."""
    if len(before) < 2 or not (before[-1].bare or "").startswith("-"):
        return False
    name = (before[-2].bare or "").rpartition("/")[2]
    return (before[-1].bare or "").endswith("c") and name in ("bash", "sh")


def inner(parts: list[Part]) -> list[Part]:
    """A quoted text as the shell that gets it expands it: exported variables have one value."""
    found: list[Part] = []
    for kind, text, quoted in parts:
        found += here_parts(text) if kind == "text" and "$" in text else [(kind, text, quoted)]
    return found
