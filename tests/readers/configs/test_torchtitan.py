"""torchtitan: JobConfig as TOML and flags; a model is a flavour."""

from .trainer_samples import assumed, rows, sample, strange, text

ROWS = {
    "architecture.sequence_length": (4096, 30),
    "batch.micro_size": (2, 29),
    "data.sources": (("c4",), 33),
    "data.tokenizer": ("./assets/hf/tokenizer", 13),
    "interval.checkpoint": (250, 45),
    "interval.log": (20, 7),
    "optimizer.beta2": (0.98, 19),
    "optimizer.clip_norm": (0.5, 31),
    "optimizer.fused": (False, 20),
    "optimizer.learning_rate": (0.00025, 18),
    "optimizer.name": ("adamw", 17),
    "parallelism.compile": (True, 55),
    "parallelism.data": (32, 38),
    "parallelism.devices_per_node": (8, 1),
    "parallelism.fsdp": ("hybrid", 38),
    "parallelism.nodes": (8, 1),
    "parallelism.overlap_tensor": (True, 41),
    "parallelism.pipeline": (1, 40),
    "parallelism.recompute": ("full", 49),
    "parallelism.tensor": (2, 39),
    "parallelism.world_size": (64, 1),
    "precision.compute": ("fp8", 14),
    "precision.fp8_recipe": ("rowwise", 52),
    "schedule.decay_kind": ("1-sqrt", 25),
    "schedule.decay_steps": (5000, 24),
    "schedule.final_factor": (0.1, 26),
    "schedule.kind": ("wsd", 24),
    "schedule.steps": (20000, 32),
    "schedule.warmup_steps": (500, 23),
}


def test_every_field_has_its_line():
    assert rows(sample("torchtitan.toml")) == ROWS


def test_the_flavour_fills_the_model_in():
    filled = assumed(sample("torchtitan.toml"), "torchtitan 0.2")
    shape = ("layers", "width", "heads", "kv_heads", "ff_width")
    assert [filled[f"architecture.{name}"] for name in shape] == [32, 4096, 32, 8, 14336]
    assert filled["init.embedding_std"] == 1.0
    assert filled["optimizer.beta1"] == 0.9
    assert filled["batch.accumulation"] == 1  # no global batch is stated


def test_the_whole_batch_follows_from_the_ranks():
    spec = sample("torchtitan.toml").spec
    assert spec.batch.global_size == 2 * 32
    assert spec.sources["batch.global_size"].kind == "derived"


def test_an_unknown_flavour_fills_no_model_in(read):
    found = read(a__toml='[model]\nname = "llama3"\nflavor = "9B"\n[training]\nseq_len = 4\n')
    assert found.spec.architecture.layers is None
    assert found.spec.architecture.sequence_length == 4


def test_a_typo_is_told_with_its_line(read):
    found = read(a__toml=text("torchtitan.toml").replace("seq_len =", "seq_length ="))
    assert strange(found) == {"training.seq_length": (30, "training.seq_len")}
    assert found.spec.architecture.sequence_length == 2048
    assert found.spec.sources["architecture.sequence_length"].kind == "default"


def test_leftover_ranks_state_no_number(read):
    lines = "[parallelism]\ndata_parallel_shard_degree = -1\n"
    found = read(a__toml=lines)
    assert found.spec.parallelism.data is None
    assert found.spec.parallelism.fsdp == "full"
    found = read(a__toml=lines.replace("-1", "1"))
    assert (found.spec.parallelism.data, found.spec.parallelism.fsdp) == (1, "none")


def test_intervals_that_are_switched_off_state_nothing(read):
    off = "[checkpoint]\nenable_checkpoint = false\ninterval = 100\n"
    found = read(a__toml=off + "[training]\nseq_len = 8\n")
    assert found.spec.interval.checkpoint is None
    found = read(a__toml=off.replace("false", "true") + "[training]\nseq_len = 8\n")
    assert found.spec.interval.checkpoint == 100


def test_without_a_decay_share_the_decay_follows_the_warm_up(read):
    found = read(a__toml='[lr_scheduler]\ndecay_type = "cosine"\n[training]\nseq_len = 8\n')
    assert found.spec.schedule.kind == "cosine"
    assert found.spec.schedule.decay_steps is None


def test_the_names_of_2024(read):
    found = read(
        a__toml="[job]\ndump_folder = 'x'\n[training]\nbatch_size = 3\nwarmup_steps = 7\n"
        "data_parallel_degree = 4\ntensor_parallel_degree = 2\n"
        "[experimental]\npipeline_parallel_degree = 2\ncontext_parallel_degree = 1\n"
        "[float8]\nenable_float8_linear = true\n"
    )
    assert rows(found) == {
        "batch.micro_size": (3, 4),
        "schedule.warmup_steps": (7, 5),
        "parallelism.data": (4, 6),
        "parallelism.fsdp": ("full", 6),
        "parallelism.tensor": (2, 7),
        "parallelism.pipeline": (2, 9),
        "parallelism.context": (1, 10),
        "precision.compute": ("fp8", 12),
    }
    assert strange(found) == {}


def test_flags(read):
    found = read(
        run__sh="torchrun --nproc_per_node=8 train.py --job.config_file a.toml \\\n"
        "  --training.steps 50 --parallelism.tensor_parallel_degree 2\n"
    )
    assert found.files[0].format == "torchtitan"
    assert found.spec.schedule.steps == 50
    assert found.spec.parallelism.tensor == 2


def test_the_case_with_a_pipeline(case):
    from surefoot.readers.configs import read_configs

    found = read_configs(case("18-*/train_config.toml"))
    assert rows(found) == {
        "architecture.sequence_length": (8192, 2),
        "schedule.steps": (1000, 3),
        "parallelism.fsdp": ("full", 5),
        "parallelism.pipeline": (2, 6),
        "interval.log": (1, 8),
    }
