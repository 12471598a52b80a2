"""The decoder against a slow version in float64 that shares no code with it."""

import math

import pytest
import torch

from surefoot.model import Decoder
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
    {"norm_placement": "post"},
    {"norm_placement": "sandwich", "norm": "layernorm"},
    {"norm_placement": "peri", "embedding_scale": "sqrt_width"},
    {"norm_placement": "peri", "embedding_norm": True},
    {"norm_placement": "reordered", "qk_norm_over": "width"},
    {"norm_placement": "b2t"},
    {"norm_placement": "deepnorm", "norm": "layernorm", "qk_norm": False},
    {"norm_placement": "deepnorm", "residual_scale": 3.0},
    {"norm_placement": "none", "layer_scale": 0.7},
    {"layer_scale": 0.1},
    {"layer_scale": 0.1, "norm_placement": "sandwich"},
    {"layer_scale": 0.1, "norm_placement": "post"},
    {"layer_scale": 0.1, "norm_placement": "reordered"},
    {"qk_norm_over": "width", "kv_heads": 1},
    {"attention_scale": "mup", "qk_norm": False},
    {"attention_scale": 0.9, "attention_softcap": 1.5},
    {"attention_softcap": 0.8, "kv_heads": 4, "qk_norm": False},
    {"query_key_layer_scaling": True, "layers": 3},
    {"logit_softcap": 2.0, "head_scale": 3.0},
    {"logit_softcap": 2.0, "tied_embeddings": True, "embedding_norm": True},
    {"sigma_reparam": True},
    {"sigma_reparam": True, "experts": 3, "norm_placement": "none", "layer_scale": 0.5},
    {"experts": 4, "experts_per_token": 3, "activation": "gelu"},
]


