"""The table of codes: what each finding is called, since when, and where its text lies.

The documentation text of a code lies beside what emits it, as Markdown with fixed sections.
"""

from dataclasses import dataclass
from importlib.resources import files

from surefoot.errors import UsageError, nearest
from surefoot.records import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """A kind of finding.

    Attributes:
        code: family and number, e.g. ``SPK001``.
        name: short, with hyphens.
        severity: the usual one; a finding may state another.
        since: the version that brought it.
        text: path of its documentation below ``surefoot/``.
        title: one line for listings.
    """

    code: str
    name: str
    severity: Severity
    since: str
    text: str
    title: str


FAMILIES = {
    "INI": "initialisation",
    "ARC": "architecture",
    "OPT": "optimizer",
    "SCH": "schedule",
    "PRC": "precision",
    "DAT": "data and tokenizer",
    "ENV": "environment and libraries",
    "THR": "throughput",
    "CKP": "checkpoint and resume",
    "LOG": "unusable metrics",
    "SPK": "spikes and divergence",
    "REG": "regression between runs",
    "CFG": "configuration files",
}


def _spk(number: str, name: str, severity: Severity, title: str) -> Code:
    return Code(
        code=f"SPK{number}",
        name=name,
        severity=severity,
        since="0.1.0",
        text=f"detect/docs/SPK{number}.md",
        title=title,
    )


def _cfg(number: str, name: str, severity: Severity, title: str) -> Code:
    return Code(
        code=f"CFG{number}",
        name=name,
        severity=severity,
        since="0.1.0",
        text=f"readers/docs/CFG{number}.md",
        title=title,
    )


def _monitor(code: str, name: str, severity: Severity, title: str) -> Code:
    return Code(
        code=code,
        name=name,
        severity=severity,
        since="0.1.0",
        text=f"detect/docs/{code}.md",
        title=title,
    )


def _log(number: str, name: str, title: str) -> Code:
    return Code(
        code=f"LOG{number}",
        name=name,
        severity="warning",
        since="0.1.0",
        text=f"detect/docs/LOG{number}.md",
        title=title,
    )


def _ini(number: str, name: str, severity: Severity, title: str) -> Code:
    return Code(
        code=f"INI{number}",
        name=name,
        severity=severity,
        since="0.1.0",
        text=f"probe/docs/INI{number}.md",
        title=title,
    )


_ALL = (
    _ini("001", "sub-layers-too-large", "warning", "sub-layers outgrow even a shortcut of 1"),
    _ini("002", "shortcut-too-small", "warning", "the shortcut is small beside the sub-layers"),
    _ini("003", "gradient-grows-down", "warning", "gradients grow toward the lower layers"),
    _ini("004", "head-too-sure", "warning", "the first loss is above that of a uniform guess"),
    _ini("005", "attention-collapsed", "warning", "attention starts nearly one-hot"),
    _ini("006", "table-barely-moves", "warning", "a table stays nearly as it was drawn"),
    _ini("007", "rope-and-length", "info", "rotary positions do not fit the sequence length"),
    _ini("008", "start-not-finite", "error", "the first loss or gradient is NaN or infinite"),
    _spk("000", "incident-open", "warning", "the loss has left its trend; the outcome is open"),
    _spk("001", "spike-recovered", "info", "the loss spiked and came back"),
    _spk("002", "level-shift", "error", "the loss settled on a new, higher level"),
    _spk("003", "divergence", "error", "the loss keeps rising or is near that of a uniform guess"),
    _spk("004", "non-finite", "error", "a loss or gradient was NaN or infinite"),
    _spk("005", "early-warning", "warning", "a precursor left its band before the loss did"),
    _log("001", "grad-norm-not-recorded", "the gradient norm is printed as 0 and never measured"),
    _log("002", "loss-placeholder", "the loss is printed as -1 by a rank that computes none"),
    _log("003", "masked-nan", "a NaN loss was printed as exactly 0"),
    _log("004", "loss-exactly-zero", "the loss is exactly 0 after it had run well above"),
    _log("005", "skips-not-counted", "the loss scale fell while no skipped update was counted"),
    _log("006", "rate-frozen", "the learning rate stands still after a value that is not finite"),
    _log("007", "loss-vanished", "the loss is left out of records that had it"),
    _log("008", "zero-loss-nan-validation", "the loss is exactly 0 and the validation loss NaN"),
    _monitor("CKP001", "rate-restarted", "error", "the learning rate began anew at a restart"),
    _monitor("CKP002", "data-restarted", "error", "the data began anew while the steps went on"),
    _monitor("CKP003", "weights-replaced", "error", "a loss that no update can have made"),
    _monitor("SCH001", "rate-off-schedule", "error", "the schedule runs k times too fast or slow"),
    _monitor("SCH002", "loss-rises-in-decay", "warning", "the loss rises while the rate falls"),
    _monitor("SCH003", "rate-jumped", "warning", "the learning rate jumped up in one record"),
    _monitor("PRC001", "updates-all-skipped", "error", "every update is skipped"),
    _monitor("PRC002", "skips-before", "info", "batches had been skipped for NaN before this one"),
    _cfg("001", "contradiction", "error", "two files or two lines state one setting differently"),
    _cfg("002", "key-not-understood", "info", "the trainer has no such key, as far as is known"),
)

CODES: dict[str, Code] = {code.code: code for code in _ALL}


def lookup(code: str) -> Code:
    """The entry for ``code`` (any case) or its name; UsageError names the nearest."""
    wanted = code.strip()
    for entry in CODES.values():
        if wanted.upper() == entry.code or wanted.lower() == entry.name:
            return entry
    hint = nearest(wanted.upper(), list(CODES)) or nearest(
        wanted.lower(), [entry.name for entry in CODES.values()]
    )
    raise UsageError(f"unknown code {code!r}{hint}; `surefoot explain` lists all")


def explanation(code: str) -> str:
    """The documentation text of a code, Markdown."""
    return files("surefoot").joinpath(lookup(code).text).read_text(encoding="utf-8")
