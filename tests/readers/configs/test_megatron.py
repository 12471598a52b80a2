"""Megatron-LM: flags, scripts, dumps in logs; each field with its value, line and key."""

import pytest

from .conftest import place, stated

LIST = """\
# 16 nodes x 8 GPUs (H100 80GB)
--num-layers 32
--hidden-size 4096
--num-attention-heads 32
--group-query-attention
--num-query-groups 8
--kv-channels 128
--seq-length 8_192
--max-position-embeddings 8192
--position-embedding-type rope
--rotary-base 500000
--rotary-percent 0.5
--normalization RMSNorm
--norm-epsilon 1e-6
--swiglu
--disable-bias-linear
--add-qkv-bias
--untie-embeddings-and-output-weights
--qk-layernorm
--attention-dropout 0.0
--hidden-dropout 0
--init-method-std 0.008
--make-vocab-size-divisible-by 64
--micro-batch-size 2
--global-batch-size 1024
--rampup-batch-size 128 128 5_000_000
--train-samples 100_000_000
--lr-decay-samples 90_000_000
--lr-warmup-samples 640_000
--lr-decay-style cosine
--lr 3e-4
--min-lr 3e-5
--adam-beta1 0.9
--adam-beta2 0.95
--adam-eps 1e-8
--weight-decay 0.1
--clip-grad 1.0
--bf16
--grad-reduce-in-bf16
--fp8-format hybrid
--fp8-recipe blockwise
--tensor-model-parallel-size 4
--pipeline-model-parallel-size 2
--num-layers-per-virtual-pipeline-stage 4
--context-parallel-size 2
--sequence-parallel
--use-distributed-optimizer
--overlap-grad-reduce
--overlap-param-gather
--tp-comm-overlap
--recompute-granularity full
--recompute-method uniform
--recompute-num-layers 1
--num-experts 8
--moe-router-topk 2
--moe-aux-loss-coeff 1e-2
--moe-z-loss-coeff 1e-3
--expert-model-parallel-size 4
--data-path 0.25 wiki_text 0.75 web_text
--split 990,8,2
--tokenizer-type Llama3Tokenizer
--num-workers 4
--seed 7
--log-interval 5
--save-interval 250
--eval-interval 500
--eval-iters 20
--transformer-impl transformer_engine
"""


def test_every_field_of_a_list(read):
    found = read(LIST)
    assert [file.format for file in found.files] == ["megatron"]
    assert stated(found) == {
        "seed": 7,
        "architecture.layers": 32,
        "architecture.width": 4096,
        "architecture.heads": 32,
        "architecture.kv_heads": 8,
        "architecture.head_dim": 128,
        "architecture.sequence_length": 8192,
        "architecture.norm": "rmsnorm",
        "architecture.norm_eps": 1e-6,
        "architecture.activation": "swiglu",
        "architecture.position": "rope",
        "architecture.rope_theta": 500000.0,
        "architecture.rope_fraction": 0.5,
        "architecture.tied_embeddings": False,
        "architecture.qk_norm": True,
        "architecture.bias": False,
        "architecture.bias_qkv": True,
        "architecture.dropout": 0.0,
        "architecture.attention_dropout": 0.0,
        "architecture.max_positions": 8192,
        "architecture.vocab_multiple": 64,
        "architecture.experts": 8,
        "architecture.experts_per_token": 2,
        "init.std": 0.008,
        "loss.balance_weight": 0.01,
        "loss.router_z_weight": 0.001,
        "optimizer.learning_rate": 3e-4,
        "optimizer.beta1": 0.9,
        "optimizer.beta2": 0.95,
        "optimizer.eps": 1e-8,
        "optimizer.weight_decay": 0.1,
        "optimizer.clip_norm": 1.0,
        "schedule.kind": "cosine",
        "schedule.min_learning_rate": 3e-5,
        "schedule.samples": 100_000_000,
        "schedule.decay_samples": 90_000_000,
        "schedule.warmup_samples": 640_000,
        "precision.compute": "fp8",
        "precision.gradient_reduce": "bf16",
        "precision.fp8_recipe": "blockwise",
        "precision.fp8_format": "hybrid",
        "batch.global_size": 1024,
        "batch.micro_size": 2,
        "batch.ramp_from": 128,
        "batch.ramp_increment": 128,
        "batch.ramp_samples": 5_000_000,
        "parallelism.world_size": 128,
        "parallelism.nodes": 16,
        "parallelism.devices_per_node": 8,
        "parallelism.tensor": 4,
        "parallelism.pipeline": 2,
        "parallelism.context": 2,
        "parallelism.expert": 4,
        "parallelism.virtual_pipeline": 4,
        "parallelism.sequence": True,
        "parallelism.recompute": "full",
        "parallelism.recompute_layers": 1,
        "parallelism.distributed_optimizer": True,
        "parallelism.overlap_grad_reduce": True,
        "parallelism.overlap_param_gather": True,
        "parallelism.overlap_tensor": True,
        "data.sources": ("wiki_text", "web_text"),
        "data.weights": (0.25, 0.75),
        "data.split": "990,8,2",
        "data.tokenizer_kind": "Llama3Tokenizer",
        "data.workers": 4,
        "interval.log": 5,
        "interval.checkpoint": 250,
        "interval.evaluate": 500,
        "interval.evaluate_batches": 20,
    }
    assert found.spec.environment == {"device": "H100 80GB"}
    assert found.spec.trainer == "Megatron-LM"
    assert found.findings == ()
    assert found.unresolved == ()
    assert found.spec.options["megatron"]["transformer-impl"] == "transformer_engine"


