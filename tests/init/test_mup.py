"""muP and the coordinate check, which must see a half-done one."""

import math
import re

import pytest
import torch
from torch import nn

from surefoot.errors import UsageError
from surefoot.init import coordinate_check, initialise, rate_factors, start
from surefoot.init.coordinates import CoordinateCheck
from surefoot.model import Decoder
from surefoot.recipe import Architecture, Init

BASE, WIDTHS = 16, (16, 32, 64)
DATA = [
    torch.randint(50, (2, 9), generator=torch.Generator().manual_seed(seed)) for seed in range(3)
]
MUP = Init(method="mup", base_width=BASE)


def decoder(width: int, **changes) -> Decoder:
    shape = {"layers": 2, "heads": 4, "vocab_size": 50, "sequence_length": 8, "qk_norm": False}
    return Decoder(Architecture(width=width, **(shape | changes)))


def mup(width: int, *, multiplied=True, rescaled=True, rates=True):
    """muP as a recipe makes it; each argument leaves one part of it undone."""
    ratio = width / BASE
    model = decoder(width, attention_scale="mup", head_scale=1 / ratio if multiplied else 1.0)
    roles = model.roles()
    initialise(model, roles, MUP, seed=1)
    if not rescaled:
        with torch.no_grad():
            model.head.weight.div_(math.sqrt(ratio))
    return model, rate_factors(model, roles, MUP) if rates else {}


def unmultiplied(width: int):
    """muP without a factor on the logits: spread and rate of the head fall instead."""
    model = decoder(width, attention_scale="mup")
    begin = start("mup", seed=1, base_width=BASE)
    begin(model)
    return model, begin.rate_factors(model)


def standard(width: int):
    model = decoder(width)
    start("spike-no-more", seed=1)(model)
    return model, {}


@pytest.mark.parametrize(("make", "rate"), [(mup, 1e-3), (mup, 3e-2), (unmultiplied, 1e-2)])
def test_flat_under_mup(make, rate):
    check = coordinate_check(make, WIDTHS, steps=3, rate=rate, data=DATA)
    assert check.failures == ()
    assert check.passed
    # The logits of a random head average out with the width; a change by the updates does not.
    assert check.slope(check.sizes["output"][0]) == pytest.approx(-0.5, abs=0.1)
    assert abs(check.slope(check.changes["layers.1.feed_forward.w2"][3])) < 0.25


@pytest.mark.parametrize("rate", [1e-3, 3e-2])
def test_growing_under_standard_parametrisation(rate):
    check = coordinate_check(standard, WIDTHS, steps=3, rate=rate, data=DATA)
    assert not check.passed
    assert any("change of layers.1.feed_forward.w2: grows" in line for line in check.failures)
    assert check.slope(check.changes["output"][1]) > 0.5
    if rate > 1e-2:  # then sizes show it too
        assert check.slope(check.sizes["layers.1.feed_forward.w2"][3]) > 0.5


@pytest.mark.parametrize(
    ("undone", "expected"),
    [
        ("multiplied", r"step 0, size of output: grows with the width to the power 0\.[45]"),
        ("rescaled", r"step 0, size of output: shrinks with the width to the power -(1\.0|0\.9)"),
        ("rates", r"step 1, change of layers\.\d\.[a-z_.]*w[a-z0-9]: grows .* 0\.[6789]"),
    ],
)
def test_half_a_mup_is_found(undone, expected):
    check = coordinate_check(
        lambda width: mup(width, **{undone: False}), WIDTHS, steps=2, rate=1e-2, data=DATA
    )
    assert any(re.match(expected, failure) for failure in check.failures)


def test_at_the_base_width_it_is_spike_no_more(make_decoder):
    one, two = make_decoder(), make_decoder()
    start("mup", seed=1, base_width=64)(one)
    start("spike-no-more", seed=1)(two)
    for (name, ours), theirs in zip(one.named_parameters(), two.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=0, msg=name)
    factors = rate_factors(one, one.roles(), Init(method="mup", base_width=64))
    assert set(factors.values()) == {1.0}


