"""A start as text, JSON and HTML."""

import json
import math
import re
import shutil
import subprocess
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from surefoot.probe import (
    InitProfile,
    LayerProfile,
    RotaryProfile,
    Sizes,
    TableProfile,
    not_checked,
    verdicts,
)
from surefoot.report import init_json, init_summary, render_init_html, to_json, write_init_html

GOLDEN = Path(__file__).parents[1] / "golden" / "json" / "check_init.json"


def profile_of(layers=2, **more):
    each = tuple(
        LayerProfile(
            layer=i, stream_rms=0.056 * 2**i, attention_rms=0.03, feed_forward_rms=0.126,
            stream_gradient=0.28 / 2**i, parameter_gradient=0.2, attention_sigma=0.055,
            feed_forward_sigma=0.06, attention_bound=25.2, feed_forward_bound=11.5,
            logit_std=0.4, logit_max=2.0, entropy=0.97, entropy_min=0.96,
        )
        for i in range(layers)
    )  # fmt: skip
    sizes = Sizes(layers=layers, width=4096, heads=32, kv_heads=8, head_size=128, ff_width=11008,
                  ff_matrices=3, vocab_size=32000)  # fmt: skip
    return InitProfile(
        **{
            "target": "a <b>.toml", "kind": "recipe", "model": "a decoder", "method": "vanilla",
            "placement": "pre", "sizes": sizes, "measured_width": 128, "measured_heads": 1,
            "sequence_length": 2048, "measured_length": 2048, "sequences": 1, "rows": 8192,
            "loss": 11.2, "loss_error": 0.03, "ln_vocab": 10.373, "logit_std": 1.28,
            "stream_rms": 0.45, "stream_gradient": 0.04, "layers": each,
            "tables": (
                TableProfile(name="embedding.weight", role="embedding", rows=32000, rms=0.056,
                             gradient=1e-9, reach=50.0, warmup_reach=0.5),
            ),
            "rotary": RotaryProfile(theta=5e5, head_size=128, longest=2_559_195.0,
                                    share_beyond=0.55),
            "notes": ("built 128 wide instead of 4096",),
            **more,
        }
    )  # fmt: skip


def text_of(profile, width=100):
    console = Console(width=width, color_system=None, record=True, file=StringIO())
    console.print(init_summary(profile, verdicts(profile), not_checked(profile)))
    return console.export_text()


def test_the_text_holds_numbers_findings_and_what_was_not_checked():
    text = text_of(profile_of())
    assert "2 layers, 4096 wide, 32 heads (8 key/value) of 128" in text
    row = next(line for line in text.splitlines() if line.split()[:1] == ["1"])
    assert row.split() == ["1", "0.112", "0.03", "0.126", "0.14", "0.2", "25.2", "11.5", "0.055",
                           "0.4", "0.97"]  # fmt: skip
    assert "first loss 11.2 nats (+-0.03), ln V 10.37" in text
    assert "7 times that behind the last" in text
    assert "findings: 3 warnings, 1 info" in text
    assert "not checked" not in text
    post = text_of(profile_of(placement="post"))
    assert "INI001  needs norm_placement" in post


def test_findings_of_a_config_json_are_put_in_their_place():
    line = "They need not mean trouble"
    more = "More of each: surefoot explain INI002"
    published = profile_of(kind="config.json", method="")
    for profile, remarks in ((published, 1), (profile_of(), 0)):
        text = " ".join(text_of(profile).split())
        page = render_init_html(profile, verdicts(profile))
        assert (text.count(line), page.count(line)) == (remarks, remarks)
        assert (text.count(more), page.count(more)) == (1, 1)
    broken = replace(published, loss=math.nan)  # an error is no remark
    assert line not in " ".join(text_of(broken).split())
    assert "surefoot explain" not in text_of(profile_of(stream_gradient=0.28, loss=10.4,
                                                        rotary=None))  # fmt: skip


