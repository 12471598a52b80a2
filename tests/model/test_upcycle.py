"""Up-cycling: the same function at first, experts that part in training, and what is refused."""

import copy
import math

import pytest
import torch

from surefoot.errors import UsageError
from surefoot.model import Decoder, loss_sums
from surefoot.model.upcycle import parameter_counts, upcycle, upcycled_state
from surefoot.recipe import Architecture

SHAPE = {"layers": 2, "width": 32, "heads": 4, "kv_heads": 2, "vocab_size": 50,
         "sequence_length": 16}  # fmt: skip


def with_experts(model: Decoder, **changes) -> Architecture:
    update = {"experts": 4, "experts_per_token": 2} | changes
    return Architecture.model_validate(model.architecture.model_dump() | update)


VARIANTS = [
    {},
    {"activation": "gelu", "norm": "layernorm", "tied_embeddings": True},
    {"norm_placement": "sandwich", "layer_scale": 0.1, "qk_norm_over": "width"},
    {"norm_placement": "deepnorm"},
    {"sigma_reparam": True},
]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_same_logits_in_float64(variant, k, make_model, tokens):
    dense = make_model(**variant).double().eval()
    mixture = upcycle(dense, with_experts(dense, experts_per_token=k), seed=1)
    assert not mixture.training
    with torch.no_grad():
        expected, got = dense(tokens), mixture(tokens)
    assert got.dtype == torch.float64
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-12 * expected.abs().max().item())
    assert mixture.router_sums.load_max.max() > 1  # routers that tell tokens apart


def test_the_same_logits_in_fp32_and_bf16(make_model, tokens):
    dense = make_model()
    mixture = upcycle(dense, with_experts(dense), seed=1)
    with torch.no_grad():
        torch.testing.assert_close(mixture(tokens), dense(tokens), rtol=1e-5, atol=1e-5)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(mixture(tokens), dense(tokens))


def test_the_dense_model_and_the_generator_are_left_alone(make_model):
    dense = make_model()
    before, stream = copy.deepcopy(dense.state_dict()), torch.get_rng_state()
    mixture = upcycle(dense, with_experts(dense), seed=1, noise=0.5, redrawn=0.5)
    with torch.no_grad():
        for name, parameter in mixture.named_parameters():
            if "feed_forward." in name:
                parameter.add_(1.0)
    assert all(torch.equal(before[name], t) for name, t in dense.state_dict().items())
    assert torch.equal(torch.get_rng_state(), stream)


def test_no_two_experts_share_memory(make_model):
    dense = make_model()
    mixture = upcycle(dense, with_experts(dense), seed=1)
    pointers = [p.data_ptr() for n, p in mixture.named_parameters() if ".feed_forward." in n]
    assert len(set(pointers)) == len(pointers) == 2 * (4 * 3 + 1)
    assert all(p.requires_grad and p.is_leaf for p in mixture.parameters())


def test_the_state_is_that_of_a_decoder_with_experts(make_model):
    dense = make_model()
    architecture = with_experts(dense, experts=3)
    state = upcycled_state(dense.state_dict(), architecture, seed=1)
    model = Decoder(architecture)
    model.load_state_dict(state)  # strict
    for name, tensor in dense.state_dict().items():
        names = [name]
        if ".feed_forward." in name:
            names = [name.replace("feed_forward.", f"feed_forward.experts.{e}.") for e in range(3)]
        assert all(torch.equal(state[n], tensor) for n in names)


def test_routers_are_drawn_by_seed_and_layer(make_model):
    dense = make_model(width=256, ff_width=8)
    names = [f"layers.{i}.feed_forward.router.weight" for i in range(2)]

    def routers(seed, **arguments):
        state = upcycled_state(dense.state_dict(), with_experts(dense), seed=seed, **arguments)
        return torch.stack([state[name] for name in names])

    drawn = routers(1)
    assert drawn.shape == (2, 4, 256)
    assert drawn.std().item() == pytest.approx(0.02, rel=0.05)
    assert torch.equal(routers(1), drawn)
    assert torch.equal(routers(1, router_std=0.04), 2 * drawn)
    assert not torch.equal(routers(2), drawn)
    assert (drawn[0] * drawn[1]).mean().abs() < 0.1 * 0.02**2  # another one in each layer


def test_a_reparametrised_router_is_the_one_drawn(make_model):
    dense = make_model(sigma_reparam=True)
    architecture = with_experts(dense)
    mixture = upcycle(dense, architecture, seed=1)
    plain = make_model()
    state = upcycled_state(plain.state_dict(), with_experts(plain), seed=1)
    for i, layer in enumerate(mixture.layers):
        drawn = state[f"layers.{i}.feed_forward.router.weight"]
        torch.testing.assert_close(layer.feed_forward.router.weight, drawn, rtol=1e-4, atol=1e-6)


