"""Experts against a loop over tokens in float64, and what may go wrong in routing."""

import copy
import math
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from surefoot.model.experts import Experts
from surefoot.model.routing import RouterSums, route, stack_router_sums
from surefoot.recipe import Architecture

WIDTH = 12


def make(*, seed: int = 0, dtype=torch.float64, **changes) -> Experts:
    shape = {"layers": 1, "width": WIDTH, "heads": 2, "vocab_size": 9, "sequence_length": 8,
             "ff_width": 10, "experts": 4, "experts_per_token": 2}  # fmt: skip
    layer = Experts(Architecture(**(shape | changes))).to(dtype)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator))
    return layer


def tokens(*shape: int, seed: int = 1, dtype=torch.float64) -> torch.Tensor:
    return torch.randn(*shape, WIDTH, generator=torch.Generator().manual_seed(seed)).to(dtype)


def numbers(values) -> list[float]:
    return [v.item() if isinstance(v, torch.Tensor) else v for v in values]


def reference(layer: Experts, x: torch.Tensor, capacity: float | None = None):
    """Output and sums, token by token; shares no code with the layer but its weights."""
    w = dict(layer.named_parameters())
    experts, k = len(layer.experts), layer.per_token
    rows = x.reshape(-1, WIDTH)
    limit = math.inf if capacity is None else math.ceil(capacity * len(rows) * k / experts - 1e-9)
    taken, asked, dropped = [0] * experts, [0] * experts, 0
    mean_p, z, entropy, largest = 0, 0, 0, 0
    out = []
    for row in rows:
        logits = [sum(row[c] * w["router.weight"][e, c] for c in range(WIDTH))
                  for e in range(experts)]  # fmt: skip
        p = torch.stack([value.exp() for value in logits])
        z = z + p.sum().log() ** 2 / len(rows)
        p = p / p.sum()
        mean_p = mean_p + p / len(rows)
        entropy -= (p * p.log()).sum().item() / len(rows)
        largest = max(largest, *(abs(value.item()) for value in logits))
        chosen = sorted(range(experts), key=lambda e: -logits[e].item())[:k]
        total = sum(p[e] for e in chosen)
        y = torch.zeros_like(row)
        for e in chosen:
            asked[e] += 1
            if taken[e] == limit:
                dropped += 1
                continue
            taken[e] += 1
            up = w[f"experts.{e}.w3.weight"] @ row
            if f"experts.{e}.w1.weight" in w:
                gate = w[f"experts.{e}.w1.weight"] @ row
                hidden = gate / (1 + torch.exp(-gate)) * up
            else:
                hidden = up * 0.5 * (1 + torch.erf(up / math.sqrt(2)))
            y = y + p[e] / total * (w[f"experts.{e}.w2.weight"] @ hidden)
        out.append(y)
    n = len(rows) * k
    balance = experts * sum(asked[e] / n * mean_p[e] for e in range(experts))
    told = (balance, z, entropy, largest, max(asked) / (n / experts), dropped / n)
    return torch.stack(out).view_as(x), told


VARIANTS = [
    {},
    {"activation": "gelu"},
    {"experts": 3, "experts_per_token": 3},
    {"experts": 5, "experts_per_token": 1},
    {"experts": 1, "experts_per_token": 1},
    {"expert_capacity": 1.0},
    {"expert_capacity": 0.3, "experts_per_token": 3},
    {"expert_capacity": 1.25, "experts": 7},
]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_against_reference(variant):
    layer = make(**variant)
    x = tokens(3, 7)
    expected, told = reference(layer, x, variant.get("expert_capacity"))
    torch.testing.assert_close(layer(x), expected, rtol=1e-12, atol=1e-12)
    assert numbers(layer.sums) == pytest.approx(numbers(told))
    if "expert_capacity" in variant:
        assert layer.sums.dropped > 0  # else the variant tests nothing


