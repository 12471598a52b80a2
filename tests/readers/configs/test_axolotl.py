"""axolotl: TrainingArguments under other names, and its own keys."""

from .trainer_samples import assumed, rows, sample, strange, text

ROWS = {
    "architecture.sequence_length": (8192, 13),
    "batch.accumulation": (4, 18),
    "batch.micro_size": (2, 19),
    "data.sources": (("example-org/first", "data/second.jsonl"), 5),
    "data.tokenizer_kind": ("AutoTokenizer", 2),
    "data.validation_fraction": (0.02, 11),
    "interval.log": (1, 36),
    "name": ("second-try", 17),
    "optimizer.beta2": (0.95, 26),
    "optimizer.clip_norm": (0.7, 25),
    "optimizer.learning_rate": (1e-05, 24),
    "optimizer.name": ("adamw-8bit", 21),
    "optimizer.weight_decay": (0.01, 37),
    "parallelism.fsdp": ("full", 39),
    "parallelism.recompute": ("full", 29),
    "precision.tf32": (False, 28),
    "schedule.epochs": (2.0, 20),
    "schedule.final_factor": (0.1, 23),
    "schedule.kind": ("cosine", 22),
    "schedule.warmup_fraction": (0.05, 33),
}


def test_every_field_has_its_line():
    found = sample("axolotl.yml")
    assert rows(found) == ROWS
    assert strange(found) == {}


def test_auto_is_left_open():
    found = sample("axolotl.yml")
    assert found.spec.precision.compute is None
    assert [(note.key, note.line) for note in found.unresolved] == [("bf16", 27)]


def test_what_it_fills_in():
    filled = assumed(sample("axolotl.yml"), "axolotl 0.19")
    assert filled == {"seed": 42, "optimizer.beta1": 0.9, "optimizer.eps": 1e-8}


def test_options_keep_the_optimizer_as_it_was_written():
    assert sample("axolotl.yml").spec.options["axolotl"]["optimizer"] == "paged_adamw_8bit"


def test_steps_replace_epochs(read):
    found = read(a__yml=text("axolotl.yml").replace("num_epochs: 2", "num_epochs: 2\nmax_steps: 9"))
    assert found.spec.schedule.steps == 9
    assert found.spec.schedule.epochs is None


def test_warm_up_in_steps_or_as_a_share(read):
    lines = text("axolotl.yml").replace("warmup_ratio: 0.05", "warmup_steps: 30")
    schedule = read(a__yml=lines).spec.schedule
    assert (schedule.warmup_steps, schedule.warmup_fraction) == (30, None)
    schedule = read(a__yml=lines.replace("30", "0.2")).spec.schedule
    assert (schedule.warmup_steps, schedule.warmup_fraction) == (None, 0.2)


def test_data_for_pretraining(read):
    found = read(
        a__yml="base_model: x\npretraining_dataset:\n  - path: org/web\n    text_column: t\n"
        "max_steps: 10\nmicro_batch_size: 1\n"
    )
    assert rows(found)["data.sources"] == (("org/web",), 3)


def test_ranks_that_share_the_data(read):
    lines = (
        text("axolotl.yml") + "dp_shard_size: 4\ndp_replicate_size: 2\ntensor_parallel_size: 2\n"
    )
    found = read(a__yml=lines)
    assert found.spec.parallelism.data == 8
    assert found.spec.parallelism.tensor == 2


def test_a_typo(read):
    found = read(a__yml=text("axolotl.yml").replace("micro_batch_size", "micro_batchsize"))
    assert strange(found) == {"micro_batchsize": (19, "micro_batch_size")}
