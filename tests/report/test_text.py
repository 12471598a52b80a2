import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.records import Finding, Place
from surefoot.report import plain, render_findings
from surefoot.report.text import by_weight, number, place_text, tally


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain text", "plain text"),
        ("loss é 中", "loss é 中"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("\x9b31m", r"\x9b31m"),  # the one-byte CSI of 8-bit terminals
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("two\nlines\tand\r\nmore", "two lines and more"),
        ("abc\u202edcba", r"abc\u202edcba"),  # right-to-left override
        ("zero\u200bwidth", r"zero\u200bwidth"),
        ("bad\udcff", r"bad\udcff"),  # a byte of a file name that is not UTF-8
        ("bell\x07 back\x08", r"bell\x07 back\x08"),
    ],
)
def test_plain_shows_what_could_steer_a_terminal(raw, shown):
    assert plain(raw) == shown


@given(st.text(st.characters(), max_size=40))
@settings(deadline=None, max_examples=200)
def test_plain_is_printable_encodable_and_stable(text):
    shown = plain(text)
    assert shown.isprintable()
    assert shown.encode("utf-8").decode("utf-8") == shown
    assert plain(shown) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (3.14159, "3.142"),
        (51234.6, "51,235"),
        (12, "12"),
        (1_234_567, "1,234,567"),
        (1.2e-5, "1.2e-05"),
        (1e20, "1e+20"),
        (-2048.0, "-2,048"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (None, "-"),
        (0.0, "0"),
    ],
)
def test_number(value, shown):
    assert number(value) == shown


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        (Place(), ""),
        (Place(steps=(5, 5)), "step 5"),
        (Place(steps=(5, 9), attempt=0), "steps 5 to 9"),
        (Place(steps=(5, 9), attempt=2, signal="loss"), "steps 5 to 9 of attempt 2, signal loss"),
        (Place(file="a.toml", line=3, field="optimizer.eps"), "field optimizer.eps, a.toml:3"),
        (Place(file="a\x1b.toml"), r"a\x1b.toml"),
    ],
)
def test_place_text(place, shown):
    assert place_text(place) == shown


def _finding(code="SPK001", severity="info", steps=None, **more):
    return Finding(code=code, name="x", severity=severity, place=Place(steps=steps), **more)


def test_render_findings_is_exactly_this(finding):
    warning = Finding(
        code="OPT002",
        name="large-eps",
        severity="warning",
        place=Place(file="recipe.toml", line=12, field="optimizer.eps"),
        message="eps = 1e-3 is above sqrt(v)",
    )
    assert render_findings([warning, finding]) == (
        "error SPK003 divergence: run trial, steps 310 to 340 of attempt 1, signal loss\n"
        "  the loss rose 2.41 nats above its trend and did not come back within 200 steps\n"
        "  1. rewind to step 300: surefoot train --name trial --resume\n"
        "  2. skip the batches\n"
        "  source: Wortsman et al. 2023, 2309.14322\n"
        "\n"
        "warning OPT002 large-eps: field optimizer.eps, recipe.toml:12\n"
        "  eps = 1e-3 is above sqrt(v)\n"
    )


def test_no_findings():
    assert render_findings([]) == "no findings\n"
    assert tally([]) == "no findings"


def test_long_text_is_wrapped_and_long_words_stay_whole():
    path = "runs/" + "x" * 100 + "/checkpoints"
    text = render_findings([_finding(message="word " * 60, actions=(f"open {path} and look",))])
    assert path in text
    assert all(len(line) <= 80 for line in text.splitlines() if path not in line)
    assert "\n     and look\n" in text  # hangs under its number


def test_gravest_first_then_by_step():
    order = [
        _finding("A", "info", (1, 2)),
        _finding("B", "error", (9, 9)),
        _finding("C", "error"),
        _finding("D", "warning", (3, 3)),
        _finding("E", "error", (4, 5)),
    ]
    assert [f.code for f in by_weight(order)] == ["E", "B", "C", "D", "A"]
    assert tally(order) == "3 errors, 1 warning, 1 info"


@given(st.text(st.characters(), max_size=30))
@settings(deadline=None, max_examples=60)
def test_no_text_of_a_finding_reaches_the_terminal_raw(text):
    hostile = Finding(
        code=text,
        name=text,
        severity="error",
        place=Place(run=text, signal=text, layer=text, field=text, file=text),
        message=text,
        actions=(text,),
        references=(text,),
    )
    assert all(line.isprintable() for line in render_findings([hostile]).split("\n"))


def test_causes_are_ranked_in_words() -> None:
    causes = [
        {
            "cause": "data-batch",
            "share": 0.55,
            "supports": ["the loss rose in one record"],
            "contradicts": [],
            "experiment": "rerun the step with other samples",
        },
        {"cause": "unknown", "share": 0.45},
    ]
    finding = Finding(
        code="SPK000",
        name="incident-open",
        severity="warning",
        message="the loss left its course",
        evidence={"causes": causes},
    )
    assert render_findings([finding]).splitlines() == [
        "warning SPK000 incident-open",
        "  the loss left its course",
        "  cause    data-batch 0.55, unknown 0.45",
        "  for      the loss rose in one record",
        "  decide   rerun the step with other samples",
    ]
