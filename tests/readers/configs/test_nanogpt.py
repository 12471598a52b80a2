"""nanoGPT: Python that is parsed and never run, and its flags."""

import pytest

from .trainer_samples import assumed, rows, sample, strange, text

ROWS = {
    "architecture.attention_dropout": (0.1, 14),
    "architecture.bias": (True, 15),
    "architecture.dropout": (0.1, 14),
    "architecture.heads": (10, 12),
    "architecture.layers": (10, 11),
    "architecture.sequence_length": (512, 8),
    "architecture.width": (640, 13),
    "batch.global_size": (160, 9),
    "batch.micro_size": (8, 7),
    "data.sources": (("openwebtext",), 6),
    "interval.evaluate": (500, 29),
    "interval.evaluate_batches": (50, 30),
    "interval.log": (10, 31),
    "name": ("gpt2-small-owt", 4),
    "optimizer.beta2": (0.99, 23),
    "optimizer.clip_norm": (0.0, 25),
    "optimizer.learning_rate": (0.0005, 17),
    "optimizer.weight_decay": (0.1, 22),
    "parallelism.compile": (False, 28),
    "precision.compute": ("bf16", 27),
    "schedule.decay_steps": (100000, 19),
    "schedule.kind": ("cosine", 24),
    "schedule.min_learning_rate": (5e-05, 20),
    "schedule.steps": (100000, 18),
    "schedule.warmup_steps": (1000, 21),
}


def test_every_field_has_its_line():
    found = sample("nanogpt.py")
    assert found.files[0].kind == "python"  # sums and names are no TOML
    assert rows(found) == ROWS


def test_what_train_py_fills_in():
    filled = assumed(sample("nanogpt.py"), "nanoGPT of 2023-06 and later")
    assert filled["optimizer.beta1"] == 0.9
    assert filled["optimizer.eps"] == 1e-8
    assert filled["architecture.tied_embeddings"] is True
    assert filled["architecture.ff_width"] == 2560


def test_accumulation_counts_all_ranks(read):
    found = read(
        run__sh="torchrun --nproc_per_node=4 --nnodes=1 train.py config/a.py "
        "--batch_size=12 --gradient_accumulation_steps=40 --block_size=1024 --max_iters=900\n"
    )
    assert found.spec.batch.global_size == 480
    assert found.spec.parallelism.data == 4
    assert found.spec.batch.accumulation == 10


def test_nothing_is_run(read, tmp_path):
    mark = tmp_path / "ran"
    found = read(
        a__py=f"import pathlib\npathlib.Path({str(mark)!r}).write_text('x')\n"
        "n_layer = 3\nblock_size = 64\nmax_iters = int(5e3)\nwarmup_iters = len(range(9))\n"
    )
    assert not mark.exists()
    assert found.spec.schedule.steps == 5000
    assert found.spec.sources["schedule.warmup_steps"].kind == "default"
    assert [note.key for note in found.unresolved] == ["warmup_iters"]


def test_a_rate_that_stays(read):
    found = read(a__py=text("nanogpt.py").replace("decay_lr = True", "decay_lr = False"))
    assert found.spec.schedule.kind == "constant"
    assert found.spec.schedule.min_learning_rate is None
    assert found.spec.schedule.decay_steps is None
    assert found.spec.schedule.warmup_steps == 0  # train.py warms up with the decay only


def test_a_typo(read):
    found = read(a__py=text("nanogpt.py").replace("weight_decay", "weight_decy"))
    assert strange(found) == {"weight_decy": (22, "weight_decay")}


def test_fp16_has_a_scaler(read):
    found = read(a__py='dtype = "float16"\nn_layer = 2\nblock_size = 8\nmax_iters = 9\n')
    assert found.spec.precision.compute == "fp16"
    assert found.spec.precision.initial_loss_scale == 65536.0


def test_the_case_of_fp16(case):
    from surefoot.readers.configs import read_configs

    found = read_configs(case("24-*/config.py"))
    spec = found.spec
    assert (spec.batch.global_size, spec.batch.accumulation) == (60, 5)
    assert spec.batch.global_size * spec.architecture.sequence_length == 61440
    assert spec.environment["device"] == "V100 32GB"
    assert rows(found)["precision.compute"] == ("fp16", 10)
    assert spec.optimizer.learning_rate == 6e-4


@pytest.mark.parametrize("lines", ["a = 1\nb = 2\n", "batch_size = 4\nname = 'x'\n"])
def test_other_settings_are_not_taken(read, lines):
    from surefoot.errors import ConfigError

    with pytest.raises(ConfigError):
        read(a__py=lines)