def test_rate_factors_by_role(make_decoder):
    model = make_decoder(layer_scale=0.1, experts=2)
    roles = model.roles()
    factors = rate_factors(model, roles, MUP)
    assert factors.keys() == roles.keys()
    quarter = {name for name, factor in factors.items() if factor == 16 / 64}
    whole = {name for name, factor in factors.items() if factor == 1}
    assert {roles[name] for name in quarter} == {
        "attention_in",
        "attention_value",
        "attention_out",
        "feed_forward_in",
        "feed_forward_out",
        "router",
    }
    assert {roles[name] for name in whole} == {"embedding", "head", "norm", "scale"}
    assert quarter | whole == set(factors)
    assert rate_factors(model, roles, Init()) == {}
    assert rate_factors(model, roles, Init(method="mup"))["layers.0.attention.wq.weight"] == 1


def test_spread_by_width():
    model, _ = mup(64)
    base_std = math.sqrt(2 / (5 * BASE))
    assert model.embedding.weight.std().item() == pytest.approx(1, rel=0.05)
    assert model.head.weight.std().item() == pytest.approx(base_std, rel=0.05)
    query = model.layers[0].attention.wq.weight
    assert query.std().item() == pytest.approx(base_std / 2, rel=0.05)
    other = decoder(64)
    start("mup", seed=1, base_width=BASE)(other)
    assert other.head.weight.std().item() == pytest.approx(base_std / 4, rel=0.05)
    start("mup", seed=1, base_width=BASE, zero_head=True)(other)
    assert not other.head.weight.any()


def test_a_tied_head_is_refused(make_foreign):
    with pytest.raises(UsageError, match="embedding and head scale differently"):
        start("mup", seed=1, base_width=32)(make_foreign("gpt2"))


class Sized(nn.Module):
    """Logits of a given size, whatever the updates."""

    def __init__(self, size: float, extra: bool = False):
        super().__init__()
        self.inner = nn.Embedding(50, 50)
        self.extra = nn.Identity() if extra else None
        self.size = size

    def forward(self, tokens):
        x = self.inner(tokens)
        if self.extra is not None:
            x = self.extra(x)
        return x * 0 + self.size


@pytest.mark.parametrize(
    ("size", "failure"),
    [
        (lambda width: width**0.2, None),
        (lambda width: width**0.3, "grows with the width to the power 0.30"),
        (lambda width: width**-0.7, None),
        (lambda width: width**-0.8, "shrinks with the width to the power -0.80"),
        (lambda width: math.inf if width == 4 else 1.0, "not finite"),
        (lambda width: 0.0, None),
    ],
)
def test_verdict(size, failure):
    sizes = {"output": ((size(2), size(4), size(8)),)}
    changes = {"output": ((0.0, 0.0, 0.0),)}
    check = CoordinateCheck(widths=(2, 4, 8), sizes=sizes, changes=changes, tolerance=0.25)
    assert check.passed == (failure is None)
    if failure:
        assert check.failures[0].startswith(f"step 0, size of output: {failure}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"widths": (8, 8)}, r"two different widths.*got widths \[8\]"),
        ({"data": []}, "0 batches"),
        ({"steps": 0}, "0 steps"),
        ({"make_model": lambda width: (Sized(1.0, width > 4), {})}, "same modules at any width"),
    ],
)
def test_bad_calls(arguments, message):
    given = {"make_model": lambda width: (Sized(1.0), {}), "widths": (4, 8), "data": DATA}
    given |= {"steps": 1} | arguments
    with pytest.raises(UsageError, match=message):
        coordinate_check(given.pop("make_model"), given.pop("widths"), **given)


def test_a_model_of_transformers(make_foreign):
    def make(width: int):
        model = make_foreign(
            "llama", hidden_size=width, intermediate_size=2 * width, num_attention_heads=width // 8,
            num_key_value_heads=width // 8, head_dim=8, num_hidden_layers=1,
        )  # fmt: skip
        begin = start("mup", seed=1, base_width=16)
        begin(model)
        return model, begin.rate_factors(model)

    check = coordinate_check(make, (16, 32, 64), steps=2, rate=1e-2, data=DATA)
    assert check.failures == ()
