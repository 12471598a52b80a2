"""OLMo-core: tables that name their classes, sizes in tokens."""

from .trainer_samples import assumed, rows, sample, strange, text

ROWS = {
    "architecture.bias": (False, 20),
    "architecture.bias_qkv": (False, 14),
    "architecture.ff_width": (4096, 20),
    "architecture.heads": (16, 12),
    "architecture.kv_heads": (4, 13),
    "architecture.layers": (16, 8),
    "architecture.norm": ("rmsnorm", 19),
    "architecture.norm_eps": (1e-06, 19),
    "architecture.padded_vocab_size": (100352, 7),
    "architecture.position": ("rope", 15),
    "architecture.qk_norm": (True, 16),
    "architecture.rope_theta": (250000.0, 15),
    "architecture.sequence_length": (4096, 36),
    "architecture.vocab_size": (100278, 28),
    "architecture.width": (1024, 6),
    "batch.micro_size": (4, 35),
    "batch.tokens": (2097152, 33),
    "data.seed": (34521, 33),
    "data.sources": (("OLMoE-mix-0824",), 29),
    "data.tokenizer": ("dolma2", 28),
    "data.workers": (4, 33),
    "init.method": ("normal", 24),
    "interval.checkpoint": (1000, 59),
    "interval.evaluate": (500, 60),
    "interval.log": (10, 57),
    "loss.z_loss_weight": (1e-05, 50),
    "name": ("core-small", 2),
    "optimizer.beta1": (0.9, 42),
    "optimizer.beta2": (0.95, 42),
    "optimizer.clip_norm": (1.0, 46),
    "optimizer.decay_embeddings": (False, 39),
    "optimizer.learning_rate": (0.0006, 41),
    "optimizer.name": ("adamw", 44),
    "optimizer.weight_decay": (0.033, 43),
    "parallelism.compile": (True, 49),
    "parallelism.devices_per_node": (8, 3),
    "parallelism.fsdp": ("hybrid", 51),
    "parallelism.nodes": (2, 3),
    "parallelism.recompute": ("selective", 52),
    "precision.compute": ("bf16", 51),
    "precision.gradient_reduce": ("fp32", 51),
    "schedule.final_factor": (0.05, 47),
    "schedule.kind": ("cosine", 48),
    "schedule.tokens": (50000000000, 56),
    "schedule.warmup_steps": (2000, 47),
    "seed": (99, 63),
}


def test_every_field_has_its_line():
    found = sample("olmo_core.json")
    assert rows(found) == ROWS
    assert strange(found) == {}


def test_what_the_dataclasses_fill_in():
    filled = assumed(sample("olmo_core.json"), "OLMo-core 2")
    assert filled["optimizer.eps"] == 1e-8
    assert filled["architecture.activation"] == "swiglu"


def test_micro_batches_are_counted_in_sequences():
    batch = sample("olmo_core.json").spec.batch
    assert batch.micro_size == 16384 // 4096
    assert batch.global_size == 512
    assert batch.accumulation == 8  # of 16 ranks


def test_the_tables_of_its_first_version(read):
    found = read(
        a__json='{"model": {"d_model": 64,'
        ' "dp_config": {"name": "fsdp", "param_dtype": "bfloat16"}},\n'
        '"optim": {"lr": 0.1, "betas": [0.9, 0.99], "_CLASS_": "olmo_core.optim.AdamWConfig"},\n'
        '"dataset": {"sequence_length": 128},\n'
        '"data_loader": {"global_batch_size": 1024},\n'
        '"trainer": {"rank_microbatch_size": 256,\n'
        '"max_duration": {"value": 7, "unit": "epochs"},\n'
        '"callbacks": {"lr_scheduler": {"scheduler": {"warmup_steps": 3,\n'
        '"_CLASS_": "olmo_core.optim.CosWithWarmup"}},\n'
        '"grad_clipper": {"max_grad_norm": 2.0}}}}\n'
    )
    assert rows(found) == {
        "architecture.width": (64, 1),
        "parallelism.fsdp": ("full", 1),
        "precision.compute": ("bf16", 1),
        "optimizer.learning_rate": (0.1, 2),
        "optimizer.beta1": (0.9, 2),
        "optimizer.beta2": (0.99, 2),
        "optimizer.name": ("adamw", 2),
        "architecture.sequence_length": (128, 3),
        "batch.tokens": (1024, 4),
        "batch.micro_size": (2, 5),
        "schedule.epochs": (7.0, 6),
        "schedule.warmup_steps": (3, 7),
        "schedule.kind": ("cosine", 8),
        "optimizer.clip_norm": (2.0, 9),
    }


def test_a_stable_rate_with_a_decay(read):
    lines = text("olmo_core.json").replace("CosWithWarmup", "WSD").replace(
        '"alpha_f": 0.05', '"decay": 800'
    )  # fmt: skip
    schedule = read(a__json=lines).spec.schedule
    assert (schedule.kind, schedule.decay_kind, schedule.decay_steps) == ("wsd", "linear", 800)
    assert schedule.min_learning_rate == 0.0


def test_a_typo(read):
    found = read(a__json=text("olmo_core.json").replace('"max_grad_norm"', '"max_gradnorm"'))
    assert strange(found) == {"train_module.max_gradnorm": (46, "train_module.max_grad_norm")}