def test_lines_keys_and_kinds_of_sources(read):
    found = read(LIST)
    assert place(found, "architecture.norm_eps") == (14, "--norm-epsilon")
    assert place(found, "batch.ramp_from") == (26, "--rampup-batch-size")
    assert place(found, "parallelism.world_size") == (1, "16 nodes x 8 GPUs (H100 80GB)")
    sources = found.spec.sources
    assert sources["parallelism.world_size"].kind == "comment"
    assert sources["optimizer.eps"].kind == "config"
    assert sources["optimizer.eps"].file.endswith("file0")
    assert sources["init.depth_scaled_outputs"].kind == "default"
    assert sources["init.depth_scaled_outputs"].assumed == "Megatron-LM core 0.12"
    assert sources["schedule.steps"].kind == "derived"


def test_what_follows(read):
    spec = read(LIST).spec
    assert spec.parallelism.data == 128 // (4 * 2 * 2)
    assert spec.batch.accumulation == 1024 // (2 * 8)
    assert spec.schedule.final_factor == pytest.approx(0.1)

    # 128 to 1024 by 128 in 7 stages of 5e6/7 samples, walked through one step at a time.
    def steps(samples):
        consumed = count = 0
        while consumed < samples:
            consumed += min(1024, 128 + 128 * int(consumed / (5_000_000 / 7)))
            count += 1
        return count

    assert spec.schedule.warmup_steps == steps(640_000) == 5000
    assert spec.schedule.steps == steps(100_000_000)
    assert spec.schedule.decay_steps == steps(90_000_000)


def test_what_the_trainer_fills_in(read):
    spec = read("--num-layers 2\n--hidden-size 96\n--num-attention-heads 4\n--lr 1e-4\n"
                "--train-iters 500\n").spec  # fmt: skip
    assert spec.init.std == 0.02
    assert spec.optimizer.beta2 == 0.999
    assert spec.optimizer.eps == 1e-8
    assert spec.optimizer.clip_norm == 1.0
    assert spec.optimizer.weight_decay == 0.01
    assert spec.schedule.kind == "linear"
    assert spec.schedule.decay_steps == 500
    assert spec.schedule.warmup_steps == 0
    assert spec.architecture.ff_width == 384
    assert spec.architecture.kv_heads == 4
    assert spec.architecture.head_dim == 24
    assert spec.architecture.tied_embeddings is True
    assert spec.precision.compute == "fp32"
    assert spec.precision.initial_loss_scale is None
    assert {s.kind for f, s in spec.sources.items() if f.startswith("init.")} == {"default"}


