"""The table of codes: every entry is well-formed and has a text with the fixed sections."""

import re
from importlib.resources import files

import pytest

from surefoot.codes import CODES, FAMILIES, explanation, lookup
from surefoot.errors import UsageError
from surefoot.records import SEVERITIES

SECTIONS = [
    "What it checks",
    "Why it matters",
    "Example",
    "Use instead",
    "When to ignore",
    "References",
]


def test_families_are_those_of_the_design():
    assert list(FAMILIES) == [
        "INI", "ARC", "OPT", "SCH", "PRC", "DAT", "ENV", "THR", "CKP", "LOG", "SPK", "REG",
        "CFG",
    ]  # fmt: skip


@pytest.mark.parametrize("entry", CODES.values(), ids=CODES)
def test_entry(entry):
    assert re.fullmatch(r"[A-Z]{3}\d{3}", entry.code)
    assert entry.code[:3] in FAMILIES
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", entry.name)
    assert entry.severity in SEVERITIES
    assert re.fullmatch(r"\d+\.\d+\.\d+", entry.since)
    assert entry.title
    assert not entry.title.endswith(".")


def test_names_are_unique():
    assert len({entry.name for entry in CODES.values()}) == len(CODES)
    assert len({entry.text for entry in CODES.values()}) == len(CODES)


def test_the_spike_family_is_fixed():
    assert {code: (entry.name, entry.severity) for code, entry in CODES.items()
            if code.startswith("SPK")} == {
        "SPK000": ("incident-open", "warning"),
        "SPK001": ("spike-recovered", "info"),
        "SPK002": ("level-shift", "error"),
        "SPK003": ("divergence", "error"),
        "SPK004": ("non-finite", "error"),
        "SPK005": ("early-warning", "warning"),
    }  # fmt: skip


@pytest.mark.parametrize("code", CODES)
def test_text_has_the_fixed_sections_in_order(code):
    text = explanation(code)
    entry = CODES[code]
    assert text.splitlines()[0].startswith("# ")
    assert entry.code in text.splitlines()[0]
    assert entry.name in text.splitlines()[0]
    assert re.findall(r"^## (.+)$", text, flags=re.MULTILINE) == SECTIONS
    for body in re.split(r"^## .+$", text, flags=re.MULTILINE)[1:]:
        assert body.strip(), "an empty section"


def test_no_text_without_an_entry():
    for folder in {entry.text.rpartition("/")[0] for entry in CODES.values()}:
        found = {item.name for item in files("surefoot").joinpath(folder).iterdir()}
        known = {entry.text.rpartition("/")[2] for entry in CODES.values()}
        assert found - {"__init__.py", "__pycache__"} <= known


@pytest.mark.parametrize("word", ["SPK003", "spk003", " Spk003 ", "divergence", "DIVERGENCE"])
def test_lookup_by_code_or_name_in_any_case(word):
    assert lookup(word).code == "SPK003"


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("SPK03", " (did you mean 'SPK003'?)"),
        ("diverge", " (did you mean 'divergence'?)"),
        ("", ""),
        ("zzz", ""),
    ],
)
def test_an_unknown_code_gets_the_nearest(word, hint):
    with pytest.raises(UsageError) as caught:
        lookup(word)
    message = str(caught.value)
    assert message == f"unknown code {word!r}{hint}; `surefoot explain` lists all"
