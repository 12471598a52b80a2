"""The same model through torch.compile and DDP."""

import shutil

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from surefoot.model import loss_sums


def gradients(model, forward, tokens):
    model.zero_grad()
    sums = loss_sums(forward(tokens[:, :-1]), tokens[:, 1:])
    ((sums.cross_entropy + 1e-2 * sums.log_z_squared) / sums.tokens).backward()
    return sums, {name: p.grad.clone() for name, p in model.named_parameters()}


def assert_same(got, expected):
    for a, b in zip(got[0], expected[0], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
    for name, grad in expected[1].items():
        torch.testing.assert_close(got[1][name], grad, rtol=1e-4, atol=1e-5, msg=name)


def test_ddp(make_model, tokens, tmp_path):
    model = make_model(tied_embeddings=True)
    expected = gradients(model, model, tokens)
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        wrapped = DistributedDataParallel(model)
        with model.measure_attention_logits():
            got = gradients(model, wrapped, tokens)
    finally:
        dist.destroy_process_group()
    assert_same(got, expected)
    assert model.attention_logit_max.shape == (2,)


compiler = pytest.mark.skipif(not shutil.which("g++"), reason="torch.compile needs a C++ compiler")


@pytest.mark.slow
@compiler
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore")  # the compiler's own deprecations
def test_compiled(make_model, tokens):
    model = make_model(layers=1)
    with model.measure_attention_logits(sequences=2):
        expected = gradients(model, model, tokens)
    measured = model.attention_logit_max
    compiled = torch.compile(model, fullgraph=True)
    assert_same(gradients(model, compiled, tokens), expected)
    with torch.no_grad(), model.measure_attention_logits(sequences=2):
        compiled(tokens[:, :-1])
    torch.testing.assert_close(model.attention_logit_max, measured, rtol=1e-4, atol=0)


@pytest.mark.slow
@compiler
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "switches",
    [
        {"norm_placement": "peri", "attention_softcap": 2.0, "logit_softcap": 5.0,
         "query_key_layer_scaling": True, "layer_scale": 0.5, "embedding_gradient": 0.5},
        {"norm_placement": "b2t", "qk_norm_over": "width", "sigma_reparam": True},
    ],
    ids=str,
)  # fmt: skip
def test_compiled_switches(switches, make_model, tokens):
    model = make_model(layers=1, **switches)
    model(tokens)  # the first use of sigmaReparam waits for the device
    expected = gradients(model.eval(), model, tokens)
    assert_same(gradients(model, torch.compile(model, fullgraph=True), tokens), expected)


@pytest.mark.slow
@compiler
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore")
def test_compiled_under_autocast(make_model, tokens):
    model = make_model(layers=1)
    plain = model(tokens)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        got = torch.compile(model, fullgraph=True)(tokens)
    assert got.dtype == torch.bfloat16
    assert (got.float() - plain).abs().max() < 0.1 * plain.abs().max()


@pytest.mark.slow
@compiler
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore")
def test_compiled_loss():
    logits = torch.randn(6, 50, generator=torch.Generator().manual_seed(1), requires_grad=True)
    targets = torch.tensor([3, -100, 4, 49, 0, 1])

    def loss(x):
        sums = loss_sums(x, targets)
        return sums.cross_entropy + 0.1 * sums.log_z_squared

    expected = torch.autograd.grad(loss(logits), logits)[0]
    compiled = torch.compile(loss, fullgraph=True)
    torch.testing.assert_close(compiled(logits), loss(logits))
    torch.testing.assert_close(torch.autograd.grad(compiled(logits), logits)[0], expected)
