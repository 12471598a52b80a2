"""Each update against a plain one: element by element, Python floats, formulas as published."""

import math
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.optim import functional, lists

YES, NO = torch.tensor(1.0), torch.tensor(0.0)
RELATIVE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 0.02}
"""Of one step from the same state: a few roundings of the dtype."""


@dataclass
class Settings:
    lr: float = 0.3
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-8
    weight_decay: float = 0.1


def stable_adamw(p, g, m, v, t, s, update_clip):
    """Debiased betas, as the public code has them; it keeps corrected moments."""
    n = len(p)
    b1 = s.beta1 * (1 - s.beta1 ** (t - 1)) / (1 - s.beta1**t)
    b2 = s.beta2 * (1 - s.beta2 ** (t - 1)) / (1 - s.beta2**t)
    before1, before2 = 1 - s.beta1 ** (t - 1), 1 - s.beta2 ** (t - 1)
    hat_m = [b1 * (m[i] / before1 if before1 else 0.0) + (1 - b1) * g[i] for i in range(n)]
    hat_v = [b2 * (v[i] / before2 if before2 else 0.0) + (1 - b2) * g[i] ** 2 for i in range(n)]
    squares = [g[i] ** 2 / max(hat_v[i], s.eps**2) for i in range(n)]
    rate = s.lr / max(1.0, math.sqrt(sum(squares) / n) / update_clip)
    p = [
        p[i] * (1 - rate * s.weight_decay) - rate * hat_m[i] / (math.sqrt(hat_v[i]) + s.eps)
        for i in range(n)
    ]
    return p, [x * (1 - s.beta1**t) for x in hat_m], [x * (1 - s.beta2**t) for x in hat_v]


def adam_moments(g, m, v, s):
    m = [s.beta1 * a + (1 - s.beta1) * b for a, b in zip(m, g, strict=True)]
    return m, [s.beta2 * a + (1 - s.beta2) * b * b for a, b in zip(v, g, strict=True)]


def adam_update(m, v, t, s):
    c1, c2 = 1 - s.beta1**t, 1 - s.beta2**t
    return [a / c1 / (math.sqrt(b / c2) + s.eps) for a, b in zip(m, v, strict=True)]


def adamw_update_clip(p, g, m, v, t, s, update_clip):
    m, v = adam_moments(g, m, v, s)
    u = adam_update(m, v, t, s)
    excess = max(1.0, math.sqrt(sum(x * x for x in u) / len(u)) / update_clip)
    decay = 1 - s.lr * s.weight_decay
    return [x * decay - s.lr * y / excess for x, y in zip(p, u, strict=True)], m, v


def laprop(p, g, m, v, t, s):
    c1, c2 = 1 - s.beta1**t, 1 - s.beta2**t
    v = [s.beta2 * a + (1 - s.beta2) * b * b for a, b in zip(v, g, strict=True)]
    unit = [b / (math.sqrt(a / c2) + s.eps) for a, b in zip(v, g, strict=True)]
    m = [s.beta1 * a + (1 - s.beta1) * s.lr * b for a, b in zip(m, unit, strict=True)]
    p = [x * (1 - s.lr * s.weight_decay) - a / c1 for x, a in zip(p, m, strict=True)]
    return p, m, v


def spam(p, g, m, v, t, s, resets, element_clip, reset_warmup, clip_after):
    """One update that is no reset; t counts since the last one."""
    clipped = []
    for x, second in zip(g, v, strict=True):
        if t > clip_after and second != 0 and x * x > element_clip * second:
            x = math.copysign(math.sqrt(element_clip * second), x)
        clipped.append(x)
    scale = 1.0
    if resets and t <= reset_warmup:
        scale = 1 - 0.99 * (1 + math.cos(math.pi * (t - 1) / reset_warmup)) / 2
    m, v = adam_moments(clipped, m, v, s)
    u = adam_update(m, v, t, s)
    decay = 1 - s.lr * s.weight_decay
    return [x * decay - s.lr * scale * y for x, y in zip(p, u, strict=True)], m, v