@pytest.mark.parametrize(
    ("flags", "field", "value"),
    [
        ("--swiglu", "architecture.ff_width", 2688),
        ("--squared-relu", "architecture.activation", "relu2"),
        ("--group-query-attention", "architecture.kv_heads", 1),
        ("--fp16", "precision.initial_loss_scale", 2.0**32),
        ("--fp16 --loss-scale 128", "precision.static_loss_scale", 128.0),
        ("--fp16 --loss-scale 12", "precision.static_loss_scale", 12.0),
        ("--fp16 --loss-scale 12 --zero-stage 1", "precision.initial_loss_scale", 4096.0),
        ("--bf16", "precision.gradient_reduce", "fp32"),
        ("--recompute-activations", "parallelism.recompute", "selective"),
        ("--checkpoint-activations", "parallelism.recompute", "full"),
        ("--use-rotary-position-embeddings", "architecture.position", "rope"),
        ("--no-position-embedding", "architecture.position", "none"),
        ("--lr-decay-style WSD --lr-wsd-decay-iters 50", "schedule.decay_steps", 50),
        ("--lr-warmup-fraction .02", "schedule.warmup_steps", 20),
        ("--apply-query-key-layer-scaling", "precision.softmax_fp32", True),
        ("--data-path a b c", "data.sources", ("a", "b", "c")),
        ("--optimizer sgd", "optimizer.name", "sgd"),
        ("--num-layers-per-virtual-pipeline-stage 1", "parallelism.virtual_pipeline", 4),
    ],
)
def test_flags_that_mean_something_together(read, flags, field, value):
    base = (
        "--num-layers 8 --hidden-size 1024 --num-attention-heads 8 --train-iters 1000 --lr 1e-3 "
        "--pipeline-model-parallel-size 2 "
    )
    spec = read(base + flags + "\n").spec
    section, name = field.split(".")
    assert getattr(getattr(spec, section), name) == value


def test_the_loss_scale_is_said_and_kept_apart(read):
    with_deepspeed = read("--fp16\n--loss-scale 12\n--deepspeed\n--lr 1\n")
    (remark,) = with_deepspeed.remarks
    assert (remark.key, remark.line) == ("loss-scale", 2)
    assert "2^12 = 4096" in remark.text
    assert with_deepspeed.spec.precision.static_loss_scale is None
    assert with_deepspeed.spec.trainer == "Megatron-DeepSpeed"
    assert read("--fp16\n--loss-scale 12\n--lr 1\n").remarks == ()


DUMP = """\
using world size: 64, data-parallel-size: 4, tensor-model-parallel size: 4
{p}------------------------ arguments ------------------------
{p}  accumulate_allreduce_grads_in_fp32 .............. True
{p}  adam_beta2 ...................................... 0.95
{p}  adam_eps ........................................ 1e-08
{p}  add_bias_linear ................................. False
{p}  bf16 ............................................ True
{p}  clip_grad ....................................... 1.0
{p}  data_parallel_size .............................. 4
{p}  data_path ....................................... ['0.3', 'a', '0.7', 'b']
{p}  fp16 ............................................ False
{p}  fp8 ............................................. None
{p}  group_query_attention ........................... False
{p}  hidden_size ..................................... 2048
{p}  lr .............................................. 0.0003
{p}  lr_decay_iters .................................. None
{p}  lr_warmup_fraction .............................. 0.01
{p}  lr_warmup_iters ................................. 0
{p}  lr_warmup_samples ............................... 0
{p}  num_attention_heads ............................. 16
{p}  num_layers ...................................... 24
{p}  num_query_groups ................................ 1
{p}  overlap_param_gather_with_optimizer_step  False
{p}  rampup_batch_size ............................... None
{p}  swiglu .......................................... True
{p}  train_iters ..................................... 2000
{p}  untie_embeddings_and_output_weights ............. True
{p}  world_size ...................................... 64
{p}-------------------- end of arguments ---------------------
> building GPT2BPETokenizer tokenizer ...
"""


