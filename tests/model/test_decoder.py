"""The decoder against a slow version in float64 that shares no code with it."""

import math

import pytest
import torch
from torch import nn

from surefoot.model import Decoder, generate
from surefoot.recipe import Architecture

VARIANTS = [
    {},
    {"kv_heads": 4, "qk_norm": False},
    {"kv_heads": 1, "rope_theta": 37.0},
    {"norm": "layernorm", "activation": "gelu"},
    {"activation": "gelu", "qk_norm": False, "ff_width": 24},
    {"tied_embeddings": True, "norm": "layernorm"},
    {"embedding_scale": "sqrt_width", "head_scale": 0.3},
    {"tied_embeddings": True, "embedding_scale": 2.0, "head_scale": 0.3, "norm_eps": 0.1},
]


def reference(model: Decoder, tokens: torch.Tensor) -> tuple[torch.Tensor, list[float]]:
    """Logits and the largest attention logit per layer, position by position, in float64."""
    a = model.architecture
    w = {name: p.detach().double() for name, p in model.named_parameters()}
    half = a.head_size // 2

    def norm(x, gain, kind):
        if kind == "layernorm":
            x = x - x.mean(-1, keepdim=True)
        return gain * x / torch.sqrt((x * x).mean(-1, keepdim=True) + a.norm_eps)

    def turn(x, position):  # (D,), a complex number per pair (i, i + D/2)
        pairs = torch.complex(x[:half], x[half:])
        speed = torch.tensor([a.rope_theta ** (-2 * i / a.head_size) for i in range(half)])
        turned = pairs * torch.exp(1j * position * speed.double())
        return torch.cat((turned.real, turned.imag))

    def attention(x, prefix, largest):  # (T, C)
        out = torch.zeros(len(x), a.heads, a.head_size, dtype=torch.float64)
        for head in range(a.heads):
            shared = head * a.key_value_heads // a.heads
            q, k, v = (
                (x @ w[f"{prefix}.{name}.weight"].T)[:, n * a.head_size : (n + 1) * a.head_size]
                for name, n in (("wq", head), ("wk", shared), ("wv", shared))
            )
            if a.qk_norm:
                q = norm(q, w[f"{prefix}.q_norm.weight"], "rmsnorm")
                k = norm(k, w[f"{prefix}.k_norm.weight"], "rmsnorm")
            for t in range(len(x)):
                scores = torch.stack(
                    [turn(q[t], t) @ turn(k[s], s) / math.sqrt(a.head_size) for s in range(t + 1)]
                )
                largest.append(scores.abs().max().item())
                out[t, head] = torch.softmax(scores, 0) @ v[: t + 1]
        return out.flatten(1) @ w[f"{prefix}.wo.weight"].T

    def feed_forward(x, prefix):
        up = x @ w[f"{prefix}.w3.weight"].T
        if a.activation == "gelu":
            hidden = up * 0.5 * (1 + torch.erf(up / math.sqrt(2)))
        else:
            gate = x @ w[f"{prefix}.w1.weight"].T
            hidden = gate / (1 + torch.exp(-gate)) * up
        return hidden @ w[f"{prefix}.w2.weight"].T

    logits, largest = [], [[] for _ in range(a.layers)]
    for sequence in tokens:
        x = w["embedding.weight"][sequence] * a.input_factor
        for i in range(a.layers):
            p = f"layers.{i}"
            x = x + attention(norm(x, w[f"{p}.attention_norm.weight"], a.norm),
                              f"{p}.attention", largest[i])  # fmt: skip
            x = x + feed_forward(norm(x, w[f"{p}.feed_forward_norm.weight"], a.norm),
                                 f"{p}.feed_forward")  # fmt: skip
        head = w["embedding.weight" if a.tied_embeddings else "head.weight"]
        logits.append(norm(x, w["norm.weight"], a.norm) @ head.T * a.output_factor)
    return torch.stack(logits), [max(values) for values in largest]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_against_reference(variant, make_model, tokens):
    model = make_model(**variant)
    expected, largest = reference(model, tokens[:2])
    with torch.no_grad(), model.measure_attention_logits(sequences=2):
        got = model(tokens)
    torch.testing.assert_close(got[:2].double(), expected, rtol=0, atol=2e-4 * expected.std())
    assert model.attention_logit_max.tolist() == pytest.approx(largest, rel=1e-5)


def test_no_look_ahead(make_model, tokens):
    model = make_model()
    changed = tokens.clone()
    changed[:, 9] = (changed[:, 9] + 1) % 50
    with torch.no_grad():
        before, after = model(tokens), model(changed)
    assert torch.equal(before[:, :9], after[:, :9])
    assert (before[:, 9] != after[:, 9]).any()