@pytest.mark.parametrize("variant", [{}, {"expert_capacity": 0.8}, {"activation": "gelu"}], ids=str)
def test_gradients_against_reference(variant):
    layer = make(**variant)
    x = tokens(2, 4).requires_grad_()
    weights = tokens(2, 4, seed=5)

    def gradients(y, balance, z):
        loss = (y * weights).sum() + 0.7 * balance + 0.3 * z
        parameters = [x, *layer.parameters()]
        found = torch.autograd.grad(loss, parameters, allow_unused=True)
        return [torch.zeros_like(p) if g is None else g
                for g, p in zip(found, parameters, strict=True)]  # fmt: skip

    expected, told = reference(layer, x, variant.get("expert_capacity"))
    wanted = gradients(expected, *told[:2])
    y = layer(x)
    got = gradients(y, layer.sums.balance_loss, layer.sums.router_z)
    for mine, theirs in zip(got, wanted, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


def test_gradcheck_twice():
    layer = make(experts=3, ff_width=2)
    x = tokens(1, 3).requires_grad_()

    def run(x, router):
        y = torch.func.functional_call(layer, {"router.weight": router}, (x,))
        return y, layer.sums.balance_loss, layer.sums.router_z

    assert torch.autograd.gradcheck(run, (x, layer.router.weight))
    assert torch.autograd.gradgradcheck(run, (x, layer.router.weight))


# -------------------------------------------------------------------- equal experts are dense


def equal(layer: Experts) -> nn.Module:
    for expert in layer.experts:
        expert.load_state_dict(layer.experts[0].state_dict())
    return layer.experts[0]


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_equal_experts_give_what_one_gives(k):
    layer = make(experts_per_token=k)
    dense, x = equal(layer), tokens(2, 8)
    torch.testing.assert_close(layer(x), dense(x), rtol=1e-13, atol=1e-13)


def test_equal_experts_are_bit_equal_to_one_under_bf16():
    layer = make(dtype=torch.float32, experts_per_token=3)
    dense, x = equal(layer), tokens(4, 8, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got, expected = layer(x), dense(x)
    assert got.dtype == torch.bfloat16
    assert torch.equal(got, expected)


# ------------------------------------------------------------------------------------ routing


def test_the_router_is_fp32_under_autocast():
    # The logits of the first two experts differ by less than bf16 tells apart; the product of the
    # weights must not be rounded either.
    layer = make(dtype=torch.float32, experts_per_token=1)
    with torch.no_grad():
        layer.router.weight.zero_()
        layer.router.weight[0, 0], layer.router.weight[1, 0] = 1.0, 1.0001
    x = torch.ones(1, 4, WIDTH)
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype=dtype):
            got, expected = layer(x), layer.experts[1](x)
        assert layer.sums.logit_max.item() == pytest.approx(1.0001, abs=1e-7)
        assert all(value.dtype == torch.float32 for value in layer.sums)
        assert torch.equal(got, expected)


def test_the_router_is_fp32_in_a_bf16_model():
    layer, x = make(dtype=torch.bfloat16), tokens(2, 4, dtype=torch.bfloat16)
    assert layer(x).dtype == torch.bfloat16
    exact = x.float().view(-1, WIDTH) @ layer.router.weight.float().T
    assert layer.sums.logit_max.item() == pytest.approx(exact.abs().max().item(), rel=1e-6)


def test_of_equal_logits_the_lower_number_is_taken():
    layer = make(experts=40, experts_per_token=2)  # so many that a sort is not stable by chance
    nn.init.zeros_(layer.router.weight)
    x = tokens(2, 8)
    expected = (layer.experts[0](x) + layer.experts[1](x)) / 2
    torch.testing.assert_close(layer(x), expected, rtol=1e-13, atol=1e-13)


def test_an_undecided_router_by_hand():
    layer = make(expert_capacity=1.5)  # 16 tokens, 32 assignments, 8 the even share, 12 taken
    nn.init.zeros_(layer.router.weight)
    layer(tokens(2, 8))
    assert numbers(layer.sums) == pytest.approx(
        [1.0, math.log(4) ** 2, math.log(4), 0.0, 2.0, 8 / 32]
    )


def test_the_order_of_the_tokens_does_not_matter():
    layer, x = make(), tokens(1, 40)
    mixed = torch.randperm(40, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(layer(x)[:, mixed], layer(x[:, mixed]), rtol=1e-12, atol=1e-12)


def test_capacity_serves_in_the_order_of_the_tokens():
    layer, x = make(expert_capacity=0.7), tokens(1, 40)
    before = layer(x)
    assert layer.sums.dropped > 0.2
    # What stands later, and wants whatever it wants, takes no place from what stands earlier.
    for cut in (1, 13, 39):
        changed = torch.cat((x[:, :cut], 5 * tokens(1, 40 - cut, seed=9)), dim=1)
        assert torch.equal(layer(changed)[:, :cut], before[:, :cut])


def test_nothing_is_dropped_in_evaluation():
    layer, x = make(expert_capacity=0.5), tokens(1, 16)
    free = make()(x)
    assert not torch.equal(layer(x), free)
    layer.eval()
    assert torch.equal(layer(x), free)
    assert layer.sums.dropped == 0


@pytest.mark.parametrize(
    ("capacity", "assignments", "experts", "limit"),
    [
        (1.1, 30, 3, 11),  # 1.1 * 30 / 3 is 11.000000000000002 in binary
        (1.0, 30, 4, 8),
        (1.25, 32, 8, 5),
        (0.001, 4, 2, 1),
        (1e-7, 4, 2, 1),
    ],
)
def test_capacity_is_rounded_up_exactly(capacity, assignments, experts, limit):
    assert route(torch.zeros(assignments, experts), 1, capacity).limit == limit


@given(st.integers(1, 40), st.integers(1, 6), st.data())
@settings(max_examples=40, deadline=None)
def test_every_assignment_has_one_place(n, experts, data):
    k = data.draw(st.integers(1, experts))
    # Whole numbers, so that many logits are equal.
    numbers = st.lists(st.integers(-2, 2), min_size=n * experts, max_size=n * experts)
    logits = torch.tensor(data.draw(numbers), dtype=torch.float32).view(n, experts)
    routing = route(logits, k)
    assert torch.equal(routing.order[routing.place], torch.arange(n * k))
    assert int(routing.counts.sum()) == n * k
    assert int(routing.counts.max()) <= n  # no token goes to an expert twice
    for mine in routing.order.split(routing.counts.tolist()):
        assert torch.equal(mine, mine.sort().values)
    torch.testing.assert_close(routing.weights.sum(1), torch.ones(n))
    assert 1 - 1e-6 <= routing.sums.load_max <= experts / k + 1e-6


def test_an_expert_without_tokens_has_a_gradient_of_zero():
    layer, x = make(experts=6), tokens(1, 1)
    layer(x).sum().backward()
    idle = [e for e in layer.experts if not e.w2.weight.grad.any()]
    assert len(idle) == 4  # a missing gradient would stop data parallelism
    assert all(p.grad is not None for p in layer.parameters())


# ------------------------------------------------------------------------------------- faults


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("capacity", [None, 4.0])
def test_a_bad_token_is_alone(value, capacity):
    layer, x = make(expert_capacity=capacity), tokens(2, 8)
    clean = layer(x)
    bad = x.clone()
    bad[1, 3, 2] = value
    bad.requires_grad_()
    got = layer(bad)
    others = torch.ones(2, 8, dtype=torch.bool)
    others[1, 3] = False
    torch.testing.assert_close(got[others], clean[others], rtol=1e-13, atol=1e-13)
    assert not got[1, 3].isfinite().any()
    assert layer.sums.router_z.isnan() or layer.sums.router_z.isinf()
    assert layer.sums.load_max.isfinite()
    got[others].sum().backward()
    assert bad.grad[others].isfinite().all()


def test_an_infinite_logit_does_not_hide():
    sums = route(torch.tensor([[0.0, -math.inf], [0.0, 0.0]]), 1).sums
    assert sums.logit_max == math.inf
    assert sums.entropy.item() == pytest.approx(math.log(2) / 2)  # -inf log(0) is 0, not NaN
    assert route(torch.tensor([[0.0, math.nan], [0.0, 0.0]]), 1).sums.entropy.isnan()


def test_without_enough_experts():
    with pytest.raises(ValueError, match="experts = None, experts_per_token = 2"):
        make(experts=None)
    with pytest.raises(ValueError, match="experts = 2, experts_per_token = 3: expected a number"):
        make(experts=2, experts_per_token=3)


# --------------------------------------------------------------------------------- as a module


def test_two_passes_are_bit_equal():
    layer, x = make(dtype=torch.float32, expert_capacity=1.1), tokens(4, 30, dtype=torch.float32)

    def run():
        layer.zero_grad()
        y = layer(x)
        (y.square().sum() + layer.sums.balance_loss).backward()
        return [y, *layer.sums, *(p.grad.clone() for p in layer.parameters())]

    assert all(torch.equal(a, b) for a, b in zip(run(), run(), strict=True))


def test_it_can_be_copied_and_pickled_after_a_pass():
    layer, x = make(), tokens(1, 4)
    expected = layer(x)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert numbers(twin.sums) == numbers(layer.sums)
        assert twin.sums.balance_loss is not layer.sums.balance_loss
        assert torch.equal(twin(x), expected)
    assert layer.sums.balance_loss.requires_grad  # the layer's own is left as it was


def test_a_decoder_can_be_copied_after_a_pass(make_model):
    model, read = make_model(experts=4), torch.arange(16)[None]
    expected = model(read)
    twin = copy.deepcopy(model)
    assert torch.equal(twin.router_sums.entropy, model.router_sums.entropy)
    assert torch.equal(twin(read), expected)


def test_names_of_the_parameters():
    assert sorted(name for name, _ in make(experts=2).named_parameters()) == [
        "experts.0.w1.weight", "experts.0.w2.weight", "experts.0.w3.weight",
        "experts.1.w1.weight", "experts.1.w2.weight", "experts.1.w3.weight", "router.weight",
    ]  # fmt: skip


def test_the_balance_loss_evens_the_load():
    layer, x = make(experts=4, seed=3), tokens(1, 64)
    x = x + 1  # a common direction: some experts are favoured by all tokens
    layer(x)
    before = layer.sums
    for _ in range(200):
        layer(x)
        (gradient,) = torch.autograd.grad(layer.sums.balance_loss, layer.router.weight)
        with torch.no_grad():
            layer.router.weight -= 0.3 * gradient
    layer(x)
    assert before.load_max > 1.7
    assert layer.sums.load_max < 1.25
    assert layer.sums.balance_loss < min(1.05, before.balance_loss)


def test_stacked_over_layers():
    layers = [RouterSums(*(torch.tensor(float(10 * i + j)) for j in range(6))) for i in range(3)]
    stacked = stack_router_sums(layers)
    assert (stacked.balance_loss, stacked.router_z) == (10, 11)
    assert [v.tolist() for v in stacked[2:]] == [[j, 10 + j, 20 + j] for j in range(2, 6)]
    assert stack_router_sums([]) is None


def test_only_the_losses_are_differentiable():
    layer = make()
    layer(tokens(1, 4))
    assert [v.requires_grad for v in layer.sums] == [True, True, False, False, False, False]
