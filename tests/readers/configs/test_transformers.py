"""transformers, DeepSpeed and accelerate: alone and together, `auto`, families, arguments."""

import json

import pytest

from surefoot.errors import ConfigError

from .conftest import place, stated

MODEL = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "attention_dropout": 0.0,
    "hidden_act": "silu",
    "hidden_size": 896,
    "initializer_range": 0.015,
    "intermediate_size": 4864,
    "max_position_embeddings": 32768,
    "num_attention_heads": 14,
    "num_hidden_layers": 24,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "sliding_window": 32768,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.45.1",
    "use_cache": True,
    "use_sliding_window": False,
    "vocab_size": 151936,
}
ARGUMENTS = {
    "output_dir": "out",
    "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": 8,
    "learning_rate": 3e-4,
    "max_steps": 5000,
    "num_train_epochs": 3.0,
    "warmup_ratio": 0.02,
    "warmup_steps": 0,
    "lr_scheduler_type": "cosine_with_min_lr",
    "lr_scheduler_kwargs": {"min_lr_rate": 0.1},
    "bf16": True,
    "fp16": False,
    "max_grad_norm": 0.5,
    "adam_beta2": 0.95,
    "adam_epsilon": 1e-7,
    "weight_decay": 0.1,
    "label_smoothing_factor": 0.05,
    "seed": 7,
    "optim": "adamw_torch_fused",
    "gradient_checkpointing": True,
    "torch_compile": True,
    "fsdp": "full_shard auto_wrap",
    "logging_steps": 10,
    "save_strategy": "epoch",
    "save_steps": 500,
    "eval_strategy": "steps",
    "eval_steps": 0.1,
    "dataloader_num_workers": 2,
    "run_name": "trial",
}


def text(table, **changes):
    return json.dumps({**table, **changes}, indent=1)


def test_a_model(read):
    found = read(text(MODEL))
    assert stated(found) == {
        "architecture.layers": 24,
        "architecture.width": 896,
        "architecture.heads": 14,
        "architecture.kv_heads": 2,
        "architecture.ff_width": 4864,
        "architecture.vocab_size": 151936,
        "architecture.norm": "rmsnorm",
        "architecture.norm_eps": 1e-6,
        "architecture.activation": "swiglu",
        "architecture.position": "rope",
        "architecture.rope_theta": 1e6,
        "architecture.tied_embeddings": True,
        "architecture.attention_dropout": 0.0,
        "architecture.max_positions": 32768,
        "init.std": 0.015,
    }
    spec = found.spec
    assert spec.architecture.bias_qkv is True  # of the family
    assert spec.sources["architecture.bias_qkv"].kind == "default"
    assert spec.architecture.window is None
    assert spec.architecture.head_dim == 64
    assert spec.environment == {"transformers": "4.45.1"}
    assert spec.optimizer.eps is None  # no arguments, no defaults of arguments
    assert spec.trainer == "transformers"
    assert found.findings == ()


