"""QK-clip: the logits it leaves behind, exactly, and what it leaves alone."""

import math

import pytest
import torch
from torch import distributed as dist
from torch import nn
from torch.nn.utils import parametrizations

from surefoot.errors import UsageError
from surefoot.optim.qk_clip import QueryKey, qk_clip_, query_key_pairs

WIDTH, SIZE, LENGTH = 24, 4, 10


class Attention(nn.Module):
    """Query and key of a layer, with large weights."""

    def __init__(self, heads, kv_heads, bias=False, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.head_size = SIZE
        self.wq = nn.Linear(WIDTH, heads * SIZE, bias=bias, dtype=torch.float64)
        self.wk = nn.Linear(WIDTH, kv_heads * SIZE, bias=bias, dtype=torch.float64)
        for p in self.parameters():
            p.detach().mul_(3 if p.ndim == 2 else 10)

    def logits(self, x):
        """(B, H, T, T), head by head in a loop."""
        heads, kv_heads = (w.out_features // SIZE for w in (self.wq, self.wk))
        q, k = self.wq(x), self.wk(x)
        found = []
        for h in range(heads):
            g = h // (heads // kv_heads)
            qh, kh = q[..., h * SIZE : (h + 1) * SIZE], k[..., g * SIZE : (g + 1) * SIZE]
            found.append(qh @ kh.transpose(-1, -2) / math.sqrt(SIZE))
        return torch.stack(found, 1)


class Layers(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)


def model(heads=6, kv_heads=6, bias=False):
    return Layers(*(Attention(heads, kv_heads, bias, seed) for seed in range(3)))


def batch():
    generator = torch.Generator().manual_seed(9)
    return torch.randn(2, LENGTH, WIDTH, generator=generator, dtype=torch.float64)


def maxima(m, x):
    """(layers, H) fp32."""
    with torch.no_grad():
        return torch.stack([a.logits(x).abs().amax((0, 2, 3)) for a in m.layers]).float()


@pytest.mark.parametrize("kv_heads", [6, 3, 2, 1])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("alpha", [0.5, 0.0, 0.3, 1.0])
def test_the_logits_come_down_to_the_threshold(kv_heads, bias, alpha):
    m, x = model(kv_heads=kv_heads, bias=bias), batch()
    before = maxima(m, x)
    threshold = float(before.median())
    logits = [a.logits(x).detach() for a in m.layers]
    factors = qk_clip_(query_key_pairs(m), before, threshold, alpha=alpha)
    after = maxima(m, x)
    assert (after <= threshold * (1 + 1e-6)).all()
    assert factors.shape == before.shape
    # every logit of a head is multiplied by its factor, which is gamma of its group
    wanted = (threshold / before).clamp(max=1).view(3, kv_heads, -1).amin(-1, keepdim=True)
    wanted = wanted.expand(-1, -1, 6 // kv_heads).reshape(3, 6)
    torch.testing.assert_close(factors, wanted)
    for a, old, factor in zip(m.layers, logits, factors.double(), strict=True):
        torch.testing.assert_close(a.logits(x), old * factor.view(-1, 1, 1), rtol=1e-6, atol=1e-9)
    if kv_heads == 6:
        over = before > threshold
        torch.testing.assert_close(after[over], torch.full_like(after[over], threshold))
        assert over.any()
        assert torch.equal(after[~over], before[~over])


def bits(m):
    return [p.detach().clone() for p in m.parameters()]


def rows(weight, head):
    return weight[head * SIZE : (head + 1) * SIZE]


def test_heads_within_the_threshold_keep_their_bits():
    m = model()
    before = bits(m)
    largest = torch.full((3, 6), 100.0)  # exactly at it
    largest[1, 2] = 250.0
    factors = qk_clip_(query_key_pairs(m), largest, 100.0)
    assert factors[1, 2] == pytest.approx(0.4)
    assert (factors != 1).sum() == 1
    for i, (p, old) in enumerate(zip(m.parameters(), before, strict=True)):
        for head in range(6):
            same = torch.equal(rows(p, head), rows(old, head))
            assert same == ((i // 2, head) != (1, 2))


def test_query_and_key_share_by_alpha():
    m = model()
    before = bits(m)
    largest = torch.ones(3, 6)
    largest[0, 0] = 400.0
    qk_clip_(query_key_pairs(m), largest, 100.0, alpha=0.25)
    query, key = m.layers[0].wq.weight, m.layers[0].wk.weight
    torch.testing.assert_close(rows(query, 0), rows(before[0], 0) * 0.25**0.25, rtol=1e-6, atol=0)
    torch.testing.assert_close(rows(key, 0), rows(before[1], 0) * 0.25**0.75, rtol=1e-6, atol=0)


def test_a_group_is_scaled_by_its_largest_head():
    m = model(kv_heads=2)
    largest = torch.ones(3, 6)
    largest[2, 4], largest[2, 5] = 200.0, 800.0
    factors = qk_clip_(query_key_pairs(m), largest, 100.0)
    assert factors[2].tolist() == [1, 1, 1, 0.125, 0.125, 0.125]
    assert (factors[:2] == 1).all()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("kv_heads", [6, 2])
def test_what_is_not_finite_scales_nothing(bad, kv_heads):
    m = model(kv_heads=kv_heads)
    before = bits(m)
    largest = torch.ones(3, 6)
    largest[0, 1] = bad
    largest[2, 0] = 400.0  # others are not held up by it
    factors = qk_clip_(query_key_pairs(m), largest, 100.0)
    assert (factors[:2] == 1).all()
    assert factors[2, 0] == 0.25
    for p, old in list(zip(m.parameters(), before, strict=True))[:4]:
        assert torch.equal(p, old)


def test_a_skipped_update_scales_nothing():
    m = model()
    largest = torch.full((3, 6), 400.0)
    before = bits(m)
    factors = qk_clip_(query_key_pairs(m), largest, 100.0, skip=torch.tensor(1.0))
    assert (factors == 1).all()
    assert all(torch.equal(p, old) for p, old in zip(m.parameters(), before, strict=True))
    assert (qk_clip_(query_key_pairs(m), largest, 100.0, skip=torch.tensor(0.0)) == 0.25).all()


def test_the_maxima_stay_as_they_are():
    largest = torch.tensor([[400.0] * 6] * 2 + [[math.nan] * 6])
    kept = largest.clone()
    qk_clip_(query_key_pairs(model()), largest, 100.0)
    assert torch.equal(largest, kept) or torch.equal(largest.isnan(), kept.isnan())


def test_training_settles_under_the_threshold():
    """Logits that every step pushes up are held near it; without the clip they run away.

    Near: the maxima are of the weights before the update, which here adds a third.
    """
    x = batch().float()
    ends = {}
    for clipped in (False, True):
        m = model().float()
        optimizer = torch.optim.AdamW(m.parameters(), lr=0.05, weight_decay=0.0)
        for _ in range(60):
            loss = -sum(a.logits(x).square().mean() for a in m.layers)
            loss.backward()
            largest = maxima(m, x)
            optimizer.step()
            optimizer.zero_grad()
            if clipped:
                qk_clip_(query_key_pairs(m), largest, 100.0)
        ends[clipped] = float(maxima(m, x).max())
    assert ends[False] > 1000
    assert ends[True] < 150


def test_the_host_never_waits(counter):
    pairs, largest = query_key_pairs(model(kv_heads=2, bias=True)), torch.full((3, 6), 400.0)
    with counter() as count:
        qk_clip_(pairs, largest, 100.0, skip=torch.tensor(0.0))
    assert count.names
    assert not count.syncs
    nowhere = model().to("meta")
    qk_clip_(query_key_pairs(nowhere), largest.to("meta"), 100.0)


def test_ranks_clip_by_the_largest_of_all(tmp_path):
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    seen = []

    def other_rank(tensor, op, group):
        assert op == dist.ReduceOp.MAX
        assert not tensor.isnan().any()  # what a MAX makes of NaN depends on the order
        seen.append(group)
        tensor.copy_(torch.maximum(tensor, torch.full_like(tensor, 300.0)))

    try:
        largest = torch.ones(3, 6)
        largest[0, 0], largest[0, 1] = math.nan, 600.0
        plain = qk_clip_(query_key_pairs(model()), largest, 100.0, group=dist.group.WORLD)
        assert plain[0, :3].tolist() == [1, pytest.approx(1 / 6), 1]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dist, "all_reduce", other_rank)
            factors = qk_clip_(query_key_pairs(model()), largest, 100.0, group=dist.group.WORLD)
        assert len(seen) == 1
        wanted = torch.full((3, 6), 1 / 3)
        wanted[0, 0], wanted[0, 1] = 1, 1 / 6
        torch.testing.assert_close(factors, wanted)
    finally:
        dist.destroy_process_group()


def test_pairs_of_plain_tensors():
    query, key = torch.ones(4, 3), torch.ones(2, 3)
    factors = qk_clip_([QueryKey(query, key, 2, 1, 2)], torch.tensor([[1.0, 16.0]]), 1.0)
    assert factors.tolist() == [[1 / 16, 1 / 16]]
    assert (query == 0.25).all()
    assert (key == 0.25).all()


def test_pairs_of_a_model():
    pairs = query_key_pairs(model(heads=6, kv_heads=2, bias=True))
    assert [(p.heads, p.kv_heads, p.head_size) for p in pairs] == [(6, 2, 4)] * 3
    assert pairs[0].query_bias.shape == (24,)
    assert pairs[0].key_bias.shape == (8,)


def test_pairs_of_surefoot_s_decoder():
    from surefoot.model import Decoder
    from surefoot.recipe import Architecture

    fields = {"layers": 2, "width": 32, "heads": 4, "kv_heads": 2, "vocab_size": 64}
    plain = Decoder(Architecture(**fields, sequence_length=8, qk_norm=False))
    pairs = query_key_pairs(plain)
    assert [(p.heads, p.kv_heads, p.head_size) for p in pairs] == [(4, 2, 8)] * 2
    assert pairs[0].query is plain.get_parameter("layers.0.attention.wq.weight")
    with pytest.raises(UsageError, match=r"no effect on layers\.0\.attention: its QK-norm"):
        query_key_pairs(Decoder(Architecture(**fields, sequence_length=8)))


@pytest.mark.parametrize("kv_heads", [4, 2])
def test_with_what_the_decoder_measures(kv_heads):
    """The first layer that is clipped ends at the threshold; those behind it near it, for what
    reaches them has changed."""
    from surefoot.model import Decoder
    from surefoot.recipe import Architecture

    shape = {"layers": 3, "width": 32, "heads": 4, "vocab_size": 64, "sequence_length": 16}
    torch.manual_seed(0)
    decoder = Decoder(Architecture(**shape, kv_heads=kv_heads, qk_norm=False))
    pairs = query_key_pairs(decoder)
    with torch.no_grad():
        for layer, pair in enumerate(pairs):
            pair.query.normal_(std=0.3 * (1 + layer))
            pair.key.normal_(std=0.3)
    tokens = torch.randint(64, (2, 16))

    def measured():
        with torch.no_grad(), decoder.measure_attention_logits(2):
            decoder(tokens)
        return decoder.attention_head_logit_max.clone()

    before = measured()
    threshold = float(before.median())
    factors = qk_clip_(pairs, before, threshold)
    after = measured()
    assert (factors[0] == 1).all()
    assert torch.equal(after[0], before[0])
    torch.testing.assert_close(after[1], before[1] * factors[1], rtol=1e-5, atol=0)
    assert (factors[1] < 1).any()
    assert after[1].max() <= threshold * (1 + 1e-5)
    assert after[2].max() <= threshold * 1.05
    assert before[2].max() > threshold * 1.3


def test_pairs_of_transformers():
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

    sizes = {
        "hidden_size": 32, "intermediate_size": 16, "num_hidden_layers": 2, "vocab_size": 64,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
    }  # fmt: skip
    pairs = query_key_pairs(LlamaForCausalLM(LlamaConfig(**sizes)))
    assert [(p.heads, p.kv_heads, p.head_size) for p in pairs] == [(4, 2, 8)] * 2
    with pytest.raises(UsageError, match="QK-norm takes any factor"):
        query_key_pairs(Qwen3ForCausalLM(Qwen3Config(**sizes)))


def test_refusals():
    with pytest.raises(UsageError, match="found no attention in Linear: it looks for"):
        query_key_pairs(nn.Linear(2, 2))
    turned = model()
    parametrizations.weight_norm(turned.layers[1].wk)
    with pytest.raises(UsageError, match=r"heads of layers\.1: its weights are re-parameterised"):
        query_key_pairs(turned)
    pairs = query_key_pairs(model())
    for threshold in (0.0, -1.0, math.nan):
        with pytest.raises(UsageError, match="threshold of"):
            qk_clip_(pairs, torch.ones(3, 6), threshold)
    with pytest.raises(UsageError, match=r"alpha of 1\.5"):
        qk_clip_(pairs, torch.ones(3, 6), 100.0, alpha=1.5)
    for shape in ((3, 4), (2, 6), (6,)):
        with pytest.raises(UsageError, match=r"maxima of shape .* for 3 layers of \[6\] heads"):
            qk_clip_(pairs, torch.ones(shape), 100.0)
    with pytest.raises(UsageError, match="for 0 layers"):
        qk_clip_([], torch.ones(0, 6), 100.0)