def weights(w: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Re-parameterised ones worked out, by a full decomposition."""
    w = dict(w)
    for name in [name for name in w if name.endswith(".original")]:
        gamma = w.pop(name.replace(".original", ".0.gamma"))
        matrix = w.pop(name)
        plain = name.replace("parametrizations.weight.original", "weight")
        w[plain] = gamma * matrix / torch.linalg.svdvals(matrix)[0]
    return w


def reference(
    a: Architecture, parameters: dict[str, torch.Tensor], tokens: torch.Tensor
) -> tuple[torch.Tensor, list[list[float]]]:
    """Logits and the largest attention logit per layer and head, token by token, in float64."""
    w = weights(parameters)
    half = a.head_size // 2
    scale = {"auto": a.head_size**-0.5, "mup": 8 / a.head_size}.get(a.attention_scale)
    scale = a.attention_scale if scale is None else scale

    def rms(x, gain):
        return gain * x / torch.sqrt((x * x).mean(-1, keepdim=True) + a.norm_eps)

    def norm(name, x):
        if a.norm == "layernorm":
            x = x - x.mean(-1, keepdim=True)
        return rms(x, w[f"{name}.weight"])

    def turn(x, position):  # (D,), a complex number per pair (i, i + D/2)
        pairs = torch.complex(x[:half], x[half:])
        speed = torch.tensor([a.rope_theta ** (-2 * i / a.head_size) for i in range(half)])
        turned = pairs * torch.exp(1j * position * speed.double())
        return torch.cat((turned.real, turned.imag))

    def attention(x, prefix, largest):  # (T, C)
        q, k, v = (x @ w[f"{prefix}.{name}.weight"].T for name in ("wq", "wk", "wv"))
        if a.qk_norm and a.qk_norm_over == "width":
            q, k = rms(q, w[f"{prefix}.q_norm.weight"]), rms(k, w[f"{prefix}.k_norm.weight"])
        q, k, v = (part.unflatten(1, (-1, a.head_size)) for part in (q, k, v))
        if a.qk_norm and a.qk_norm_over == "head":
            q, k = rms(q, w[f"{prefix}.q_norm.weight"]), rms(k, w[f"{prefix}.k_norm.weight"])
        out = torch.zeros(len(x), a.heads, a.head_size, dtype=torch.float64)
        for head in range(a.heads):
            shared = head * a.key_value_heads // a.heads
            for t in range(len(x)):
                scores = torch.stack(
                    [scale * turn(q[t, head], t) @ turn(k[s, shared], s) for s in range(t + 1)]
                )
                largest[head] = max(largest[head], scores.abs().max().item())
                if a.attention_softcap is not None:
                    scores = a.attention_softcap * torch.tanh(scores / a.attention_softcap)
                out[t, head] = torch.softmax(scores, 0) @ v[: t + 1, shared]
        return out.flatten(1) @ w[f"{prefix}.wo.weight"].T

    def dense(x, prefix):
        up = x @ w[f"{prefix}.w3.weight"].T
        if a.activation == "gelu":
            hidden = up * 0.5 * (1 + torch.erf(up / math.sqrt(2)))
        else:
            gate = x @ w[f"{prefix}.w1.weight"].T
            hidden = gate / (1 + torch.exp(-gate)) * up
        return hidden @ w[f"{prefix}.w2.weight"].T

    def feed_forward(x, prefix):
        if a.experts is None:
            return dense(x, prefix)
        shares = torch.softmax(x @ w[f"{prefix}.router.weight"].T, -1)
        least = shares.sort(-1).values[:, [-a.experts_per_token]]
        shares = torch.where(shares < least, 0, shares)
        shares = shares / shares.sum(-1, keepdim=True)
        return sum(shares[:, [i]] * dense(x, f"{prefix}.experts.{i}") for i in range(a.experts))

    def block(x, p, largest):
        alpha = (2 * a.layers) ** 0.25 if a.residual_scale == "auto" else a.residual_scale
        scale_f = w.get(f"{p}.attention_layer_scale.weight", 1.0)
        scale_g = w.get(f"{p}.feed_forward_layer_scale.weight", 1.0)

        def f(x):
            return attention(x, f"{p}.attention", largest)

        def g(x):
            return feed_forward(x, f"{p}.feed_forward")

        def n(name, x):
            return norm(f"{p}.{name}", x)

        match a.norm_placement:
            case "pre":
                x = x + scale_f * f(n("attention_norm", x))
                return x + scale_g * g(n("feed_forward_norm", x))
            case "post":
                x = n("attention_sum_norm", x + scale_f * f(x))
                return n("feed_forward_sum_norm", x + scale_g * g(x))
            case "sandwich" | "peri":
                x = x + scale_f * n("attention_output_norm", f(n("attention_norm", x)))
                return x + scale_g * n("feed_forward_output_norm", g(n("feed_forward_norm", x)))
            case "reordered":
                x = x + scale_f * n("attention_output_norm", f(x))
                return x + scale_g * n("feed_forward_output_norm", g(x))
            case "b2t":
                u = n("attention_sum_norm", x + scale_f * f(x))
                return n("feed_forward_sum_norm", x + (u + scale_g * g(u)))
            case "deepnorm":
                x = n("attention_sum_norm", alpha * x + scale_f * f(x))
                return n("feed_forward_sum_norm", alpha * x + scale_g * g(x))
            case "none":
                x = x + scale_f * f(x)
                return x + scale_g * g(x)

    logits, largest = [], [[0.0] * a.heads for _ in range(a.layers)]
    for sequence in tokens:
        x = w["embedding.weight"][sequence]
        x = x * (math.sqrt(a.width) if a.embedding_scale == "sqrt_width" else a.embedding_scale)
        if a.embedding_norm or a.norm_placement == "peri":
            x = norm("embedding_norm", x)
        for i in range(a.layers):
            x = block(x, f"layers.{i}", largest[i])
        if a.norm_placement in ("pre", "sandwich", "peri", "reordered"):
            x = norm("norm", x)
        head = w["embedding.weight" if a.tied_embeddings else "head.weight"]
        z = x @ head.T * a.output_factor
        if a.logit_softcap is not None:
            z = a.logit_softcap * torch.tanh(z / a.logit_softcap)
        logits.append(z)
    return torch.stack(logits), largest


def doubled(model: Decoder, *, trained: bool = False) -> dict[str, torch.Tensor]:
    return {
        name: p.detach().double().requires_grad_(trained) for name, p in model.named_parameters()
    }


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_against_reference(variant, make_model, tokens):
    model = make_model(**variant).eval()
    expected, largest = reference(model.architecture, doubled(model), tokens[:2, :8])
    with torch.no_grad(), model.measure_attention_logits(sequences=2):
        got = model(tokens[:, :8])
    torch.testing.assert_close(got[:2].double(), expected, rtol=0, atol=2e-4 * expected.std())
    by_head = torch.tensor(largest)
    torch.testing.assert_close(model.attention_head_logit_max, by_head, rtol=1e-5, atol=0)
    torch.testing.assert_close(model.attention_logit_max, by_head.amax(1), rtol=1e-5, atol=0)
    with torch.no_grad():
        exact = model.double()(tokens[:2, :8])
    # RoPE's tables are fp32 even so.
    torch.testing.assert_close(exact, expected, rtol=0, atol=1e-6 * expected.std())


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_gradients_against_reference(variant, make_model, tokens):
    model = make_model(layers=1, width=16, **{k: v for k, v in variant.items() if k != "layers"})
    parameters = doubled(model, trained=True)
    up = torch.randn(1, 5, 50, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    logits, _ = reference(model.architecture, parameters, tokens[:1, :5])
    (logits * up).sum().backward()
    model = model.double().eval()
    (model(tokens[:1, :5]) * up).sum().backward()
    for name, parameter in model.named_parameters():
        expected = parameters[name].grad
        scale = expected.abs().max().item()
        torch.testing.assert_close(
            parameter.grad, expected, rtol=0, atol=1e-5 * scale + 1e-9, msg=name
        )  # fmt: skip


@pytest.mark.parametrize(
    "variant",
    [v for v in VARIANTS if {"attention_softcap", "qk_norm_over", "experts"} & set(v)]
    + [{"query_key_layer_scaling": True}, {"norm_placement": "b2t", "embedding_norm": True}],
    ids=str,
)
def test_no_switch_looks_ahead(variant, make_model, tokens):
    model = make_model(**variant).eval()
    changed = tokens.clone()
    changed[:, 9] = (changed[:, 9] + 1) % 50
    with torch.no_grad():
        before, after = model(tokens), model(changed)
    # Experts read their tokens in batches of another size.
    torch.testing.assert_close(before[:, :9], after[:, :9], rtol=0, atol=1e-5 * before.std())
    assert (before[:, 9] != after[:, 9]).any()


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
        "layers.0.attention.wv.weight": "attention_value",
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


def test_names_and_roles_of_the_switches(make_model):
    roles = make_model(
        layers=1, norm_placement="peri", layer_scale=0.1, experts=2, sigma_reparam=True
    ).roles()
    p, weight = "layers.0.", ".parametrizations.weight."
    norms = [f"{p}{part}{kind}_norm.weight" for part in ("attention", "feed_forward")
             for kind in ("", "_output")]  # fmt: skip
    heads = [f"{p}attention.{name}_norm.weight" for name in "qk"]
    assert {name for name, role in roles.items() if role == "norm"} == {
        "embedding_norm.weight", "norm.weight", *norms, *heads
    }  # fmt: skip
    matrices = {
        f"{p}attention.wq": "attention_in", f"{p}attention.wk": "attention_in",
        f"{p}attention.wv": "attention_value", f"{p}attention.wo": "attention_out",
        f"{p}feed_forward.router": "router",
        **{f"{p}feed_forward.experts.{i}.{name}": f"feed_forward_{way}"
           for i in range(2) for name, way in (("w1", "in"), ("w2", "out"), ("w3", "in"))},
    }  # fmt: skip
    scales = {f"{p}{part}_layer_scale.weight" for part in ("attention", "feed_forward")}
    scales |= {f"{name}{weight}0.gamma" for name in matrices}
    assert {name for name, role in roles.items() if role == "scale"} == scales
    for name, role in matrices.items():
        assert roles[f"{name}{weight}original"] == role
    assert len(roles) == len(norms) + 4 + 2 * len(matrices) + 2 + 2


@pytest.mark.parametrize(
    ("placement", "per_block", "ends"),
    [
        ("pre", {"attention_norm", "feed_forward_norm"}, {"norm"}),
        ("post", {"attention_sum_norm", "feed_forward_sum_norm"}, set()),
        ("b2t", {"attention_sum_norm", "feed_forward_sum_norm"}, set()),
        ("deepnorm", {"attention_sum_norm", "feed_forward_sum_norm"}, set()),
        ("reordered", {"attention_output_norm", "feed_forward_output_norm"}, {"norm"}),
        ("none", set(), set()),
    ],
)
def test_norms_of_each_placement(placement, per_block, ends, make_model):
    # A final norm only where the stream behind the last block has none.
    names = make_model(layers=1, norm_placement=placement, qk_norm=False).state_dict()
    found = {name.removesuffix(".weight") for name in names if "norm" in name}
    assert found == {f"layers.0.{name}" for name in per_block} | ends


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