def test_noise_is_relative_and_differs_by_expert(make_model):
    dense = make_model(width=64, std=0.7)
    state = upcycled_state(dense.state_dict(), with_experts(dense), seed=1, noise=0.1)
    for matrix in ("w1", "w2", "w3"):
        original = dense.state_dict()[f"layers.1.feed_forward.{matrix}.weight"]
        noises = [state[f"layers.1.feed_forward.experts.{e}.{matrix}.weight"] - original
                  for e in range(4)]  # fmt: skip
        for noise in noises:
            assert noise.std().item() == pytest.approx(0.07, rel=0.03)
        assert torch.corrcoef(torch.stack([n.flatten() for n in noises])).sub_(
            torch.eye(4)
        ).abs().max() < 0.05  # fmt: skip
    norm = "layers.1.attention_norm.weight"
    assert torch.equal(state[norm], dense.state_dict()[norm])


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_redrawn_channels_are_the_same_in_all_matrices(share, make_model):
    dense = make_model(width=64, ff_width=128)
    with torch.no_grad():  # a mean that is not zero must be kept
        dense.layers[0].feed_forward.w2.weight.add_(3.0)
    state = upcycled_state(dense.state_dict(), with_experts(dense), seed=1, redrawn=share)
    chosen = []
    for expert in range(4):
        changed = []
        for matrix, dim in (("w1", 0), ("w3", 0), ("w2", 1)):
            old = dense.state_dict()[f"layers.0.feed_forward.{matrix}.weight"]
            new = state[f"layers.0.feed_forward.experts.{expert}.{matrix}.weight"]
            rows = (old != new).movedim(dim, 0)
            changed.append(rows.any(1))
            assert torch.equal(rows.any(1), rows.all(1))  # a channel is redrawn whole
            if share:
                mine, theirs = new[old != new], old[old != new]
                assert mine.mean().item() == pytest.approx(theirs.mean().item(), abs=0.02)
                assert mine.std().item() == pytest.approx(theirs.std().item(), rel=0.05)
        assert int(changed[0].sum()) == share * 128
        assert all(torch.equal(changed[0], other) for other in changed)
        chosen.append(changed[0])
    if share == 0.5:
        assert not torch.equal(chosen[0], chosen[1])


def test_perturbed_matrices_find_their_spectral_norm_anew(make_model, tokens):
    dense = make_model(sigma_reparam=True)
    dense(tokens)  # sets u and v
    mixture = upcycle(dense, with_experts(dense), seed=1, redrawn=1.0).eval()
    with torch.no_grad():
        mixture(tokens)
        for expert in mixture.layers[0].feed_forward.experts:
            gamma = expert.w2.parametrizations.weight[0].gamma
            sigma = torch.linalg.matrix_norm(expert.w2.weight, ord=2)
            torch.testing.assert_close(sigma, gamma, rtol=1e-3, atol=0)


# ------------------------------------------------------------------------------------- training


def toy_batches(steps: int) -> list[torch.Tensor]:
    """Two languages with rules of their own, (8, 17) each step: something to specialise in."""
    generator = torch.Generator().manual_seed(4)
    batches = []
    for _ in range(steps):
        rows = torch.randint(25, (8, 17), generator=generator)
        for t in range(1, 17):
            rows[:4, t] = (3 * rows[:4, t - 1] + 1) % 25
            rows[4:, t] = (7 * rows[4:, t - 1] + 4) % 25
        rows[4:] += 25
        batches.append(rows)
    return batches


def train(model: Decoder, batches) -> list[float]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for rows in batches:
        sums = loss_sums(model(rows[:, :-1]), rows[:, 1:])
        loss = sums.cross_entropy / sums.tokens
        losses.append(loss.item())
        told = model.router_sums
        if told is not None:
            loss = loss + 0.01 * told.balance_loss + 0.001 * told.router_z
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return losses


def apart(model: Decoder) -> float:
    """Smallest distance of two experts of a layer, over their norm."""
    return min(
        ((a.w2.weight - b.w2.weight).norm() / a.w2.weight.norm()).item()
        for layer in model.layers
        for i, a in enumerate(layer.feed_forward.experts)
        for b in list(layer.feed_forward.experts)[:i]
    )


def test_experts_part_in_training(make_model):
    batches = toy_batches(60)
    dense = make_model(std=0.1)
    train(dense, batches[:30])
    mixture = upcycle(dense, with_experts(dense, expert_capacity=2.0), seed=1)
    assert apart(mixture) == 0
    losses = train(mixture, batches[30:])
    assert apart(mixture) > 0.02
    assert all(math.isfinite(loss) for loss in losses)
    assert sum(losses[-5:]) < sum(losses[:5]) - 5 * 0.2
    told = mixture.router_sums
    assert told.load_max.max() < 1.9  # of at most 2
    assert told.entropy.min() > 0.5 * math.log(4)
    assert all(p.isfinite().all() for p in mixture.parameters())