@pytest.mark.parametrize(
    ("config", "want"),
    [
        ({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024,
          "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "attn_pdrop": 0.1,
          "resid_pdrop": 0.2, "vocab_size": 50257},
         {"layers": 12, "width": 768, "heads": 12, "kv_heads": 12, "ff_width": 3072, "dropout": 0.2,
          "activation": "gelu", "norm": "layernorm", "position": "learned",
          "tied_embeddings": True, "max_positions": 1024}),
        ({"model_type": "qwen3", "hidden_size": 64, "num_attention_heads": 2, "hidden_act": "silu",
          "num_key_value_heads": 1, "head_dim": 128, "rms_norm_eps": 1e-6},
         {"qk_norm": True, "head_dim": 128, "kv_heads": 1, "activation": "swiglu"}),
        ({"model_type": "mixtral", "hidden_size": 64, "num_local_experts": 8, "hidden_act": "silu",
          "num_experts_per_tok": 2, "router_aux_loss_coef": 0.02},
         {"experts": 8, "experts_per_token": 2, "rope_theta": 1e6}),
        ({"model_type": "gemma2", "hidden_size": 64, "hidden_activation": "gelu_pytorch_tanh",
          "attn_logit_softcapping": 40.0, "final_logit_softcapping": 20.0},
         {"activation": "geglu", "attention_softcap": 40.0, "logit_softcap": 20.0,
          "tied_embeddings": True}),
        ({"model_type": "gpt_neox", "hidden_size": 64, "rotary_pct": 0.25, "rotary_emb_base": 1e4,
          "use_parallel_residual": True, "hidden_act": "gelu", "layer_norm_eps": 1e-5},
         {"rope_fraction": 0.25, "parallel_blocks": True, "tied_embeddings": False,
          "norm": "layernorm", "position": "rope"}),
        ({"model_type": "bloom", "hidden_size": 64, "n_layer": 3, "n_head": 4,
          "layer_norm_epsilon": 1e-5},
         {"position": "alibi", "embedding_norm": True, "layers": 3}),
        ({"model_type": "llama", "hidden_size": 64,
          "rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}},
         {"rope_theta": 5e5, "position": "rope"}),
    ],
    ids=lambda item: item.get("model_type", "") if isinstance(item, dict) else "",
)  # fmt: skip
def test_families(read, config, want):
    architecture = read(text(config)).spec.architecture
    assert {name: getattr(architecture, name) for name in want} == want


def test_training_arguments(read):
    found = read(text(ARGUMENTS))
    assert stated(found) == {
        "name": "trial",
        "seed": 7,
        "batch.micro_size": 4,
        "batch.accumulation": 8,
        "optimizer.name": "adamw",
        "optimizer.fused": True,
        "optimizer.learning_rate": 3e-4,
        "optimizer.beta2": 0.95,
        "optimizer.eps": 1e-7,
        "optimizer.weight_decay": 0.1,
        "optimizer.clip_norm": 0.5,
        "loss.label_smoothing": 0.05,
        "schedule.kind": "cosine",
        "schedule.steps": 5000,
        "schedule.final_factor": 0.1,
        "schedule.warmup_fraction": 0.02,
        "precision.compute": "bf16",
        "parallelism.recompute": "full",
        "parallelism.compile": True,
        "parallelism.fsdp": "full",
        "data.workers": 2,
        "interval.log": 10,
    }
    spec = found.spec
    assert spec.schedule.warmup_steps == 100
    assert spec.schedule.min_learning_rate == pytest.approx(3e-5)
    assert spec.optimizer.beta1 == 0.9
    assert spec.sources["optimizer.beta1"].assumed == "transformers 4.46"
    assert spec.trainer == "transformers Trainer"
    assert spec.options["transformers"]["optim"] == "adamw_torch_fused"
    assert spec.options["transformers"]["eval_steps"] == 0.1
    assert place(found, "optimizer.clip_norm") == (16, "max_grad_norm")
    assert found.findings == ()


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({"max_steps": -1}, "schedule.epochs", 3.0),
        ({"max_steps": -1}, "schedule.steps", None),
        ({"warmup_steps": 30}, "schedule.warmup_steps", 30),
        ({"warmup_steps": 0.05, "warmup_ratio": None}, "schedule.warmup_steps", 250),
        ({"fp16": True, "bf16": False}, "precision.initial_loss_scale", 65536.0),
        ({"adafactor": True}, "optimizer.name", "adafactor"),
        ({"fsdp": ["shard_grad_op"]}, "parallelism.fsdp", "grad-op"),
        ({"save_strategy": "steps"}, "interval.checkpoint", 500),
    ],
)
def test_arguments_that_depend_on_one_another(read, changes, field, value):
    spec = read(text(ARGUMENTS, **changes)).spec
    section, name = field.split(".")
    assert getattr(getattr(spec, section), name) == value


