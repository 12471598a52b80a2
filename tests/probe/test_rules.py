"""Each finding of the family INI: where it is told, what it says, and where it is not."""

import math
from dataclasses import replace

import pytest

from surefoot.codes import CODES
from surefoot.probe import RotaryProfile, not_checked, verdicts


def codes(profile):
    return [(found.severity, found.code) for found in verdicts(profile)]


def test_a_healthy_start_has_no_finding(make_profile):
    profile = make_profile()
    assert verdicts(profile) == []
    assert [entry["code"] for entry in not_checked(profile)] == ["INI007"]


def small_shortcut(make_profile, **more):
    """The vanilla start: 0.056 at first, what is added 0.45, a growth of 7."""
    profile = make_profile(
        layers=12,
        layer={"stream_rms": 0.056, "attention_rms": 0.03, "feed_forward_rms": 0.126,
               "stream_gradient": 0.28, "attention_bound": 25.2, "feed_forward_bound": 11.5},
        stream_gradient=0.04, **more,
    )  # fmt: skip
    return profile


def test_a_small_shortcut(make_profile):
    found = verdicts(small_shortcut(make_profile))
    assert [(f.severity, f.code) for f in found] == [("warning", "INI002"), ("warning", "INI003")]
    assert found[0].message == (
        "the shortcut that enters the first layer has a standard deviation of 0.056 where near 1 "
        "is wanted, and the sub-layers add 0.449: the gradient may grow up to 25.2 times over the "
        "attention of layer 11 and 11.5 times over the feed-forward block of layer 11"
    )
    assert found[0].evidence["gradient_growth"] == pytest.approx(7)
    assert found[1].evidence["growth_exponents"]["gradient"] == pytest.approx(math.log(7) / 12)
    assert "7 times as large before layer 0" in found[1].message


def test_sub_layers_that_outgrow_a_unit_shortcut(make_profile):
    profile = make_profile(
        layers=32,
        layer={"stream_rms": 1.0, "feed_forward_rms": 2.1, "stream_gradient": 1.0},
        stream_gradient=0.1,
    )
    assert codes(profile) == [("warning", "INI001"), ("warning", "INI003")]
    first = verdicts(profile)[0]
    assert first.evidence["added_rms"] == pytest.approx(math.sqrt(32 * (2.1**2 + 0.04**2)))
    assert "64 sub-layers add 11.9" in first.message


def test_conditions_are_told_only_where_the_gradient_grows(make_profile):
    """What counts is the effect: at 0.02 a small model may still pass gradients through."""
    profile = replace(small_shortcut(make_profile), stream_gradient=0.1)
    assert codes(profile) == []


def test_elsewhere_norms_make_it_a_remark_and_the_bounds_are_not_checked(make_profile):
    profile = small_shortcut(make_profile, placement="reordered")
    assert codes(profile) == [("info", "INI003")]
    assert [entry["code"] for entry in not_checked(profile)][:2] == ["INI001", "INI002"]
    assert "reordered" in not_checked(profile)[0]["needs"]
    (found,) = verdicts(profile)
    assert "OLMo 2, whose norms are not pre-norm either" in found.message
    assert len(found.actions) == 1
    assert "warm up longer" in found.actions[0]
    assert "INI00" not in str(found.actions)  # which were not judged


def test_the_cure_of_growth_refers_to_what_was_told(make_profile):
    assert verdicts(small_shortcut(make_profile))[1].actions[0] == "do what INI002 says"
    # A shortcut of 0.6 is large enough, and what is added is not too much: neither is told.
    profile = make_profile(
        layer={"stream_rms": 0.6, "feed_forward_rms": 0.5, "stream_gradient": 0.28}
    )
    (found,) = verdicts(profile)
    assert found.code == "INI003"
    assert "INI00" not in str(found.actions)
    assert "OLMo" not in found.message


RECIPE_WORDS = ("init.", "architecture.", "optimizer.", "schedule.")


def test_a_config_json_gets_remedies_that_its_owner_can_use(make_profile):
    profile = make_profile(
        kind="config.json", method="", loss=9.0,
        layer={"stream_rms": 0.02, "feed_forward_rms": 2.1, "stream_gradient": 1.0,
               "entropy": 0.1},
        rotary=RotaryProfile(theta=5e5, head_size=32, longest=2.6e6, share_beyond=0.55),
    )  # fmt: skip
    found = verdicts(profile)
    assert [f.code for f in found] == [
        "INI001", "INI002", "INI003", "INI004", "INI005", "INI007"
    ]  # fmt: skip
    for one in (*found, *verdicts(replace(profile, loss=math.inf))):
        assert not any(word in action for word in RECIPE_WORDS for action in one.actions)
    actions = " ".join(action for one in found for action in one.actions)
    assert "in your trainer" in actions
    assert "initializer_range" in actions
    assert "tie_word_embeddings" in actions
    assert "sqrt(2/(5 hidden_size)) = 0.056" in actions  # of 128 channels
    told = verdicts(replace(profile, kind="recipe"))
    assert any("init.depth_scaled_outputs = true" in a for one in told for a in one.actions)


