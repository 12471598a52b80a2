"""The configurations of the cases: what a linter needs of them."""

from surefoot.readers.configs import read_configs


def test_the_104b_list(case):
    found = read_configs(case("05-*/args.txt"))
    spec = found.spec
    assert (spec.architecture.width, spec.architecture.heads, spec.architecture.head_dim) == (
        11600, 80, 145,
    )  # fmt: skip
    assert spec.init.std == 0.02
    assert spec.sources["init.std"].kind == "default"
    assert "Megatron" in spec.sources["init.std"].assumed
    assert spec.precision.compute == "fp16"
    assert spec.precision.initial_loss_scale == 4096.0
    assert spec.precision.static_loss_scale is None
    assert spec.optimizer.beta2 == 0.999
    assert spec.sources["optimizer.beta2"].line == 15
    assert spec.parallelism.data == 2
    assert spec.environment["device"].startswith("V100")
    batch = spec.batch
    assert (batch.ramp_from, batch.ramp_increment, batch.ramp_samples) == (16, 16, 6_000_000)
    assert spec.schedule.warmup_samples == 216_320
    assert found.findings == ()
    assert found.not_understood == ()


def test_the_176b_list(case):
    found = read_configs(case("06-*/args.txt"))
    spec = found.spec
    assert spec.init.std == 0.0048
    assert spec.architecture.head_dim == 128
    assert spec.architecture.padded_vocab_size == 250880
    assert spec.architecture.position == "alibi"
    assert spec.architecture.embedding_norm is True
    assert spec.parallelism.data == 8
    assert spec.batch.accumulation == 128
    assert spec.precision.compute == "bf16"
    assert spec.parallelism.zero_stage == 0
    assert found.findings == ()


def test_the_slow_70b_list(case):
    spec = read_configs(case("26-*/args.txt")).spec
    assert spec.parallelism.world_size == 128
    assert spec.parallelism.data == 2
    assert spec.environment["device"] == "H100"
    assert spec.parallelism.recompute == "full"
    assert spec.batch.global_size is None
    assert spec.architecture.kv_heads == 8


def test_the_eps_list(case):
    found = read_configs(case("28-*/args.txt"))
    assert found.spec.optimizer.eps == 1e-5
    assert found.spec.sources["optimizer.eps"].line == 8


def test_a_prepared_scheduler(case):
    found = read_configs(case("13-*/config.json"))
    assert found.files[0].format == "accelerate"
    spec = found.spec
    assert (spec.schedule.steps, spec.schedule.kind) == (10000, "linear")
    assert spec.parallelism.world_size == 4
    assert spec.optimizer.learning_rate == 1e-4
    assert spec.options["accelerate"]["split_batches"] is False


def test_two_versions_of_a_library(case):
    first = read_configs(case("15-*/run_a.yaml")).spec
    second = read_configs(case("15-*/run_b.yaml")).spec
    assert first.environment == {"transformer_engine": "1.12", "megatron_core": "0.11"}
    assert second.environment == {"transformer_engine": "2.1", "megatron_core": "0.11"}
    assert first.stated() == second.stated()
    assert first.parallelism.overlap_tensor is True
    assert first.parallelism.tensor == 2


def test_short_lists(case):
    for pattern in ("01-*/args.txt", "03-*/args.txt"):
        found = read_configs(case(pattern))
        assert found.spec.optimizer.clip_norm == 1.0
        assert found.spec.interval.checkpoint in (100, 1500)
        assert found.findings == ()