# -------------------------------------------------------------------------------------- sizes


@pytest.mark.parametrize("variant", [{}, {"activation": "gelu"}, {"sigma_reparam": True}], ids=str)
def test_parameter_counts(variant, make_model):
    dense = make_model(**variant)
    mixture = upcycle(dense, with_experts(dense, experts=5), seed=1)
    counts = parameter_counts(mixture.architecture)
    assert counts.total == sum(p.numel() for p in mixture.parameters())
    idle = sum(p.numel() for layer in mixture.layers for e in range(3)
               for p in layer.feed_forward.experts[e].parameters())  # fmt: skip
    assert counts.active == counts.total - idle
    assert parameter_counts(dense.architecture) == (sum(p.numel() for p in dense.parameters()),) * 2


def test_mixtral_is_counted_without_being_built():
    mixtral = Architecture(layers=32, width=4096, heads=32, kv_heads=8, ff_width=14336,
                           vocab_size=32000, sequence_length=4096, qk_norm=False,
                           experts=8, experts_per_token=2)  # fmt: skip
    assert parameter_counts(mixtral) == (46_702_792_704, 12_879_925_248)


# ------------------------------------------------------------------------------------- refused


def test_a_mixture_cannot_be_upcycled(make_model):
    dense = make_model()
    mixture = upcycle(dense, with_experts(dense), seed=1)
    with pytest.raises(UsageError, match="the model has 4 experts already: up-cycling starts from"):
        upcycle(mixture, mixture.architecture, seed=1)
    with pytest.raises(UsageError, match=r"experts already \('layers.0.feed_forward.experts.0"):
        upcycled_state(mixture.state_dict(), mixture.architecture, seed=1)


def test_without_experts(make_model):
    dense = make_model()
    with pytest.raises(UsageError, match=r"architecture\.experts is not set"):
        upcycle(dense, dense.architecture, seed=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ff_width": 64}, r"architecture\.ff_width = 64, the dense model's is None"),
        ({"rope_theta": 5.0}, r"rope_theta = 5\.0, the dense model's is 10000\.0: up-cycling"),
        ({"norm_eps": 0.1, "layers": 3}, r"architecture\.layers = 3, .*; architecture\.norm_eps"),
    ],
)
def test_another_function_is_refused(change, message, make_model):
    dense = make_model()
    with pytest.raises(UsageError, match=message):
        upcycle(dense, with_experts(dense, **change), seed=1)


def test_what_changes_no_logit_may_differ(make_model):
    dense = make_model()
    free = {"sequence_length": 8, "embedding_gradient": 0.1, "ff_width": 96,
            "attention_scale": dense.architecture.logit_factor}  # fmt: skip
    assert dense.architecture.inner_width == 96
    upcycle(dense, with_experts(dense, **free), seed=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"router_std": 0.0}, r"router_std = 0\.0: expected more than 0"),
        ({"router_std": math.nan}, "router_std = nan"),
        ({"noise": -0.1}, r"noise = -0\.1: expected 0 or more"),
        ({"redrawn": 1.5}, r"redrawn = 1\.5: expected a share"),
    ],
)
def test_numbers_out_of_range(arguments, message, make_model):
    dense = make_model()
    with pytest.raises(UsageError, match=message):
        upcycle(dense, with_experts(dense), seed=1, **arguments)


def test_a_state_that_does_not_fit(make_model):
    dense = make_model()
    architecture = with_experts(dense)
    state = dict(dense.state_dict())
    state["layers.0.attention.wk.wieght"] = state.pop("layers.0.attention.wk.weight")
    state["norm.weight"] = state["norm.weight"][:5]
    with pytest.raises(UsageError) as caught:
        upcycled_state(state, architecture, seed=1)
    for part in (
        "layers.0.attention.wk.weight is missing",
        "norm.weight has shape (5,), expected (32,)",
        "layers.0.attention.wk.wieght is unknown (did you mean 'layers.0.attention.wk.weight'?)",
    ):
        assert part in str(caught.value)
    prefixed = {f"module.{name}": tensor for name, tensor in dense.state_dict().items()}
    with pytest.raises(UsageError, match=r"embedding.weight is missing; .*; and \d+ more$"):
        upcycled_state(prefixed, architecture, seed=1)


def test_training_the_mixture_leaves_the_dense_model_alone(make_model):
    dense = make_model()
    before = copy.deepcopy(dense.state_dict())
    mixture = upcycle(dense, with_experts(dense), seed=1)
    with torch.no_grad():
        for parameter in mixture.parameters():
            parameter.add_(1.0)
    for name, tensor in dense.state_dict().items():
        assert torch.equal(tensor, before[name]), name