def test_with_norms_of_the_sum_growth_is_counted_behind_the_first_block(make_profile):
    profile = make_profile(placement="post")
    embedding = replace(profile.layers[0], stream_rms=0.02, stream_gradient=2.0)
    profile = replace(profile, layers=(embedding, *profile.layers[1:]))
    assert profile.gradient_growth == pytest.approx(0.04 / 0.038)
    assert codes(profile) == []
    assert replace(profile, placement="pre").gradient_growth == pytest.approx(2.0 / 0.038)


@pytest.mark.parametrize("more", [{"kind": "config.json", "method": ""}, {"method": "wesar"}])
def test_what_was_not_chosen_or_has_trained_is_a_remark(make_profile, more):
    assert {severity for severity, _ in codes(small_shortcut(make_profile, **more))} == {"info"}


@pytest.mark.parametrize(
    ("excess", "error", "told"), [(0.29, 0.0, 0), (0.31, 0.0, 1), (0.31, 0.02, 0), (110, 1.0, 1)]
)
def test_a_first_loss_above_a_uniform_guess(make_profile, excess, error, told):
    profile = make_profile(loss=7.625 + excess, loss_error=error)
    assert codes(profile) == [("warning", "INI004")] * told


def test_collapsed_attention_names_the_lowest_layer(make_profile):
    profile = make_profile()
    layers = list(profile.layers)
    layers[1] = replace(layers[1], entropy=0.2, logit_std=5.0)
    layers[2] = replace(layers[2], entropy=0.1, logit_std=6.0)
    (found,) = verdicts(replace(profile, layers=tuple(layers)))
    assert (found.severity, found.code, found.place.layer) == ("warning", "INI005", "2")
    assert found.evidence["layers"] == [1, 2]
    assert "in 2 of 4 layers" in found.message


def test_attention_that_was_not_seen_is_not_passed(make_profile):
    profile = make_profile(layer={"entropy": None})
    assert verdicts(profile) == []
    assert "INI005" in [entry["code"] for entry in not_checked(profile)]


@pytest.mark.parametrize(("reach", "told"), [(None, 0), (0.11, 0), (0.09, 1), (0.0, 1)])
def test_a_table_that_barely_moves(make_profile, reach, told):
    profile = make_profile()
    profile = replace(profile, tables=(replace(profile.tables[0], reach=reach),))
    assert codes(profile) == [("warning", "INI006")] * told
    unchecked = [entry["code"] for entry in not_checked(profile)]
    assert ("INI006" in unchecked) == (reach is None)


@pytest.mark.parametrize(
    ("theta", "longest", "share", "told"),
    [
        (1e4, 35_000, 0.56, 0),  # the usual one is never complained of
        (5e5, 2.6e6, 0.5, 0),  # OLMo 2 at 4096
        (5e5, 2.6e6, 0.55, 1),
        (10.0, 60.0, 0.0, 1),
    ],
)
def test_rope_and_length_is_a_remark(make_profile, theta, longest, share, told):
    rotary = RotaryProfile(theta=theta, head_size=32, longest=longest, share_beyond=share)
    assert codes(make_profile(rotary=rotary)) == [("info", "INI007")] * told


def test_what_is_not_finite_is_an_error_and_nothing_else_is_concluded(make_profile):
    nan = math.nan
    broken = {"stream_rms": nan, "feed_forward_rms": nan, "stream_gradient": nan, "entropy": nan}
    profile = make_profile(layer=broken, loss=nan, stream_rms=nan, stream_gradient=nan)
    profile = replace(profile, layers=(replace(profile.layers[0], stream_rms=1.0),
                                       *profile.layers[1:]))  # fmt: skip
    (found,) = verdicts(profile)
    assert (found.severity, found.code) == ("error", "INI008")
    assert found.evidence["first_layer"] == 1
    assert "the loss is nan and the gradient is nan" in found.message
    infinite = replace(profile, loss=math.inf, kind="config.json")
    assert ("error", "INI008") in codes(infinite)


def test_every_code_of_the_family_is_emitted_somewhere():
    from importlib.resources import files

    rules = files("surefoot.probe").joinpath("rules")
    text = "".join(item.read_text() for item in rules.iterdir() if item.name.endswith(".py"))
    assert all(f'"{code}"' in text for code in CODES if code.startswith("INI"))
