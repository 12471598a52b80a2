"""What launchers, schedulers and log shippers put before a trainer's own line."""

import json
import re
from datetime import UTC, datetime

from surefoot.readers.text.line import Line

# Each alternative begins with what no other can begin with at that place, and none repeats a group
# that may be empty: matching is linear.
_RANK = re.compile(
    r"""\s{0,8}(?:
      \[(?:default|rank|Rank\ |RANK\ |GPU|worker\ )(?P<torchrun>\d{1,6})\]:?      # torchrun
    | \[\d{1,6},(?:mpirank:)?(?P<mpi>\d{1,6})[^\]\n]{0,40}\]<std(?:out|err)>:?  # mpirun
    | \[pod/[\w./-]{1,120}\]                                                    # kubectl
    | (?P<srun>\d{1,6}):(?=\s|\[)                                               # srun --label
    | \((?:RayTrainWorker|[A-Za-z_]{1,40})\ pid=\d+(?:,\ ip=[\d.]{7,15})?\)     # Ray
    | \[[A-Za-z][\w.-]{0,60}:(?P<colossal>\d{1,6})\]:?(?=\s)                    # [host:rank]
    )\s?""",
    re.VERBOSE,
)
_TORCHX = re.compile(r"[\w./-]{1,80}/(?P<replica>\d{1,6}) (?=\[|[A-Z])")
# pdsh and docker compose: a host or service with a number in its name. One blank belongs to them:
# what the trainer indents stays indented.
_HOST = re.compile(
    r"(?:ip-[\d-]{7,15}|(?:[a-z]{1,12}[-.]){0,2}(?:node|gpu|host|worker|trainer|slurm|compute|dgx)"
    r"[\w.-]{0,40}\d[\w.-]{0,20}|(?:cn|gn|nid)\d{1,6}|(?:\d{1,3}\.){3}\d{1,3}):\s(?=.)"
    r"|[a-z][\w.-]{0,40}-\d{1,4}\s{1,20}\|\s"
)
_QUOTE = re.compile(r"(?:>\s?){1,4}")
_CRI = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S{0,20}) std(?:out|err) [FP] ")
_SYSLOG = re.compile(
    r"(?:<\d{1,3}>\d? ?)?[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]{1,64} "
    r"[\w./-]{1,64}(?:\[\d{1,9}\])?: "
)
_ISO = re.compile(
    r"\s{0,4}[\[(]?(?P<date>\d{4}[-/]\d\d[-/]\d\d)[ T_](?P<clock>\d\d:\d\d:\d\d)"
    r"(?P<part>[.,]\d{1,9})?"
    r"(?P<zone>Z|[+-]\d\d:?\d\d)?[\])]?(?:\s*[|:-](?=\s))?\s*"
)
_BRACKET_LEVEL = re.compile(r"\[(?:rank|Rank|RANK)[ _]?(\d{1,6})\]")
_SHIPPED = re.compile(
    r'\s{0,8}\{\s{0,8}"(?:log|message|msg|MESSAGE|line|textPayload|body|content|timestamp|@timestamp|time|stream)"'
)
_PAYLOADS = ("log", "message", "msg", "MESSAGE", "line", "textPayload", "body", "content")


class Prefixes:
    """Takes prefixes off the lines of one file."""

    def take(self, number: int, text: str) -> Line:
        """The line without what was put before it; its rank and time, if that said so."""
        rank: int | None = None
        time: float | None = None
        if text[:1] == "`" and len(text) > 2 and text.rstrip()[-1:] == "`":
            text = text.rstrip().strip("`")  # quoted as code in a document
        if text[:40].lstrip(" ")[:1] == "{" and _SHIPPED.match(text):
            text = _payload(text)
        for _ in range(6):  # nested at most so deep; each turn takes something off
            for pattern in _patterns(text):
                taken = pattern.match(text)
                if taken is not None and taken.end() < len(text):
                    break
            else:
                break
            if pattern is _ISO or pattern is _CRI:
                time = timestamp(taken[1] if pattern is _CRI else taken[0]) or time
            elif pattern is _RANK or pattern is _TORCHX:
                told = next((n for n in taken.groups() if n is not None), None)
                if told is not None:  # within a rank of a node: the two together
                    rank = int(told) if rank is None else rank * 1_000_000 + int(told)
            text = text[taken.end() :]
        if rank is None and "ank" in text[:200]:
            told_rank = _BRACKET_LEVEL.search(text, 0, 200)
            rank = int(told_rank[1]) if told_rank else None
        return Line(number, text, rank, time)


def _patterns(text: str) -> tuple[re.Pattern[str], ...]:
    """The prefixes that a line may begin with, by its first character."""
    first = text[:9].lstrip(" ")[:1]
    if first in "[(":
        return (_RANK, _ISO) if first else ()
    if first.isdigit():
        return (_CRI, _RANK, _ISO, _HOST)
    if first == ">":
        return (_QUOTE,)
    if first == "<" or (first.isupper() and text[6:7] in "0123456789 " and ":" in text[:20]):
        return (_SYSLOG, _TORCHX)
    if not first.isalpha():
        return ()
    start = text[:90]
    return (_TORCHX, _HOST) if "/" in start else (_HOST,) if ": " in start or " | " in start else ()


def timestamp(text: str) -> float | None:
    """Seconds since 1970 of a date and time as logs write it; no zone is read as UTC."""
    found = _ISO.match(text)
    if found is None:
        return None
    try:
        moment = datetime.fromisoformat(
            f"{found['date'].replace('/', '-')}T{found['clock']}"
            + (f".{found['part'][1:7]:0<6}" if found["part"] else "")
            + (found["zone"] or "")
        )
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _payload(text: str) -> str:
    """What a log shipper wrapped in JSON; the text itself if it is no such wrapping."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(record, dict):
        for key in _PAYLOADS:
            inner = record.get(key)
            if isinstance(inner, str):
                numbers = sum(isinstance(v, int | float) for v in record.values())
                return inner.rstrip("\n") if numbers <= 3 else text
    return text