CASES = {
    "stable_adamw": (stable_adamw, {"update_clip": 1.0}),
    "stable_adamw, low": (stable_adamw, {"update_clip": 0.3}),
    "adamw_update_clip": (adamw_update_clip, {"update_clip": 1.0}),
    "adamw_update_clip, low": (adamw_update_clip, {"update_clip": 0.2}),
    "laprop": (laprop, {}),
    "spam": (spam, {"element_clip": 4.0, "reset_warmup": 3, "clip_after": 1}),
}


class State:
    """Lists as the functional form takes them, of three shapes."""

    def __init__(self, dtype, seed):
        self.generator = torch.Generator().manual_seed(seed)
        shapes = [(3, 4), (5,), ()]
        self.params = [torch.randn(s, generator=self.generator).to(dtype) for s in shapes]
        self.m = [torch.zeros_like(p) for p in self.params]
        self.v = [torch.zeros_like(p) for p in self.params]
        self.steps = [torch.zeros(()) for _ in shapes]
        self.resets = [torch.zeros(()) for _ in shapes]

    def gradients(self, scale, holes):
        """Random ones of the scale; with holes some are exactly 0."""
        found = []
        for p in self.params:
            g = torch.randn(p.shape, generator=self.generator) * scale
            if holes:
                g = g * (torch.rand(p.shape, generator=self.generator) < 0.5)
            found.append(g.to(p.dtype))
        return found

    def bits(self):
        tensors = [*self.params, *self.m, *self.v, *self.steps, *self.resets]
        return [t.reshape(-1).view(torch.uint8).numpy().tobytes() for t in tensors]

    def columns(self, name):
        columns = [self.m, self.v, self.steps]
        return [*columns, self.resets] if name.startswith("spam") else columns


def apply(name, state, gradients, s, found_inf):
    update = getattr(functional, name.partition(",")[0])
    columns = state.columns(name)
    update(state.params, gradients, *columns, **vars(s), **CASES[name][1], found_inf=found_inf)


def flat(tensor):
    return tensor.double().reshape(-1).tolist()


def close(got, want, dtype, scale, what, least=0.0):
    tolerance = max(RELATIVE[dtype], least)
    torch.testing.assert_close(
        got.double().reshape(-1),
        torch.tensor(want, dtype=torch.float64),
        rtol=tolerance,
        atol=tolerance * scale,
        msg=lambda text: f"{what}: {text}",
    )


@pytest.mark.parametrize("on_device", [False, True], ids=["as on a CPU", "as on a device"])
@pytest.mark.parametrize("dtype", RELATIVE, ids=str)
@pytest.mark.parametrize("name", CASES)
@settings(max_examples=5, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    scales=st.lists(st.integers(-4, 3), min_size=3, max_size=6),
    holes=st.booleans(),
    betas=st.sampled_from([(0.9, 0.95), (0.0, 0.9), (0.95, 0.6), (0.9, 0.999)]),
    eps=st.sampled_from([1e-8, 1e-3]),
    decay=st.sampled_from([0.0, 0.1]),
    bad=st.sampled_from([math.nan, math.inf, -math.inf]),
)
def test_each_step_is_the_plain_one(
    name, dtype, on_device, seed, scales, holes, betas, eps, decay, bad
):
    rule, options = CASES[name]
    state = State(dtype, seed)
    s = Settings(beta1=betas[0], beta2=betas[1], eps=eps, weight_decay=decay)
    with pytest.MonkeyPatch.context() as patch:
        if on_device:
            patch.setattr(lists, "HOSTS", ())
        for scale in scales:
            before = state.bits()
            apply(name, state, [torch.full_like(p, bad) for p in state.params], s, YES)
            assert state.bits() == before
            gradients = state.gradients(10.0**scale, holes)
            want = []
            # Old moment and gradient may cancel: what is left is as exact as they were.
            summed = [max(map(abs, flat(m))) for m in state.m]
            for i, (p, g) in enumerate(zip(state.params, gradients, strict=True)):
                t = int(state.steps[i]) + 1
                row = [flat(x) for x in (p, g, state.m[i], state.v[i])]
                extra = {"resets": 0} if rule is spam else {}
                want.append(rule(*row, t, s, **extra, **options))
            apply(name, state, gradients, s, NO)
            for i, (p, m, v) in enumerate(want):
                largest = max(1.0, max(map(abs, p)))
                # On a device the kernel takes the rate in float32.
                close(state.params[i], p, dtype, largest, "parameter", 1e-6 if on_device else 0)
                close(state.m[i], m, dtype, max(summed[i], *map(abs, m)), "exp_avg")
                close(state.v[i], v, dtype, max(map(abs, v)), "exp_avg_sq")
            assert [float(x) for x in state.steps] == [t] * 3


