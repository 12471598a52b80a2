import math

import pytest
import torch
from torch import nn

from surefoot.errors import UsageError
from surefoot.init import initialise, roles_of, standard_deviation, start
from surefoot.model import Decoder, loss_sums
from surefoot.recipe import Architecture, Init

WIDTH, LAYERS, VOCAB = 128, 8, 1000
SMALL = math.sqrt(2 / (5 * WIDTH))


def made(init: Init, *, seed: int = 1, layers: int = LAYERS, **changes) -> Decoder:
    shape = {"width": WIDTH, "heads": 4, "vocab_size": VOCAB, "sequence_length": 128}
    model = Decoder(Architecture(layers=layers, **(shape | changes)))
    initialise(model, model.roles(), init, width=model.architecture.width, layers=layers, seed=seed)
    return model


def first_loss(model: Decoder) -> float:
    a = model.architecture
    tokens = torch.randint(a.vocab_size, (4, 129), generator=torch.Generator().manual_seed(2))
    sums = loss_sums(model(tokens[:, :-1]), tokens[:, 1:])
    loss = sums.cross_entropy / sums.tokens
    loss.backward()
    return loss.item()


def gradient_ratio(model: Decoder) -> float:
    """The first block's parameter-gradient norm over the last block's."""
    first_loss(model)
    norms = [
        torch.cat([p.grad.flatten() for p in block.parameters()]).norm() for block in model.layers
    ]
    return (norms[0] / norms[-1]).item()


@pytest.mark.parametrize(
    ("init", "expected"),
    [
        (Init(), {"embedding": 1.0, "head": SMALL, "wq": SMALL, "wo": SMALL / 4, "w2": SMALL / 4}),
        (
            Init(std=0.02, embedding_std="small", depth_scaled_outputs=False),
            {"embedding": SMALL, "head": 0.02, "wq": 0.02, "wo": 0.02, "w2": 0.02},
        ),
        (Init(std=0.02, embedding_std=0.5), {"embedding": 0.5, "w1": 0.02, "w2": 0.02 / 4}),
    ],
)
def test_spread_of_each_role(init, expected):
    for name, parameter in made(init).named_parameters():
        module = name.split(".")[-2]
        if parameter.ndim == 1:
            assert (parameter == 1).all(), name
        elif module in expected:
            assert parameter.std().item() == pytest.approx(expected[module], rel=0.03), name
            assert abs(parameter.mean().item()) < 0.03 * expected[module], name


def test_depth_scale_counts_the_layers_given():
    for role in ("attention_out", "feed_forward_out"):
        std = standard_deviation(role, Init(), width=64, layers=32)
        assert std == pytest.approx(math.sqrt(2 / (5 * 64)) / 8)


def test_same_seed_same_weights_and_other_seed_others():
    torch.manual_seed(123)  # the global generator has no part in it
    one = made(Init()).state_dict()
    torch.manual_seed(321)
    before = torch.random.get_rng_state()
    two = made(Init(), seed=1)
    other = made(Init(), seed=2).state_dict()
    assert all(torch.equal(one[name], value) for name, value in two.state_dict().items())
    for name, value in one.items():
        assert torch.equal(value, other[name]) == (value.ndim == 1), name
    initialise(two, two.roles(), Init(), width=WIDTH, layers=LAYERS, seed=5)
    torch.manual_seed(321)
    assert torch.equal(before, torch.random.get_rng_state())


def test_another_layer_changes_no_other_tensor():
    init = Init(depth_scaled_outputs=False)
    short, long = made(init, layers=2).state_dict(), made(init, layers=3).state_dict()
    assert all(torch.equal(value, long[name]) for name, value in short.items())
    tied = made(init, layers=2, tied_embeddings=True, qk_norm=False).state_dict()
    assert all(torch.equal(value, short[name]) for name, value in tied.items())


def test_tensors_are_drawn_independently():
    state = made(Init(), layers=2).state_dict()
    matrices = {name: t.flatten()[:4096] for name, t in state.items() if t.ndim == 2}
    table = torch.corrcoef(torch.stack(list(matrices.values())))
    assert (table - torch.eye(len(table))).abs().max() < 0.1