def test_arguments_as_flags(read):
    found = read(
        "accelerate launch --num_processes 16 --num_machines 2 run_clm.py --model_type gpt2 \\\n"
        " --per-device-train-batch-size=8 --bf16 True --learning_rate 6e-4 --max_steps 100 \\\n"
        " --gradient_accumulation_steps 2\n"
    )
    (file,) = found.files
    assert file.format == "transformers"
    spec = found.spec
    assert spec.batch.micro_size == 8
    assert spec.precision.compute == "bf16"
    assert spec.parallelism.world_size == 16
    assert spec.batch.global_size == 8 * 2 * 16


DEEPSPEED = """{
  "train_micro_batch_size_per_gpu": 2,
  "gradient_accumulation_steps": 4,
  "train_batch_size": 64,
  "gradient_clipping": 1.0,
  "steps_per_print": 10,
  "fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 12, "loss_scale_window": 500,
    "hysteresis": 4, "min_loss_scale": 0.5},
  "zero_optimization": {"stage": 3, "overlap_comm": true,
    "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "nvme"}},
  "optimizer": {"type": "FusedAdam", "params": {"lr": 2e-4, "betas": [0.9, 0.98], "eps": 1e-6}},
  "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 2e-4,
    "warmup_num_steps": 100, "total_num_steps": 1000}},
  "communication_data_type": "fp32"
}"""


def test_deepspeed_alone(read):
    found = read(DEEPSPEED)
    assert stated(found) == {
        "batch.micro_size": 2,
        "batch.accumulation": 4,
        "batch.global_size": 64,
        "optimizer.clip_norm": 1.0,
        "optimizer.name": "adamw",
        "optimizer.learning_rate": 2e-4,
        "optimizer.beta1": 0.9,
        "optimizer.beta2": 0.98,
        "optimizer.eps": 1e-6,
        "schedule.kind": "linear",
        "schedule.warmup_from": 0.0,
        "schedule.warmup_steps": 100,
        "schedule.steps": 1000,
        "precision.compute": "fp16",
        "precision.initial_loss_scale": 4096.0,
        "precision.loss_scale_window": 500,
        "precision.loss_scale_hysteresis": 4,
        "precision.min_loss_scale": 0.5,
        "precision.gradient_reduce": "fp32",
        "parallelism.zero_stage": 3,
        "parallelism.overlap_grad_reduce": True,
        "parallelism.offload": "both",
    }
    assert place(found, "precision.loss_scale_hysteresis") == (8, "fp16.hysteresis")
    assert found.findings == ()


def test_deepspeed_does_not_clip_by_itself(read):
    spec = read(
        '{"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}'
    ).spec
    assert spec.optimizer.clip_norm == 0.0
    assert spec.sources["optimizer.clip_norm"].assumed == "DeepSpeed 0.16"
    assert spec.precision.gradient_reduce == "bf16"


def test_a_static_loss_scale(read):
    spec = read(
        '{"zero_optimization": {"stage": 1}, "fp16": {"enabled": true, "loss_scale": 128}}'
    ).spec
    assert spec.precision.static_loss_scale == 128.0
    assert spec.precision.initial_loss_scale is None


def test_auto_takes_the_trainers_value(read):
    config = (
        '{"train_micro_batch_size_per_gpu": "auto", "gradient_clipping": "auto", '
        '"bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2}, "optimizer": {"type": '
        '"AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto"}}, '
        '"train_batch_size": "auto"}'
    )
    alone = read(config)
    assert {note.key for note in alone.unresolved} >= {
        "train_micro_batch_size_per_gpu", "bf16.enabled", "optimizer.params.lr", "train_batch_size",
    }  # fmt: skip
    assert alone.spec.optimizer.clip_norm is None
    both = read(text(ARGUMENTS), config)
    assert both.findings == ()
    assert both.spec.optimizer.clip_norm == 0.5
    assert both.spec.optimizer.beta2 == 0.95
    assert {note.key for note in both.unresolved} == {"train_batch_size"}


