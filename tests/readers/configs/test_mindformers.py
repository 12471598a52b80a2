"""MindFormers: micro-batches of a pipeline, wrappers, two generations of keys."""

from .trainer_samples import assumed, rows, sample, strange, text

ROWS = {
    "architecture.activation": ("swiglu", 62),
    "architecture.heads": (32, 67),
    "architecture.kv_heads": (8, 68),
    "architecture.layers": (32, 66),
    "architecture.norm": ("rmsnorm", 70),
    "architecture.norm_eps": (1e-05, 70),
    "architecture.position": ("rope", 62),
    "architecture.sequence_length": (4096, 64),
    "architecture.vocab_size": (32000, 69),
    "architecture.width": (4096, 65),
    "batch.accumulation": (8, 46),
    "batch.micro_size": (2, 11),
    "data.shuffle": (True, 29),
    "data.sources": (("data/own.mindrecord",), 28),
    "data.workers": (4, 31),
    "environment.device": ("Ascend", 58),
    "interval.checkpoint": (250, 55),
    "optimizer.beta1": (0.9, 16),
    "optimizer.beta2": (0.95, 17),
    "optimizer.clip_norm": (1.0, 85),
    "optimizer.eps": (1e-08, 18),
    "optimizer.learning_rate": (0.0002, 21),
    "optimizer.name": ("adamw", 15),
    "parallelism.data": (4, 42),
    "parallelism.distributed_optimizer": (True, 40),
    "parallelism.pipeline": (2, 44),
    "parallelism.recompute": ("selective", 51),
    "parallelism.sequence": (False, 45),
    "parallelism.tensor": (2, 43),
    "precision.compute": ("fp16", 71),
    "precision.initial_loss_scale": (65536.0, 82),
    "precision.loss_scale_window": (1000, 84),
    "precision.master": ("fp32", 74),
    "precision.moments": ("fp32", 15),
    "precision.softmax_fp32": (False, 73),
    "schedule.epochs": (2.0, 10),
    "schedule.kind": ("cosine", 20),
    "schedule.min_learning_rate": (2e-05, 22),
    "schedule.warmup_fraction": (0.02, 23),
    "seed": (3, 1),
}


def test_every_field_has_its_line():
    found = sample("mindformers.yaml")
    assert rows(found) == ROWS
    assert strange(found) == {}


def test_the_whole_batch_follows():
    assert sample("mindformers.yaml").spec.batch.global_size == 2 * 8 * 4


def test_what_it_fills_in():
    filled = assumed(sample("mindformers.yaml"), "MindFormers 2.1")
    assert filled == {
        "optimizer.weight_decay": 0.0,
        "schedule.warmup_from": 0.0,
        "parallelism.context": 1,
    }


def test_without_a_pipeline_gradients_are_accumulated(read):
    lines = text("mindformers.yaml").replace("pipeline_stage: 2", "pipeline_stage: 1")
    lines = lines.replace("batch_size: 2\n", "batch_size: 2\n  gradient_accumulation_steps: 3\n", 1)
    spec = read(a__yaml=lines).spec
    assert spec.batch.accumulation == 3


def test_no_clipping(read):
    lines = text("mindformers.yaml").replace("use_clip_grad: True", "use_clip_grad: False")
    assert read(a__yaml=lines).spec.optimizer.clip_norm == 0.0


def test_bf16_is_not_scaled(read):
    lines = text("mindformers.yaml").replace(
        'compute_dtype: "float16"', 'compute_dtype: "bfloat16"'
    )
    precision = read(a__yaml=lines).spec.precision
    assert (precision.compute, precision.initial_loss_scale) == ("bf16", None)


def test_the_keys_of_its_pynative_trainer(read):
    found = read(
        a__yaml="training:\n  steps: 10\n  local_batch_size: 1\n  global_batch_size: 8\n"
        "  max_norm: 1.0\n  seed: 42\noptimizer:\n  type: AdamW\n  betas: [0.9, 0.95]\n"
        "parallelism:\n  tensor_parallel: 2\n  pipeline_parallel: 1\n"
        "lr_scheduler:\n  type: ConstantWarmUpLR\n  learning_rate: 1.e-5\n"
        "model:\n  hidden_size: 64\n  num_hidden_layers: 2\n"
    )
    assert found.files[0].format == "mindformers"
    assert found.spec.schedule.steps == 10
    assert found.spec.parallelism.tensor == 2
    assert found.spec.optimizer.learning_rate == 1e-5


def test_numbers_that_yaml_reads_as_text(read):
    found = read(a__yaml=text("mindformers.yaml").replace("eps: 1.e-8", "eps: 1e-8"))
    assert found.spec.optimizer.eps == 1e-8
    assert [note.line for note in found.remarks] == [18]


def test_a_typo(read):
    found = read(a__yaml=text("mindformers.yaml").replace("pipeline_stage", "pipeline_stages"))
    assert strange(found) == {
        "parallel_config.pipeline_stages": (44, "parallel_config.pipeline_stage")
    }
