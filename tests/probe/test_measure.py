"""What hooks read off a pass, against a plain computation of the same."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.probe.attention import ROWS, Attentions, Watch, rows_of_logits
from surefoot.probe.decoder import decoder_builder, sizes_of
from surefoot.probe.measure import measure, some_rows, zipf_tokens
from surefoot.probe.reduce import Plan
from surefoot.probe.subject import wider_logits
from surefoot.recipe import Architecture, Init

SHAPE = {"layers": 3, "width": 32, "heads": 4, "kv_heads": 2, "vocab_size": 64,
         "sequence_length": 16}  # fmt: skip


def subject_of(**shape):
    a = Architecture(**{**SHAPE, **shape})
    return decoder_builder(a, Init(method="gpt2", std=0.1), seed=1, head=1.0)(sizes_of(a))


def plan_of(subject, sequences=2):
    sizes = subject.sizes
    return Plan(sizes=sizes, length=16, sequences=sequences, rows=sizes.vocab_size)


def test_the_numbers_are_those_of_a_pass_by_hand():
    subject = subject_of()
    plan = plan_of(subject)
    seen = measure(subject, plan, seed=5)
    model, tokens = subject.model, zipf_tokens(64, plan, 5)
    streams = []
    x = model.embedding(tokens[:, :-1])
    from surefoot.model import rope_tables

    cos, sin = rope_tables(16, 8, 10000.0, x.device)
    for block in model.layers:
        x.retain_grad()
        streams.append(x)
        attended = block.attention(block.attention_norm(x), cos, sin, None, 0)
        middle = x + attended
        fed = block.feed_forward(block.feed_forward_norm(middle))
        layer = seen.layers[len(streams) - 1]
        assert layer.stream_rms == pytest.approx(float(x.detach().square().mean().sqrt()), rel=1e-5)
        assert layer.attention_rms == pytest.approx(
            float(attended.detach().square().mean().sqrt()), rel=1e-5
        )
        assert layer.feed_forward_rms == pytest.approx(
            float(fed.detach().square().mean().sqrt()), rel=1e-5
        )
        spread = middle.detach().var(dim=-1, correction=0).mean().sqrt()
        assert layer.feed_forward_sigma == pytest.approx(float(spread), rel=1e-4)
        x = middle + fed
    x.retain_grad()
    logits = F.linear(model.norm(x), model.head.weight)
    loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    assert seen.loss == pytest.approx(loss.item(), rel=1e-5)
    assert seen.stream_gradient == pytest.approx(float(x.grad.norm()), rel=1e-4)
    for stream, layer, block in zip(streams, seen.layers, model.layers, strict=True):
        assert layer.stream_gradient == pytest.approx(float(stream.grad.norm()), rel=1e-4)
        square = sum(p.grad.square().sum() for p in block.parameters())
        assert layer.parameter_gradient == pytest.approx(math.sqrt(square), rel=1e-4)


def test_a_pass_leaves_no_hook_and_no_gradient_behind():
    subject = subject_of()
    before = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in subject.model.modules()]
    measure(subject, plan_of(subject), seed=1)
    after = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in subject.model.modules()]
    assert before == after
    assert all(p.grad is None for p in subject.model.parameters())
    assert subject.model.head.weight.shape == (64, 32)


@pytest.mark.parametrize(
    "shape",
    [{}, {"attention_softcap": 50.0}, {"query_key_layer_scaling": True}, {"experts": 4}],
    ids=["fused", "softcap", "layer scaling", "experts"],
)
def test_attention_is_seen_however_it_is_computed(shape):
    """The router's softmax is none of attention's."""
    seen = measure(subject_of(qk_norm=True, **shape), plan_of(subject_of()), seed=1)
    plain = measure(subject_of(qk_norm=True), plan_of(subject_of()), seed=1)
    for layer, other in zip(seen.layers, plain.layers, strict=True):
        assert layer.entropy == pytest.approx(other.entropy, abs=0.05)
        assert layer.logit_std == pytest.approx(other.logit_std, rel=0.1)


def test_the_entropy_of_uniform_attention_is_one_and_of_one_hot_zero():
    flat, sharp = Attentions(), Attentions()
    ahead = torch.ones(12, 12, dtype=torch.bool).triu(1)
    flat.add(torch.zeros(2, 3, 12, 12).masked_fill(ahead, -torch.inf))
    sharp.add((torch.eye(12) * 1e4).expand(2, 3, 12, 12).masked_fill(ahead, -torch.inf))
    assert flat.by_head.tolist() == pytest.approx([1.0] * 3)
    assert sharp.by_head.tolist() == pytest.approx([0.0] * 3, abs=1e-12)
    assert (flat.logit_std, flat.largest) == (0.0, 0.0)
    assert sharp.largest == 1e4


def test_entropies_against_a_loop():
    torch.manual_seed(2)
    q, k = torch.randn(1, 2, 9, 4), torch.randn(1, 1, 9, 4)
    logits = rows_of_logits(q, k, k, is_causal=True, scale=0.7, enable_gqa=True)
    seen = Attentions()
    seen.add(logits)
    for head in range(2):
        shares = []
        for i in range(1, 9):
            p = (q[0, head, i].double() @ k[0, 0, : i + 1].double().T * 0.7).softmax(0)
            shares.append(-float((p * p.log()).sum()) / math.log(i + 1))
        assert float(seen.by_head[head]) == pytest.approx(sum(shares) / 8, rel=1e-5)


@pytest.mark.parametrize("kind", ["causal", "bool", "added"])
def test_masks_are_read_however_they_are_given(kind):
    torch.manual_seed(0)
    q, k = torch.randn(1, 2, 300, 8), torch.randn(1, 2, 300, 8)
    seen = torch.ones(300, 300, dtype=torch.bool).tril()[None, None]
    added = torch.zeros(1, 1, 300, 300).masked_fill(~seen, torch.finfo(torch.float32).min)
    given = {"causal": {"is_causal": True}, "bool": {"attn_mask": seen},
             "added": {"attn_mask": added}}[kind]  # fmt: skip
    found = Attentions()
    found.add(rows_of_logits(q, k, k, **given))
    wanted = Attentions()
    wanted.add(rows_of_logits(q, k, k, is_causal=True))
    assert found.by_head.tolist() == pytest.approx(wanted.by_head.tolist(), rel=1e-5)
    assert found.count == wanted.count
    assert found.rows <= 2 * ROWS


def test_nan_is_not_hidden():
    found = Attentions()
    logits = torch.zeros(1, 1, 4, 4)
    logits[..., 2, 1] = torch.nan
    found.add(logits)
    assert math.isnan(found.logit_std)
    assert math.isnan(found.largest)
    assert math.isnan(float(found.by_head[0]))


def test_nothing_outside_attention_is_watched():
    watch = Watch(1)
    with watch:
        torch.softmax(torch.zeros(1, 1, 4, 4), -1)
        F.scaled_dot_product_attention(*[torch.zeros(1, 1, 4, 4)] * 3)
    assert watch.found[0].logit_std is None
    with watch:
        watch.layer = 0
        torch.softmax(torch.zeros(1, 1, 4, 4), -1)
    assert watch.found[0].logit_std == 0.0


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 3000), st.integers(1, 64), st.integers(1, 4000), st.integers(0, 99))
def test_rows_hold_every_token_and_stand_for_the_whole(vocabulary, length, rows, seed):
    sizes = sizes_of(Architecture(**SHAPE))
    tokens = zipf_tokens(vocabulary, Plan(sizes=sizes, length=length, sequences=1, rows=1), seed)
    assert 0 <= int(tokens.min())
    assert int(tokens.max()) < vocabulary
    chosen, weights = some_rows(vocabulary, tokens, rows, seed)
    assert torch.isin(tokens, chosen).all()
    assert (chosen[1:] > chosen[:-1]).all()
    assert float(weights.exp().sum()) == pytest.approx(vocabulary, rel=1e-4)


def test_tokens_follow_zipf():
    sizes = sizes_of(Architecture(**SHAPE))
    tokens = zipf_tokens(1000, Plan(sizes=sizes, length=50_000, sequences=1, rows=1), 3).flatten()
    counts = torch.bincount(tokens, minlength=1000).double() / len(tokens)
    ranks = torch.arange(1, 1001).double()
    wanted = ((ranks + 1) / ranks).log() / math.log(1001)
    assert float((counts - wanted).abs().max()) < 0.005


def test_a_loss_over_some_rows_is_that_over_all(look):
    a = Architecture(**{**SHAPE, "vocab_size": 4000, "width": 64})
    build = decoder_builder(a, Init(method="gpt2", std=0.1), seed=1, head=1.0)
    losses = [
        measure(
            build(sizes_of(a)), Plan(sizes=sizes_of(a), length=16, sequences=4, rows=rows), seed=1
        ).loss
        for rows in (4000, 800)
    ]
    assert losses[1] == pytest.approx(losses[0], abs=0.05)


def test_wider_logits_scale_the_own_token_by_r():
    logits = torch.arange(6.0).view(1, 2, 3)
    wide = wider_logits(logits, torch.tensor([[0, 2]]), 4.0)
    assert wide.tolist() == [[[0, 2, 4], [6, 8, 20]]]
