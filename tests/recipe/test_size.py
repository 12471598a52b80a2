"""What this machine cannot hold is refused in one line, with the numbers and what to lower."""

import os

import pytest

from surefoot.errors import RecipeError
from surefoot.model import Decoder
from surefoot.recipe import Architecture, check_size, load, require_fits, size


@pytest.fixture
def recipe(write):
    """The small recipe with some settings: 8 logits bytes x 64 x 512 = 262144 a sequence."""
    return lambda *settings: load(write(), settings)[0]


@pytest.mark.parametrize("norm", ["rmsnorm", "layernorm"])
@pytest.mark.parametrize("activation", ["swiglu", "gelu"])
@pytest.mark.parametrize("qk_norm", [True, False])
@pytest.mark.parametrize("tied", [True, False])
def test_parameters_are_those_of_the_model(norm, activation, qk_norm, tied):
    shape = Architecture(
        layers=3, width=32, heads=4, kv_heads=2, vocab_size=50, sequence_length=16, norm=norm,
        activation=activation, qk_norm=qk_norm, tied_embeddings=tied,
    )  # fmt: skip
    assert size.parameters(shape) == sum(p.numel() for p in Decoder(shape).parameters())


SWITCHES = [
    *({"norm_placement": name} for name in
      ("post", "sandwich", "peri", "reordered", "b2t", "deepnorm", "none")),
    {"embedding_norm": True}, {"embedding_norm": True, "norm_placement": "peri"},
    {"qk_norm_over": "width"}, {"layer_scale": 0.1}, {"sigma_reparam": True}, {"experts": 4},
    {"experts": 3, "sigma_reparam": True, "activation": "gelu"},
]  # fmt: skip


@pytest.mark.parametrize("switches", SWITCHES, ids=str)
def test_parameters_with_every_switch(switches):
    shape = Architecture(
        layers=3, width=32, heads=4, kv_heads=2, vocab_size=50, sequence_length=16, **switches
    )
    assert size.parameters(shape) == sum(p.numel() for p in Decoder(shape).parameters())


def test_the_bound_is_the_sum(recipe):
    asked = recipe()
    needed = 16 * size.parameters(asked.architecture) + 16 * 262_144
    check_size(asked, needed)
    with pytest.raises(RecipeError):
        check_size(asked, needed - 1)


def test_a_batch_that_does_not_fit(recipe):
    with pytest.raises(RecipeError) as caught:
        check_size(recipe("batch.global_size=1000000"), 8 * 10**9)
    assert str(caught.value) == (
        "this needs 262 GB at least, and the machine has 8 GB of memory: 2.63 MB for 164224 "
        "parameters (16 bytes each: weight, gradient and two moments) and 262 GB for the logits of "
        "a micro-batch (1000000 sequences of 64 tokens, 512 logits a token, 8 bytes each): type "
        "--set batch.micro_size=30507 or less"
    )
    check_size(recipe("batch.global_size=1000000", "batch.micro_size=30507"), 8 * 10**9)
    with pytest.raises(RecipeError, match=r"micro_size=30507 or less$"):
        check_size(recipe("batch.global_size=1000000", "batch.micro_size=30508"), 8 * 10**9)


def test_ranks_share_the_batch(recipe):
    asked = recipe("batch.global_size=1000000")
    check_size(asked, 8 * 10**9, ranks=33)
    with pytest.raises(RecipeError, match=r"\(31250 sequences of"):
        check_size(asked, 8 * 10**9, ranks=32)


def test_a_model_that_does_not_fit(recipe):
    with pytest.raises(RecipeError) as caught:
        check_size(recipe("architecture.width=1000000"), 8 * 10**9)
    message = str(caught.value)
    assert message.startswith("this needs 352 TB at least, and the machine has 8 GB of memory: ")
    assert message.endswith(": lower architecture.width, layers or vocab_size")


def test_a_sequence_that_does_not_fit(recipe):
    with pytest.raises(RecipeError) as caught:
        check_size(recipe("architecture.sequence_length=10000000"), 8 * 10**9)
    assert str(caught.value).endswith(
        ": lower architecture.sequence_length or vocab_size, and set batch.micro_size=1"
    )


def test_threads_follow_the_processors(recipe):
    size.check_threads(recipe(), 1)
    size.check_threads(recipe("training.threads=64"), 1)
    size.check_threads(recipe("training.threads=400"), 100)
    with pytest.raises(RecipeError) as caught:
        size.check_threads(recipe("training.threads=65"), 1)
    assert str(caught.value) == (
        "training.threads = 65, but this machine has 1 processor: expected at most 64; 1 is usual"
    )
    with pytest.raises(RecipeError, match=r"has 100 processors: expected at most 400; 100 is"):
        size.check_threads(recipe("training.threads=401"), 100)


def test_this_machine(recipe, monkeypatch):
    require_fits(recipe())
    large = recipe("architecture.width=1000000")
    with pytest.raises(RecipeError, match=r"^this needs 352 TB at least, and the machine has \d"):
        require_fits(large)
    require_fits(large, cpu=False)
    monkeypatch.setattr(size, "physical_memory", lambda: 8 * 10**9)
    require_fits(recipe("batch.global_size=1000000"), ranks=33)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    with pytest.raises(RecipeError, match="has 1 processor: expected at most 64"):
        require_fits(recipe("training.threads=65"), cpu=False)


def test_memory_that_the_system_does_not_tell(recipe, monkeypatch):
    def unknown(name):
        raise ValueError("unrecognized configuration name")

    found = size.physical_memory()
    assert found is None or found > 10**8
    monkeypatch.setattr(os, "sysconf", unknown)
    assert size.physical_memory() is None
    require_fits(recipe("architecture.width=1000000"))
    monkeypatch.setattr(os, "sysconf", lambda name: -1)
    assert size.physical_memory() is None


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (["batch.global_size=1"], "global_size = 1"),
        (["batch.global_size=4", "batch.ramp_from=1", "batch.ramp_increment=1",
          "batch.ramp_samples=20"], "ramp_from = 1"),
    ],
)  # fmt: skip
def test_every_process_needs_a_sequence(recipe, settings, name):
    with pytest.raises(RecipeError, match=f"batch.{name} is less than a sequence for each of 2"):
        require_fits(recipe(*settings), ranks=2)
    require_fits(recipe(*settings), ranks=1)