@pytest.mark.parametrize("prefix", ["", "[default0]:", "0: ", "\x1b[32m[rank0]\x1b[0m: "])
def test_a_dump_in_a_log(read, prefix):
    found = read(DUMP.format(p=prefix))
    (file,) = found.files
    assert (file.format, file.kind) == ("megatron", "dump")
    assert stated(found) == {
        "precision.gradient_reduce": "fp32",
        "optimizer.beta2": 0.95,
        "optimizer.eps": 1e-8,
        "architecture.bias": False,
        "precision.compute": "bf16",
        "optimizer.clip_norm": 1.0,
        "parallelism.data": 4,
        "data.sources": ("a", "b"),
        "data.weights": (0.3, 0.7),
        "architecture.width": 2048,
        "optimizer.learning_rate": 0.0003,
        "schedule.warmup_fraction": 0.01,
        "architecture.heads": 16,
        "architecture.layers": 24,
        "architecture.activation": "swiglu",
        "schedule.steps": 2000,
        "architecture.tied_embeddings": False,
        "parallelism.world_size": 64,
    }
    assert place(found, "optimizer.eps") == (5, "adam_eps")
    assert found.spec.sources["optimizer.eps"].kind == "log"
    assert found.spec.schedule.warmup_steps == 20
    assert found.spec.architecture.kv_heads == 16


def test_the_last_of_several_dumps_is_taken(read):
    first, second = DUMP.format(p=""), DUMP.format(p="").replace("0.0003", "0.0001")
    found = read(first + "iteration 1\n" + second)
    assert found.spec.optimizer.learning_rate == 0.0001
    assert found.findings == ()


def test_the_array_style_script(read):
    found = read(
        "#!/bin/bash\nGPUS_PER_NODE=8\nNUM_NODES=2\nexport X=1\n"
        "DISTRIBUTED_ARGS=(\n    --nproc_per_node $GPUS_PER_NODE \n    --nnodes $NUM_NODES\n)\n"
        "MODEL=(\n    --num-layers 96 \n    --hidden-size 12288\n    --num-attention-heads 96\n)\n"
        "PAR=(\n\t--tensor-model-parallel-size 8\n\t--pipeline-model-parallel-size 2\n)\n"
        "torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \\\n    ${MODEL[@]} \\\n    ${PAR[@]}\n"
    )
    assert found.spec.architecture.width == 12288
    assert place(found, "architecture.width") == (11, "--hidden-size")
    assert found.spec.parallelism.world_size == 16
    assert place(found, "parallelism.devices_per_node") == (6, "--nproc_per_node 8")
    assert found.spec.parallelism.data == 1
    assert found.not_understood == ()


def test_sizes_chosen_by_an_argument_stay_open(read):
    found = read(
        "S=$1\nif [ $S = 1B ]; then\nL=16\nelif [ $S = 7B ]; then\nL=32\nfi\n"
        'run="torchrun pretrain.py --num-layers $L --lr 1e-3 --min-lr 1e-4"\neval $run\n'
    )
    assert found.spec.architecture.layers is None
    (note,) = found.unresolved
    assert (note.key, note.line) == ("num-layers", 7)
    assert "16 or 32 or not set" in note.text
    assert found.spec.optimizer.learning_rate == 1e-3


def test_a_typo_and_a_strange_key(read):
    found = read("--num-layers 2\n--hidden-sise 64\n--my-fork-flag 3\n--lr 1e-3\n--bf16\n")
    assert [(n.key, n.line, n.nearest) for n in found.not_understood] == [
        ("hidden-sise", 2, "hidden_size"),
        ("my-fork-flag", 3, None),
    ]
    assert [(f.code, f.severity) for f in found.findings] == [
        ("CFG002", "warning"), ("CFG002", "info"),
    ]  # fmt: skip
    assert "'hidden-sise'" in found.findings[0].message
    assert found.spec.options["megatron"] == {"hidden-sise": 64, "my-fork-flag": 3}