def test_a_deepspeed_table_inside_the_arguments(read):
    inner = {"zero_optimization": {"stage": 2}, "gradient_clipping": 0.3}
    found = read(text(ARGUMENTS, deepspeed=inner))
    assert [file.format for file in found.files] == ["transformers", "deepspeed"]
    assert found.spec.parallelism.zero_stage == 2
    (finding,) = found.findings
    assert (finding.code, finding.severity) == ("CFG001", "warning")
    assert "refuses to start" in finding.message


def test_accelerate(read):
    found = read(
        "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\n"
        "num_machines: 2\nnum_processes: 16\nfsdp_config:\n  fsdp_sharding_strategy: 1\n"
        "dynamo_config:\n  dynamo_backend: INDUCTOR\nmain_training_function: main\n"
    )
    assert stated(found) == {
        "precision.compute": "bf16",
        "parallelism.nodes": 2,
        "parallelism.world_size": 16,
        "parallelism.fsdp": "full",
        "parallelism.compile": True,
    }


def test_values_of_wandb(read):
    lines = ["wandb_version: 1", "_wandb:", "  value: {cli_version: 0.19}"]
    for key, value in {**MODEL, **ARGUMENTS}.items():
        lines += [f"{key}:", f"  value: {json.dumps(value)}"]
    found = read("\n".join(lines) + "\n")
    assert found.files[0].format == "transformers"
    assert found.spec.architecture.width == 896
    assert found.spec.optimizer.clip_norm == 0.5
    assert found.not_understood == ()


def test_other_files_of_a_model_are_no_configuration(read, write):
    from surefoot.errors import ConfigError

    for other in (
        {"bos_token_id": 1, "eos_token_id": 2, "transformers_version": "4.46.0"},
        {"tokenizer_class": "X", "model_max_length": 2048, "vocab_size": 5},
        {"global_step": 5, "max_steps": 10, "num_train_epochs": 1, "log_history": [{"loss": 1}]},
    ):
        with pytest.raises(ConfigError):
            read(json.dumps(other))


def test_arguments_as_an_example_script_prints_them(read):
    found = read(
        "01/02/2025 10:00:00 - INFO - __main__ - Training parameters TrainingArguments(\n"
        "_n_gpu=1,\nadam_beta2=0.98,\nadam_epsilon=1e-06,\nbf16=True,\n"
        "eval_strategy=IntervalStrategy.NO,\nfsdp=[],\nlearning_rate=0.0004,\n"
        "lr_scheduler_type=SchedulerType.COSINE,\nmax_grad_norm=0.7,\nmax_steps=300,\n"
        "optim=OptimizerNames.ADAMW_TORCH,\noutput_dir=/data/out,\n"
        "per_device_train_batch_size=3,\nreport_to=['tensorboard', 'wandb'],\n)\n"
        "learning_rate=5,\n{'loss': 3.2, 'learning_rate': 1e-05, 'epoch': 0.1}\n"
    )
    assert stated(found) == {
        "optimizer.beta2": 0.98,
        "optimizer.eps": 1e-6,
        "precision.compute": "bf16",
        "optimizer.learning_rate": 0.0004,
        "schedule.kind": "cosine",
        "optimizer.clip_norm": 0.7,
        "schedule.steps": 300,
        "optimizer.name": "adamw",
        "batch.micro_size": 3,
    }
    assert place(found, "optimizer.clip_norm") == (10, "max_grad_norm")
    assert found.spec.sources["optimizer.clip_norm"].kind == "log"
    assert found.spec.options["transformers"]["output_dir"] == "/data/out"


def test_arguments_win_over_accelerates_file(read):
    found = read(
        "compute_environment: LOCAL_MACHINE\nmixed_precision: fp16\nnum_processes: 2\n",
        text(ARGUMENTS),
    )
    (finding,) = found.findings
    assert (finding.severity, finding.place.field) == ("error", "precision.compute")
    assert "transformers's value is used" in finding.message
    assert found.spec.precision.compute == "bf16"
    assert found.spec.parallelism.world_size == 2