@pytest.mark.parametrize("on_device", [False, True], ids=["as on a CPU", "as on a device"])
def test_spam_over_several_resets(on_device, monkeypatch):
    if on_device:
        monkeypatch.setattr(lists, "HOSTS", ())
    state, s = State(torch.float64, 3), Settings()
    options = {"element_clip": 3.0, "reset_warmup": 4, "clip_after": 2}
    plain = [[flat(p), [0.0] * p.numel(), [0.0] * p.numel()] for p in state.params]
    for update in range(23):
        t, resets = update % 7 + 1, update // 7
        gradients = state.gradients(10.0 ** (update % 3), holes=True)
        for i, (row, g) in enumerate(zip(plain, gradients, strict=True)):
            if t == 1:
                row[1:] = [0.0] * len(row[0]), [0.0] * len(row[0])
            plain[i] = list(spam(row[0], flat(g), *row[1:], t, s, resets, **options))
        functional.spam(
            state.params,
            gradients,
            *state.columns("spam"),
            **vars(s),
            reset_every=7,
            **options,
        )
        assert [float(x) for x in state.steps] == [t] * 3
        assert [float(x) for x in state.resets] == [resets] * 3
        for i, (p, m, v) in enumerate(plain):
            close(state.params[i], p, torch.float64, 1.0, "parameter", 1e-5 if on_device else 1e-11)
            close(state.m[i], m, torch.float64, max(map(abs, m)), "exp_avg")
            close(state.v[i], v, torch.float64, max(map(abs, v)), "exp_avg_sq")


@pytest.mark.parametrize("eps", [0.0, 1e-30, 1e-45])
def test_weights_that_never_had_a_gradient_stay(eps):
    for name in ("stable_adamw", "adamw_update_clip", "laprop", "spam"):
        state = State(torch.float32, 1)
        before = [p.clone() for p in state.params]
        s = Settings(eps=eps, weight_decay=0.0)
        if name != "laprop":  # the others end in torch's kernel, whose 0/0 at eps = 0 is torch's
            s.eps = max(eps, 1e-30)
        for _ in range(3):
            gradients = [torch.zeros_like(p) for p in state.params]
            getattr(functional, name)(state.params, gradients, *state.columns(name), **vars(s))
        assert all(torch.equal(a, b) for a, b in zip(state.params, before, strict=True)), name


def singular(matrix):
    """What five iterations make of a matrix, by its singular values, float64."""
    u, s, v = torch.linalg.svd(matrix.double(), full_matrices=False)
    s = s / s.norm()
    for _ in range(5):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    return u @ torch.diag(s) @ v


@pytest.mark.parametrize("on_device", [False, True], ids=["as on a CPU", "as on a device"])
@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("rate_match", ["rms", "shape"])
def test_muon_step_by_step(nesterov, rate_match, on_device, monkeypatch):
    if on_device:
        monkeypatch.setattr(lists, "HOSTS", ())
    generator = torch.Generator().manual_seed(0)
    shapes = [(6, 4), (4, 6), (5, 5), (6, 4)]
    params = [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]
    buffers = [torch.zeros_like(p) for p in params]
    plain = [p.clone() for p in params]
    momenta = [torch.zeros_like(p) for p in params]  # a sum, as Jordan's code has it
    for _ in range(5):
        gradients = [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]
        for i, g in enumerate(gradients):
            momenta[i] = 0.95 * momenta[i] + g
            ahead = g + 0.95 * momenta[i] if nesterov else momenta[i]
            rows, columns = shapes[i]
            match = 0.2 * max(rows, columns) ** 0.5
            if rate_match == "shape":
                match = max(1.0, rows / columns) ** 0.5
            plain[i] = plain[i] * (1 - 0.02 * 0.1) - 0.02 * match * singular(ahead)
        functional.muon(
            params,
            gradients,
            buffers,
            lr=0.02,
            momentum=0.95,
            weight_decay=0.1,
            nesterov=nesterov,
            rate_match=rate_match,
            dtype=torch.float64,
        )
    for got, want in zip(params, plain, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-11)
