"""Folding: the same logits from plain weights, whatever was asked for."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import parametrize

from surefoot.model import PLACEMENTS, fold, plain_state

FOLDABLE = {
    "embedding_scale": ["sqrt_width", 0.7],
    "embedding_norm": [True],
    "embedding_gradient": [0.3],
    "head_scale": [0.4, 1.0],
    "layer_scale": [0.3],
    "attention_scale": ["mup", 0.9],
    "query_key_layer_scaling": [True],
    "sigma_reparam": [True],
}
OTHERS = {
    "norm": ["layernorm"],
    "activation": ["gelu"],
    "tied_embeddings": [True],
    "norm_placement": list(PLACEMENTS),
    "qk_norm": [False],
    "qk_norm_over": ["width"],
    "attention_softcap": [1.5],
    "logit_softcap": [2.0],
    "experts": [3],
}


class _Shift(nn.Module):
    """Some other re-parameterisation."""

    def __init__(self):
        super().__init__()
        self.by = nn.Parameter(torch.tensor(0.1, dtype=torch.float64))

    def forward(self, weight):
        return weight + self.by


def assert_folds(model, tokens, **options):
    """The folded model is plain and has the same logits; the given one is as it was."""
    model.double()
    before = {name: t.clone() for name, t in model.state_dict().items()}
    folded = fold(model, **options)
    assert all(torch.equal(before[name], t) for name, t in model.state_dict().items())
    with torch.no_grad():
        expected = model.eval()(tokens)
        got = folded.model.eval()(tokens)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-11 * expected.std())
    assert not any(parametrize.is_parametrized(m) for m in folded.model.modules())
    assert set(folded.model.state_dict()) == set(folded.model.roles())  # no buffer is left
    assert "scale" not in folded.model.roles().values()
    assert all(p.requires_grad for p in folded.model.parameters())
    pointers = {p.data_ptr() for p in model.parameters()}
    assert pointers.isdisjoint(p.data_ptr() for p in folded.model.parameters())
    return folded


@pytest.mark.parametrize("name", FOLDABLE)
def test_each(name, make_model, tokens):
    for value in FOLDABLE[name]:
        if (name, value) == ("head_scale", 1.0):
            continue
        folded = assert_folds(make_model(**{name: value}), tokens)
        assert folded.folded == (name,)
        assert folded.kept == ("qk_norm",)
        again = fold(folded.model)
        assert again.folded == ()
        assert again.model.architecture == folded.model.architecture


@pytest.mark.parametrize("norm", ["rmsnorm", "layernorm"])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("asked", [{"embedding_norm": True}, {"norm_placement": "peri"}], ids=str)
def test_norm_behind_the_embedding(asked, tied, norm, make_model, tokens):
    def folded(scale):
        model = make_model(
            norm=norm, tied_embeddings=tied, embedding_scale=scale, head_scale=1.0, **asked
        )
        return assert_folds(model, tokens)

    placement = "sandwich" if "norm_placement" in asked else "pre"
    for scale, names in ((1.0, {"embedding_norm"}), (3.0, {"embedding_norm", "embedding_scale"})):
        found = folded(scale)
        assert set(found.folded) == names
        assert not found.model.architecture.tied_embeddings
        assert found.model.architecture.norm_placement == placement


def test_tied_heads_stay_tied_where_both_sides_agree(make_model, tokens):
    def tied(**changes):
        return make_model(tied_embeddings=True, **changes)

    both = assert_folds(tied(embedding_scale=3.0, head_scale=3.0), tokens)
    assert both.model.architecture.tied_embeddings
    apart = assert_folds(tied(embedding_scale=3.0, head_scale=1.0), tokens)
    assert not apart.model.architecture.tied_embeddings
    assert apart.folded == ("embedding_scale",)
    # A format with a factor of its own keeps it, and with it the tie.
    root = tied(embedding_scale="sqrt_width", head_scale=1.0)
    kept = assert_folds(root, tokens, embedding_scale="sqrt_width")
    assert kept.model.architecture.tied_embeddings
    assert kept.folded == ()
    assert kept.kept == ("qk_norm", "embedding_scale")
    assert torch.equal(kept.model.embedding.weight, root.embedding.weight)
    other = assert_folds(tied(embedding_norm=True), tokens, embedding_scale="sqrt_width")
    assert other.model.architecture.input_factor == 32**0.5


def test_what_cannot_be_folded_is_named(make_model, tokens):
    folded = assert_folds(
        make_model(norm_placement="deepnorm", experts=2, attention_softcap=5.0, logit_softcap=3.0,
                   qk_norm=False, expert_capacity=1.0, qk_clip=100.0),
        tokens,
    )  # fmt: skip
    assert folded.kept == (
        "norm_placement", "residual_scale", "attention_softcap", "logit_softcap", "experts"
    )  # fmt: skip
    assert folded.folded == ("qk_clip", "expert_capacity")


@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_any_combination(data, make_model):
    asked = {
        name: data.draw(st.sampled_from(values), label=name)
        for name, values in (FOLDABLE | OTHERS).items()
        if data.draw(st.booleans())
    }
    if asked.get("norm_placement") == "none":
        asked.pop("embedding_norm", None)
    tokens = torch.randint(50, (2, 7), generator=torch.Generator().manual_seed(1))
    model = make_model(width=16, kv_heads=2, **asked)
    if data.draw(st.booleans()):
        for name in ("embedding", "norm", "layers.0.attention.wq"):
            module = dict(model.named_modules()).get(name)
            if module is not None and not parametrize.is_parametrized(module):
                parametrize.register_parametrization(module, "weight", _Shift())
    assert_folds(model, tokens)


def test_other_parametrisations_are_worked_out_too(make_model, tokens):
    model = make_model(tied_embeddings=True).double()
    parametrize.register_parametrization(model.embedding, "weight", _Shift())
    parametrize.register_parametrization(model.embedding, "weight", _Shift())
    assert model.roles()["embedding.parametrizations.weight.original"] == "embedding"
    assert model.roles()["embedding.parametrizations.weight.1.by"] == "scale"
    original = model.embedding.parametrizations.weight.original.detach()
    folded = assert_folds(model, tokens)
    assert folded.folded == ("head_scale", "parametrizations")
    torch.testing.assert_close(folded.model.embedding.weight, original + 0.2)


def test_training_vectors_and_mode_are_left_alone(make_model, tokens):
    model = make_model(sigma_reparam=True).train()
    model(tokens)
    before = {name: t.clone() for name, t in model.state_dict().items()}
    assert fold(model).model.training
    assert all(torch.equal(before[name], t) for name, t in model.state_dict().items())
    assert all(module.training for module in model.modules())


def test_plain_state_of_any_module():
    inner = nn.Linear(3, 2)
    parametrize.register_parametrization(inner, "weight", nn.Identity())
    module = nn.Sequential(inner, nn.BatchNorm1d(2))
    state = plain_state(module)
    assert list(state) == ["0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var",
                           "1.num_batches_tracked", "0.weight"]  # fmt: skip
    assert torch.equal(plain_state(inner)["weight"], inner.weight)