def test_many_layers_are_thinned_with_both_ends():
    lines = [line.split() for line in text_of(profile_of(layers=100)).splitlines()]
    rows = [words[0] for words in lines if len(words) == 11 and words[0].isdigit()]
    assert (rows[0], rows[-1], len(rows)) == ("0", "99", 16)


def test_a_column_that_nothing_fills_is_left_out():
    profile = profile_of()
    bare = tuple(replace(layer, attention_bound=None, entropy=None) for layer in profile.layers)
    text = text_of(replace(profile, layers=bare))
    assert "|J| ff" in text
    assert "|J| attn" not in text
    assert "entropy" not in text.partition("stream, +attn")[0]


def test_a_name_cannot_steer_the_terminal():
    assert "\x1b" not in text_of(profile_of(target="a\x1b[31m.toml"))


def document_of(profile):
    return to_json(
        "check", [profile.target], verdicts(profile), not_checked(profile), init_json(profile)
    )


def test_the_json_is_the_golden_one():
    text = json.dumps(document_of(profile_of()), allow_nan=False, indent=2, ensure_ascii=False)
    assert text + "\n" == GOLDEN.read_text("utf-8")


def test_numbers_that_are_not_finite_are_strict_json():
    document = document_of(profile_of(loss=math.nan, stream_rms=math.inf, stream_gradient=0.0))
    json.dumps(document, allow_nan=False)
    assert document["summary"]["loss"] == "nan"
    assert document["summary"]["stream_growth"] == "inf"
    assert document["summary"]["gradient_growth"] == "nan"


def figures_of(page):
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', page)
    return json.loads(found[1])


def test_the_page_holds_a_picture_of_the_profile():
    profile = profile_of(layers=32)
    page = render_init_html(profile, verdicts(profile), not_checked(profile))
    figures = figures_of(page)
    assert list(figures) == ["stream", "gradient", "bounds", "logits", "entropy"]
    gradient = figures["gradient"]
    assert gradient["data"][0]["x"] == list(range(33))  # and behind the last layer
    assert gradient["data"][0]["y"][0] == 0.28
    assert gradient["data"][0]["y"][-1] == 0.04
    assert gradient["layout"]["xaxis"]["over"] == "layer"
    assert figures["bounds"]["data"][-1]["y"] == [1.0, 1.0]
    for key in figures:
        assert f"id='chart-{key}'" in page
    assert "a &lt;b&gt;.toml" in page
    assert "a <b>" not in page
    assert "INI002" in page
    assert "Content-Security-Policy" in page


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0])
def test_the_page_survives_odd_values(value):
    profile = profile_of()
    odd = replace(profile.layers[0], stream_rms=value, stream_gradient=value, logit_std=value,
                  entropy=value, attention_bound=value)  # fmt: skip
    profile = replace(profile, layers=(odd, profile.layers[1]), stream_rms=value)
    page = render_init_html(profile, verdicts(profile))
    drawn = figures_of(page)["stream"]["data"][0]["y"]
    assert drawn[0] == (0.0 if value == 0 else None)
    nothing = replace(profile.layers[0], attention_bound=None, feed_forward_bound=None)
    page = render_init_html(replace(profile, layers=(nothing,), placement="post"), [])
    assert "bounds" not in figures_of(page)


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_a_browser_draws_every_chart_over_the_layers(tmp_path):
    profile = profile_of(layers=32)
    write_init_html(profile, verdicts(profile), tmp_path / "a.html")
    done = subprocess.run(
        [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=15000", "--dump-dom",
         (tmp_path / "a.html").as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    assert 'data-drawn="true"' in done.stdout
    assert done.stdout.count(">layer</text>") == 5
    assert ">step</text>" not in done.stdout


def test_a_page_is_written_whole(tmp_path):
    write_init_html(profile_of(), [], tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text("utf-8").startswith("<!doctype html>")