def test_arguments_printed_in_one_line(read):
    """As transformers before 4.10 wrote them into a log."""
    text = (
        "05/02/2021 10:00:00 - INFO - __main__ -   Training/evaluation parameters "
        "TrainingArguments(output_dir=out, do_train=True, evaluation_strategy=IntervalStrategy.NO, "
        "per_device_train_batch_size=4, gradient_accumulation_steps=2, learning_rate=3e-05, "
        "adam_beta2=0.98, max_grad_norm=0.7, num_train_epochs=2.0, max_steps=-1, "
        "lr_scheduler_type=SchedulerType.COSINE, warmup_steps=8, fp16=True, debug=[], "
        "label_names=['a', 'b'], run_name='first', _n_gpu=1, mp_parameters=)\n"
        "05/02/2021 10:00:01 - INFO - it goes on (with=brackets)\n"
    )
    found = read("setting up\n" + text)
    (file,) = found.files
    assert (file.format, file.kind) == ("transformers", "dump")
    assert found.findings == ()
    assert stated(found) == {
        "name": "first",
        "batch.micro_size": 4,
        "batch.accumulation": 2,
        "optimizer.learning_rate": 3e-5,
        "optimizer.beta2": 0.98,
        "optimizer.clip_norm": 0.7,
        "schedule.epochs": 2.0,
        "schedule.kind": "cosine",
        "schedule.warmup_steps": 8,
        "precision.compute": "fp16",
    }
    assert place(found, "optimizer.learning_rate") == (2, "learning_rate")
    assert found.spec.options["transformers"]["label_names"] == ("a", "b")
    assert found.spec.options["transformers"]["evaluation_strategy"] == "no"


def test_a_call_in_code_is_no_print_of_arguments(read):
    text = "args = TrainingArguments(output_dir)\nx = TrainingArguments(\n    **kw)\n"
    with pytest.raises(ConfigError):
        read(text)


def test_the_language_model_of_one_that_sees(read):
    model = {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "model_type": "gemma3",
        "text_config": {"model_type": "gemma3_text", "hidden_size": 64, "num_hidden_layers": 3,
                        "num_attention_heads": 4, "hidden_activation": "gelu_pytorch_tanh",
                        "rope_scaling": {"factor": 8.0, "rope_type": "linear"}},
        "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27, "patch_size": 14},
        "boi_token_index": 255999,
    }  # fmt: skip
    found = read(json.dumps(model))
    assert found.findings == ()
    shape = found.spec.architecture
    assert (shape.width, shape.layers, shape.heads, shape.activation) == (64, 3, 4, "geglu")


def test_latent_attention_has_wider_heads(read):
    model = {"model_type": "deepseek_v3", "hidden_size": 7168, "num_attention_heads": 128,
             "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "kv_lora_rank": 512}  # fmt: skip
    found = read(json.dumps(model))
    assert found.spec.architecture.head_dim == 192
    assert place(found, "architecture.head_dim") == (1, "qk_nope_head_dim")


@pytest.mark.parametrize(
    ("key", "field"),
    [("num_heads", "heads"), ("attention_heads", "heads"), ("kv_channels", "head_dim"),
     ("norm_eps", "norm_eps"), ("moe_num_experts", "experts"), ("moe_topk", "experts_per_token"),
     ("hidden_dropout_prob", "dropout"), ("attention_probs_dropout_prob", "attention_dropout")],
)  # fmt: skip
def test_families_have_words_of_their_own(read, key, field):
    found = read(json.dumps({"model_type": "some", "hidden_size": 64, key: 2}))
    assert getattr(found.spec.architecture, field) == 2


@pytest.mark.parametrize(
    ("lines", "want"),
    [
        ("  offload_optimizer_device: cpu\n  offload_param_device: none\n", "optimizer"),
        ("  offload_optimizer_device: nvme\n  offload_param_device: cpu\n", "both"),
        ("  offload_optimizer_device: none\n", None),
    ],
)
def test_accelerates_offloading(read, lines, want):
    found = read(
        "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nnum_processes: 8\n"
        f"deepspeed_config:\n  zero_stage: 3\n{lines}"
    )
    assert found.findings == ()
    assert found.spec.parallelism.offload == want
