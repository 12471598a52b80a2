"""Levels: what each measures, and what the model and the loop offer for it."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from torch import nn

from surefoot.errors import UsageError
from surefoot.model import Decoder
from surefoot.recipe import Architecture
from surefoot.watching import watch

SHAPE = Architecture(layers=2, width=16, heads=2, vocab_size=20, sequence_length=8)


@pytest.fixture
def decoder():
    return Decoder(SHAPE)


def _pass(model):
    tokens = torch.randint(20, (4, 9))
    logits = model(tokens[:, :-1])
    return logits, tokens[:, 1:]


def _loop(model, watching, optimizer, steps, passes=1):
    expected = []
    for _ in range(steps):
        z = []
        for _ in range(passes):
            logits, targets = _pass(model)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
            (loss / passes).backward()
            watching.loss(loss)
            watching.logits(logits, targets)
            z.append(logits.detach().double().logsumexp(-1).flatten())
        optimizer.step()
        watching.step()
        optimizer.zero_grad()
        expected.append(torch.cat(z).numpy())
    watching.finish()
    return expected


def test_light(decoder, recorder):
    optimizer = torch.optim.AdamW(decoder.parameters(), lr=1e-2)
    watching = watch(decoder, optimizer, level="light", detector=recorder)
    _loop(decoder, watching, optimizer, 2)
    assert watching.places == {}
    for record in recorder.records:
        assert record.places == {}
        assert record.values.keys() - {"step_time"} == {
            "loss", "grad_norm", "learning_rate", "update_skipped", "memory",
        }  # fmt: skip


def test_standard_samples(decoder, recorder):
    optimizer = torch.optim.AdamW(decoder.parameters(), lr=1e-2)
    watching = watch(decoder, optimizer, detector=recorder, sample_every=2)
    expected = _loop(decoder, watching, optimizer, 4)
    for record, z in zip(recorder.records, expected, strict=True):
        sampled = record.step in (1, 2, 4)
        assert {"grad_norm", "param_norm"} <= record.places.keys()
        assert ("adam_rms" in record.places) == ("log_z" in record.values) == sampled
        assert ("grad_cosine" in record.values) == (record.step in (2, 4))
        if sampled:
            assert record.values["log_z"] == pytest.approx(z.mean(), rel=1e-5)
        assert "attention_logit_max" not in record.values
    assert watch(decoder, optimizer)._recorder.meter.sample_every == 20


def test_full_measures_everything_at_each_step(decoder, recorder):
    optimizer = torch.optim.AdamW(decoder.parameters(), lr=1e-2)
    watching = watch(decoder, optimizer, level="full", detector=recorder)
    expected = _loop(decoder, watching, optimizer, 3, passes=2)
    for record, z in zip(recorder.records, expected, strict=True):
        assert record.values["log_z"] == pytest.approx(z.mean(), rel=1e-5)
        assert record.values["z_loss"] == pytest.approx((z**2).mean(), rel=1e-5)
        assert record.values["log_z_abs_max"] == pytest.approx(np.abs(z).max(), rel=1e-5)
        assert record.places["attention_logit_max"].shape == (2,)
        assert ("grad_cosine" in record.values) == (record.step > 1)
        assert record.values["update_rms"] > 0
    assert watching.places["attention_logit_max"] == ("layers.0", "layers.1")
    assert not decoder._forward_pre_hooks
    assert not decoder._forward_hooks


def test_the_attention_logits_are_those_of_the_first_training_pass(decoder, recorder):
    optimizer = torch.optim.AdamW(decoder.parameters(), lr=1e-2)
    tokens, targets = torch.randint(20, (4, 8)), torch.randint(20, (4, 8))
    watching = watch(decoder, optimizer, level="full", detector=recorder)
    with decoder.measure_attention_logits(), torch.no_grad():
        decoder(tokens)
    expected = decoder.attention_logit_max.clone()
    decoder.eval()
    decoder(torch.randint(20, (4, 8)))  # an evaluation
    decoder.train()
    with torch.no_grad():
        decoder(torch.randint(20, (4, 8)))
    assert watching._attention._found is None
    nn.functional.cross_entropy(decoder(tokens).flatten(0, 1), targets.flatten()).backward()
    decoder(torch.randint(20, (4, 8)))  # a second pass of the same step
    optimizer.step()
    watching.step()
    watching.finish()
    np.testing.assert_allclose(
        recorder.records[0].places["attention_logit_max"], expected.numpy(), rtol=1e-6
    )


def test_a_pass_that_fails_leaves_the_model_usable(decoder, recorder):
    optimizer = torch.optim.AdamW(decoder.parameters(), lr=1e-2)
    watching = watch(decoder, optimizer, level="full", detector=recorder)
    with pytest.raises(ValueError, match="tokens: expected at most"):
        decoder(torch.randint(20, (4, 30)))
    _loop(decoder, watching, optimizer, 2)
    assert recorder.records[0].places["attention_logit_max"].shape == (2,)


def test_copies_of_a_watched_model_are_not_watched(decoder, recorder):
    """As people keep an average of the weights, or save the whole module."""
    optimizer = torch.optim.AdamW(decoder.parameters(), lr=1e-2)
    watching = watch(decoder, optimizer, level="full", detector=recorder)
    for other in (copy.deepcopy(decoder), pickle.loads(pickle.dumps(decoder))):
        other(torch.randint(20, (4, 8)))
        assert other.attention_logit_max is None
    assert watching._attention.take() is None
    _loop(decoder, watching, optimizer, 1)
    with pytest.raises(TypeError, match=r"save watch.state_dict\(\)"):
        copy.deepcopy(watching)
    with pytest.raises(TypeError, match="not copied or pickled"):
        pickle.dumps(watching)
    copy.deepcopy(optimizer).step()  # an optimizer's copy has no hooks


def test_logits_without_loss_and_ignored_tokens(decoder, recorder):
    optimizer = torch.optim.AdamW(decoder.parameters(), lr=1e-2)
    watching = watch(decoder, optimizer, level="full", detector=recorder)
    logits, targets = _pass(decoder)
    targets = targets.clone()
    targets[:, 3:] = -100
    nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
    watching.logits(logits.bfloat16(), targets)
    optimizer.step()
    watching.step()
    watching.finish()
    z = logits.detach().bfloat16().double().logsumexp(-1)[:, :3]
    assert recorder.records[0].values["log_z"] == pytest.approx(float(z.mean()), rel=1e-4)
    assert "loss" not in recorder.records[0].values


def test_log_z_weighs_tokens_and_not_passes(decoder, recorder):
    optimizer = torch.optim.AdamW(decoder.parameters(), lr=1e-2)
    watching = watch(decoder, optimizer, level="full", detector=recorder)
    for rows in (1, 3):
        logits = torch.full((rows, 2, 20), float(rows))
        watching.logits(logits)
        watching.loss(float(rows), tokens=2 * rows)
    decoder(torch.randint(20, (4, 8))).sum().backward()
    optimizer.step()
    watching.step()
    watching.finish()
    values = recorder.records[0].values
    assert values["loss"] == pytest.approx((1 * 2 + 3 * 6) / 8)
    assert values["log_z"] == pytest.approx((1 * 2 + 3 * 6) / 8 + math.log(20), rel=1e-6)
    assert values["tokens"] == 8


def test_logits_and_targets_of_unlike_shape_are_a_usage_error(decoder):
    optimizer = torch.optim.AdamW(decoder.parameters())
    watching = watch(decoder, optimizer, level="full")
    with pytest.raises(UsageError, match=r"\(2, 3, 20\) and \(2, 4\): cut both alike"):
        watching.logits(torch.zeros(2, 3, 20), torch.zeros(2, 4, dtype=torch.int64))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"level": "ful"}, r"expected 'light', 'standard' or 'full' \(did you mean 'full'\?\)"),
        ({"sample_every": -1}, "sample_every counts steps from 1, got -1"),
        ({"resume_at": -1}, "resume_at counts steps that were taken, got -1"),
    ],
)
def test_settings_that_cannot_be_meant(decoder, settings, told):
    with pytest.raises(UsageError, match=told):
        watch(decoder, torch.optim.AdamW(decoder.parameters()), **settings)
