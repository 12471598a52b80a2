"""OLMo: durations in tokens, the width of gates, references."""

from .trainer_samples import assumed, rows, sample, strange, text

ROWS = {
    "architecture.activation": ("swiglu", 21),
    "architecture.attention_dropout": (0.0, 15),
    "architecture.bias": (False, 17),
    "architecture.dropout": (0.0, 22),
    "architecture.ff_width": (4096, 11),
    "architecture.heads": (16, 9),
    "architecture.layers": (16, 10),
    "architecture.norm": ("rmsnorm", 19),
    "architecture.norm_eps": (1e-06, 20),
    "architecture.padded_vocab_size": (100352, 25),
    "architecture.position": ("rope", 13),
    "architecture.qk_norm": (True, 16),
    "architecture.sequence_length": (4096, 23),
    "architecture.tied_embeddings": (False, 12),
    "architecture.vocab_size": (100278, 24),
    "architecture.width": (1024, 8),
    "batch.global_size": (512, 52),
    "batch.micro_size": (4, 53),
    "data.sources": (("data/part-0.npy", "data/part-1.npy"), 70),
    "data.tokenizer": ("tokenizers/own.json", 47),
    "data.workers": (8, 68),
    "init.method": ("normal", 26),
    "init.std": (0.02, 27),
    "interval.checkpoint": (1000, 49),
    "interval.evaluate": (1000, 63),
    "loss.z_loss_weight": (1e-05, 62),
    "name": ("olmo-small", 1),
    "optimizer.beta1": (0.9, 37),
    "optimizer.beta2": (0.95, 37),
    "optimizer.clip_norm": (1.0, 60),
    "optimizer.decay_biases": (True, 34),
    "optimizer.decay_embeddings": (False, 35),
    "optimizer.decay_norms": (True, 34),
    "optimizer.eps": (1e-08, 33),
    "optimizer.learning_rate": (0.0004, 31),
    "optimizer.name": ("adamw", 30),
    "optimizer.weight_decay": (0.1, 32),
    "parallelism.compile": (False, 28),
    "parallelism.fsdp": ("hybrid", 57),
    "parallelism.recompute": ("full", 59),
    "precision.compute": ("bf16", 54),
    "schedule.decay_tokens": (3000000000000, 43),
    "schedule.final_factor": (0.1, 44),
    "schedule.kind": ("cosine", 40),
    "schedule.tokens": (100000000000, 51),
    "schedule.warmup_from": (0.0, 45),
    "schedule.warmup_tokens": (8388608000, 42),
    "seed": (11, 2),
}


def test_every_field_has_its_line():
    found = sample("olmo.yaml")
    assert rows(found) == ROWS
    assert strange(found) == {}


def test_tokens_become_steps():
    spec = sample("olmo.yaml").spec
    assert spec.schedule.steps == 47684  # 1e11 / (512 * 4096), rounded up
    assert spec.schedule.warmup_steps == 4000
    assert spec.sources["schedule.warmup_steps"].kind == "derived"


def test_what_train_config_fills_in():
    filled = assumed(sample("olmo.yaml"), "OLMo 0.6")
    assert filled == {
        "architecture.kv_heads": 16,
        "architecture.rope_theta": 10000.0,
        "interval.log": 1,
    }


def test_half_of_the_projection_is_gates(read):
    lines = text("olmo.yaml").replace("mlp_ratio: 8", "mlp_hidden_size: 5504")
    assert read(a__yaml=lines).spec.architecture.ff_width == 2752
    lines = lines.replace("activation_type: swiglu", "activation_type: gelu")
    assert read(a__yaml=lines).spec.architecture.ff_width == 5504


def test_durations(read):
    lines = (
        text("olmo.yaml")
        .replace("  units: tokens\n", "")
        .replace("t_warmup: 8388608000", "t_warmup: 2000")
    )
    schedule = read(a__yaml=lines.replace("1e11T", "2ep")).spec.schedule
    assert (schedule.epochs, schedule.warmup_steps, schedule.tokens) == (2.0, 2000, None)
    schedule = read(a__yaml=lines.replace("1e11T", "739_328")).spec.schedule
    assert schedule.steps == 739328


def test_the_auxiliary_loss_has_a_weight_of_its_own(read):
    lines = text("olmo.yaml").replace("auxiliary_loss_multiplier: 1e-5\n", "")
    assert read(a__yaml=lines).spec.loss.z_loss_weight == 1e-4
    lines = lines.replace("softmax_auxiliary_loss: true", "softmax_auxiliary_loss: false")
    assert read(a__yaml=lines).spec.loss.z_loss_weight is None


def test_a_typo(read):
    found = read(a__yaml=text("olmo.yaml").replace("weight_tying", "weight_tieing"))
    assert strange(found) == {"model.weight_tieing": (12, "model.weight_tying")}