def test_order_of_parameters_and_dtype_have_no_part():
    class Pair(nn.Module):
        def __init__(self, first, second):
            super().__init__()
            setattr(self, first, nn.Linear(8, 8))
            setattr(self, second, nn.Linear(8, 8))

    roles = {
        "a.weight": "head",
        "a.bias": "bias",
        "b.weight": "attention_in",
        "b.bias": "bias",
    }
    ab, ba = Pair("a", "b"), Pair("b", "a").double()
    for model in (ab, ba):
        initialise(model, roles, Init(), width=8, layers=1, seed=1)
    assert torch.equal(ab.a.weight.double(), ba.a.weight)
    assert torch.equal(ab.b.weight.double(), ba.b.weight)
    assert not torch.equal(ab.a.weight, ab.b.weight)
    assert not ab.a.bias.any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda roles: roles.pop("0.weight"),
            r"parameter '0.weight' of shape \(4, 4\) has no role",
        ),
        (
            lambda roles: roles.update({"0.weight": "heads"}),
            r"unknown role 'heads' of parameter '0.weight' \(did you mean 'head'\?\)",
        ),
        (
            lambda roles: roles.update({"0.weigth": "head"}),
            r"roles names '0.weigth', which is no parameter of the model \(did you mean '0.weight'",
        ),
    ],
)
def test_bad_roles_leave_the_model_alone(change, message):
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    roles = {"0.weight": "head", "1.weight": "attention_in"}
    change(roles)
    with pytest.raises(UsageError, match=message):
        initialise(model, roles, Init(), width=4, layers=1, seed=1)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_gradients_do_not_grow_towards_the_first_block():
    assert gradient_ratio(made(Init())) < 1.3
    scaled = made(Init(embedding_std="small"), embedding_scale="sqrt_width")
    assert gradient_ratio(scaled) < 1.3


@pytest.mark.parametrize(
    "changes", [{}, {"norm": "layernorm", "activation": "gelu"}, {"qk_norm": False}], ids=str
)
def test_small_embeddings_make_them_grow(changes):
    assert gradient_ratio(made(Init(embedding_std="small"), **changes)) > 2
    assert gradient_ratio(made(Init(), **changes)) < 1.3


def test_without_a_head_of_its_own_gradients_do_not_grow_either():
    assert gradient_ratio(made(Init(), tied_embeddings=True)) < 1.3


def test_first_loss_is_near_that_of_a_uniform_guess():
    # Logits of variance 2/5 cost half of that over ln V.
    assert first_loss(made(Init())) == pytest.approx(math.log(VOCAB) + 0.2, abs=0.05)


@pytest.mark.parametrize(
    ("init", "changes"),
    [(Init(), {}), (Init(embedding_std="small"), {"embedding_scale": "sqrt_width"})],
)
def test_first_loss_with_a_tied_head_is_near_that_of_a_uniform_guess(init, changes):
    # The normed stream is nearly the token's own embedding: a head of that scale would answer each
    # token with itself, and random targets would cost that much probability.
    std = 1.0 if init.embedding_std != "small" else math.sqrt(2 / (5 * WIDTH))
    scale = made(init, tied_embeddings=True).architecture.output_factor_for(std)
    model = made(init, tied_embeddings=True, head_scale=scale, **changes)
    assert first_loss(model) == pytest.approx(math.log(VOCAB), abs=0.15)
    # Without the factor it is not.
    assert first_loss(made(init, tied_embeddings=True, head_scale=1.0)) > math.log(VOCAB) + 0.2


class Sublayers(nn.Module):
    """Pre-norm feed-forward blocks with ReLU between an embedding and a head, for the ordering."""

    def __init__(self, width: int, layers: int, vocab: int):
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.up = nn.ModuleList(nn.Linear(width, 4 * width, bias=False) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(4 * width, width, bias=False) for _ in range(layers))
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, tokens, method):
        norm = nn.functional.layer_norm
        x = self.embedding(tokens)
        width = x.shape[-1]
        if method == "scaled":
            x = x * math.sqrt(width)
        elif method == "norm":
            x = norm(x, (width,))
        elif method == "detach":
            x = 0.1 * x + 0.9 * x.detach()
        states = [x]
        for up, down in zip(self.up, self.down, strict=True):
            states.append(states[-1] + down(torch.relu(up(norm(states[-1], (width,))))))
        for state in states:
            state.retain_grad()
        return self.head(norm(states[-1], (width,))), states


