import pytest
from torch import nn

from surefoot.errors import UsageError
from surefoot.init import roles_of
from surefoot.init.roles import is_of_parametrization, plain_name


def model(**more: nn.Module) -> nn.Module:
    block = nn.ModuleDict({"self_attn": nn.ModuleDict({"o_proj": nn.Linear(4, 4, bias=False)})})
    parts = {"embed_tokens": nn.Embedding(5, 4), "layers": nn.ModuleList([block]), **more}
    return nn.ModuleDict(parts)


def test_a_family_by_name():
    assert roles_of(model(), family="llama") == {
        "embed_tokens.weight": "embedding",
        "layers.0.self_attn.o_proj.weight": "attention_out",
    }


def test_a_parameter_that_the_map_misses_is_named_with_the_line_to_add():
    gates = nn.ModuleList([nn.Linear(4, 2, bias=False)])
    missing = model(layer_gates=gates)
    with pytest.raises(UsageError) as caught:
        roles_of(missing, family="llama")
    text = str(caught.value)
    assert "'layer_gates.0.weight' of shape (2, 4) has no role" in text
    assert r"""r"layer_gates\.\d+\.weight": ROLE,""" in text
    assert "attention_in, attention_value" in text
    line = {r"layer_gates\.\d+\.weight": "router"}
    assert roles_of(missing, family="llama", patterns=line)["layer_gates.0.weight"] == "router"


def test_given_patterns_come_first_and_match_whole_parts_of_names():
    patterns = {r"o_proj\.weight": "head"}
    assert (
        roles_of(model(), family="llama", patterns=patterns)["layers.0.self_attn.o_proj.weight"]
        == "head"
    )
    with pytest.raises(UsageError, match=r"pattern 'proj.*' matches no parameter"):
        roles_of(model(), family="llama", patterns={r"proj\.weight": "head"})
    with pytest.raises(UsageError, match=r"pattern 'o_proj' matches no parameter"):
        roles_of(model(), family="llama", patterns={r"o_proj": "head"})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"patterns": {r"embed_token\.weight": "embedding"}},
            r"matches no parameter \(did you mean 'embed_tokens.weight'\?\)",
        ),
        ({"patterns": {"(": "head"}}, r"the pattern '\(' is no regular expression: "),
        ({"patterns": {"x": "heads"}}, r"unknown role 'heads' of pattern 'x' \(did you mean"),
        ({"family": "lama"}, r"unknown model family 'lama' \(did you mean 'llama'\?\)"),
        ({}, r"ModuleDict is no family whose parameters are known \(apertus, .*family="),
    ],
)
def test_bad_maps(arguments, message):
    if "patterns" in arguments:
        arguments = {"family": "llama"} | arguments
    with pytest.raises(UsageError, match=message):
        roles_of(model(), **arguments)


def test_an_unknown_model_type_is_named():
    class Config:
        model_type = "rwkv"

    other = model()
    other.config = Config()
    with pytest.raises(UsageError, match="model_type 'rwkv' is no family"):
        roles_of(other)
    patterns = {r"embed_tokens\.weight": "embedding", r"o_proj\.weight": "attention_out"}
    assert set(roles_of(other, patterns=patterns).values()) == {"embedding", "attention_out"}


@pytest.mark.parametrize(
    ("name", "plain", "of_parametrization"),
    [
        ("a.b.weight", "a.b.weight", False),
        ("a.b.parametrizations.weight.original", "a.b.weight", False),
        ("parametrizations.weight.original", "weight", False),
        ("a.parametrizations.weight.0.alpha", "a.parametrizations.weight.0.alpha", True),
        ("a.original", "a.original", False),
    ],
)
def test_names_behind_a_parametrization(name, plain, of_parametrization):
    assert plain_name(name) == plain
    assert is_of_parametrization(name) == of_parametrization