def test_names_and_roles(make_model):
    roles = make_model(layers=1).roles()
    assert roles == {
        "embedding.weight": "embedding",
        "layers.0.attention_norm.weight": "norm",
        "layers.0.attention.wq.weight": "attention_in",
        "layers.0.attention.wk.weight": "attention_in",
        "layers.0.attention.wv.weight": "attention_in",
        "layers.0.attention.wo.weight": "attention_out",
        "layers.0.attention.q_norm.weight": "norm",
        "layers.0.attention.k_norm.weight": "norm",
        "layers.0.feed_forward_norm.weight": "norm",
        "layers.0.feed_forward.w1.weight": "feed_forward_in",
        "layers.0.feed_forward.w2.weight": "feed_forward_out",
        "layers.0.feed_forward.w3.weight": "feed_forward_in",
        "norm.weight": "norm",
        "head.weight": "head",
    }
    tied = make_model(layers=1, tied_embeddings=True, qk_norm=False, activation="gelu")
    assert set(roles) - set(tied.roles()) == {
        "head.weight",
        "layers.0.attention.q_norm.weight",
        "layers.0.attention.k_norm.weight",
        "layers.0.feed_forward.w1.weight",
    }
    assert set(tied.state_dict()) == set(tied.roles())  # nothing twice, no buffers


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_is_near_fp32(dtype, make_model, tokens):
    model = make_model(width=64)
    with torch.no_grad():
        exact = model(tokens)
        with torch.autocast("cpu", dtype=dtype):
            got = model(tokens)
    assert got.dtype == dtype
    error = (got.float() - exact).abs().max() / exact.std()
    assert error < {torch.bfloat16: 0.1, torch.float16: 0.02}[dtype]


def test_autocast_gradients_reach_every_parameter_in_fp32(make_model, tokens):
    model = make_model()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(tokens)
    logits.float().square().mean().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad.dtype == torch.float32, name
        assert parameter.grad.any(), name


def test_rope_tables_survive_a_conversion_and_the_meta_device(make_model, tokens):
    # Buffers would be rounded by .bfloat16() and left empty by to_empty().
    model = make_model(sequence_length=16)
    with torch.device("meta"):
        copy = Decoder(model.architecture)
    copy.to_empty(device="cpu")
    copy.load_state_dict(model.state_dict())
    with torch.no_grad():
        assert torch.equal(copy(tokens), model(tokens))
        rounded = model.bfloat16().float()(tokens)
        again = Decoder(model.architecture)
        again.load_state_dict(model.state_dict())
        assert torch.equal(rounded, again(tokens))


def test_measuring_changes_nothing_and_ends_after_one_forward(make_model, tokens):
    model = make_model()
    with torch.no_grad():
        plain = model(tokens)
        with model.measure_attention_logits(sequences=1):
            assert model.attention_logit_max is None
            assert torch.equal(model(tokens), plain)
            first = model.attention_logit_max
            model(tokens.flip(0))
        assert model.attention_logit_max is first
        with model.measure_attention_logits(sequences=1):
            pass
        assert model.attention_logit_max is None
        model(tokens)
        assert model.attention_logit_max is None


def test_measured_logit_shows_nan(make_model, tokens):
    model = make_model(qk_norm=False)
    with torch.no_grad():
        model.layers[1].attention.wq.weight[0, 0] = math.nan
        with model.measure_attention_logits():
            model(tokens)
    assert model.attention_logit_max[0].isfinite()
    assert model.attention_logit_max[1].isnan()


@pytest.mark.parametrize(
    "changes", [{"heads": 5}, {"heads": 32}, {"heads": 4, "kv_heads": 3}], ids=str
)
def test_shapes_that_cannot_be(changes):
    shape = {"layers": 1, "width": 32, "heads": 4, "vocab_size": 9, "sequence_length": 4}
    with pytest.raises(ValueError, match="expected heads that divide the width"):
        Decoder(Architecture(**(shape | changes)))


def test_sequence_too_long(make_model):
    with pytest.raises(ValueError, match="17 tokens: expected at most sequence_length = 16"):
        make_model()(torch.zeros(1, 17, dtype=torch.int64))


class _Counter(nn.Module):
    """Says that the next token is the last one plus 1."""

    def __init__(self):
        super().__init__()
        self.longest = 0

    def forward(self, tokens):
        assert not self.training
        self.longest = max(self.longest, tokens.shape[1])
        return nn.functional.one_hot((tokens + 1) % 7, 7).float()


def test_generate_greedily_keeps_the_mode_and_crops():
    model = _Counter().train()
    got = generate(model, torch.tensor([[3], [5]]), 6, sequence_length=4)
    assert got.tolist() == [[3, 4, 5, 6, 0, 1, 2], [5, 6, 0, 1, 2, 3, 4]]
    assert model.longest == 4
    assert model.training


def test_generate_samples_from_the_distribution_by_its_own_seed():
    torch.manual_seed(0)
    state = torch.random.get_rng_state()
    prompt = torch.zeros(4000, 1, dtype=torch.int64)
    one, same, other = (
        generate(_Counter(), prompt, 1, sequence_length=4, temperature=0.5, seed=seed)
        for seed in (1, 1, 2)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(torch.random.get_rng_state(), state)
    expected = math.exp(2) / (math.exp(2) + 6)
    assert (one[:, 1] == 1).float().mean().item() == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize(
    ("prompt", "temperature"), [((1, 0), 0.0), ((3,), 0.0), ((1, 2), -1.0)], ids=str
)
def test_generate_refuses(prompt, temperature):
    with pytest.raises(ValueError, match="expected a prompt of shape"):
        generate(_Counter(), torch.zeros(prompt, dtype=torch.int64), 1, sequence_length=4,
                 temperature=temperature)  # fmt: skip