def test_ordering_of_the_remedies():
    """Vanilla grows, detaching the embedding does not help, scaling and normalising it do."""
    model = Sublayers(64, 12, 500)
    roles = {"embedding.weight": "embedding", "head.weight": "head"}
    for name, _ in model.named_parameters():
        kind = {"up": "feed_forward_in", "down": "feed_forward_out"}.get(name.split(".")[0])
        roles.setdefault(name, kind or "")
    initialise(model, roles, Init(embedding_std="small"), width=64, layers=12, seed=1)
    tokens = torch.randint(500, (4, 65), generator=torch.Generator().manual_seed(1))
    ratio, of_embedding = {}, {}
    for method in ("vanilla", "detach", "scaled", "norm"):
        model.zero_grad()
        logits, states = model(tokens[:, :-1], method)
        loss_sums(logits, tokens[:, 1:]).cross_entropy.backward()
        ratio[method] = (states[0].grad.norm() / states[-1].grad.norm()).item()
        of_embedding[method] = model.embedding.weight.grad.norm().item()
    assert ratio["vanilla"] > 3
    assert ratio["detach"] == pytest.approx(ratio["vanilla"], rel=1e-5)
    assert of_embedding["detach"] == pytest.approx(0.1 * of_embedding["vanilla"], rel=1e-5)
    assert 1 < ratio["norm"] < ratio["scaled"] < 1.5


def test_a_used_model_starts_as_a_new_one_does():
    shape = Architecture(
        layers=2, width=32, heads=4, vocab_size=50, sequence_length=16, sigma_reparam=True,
        layer_scale=0.1,
    )  # fmt: skip
    tokens = torch.arange(32).view(2, 16)

    def started(used: bool) -> dict[str, torch.Tensor]:
        torch.manual_seed(3)
        model = Decoder(shape)
        if used:
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.mul_(7).add_(0.3)
            model(tokens)
        initialise(model, model.roles(), Init(), width=32, layers=2, seed=1)
        return {"logits": model.eval()(tokens), **model.state_dict()}

    new, used = started(False), started(True)
    for name in ("logits", "layers.0.attention_layer_scale.weight"):
        torch.testing.assert_close(used[name], new[name], rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_wrapper_changes_neither_roles_nor_values():
    shape = Architecture(layers=2, width=32, heads=4, vocab_size=50, sequence_length=16)
    plain, wrapped = Decoder(shape), torch.compile(Decoder(shape))
    start("megatron", seed=1)(plain)
    start("megatron", seed=1)(wrapped)
    assert all(name.startswith("_orig_mod.") for name in roles_of(wrapped))
    for (name, a), b in zip(plain.named_parameters(), wrapped.parameters(), strict=True):
        assert torch.equal(a, b), name


def test_blocks_are_counted_below_a_numbered_parent():
    shape = Architecture(layers=3, width=32, heads=4, vocab_size=50, sequence_length=16)
    holder = nn.ModuleList([Decoder(shape)])
    roles = {f"0.{name}": role for name, role in holder[0].roles().items()}
    initialise(holder, roles, Init(std=0.02), seed=1)
    std = float(holder[0].layers[0].attention.wo.weight.detach().std())
    assert std == pytest.approx(0.02 / math.sqrt(6), rel=0.1)


def test_spike_no_more_counts_the_factor_of_the_model():
    shape = Architecture(
        layers=2, width=64, heads=4, vocab_size=500, sequence_length=16,
        embedding_scale="sqrt_width",
    )  # fmt: skip
    model = Decoder(shape)
    initialise(model, model.roles(), Init(), seed=1)
    assert float(model.embedding.weight.detach().std()) == pytest.approx(1 / 8, rel=0.02)
    assert Init().standard_deviations(64, 8.0)[1] == 1 / 8


def test_a_parametrization_of_several_tensors_is_refused():
    shape = Architecture(layers=1, width=32, heads=4, vocab_size=50, sequence_length=16)
    model = Decoder(shape)
    torch.nn.utils.parametrizations.weight_norm(model.layers[0].feed_forward.w1)
    with pytest.raises(UsageError, match="as several tensors"):
        start("megatron", seed=1)(model)