def test_a_value_that_is_none(read):
    found = read("--num-layers two\n--lr 1e-3\n--clip-grad 1\n--adam-eps 1e-8\n--seed 1e999\n")
    assert [(note.key, note.text) for note in found.unresolved] == [
        ("num-layers", "'two': expected a number"),
        ("seed", "inf: expected a whole number"),
    ]
    assert found.spec.architecture.layers is None


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("moe_router_topk ................................. 2", "architecture.experts_per_token"),
        ("initial_loss_scale ............ 4294967296", "precision.initial_loss_scale"),
        ("moe_aux_loss_coeff .............................. 0.0", "loss.balance_weight"),
    ],
)
def test_what_has_no_effect_in_a_dump_states_nothing(read, line, field):
    text = DUMP.format(p="").replace("  num_layers ", f"  {line}\n  num_layers ")
    found = read(text)
    assert field not in found.spec.stated()
    assert found.not_understood == ()


def test_rope_of_a_model_without_rope(read):
    text = DUMP.format(p="").replace(
        "  num_layers ",
        "  position_embedding_type ......................... learned_absolute\n"
        "  rotary_base ..................................... 10000\n  num_layers ",
    )
    found = read(text)
    assert found.spec.architecture.position == "learned"
    assert found.spec.architecture.rope_theta is None


def test_a_printed_default_does_not_contradict_another_file(read):
    log = DUMP.format(p="").replace("  bf16 ", "  deepspeed ....... True\n  bf16 ")
    config = '{"gradient_clipping": 0.3, "zero_optimization": {"stage": 1}}'
    for texts in ((log, config), (config, log)):
        found = read(*texts)
        assert found.findings == ()
        assert found.spec.optimizer.clip_norm == 0.3
    asked = log.replace("clip_grad ....................................... 1.0",
                        "clip_grad ....................................... 0.7")  # fmt: skip
    (finding,) = read(asked, config).findings
    assert (finding.severity, finding.place.field) == ("error", "optimizer.clip_norm")


def test_one_expert_is_a_dense_model(read):
    found = read("--lr 1e-4 --num-experts 1 --moe-loss-coeff 0.01 --clip-grad 1 --num-layers 2\n")
    assert found.spec.architecture.experts is None
    assert found.spec.loss.balance_weight is None
    found = read("--lr 1e-4 --num-experts 4 --moe-loss-coeff 0.01 --clip-grad 1 --num-layers 2\n")
    assert (found.spec.architecture.experts, found.spec.loss.balance_weight) == (4, 0.01)


def test_a_run_that_ends_at_its_tokens(read):
    flags = "--lr 1 --clip-grad 1 --global-batch-size 8 --seq-length 100 --train-tokens 80000 "
    assert read(flags + "--train-iters 500\n").spec.schedule.steps == 100
    assert read(flags + "--train-iters 50\n").spec.schedule.steps == 50


def test_flags_of_forks_and_of_the_first_versions(read):
    found = read(
        "--model-parallel-size 2 --batch-size 4 --num-layers 8 --lr 1e-4 --train-iters 200 "
        "--warmup 0.05 --fp16 --min-scale 2 --clip-grad 1\n"
    )
    assert found.findings == ()
    spec = found.spec
    assert (spec.schedule.warmup_fraction, spec.schedule.warmup_steps) == (0.05, 10)
    assert (spec.precision.min_loss_scale, spec.parallelism.tensor) == (2.0, 2)
    found = read(
        "--tensor-model-parallel-size 2 --lr 1e-4 --z-loss 1e-4 --wandb-name trial --qk-norm "
        "--n-shared-experts 1 --num-experts 8 --moe-intermediate-size 256 --moe-tp-extend-ep "
        "--use-rope-scaling --attn-logit-softcapping 50 --goldfish-loss\n"
    )
    assert found.findings == ()
    spec = found.spec
    assert (spec.name, spec.loss.z_loss_weight, spec.architecture.qk_norm) == ("trial", 1e-4, True)
    assert (spec.architecture.shared_experts, spec.architecture.expert_ff_width) == (1, 256)
    assert spec.architecture.attention_softcap == 50.0
