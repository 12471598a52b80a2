"""A small file of every log format and of every configuration format, in its own grammar.

What fuzzing (``test_fuzz.py``, ``benchmarks/fuzz_readers.py``) begins with: short, so that a
change of a few bytes reaches every part of it.
"""

import io
import json
import struct
import zlib
from pathlib import Path

import polars as pl

SAMPLES = Path(__file__).parent / "configs" / "samples"

# ---------------------------------------------------------------------------------- logs as text

_TEXTS = {
    "bigdl": """\
18/01/01 10:00:00 INFO  DistriOptimizer$:1 - [Epoch 1 128/1000][Iteration 1][Wall Clock 2.5s] \
Trained 128 records in 2.5 seconds. Throughput is 51.2 records/second. Loss is 7.5. \
Sequential1234's hyper parameters: Current learning rate is 0.05. 
[Epoch 1 256/1000][Iteration 2][Wall Clock 5.0s] loss is 2.25, iteration time is 1.5s data fetch \
time is 0.25s, train time 1.25s. Throughput is 64.5 img / second
18/01/01 10:00:01 INFO  DistriOptimizer$:1 - Top1Accuracy is Accuracy(correct: 3, count: 4, \
accuracy: 0.75)
[Wall Clock 6.0s] Save model to /tmp/models
""",
    "colossalai": """\
[05/12/23 10:00:00] INFO colossalai - colossalai - INFO: train_gpt_demo.py:300 main
INFO colossalai - colossalai - INFO: [1/10] Loss:10.500, Step time: 1.250s, TFLOPS: 40.500, \
FWD time: 0.500s, BWD time: 0.600s, OPTIM time: 0.150s
INFO colossalai - colossalai - INFO: [2/10] Loss: 9.500, Step time: 1.000s, TFLOPS: 50.500, \
Peak memory usage: 1024.00 MB
""",
    "composer": """\
[epoch=1][batch=40/50]:
\t Train time/token: 4096
\t Train loss/train/total: 3.5000
\t Train l2_norm/grad/global: 0.5
\t Eval metrics/eval/LanguagePerplexity: 33.1
[epoch=2][batch=10/50]:
\t Train loss/train/total: 3.2500
""",
    "deepspeed": """\
[2023-05-22 21:52:36,066] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=1, \
lr=[9.5e-06], mom=[(0.9, 0.95)]
Epoch: 0 | Step: 10 | PPO Epoch: 1 | Actor Loss: 0.5 | Critic Loss: 0.25
ppl: 4998.5, loss: 8.5
[2023-05-22 21:52:40,000] [INFO] [loss_scaler.py:188] [deepspeed] OVERFLOW! Rank 0 Skipping step. \
Attempted loss scale: 4096, reducing to 2048
[2023-05-22 21:52:46,066] [INFO] [timer.py:215:stop] epoch=0/micro_step=20/global_step=20, \
RunningAvgSamplesPerSec=12.5, CurrSamplesPerSec=12.25, MemAllocated=1.5GB, MaxMemAllocated=2.5GB
""",
    "deepspeed-losses": """\
step=10, skipped=1, lr=[9.5e-06], mom=[(0.9, 0.95)]
steps: 10 loss: 5.2500 iter time (s): 0.125 samples/sec: 256.000
steps: 20 loss: nan iter time (s): 0.250 samples/sec: 128.000
""",
    "fairseq": """\
| epoch 001:  10%|#   | 100/1000 [00:31<04:40,  3.2it/s, loss=8.5, num_updates=100]
2023-01-01 10:00:00 | INFO | train_inner | epoch 001:    200 / 1000 loss=7.5, ppl=181.02, wps=10, \
num_updates=200, lr=0.0001, gnorm=1.5, clip=0
{"epoch": 1, "update": 0.2, "loss": "7.5", "num_updates": "300", "lr": "0.0001"}
2023-01-01 10:00:09 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 7.25 | ppl 152.2 | \
num_updates 300
""",
    "internevo": """\
2024-11-24 02:36:28,500 INFO train.py:170 in record -- tflops=12.5 step=0 loss=11.5 \
tgs (tokens/gpu/second)=123.5 lr=1e-05 loss_scale=65536.0 grad_norm={'0_default': 1.5} \
micro_num=4 num_consumed_tokens=16384 inf_nan_skip_batches=0 largest_length=2048
2024-11-24 02:36:29,500 INFO evaluation.py:170 in evaluate_on_val_dls -- Validation on en: \
step=1 val/en_loss=2.5 val/en_acc=0.5 val/en_plex=12.25
""",
    "jsonl": """\
{"step": 1, "loss": NaN, "gnorm": Infinity, "tokens": "12.5K"}
{"step": "2", "loss": "nan", "gnorm": "1,234.5", "tokens": "1.5M", "opt": {"lr": 1e-4}}
{"step": 3.0, "loss": "2.5", "gnorm": null, "val_loss": 2.75, "ts": "2024-05-01T10:00:00Z"}
""",
    "keyvalue": """\
2024-05-01 10:00:00 INFO step: 1/200 | loss: 2.5 | grad norm: 0.5 | 12.5K tok/s | time 350 ms
step: 2/200 | loss: 2.25 | grad norm: nan | lr=1e-4, mem=12.5GB (50%) ETA 1:02:03
Validation loss: 2.75, ppl 12.18
epoch 1:  20%|## | 3/10 [00:10<00:30, 1.0it/s, loss=2.125, lr=1e-4]
""",
    "levanter": """\
2024-05-01T10:00:00 - 0 - levanter.tracker - trackers.py:1 - INFO :: {'train/loss': 8.5, '_step': 1}
train:   4%|4| 40/1000 [00:31<10:01, 1.60it/s, loss=8.5]\r\
train:   4%|4| 41/1000 [00:32<10:01, 1.60it/s, loss=8.25]
eval loss: 8.125
""",
    "lightning": """\
Epoch 1: 100%|#| 50/50 [00:10<00:00, 1.0it/s, loss=2.5, v_num=3]
Epoch 2:  20%|#| 10/50 [00:10<00:00, 1.0it/s, v_num=3, train_loss_step=2.25, val_loss=2.750]
Epoch 2, global step 60: 'val_loss' reached 2.75000 (best 2.75000), saving model to '/a/b.ckpt'
""",
    "litgpt": """\
Epoch 1 | iter 32 step 1 | loss train: 10.985, val: n/a | iter time: 350.50 ms (step) \
remaining time: 1 day, 2:03:04
iter 64: val loss 9.1234, val time: 1500.50 ms
Saving checkpoint to 'out/pretrain/step-00000002/lit_model.pth'
Epoch 2 | iter 96 step 3 | loss train: 8.500, val: 9.123 | iter time: 352.50 ms (step) remaining \
time: 2:03:02
Resuming training from out/pretrain/step-00000002/lit_model.pth
Final evaluation | val loss: 6.500 | val ppl: 665.142
""",
    "llamafactory": """\
{"current_steps": 5, "total_steps": 100, "loss": 2.5, "lr": 1e-05, "epoch": 0.05, "percentage": \
5.0, "elapsed_time": "0:00:10", "remaining_time": "0:03:10"}
{"current_steps": 10, "total_steps": 100, "loss": 2.25, "lr": 2e-05, "epoch": 0.1, "percentage": \
10.0, "elapsed_time": "0:00:20", "remaining_time": "0:03:00", "throughput": 123.5}
""",
    "llmc": """\
s:0 tel:10.5000
s:0 eval:0.2500
s:0 trl:10.4000 lr:0.000001 norm:15.50
step    1/19560 | loss 10.9 (+nanz)| norm 15.5 (+nanz)| lr 1.0e-06 | 3030.1 ms | 53.8% bf16 MFU | \
173030 tok/s
s:1 trl:nan lr:0.000002 norm:inf
val loss 9.5
""",
    "maxtext": """\
number parameters: 1.250 billion
Num_devices: 16
completed step: 0, seconds: 8.500, TFLOP/s/device: 1.750, Tokens/s/device: 512.5, loss: 9.250
saved a checkpoint at step 1
eval metrics after step: 2, loss=8.500, total_weights=4096.0
restoring from this run's directory step 1
completed step: 2, seconds: 0.250, TFLOP/s: 8.5, total_weights: 2048.0, loss: nan
""",
    "megatron": """\
using world size: 64, data-parallel size: 8, tensor-model-parallel size: 8
 > padded vocab (size: 50257) with 47 dummy tokens (new size: 50304)
 [2025-03-04 05:06:07.250000] iteration        9/     500 | consumed samples:         2304 | \
elapsed time per iteration (ms): 1250.5 | throughput per GPU (TFLOP/s/GPU): 412.7 | \
learning rate: 1.5E-04 | global batch size:   256 | lm loss: 1.012500E+01 | loss scale: 1.0 | \
grad norm: 4.125 | num zeros: 1,234.0 | number of skipped iterations:   2 | number of nan \
iterations:   1 |
[Rank 0] (after 9 iterations) memory (MB) | allocated: 1024.5 | max allocated: 2048.0
(min, max) time across ranks (ms):
    forward-backward ...............................: (1000.25, 1100.50)
 validation loss at iteration 9 | lm loss value: 8.5E+00 | lm loss PPL: 4.9E+03 |
  successfully saved checkpoint at iteration      9 to /a/b
""",
    "megatron-bridge": """\
Step Time : 9.25s GPU utilization: 663.5MODEL_TFLOP/s/GPU
 [2025-12-22 15:18:33] iteration       49/      50 | consumed samples:        25600 | elapsed \
time per iteration (ms): 9251.5 | learning rate: 3.0E-05 | lm loss: 8.125E+00 | grad norm: 0.500 |
[Rank 0] (after 49 iterations) memory (GB) | mem-max-reserved-gigabytes: 12.5
 validation loss at iteration 49 | lm loss value: 8.500000E+00 | lm loss PPL: 4.9E+03 |
""",
    "mindformers": """\
2025-03-24 11:30:30,123 - mindformers[mindformers/core/callback.py:1] - INFO - { Epoch:[  1/  2], \
step:[    1/   19], loss: 10.5, per_step_time: 1250ms, lr: 1e-05, overflow cond: False, \
loss_scale: 1.0, global_norm: [1.5], train_throughput_per_npu: 10.5T
{ Epoch:[  1/  2], step:[    2/   19], loss: [8.5 9.5], lr: 0.5, global_norm: [1 31049]
   0.5% |          | 1.5 samples/s/p  0:10:20 }
""",
    "mlperf": """\
:::MLLOG {"namespace": "", "time_ms": 1700000000000, "event_type": "POINT_IN_TIME", "key": \
"global_batch_size", "value": 16, "metadata": {"file": "train.py", "lineno": 7}}
:::MLLOG {"namespace": "", "time_ms": 1700000003500, "event_type": "POINT_IN_TIME", "key": \
"tracked_stats", "value": {"train_step_time": 2.5, "reduced_train_loss": 7.5}, "metadata": \
{"step": 16.0}}
:::MLLOG {"namespace": "", "time_ms": 1700000004500, "event_type": "POINT_IN_TIME", "key": \
"eval_accuracy", "value": 7.0, "metadata": {"samples_count": 32}}
{'training_steps': 5, 'step_loss': 4.5, 'learning_rate': 0.001, 'global_steps': 5}
""",
    "mlx": """\
Node 0 of 4
Starting training..., iters: 40
Iter 1: Val loss 3.500, Val took 12.500s
Iter 10: Train loss nan, Learning Rate 1.500e-05, It/sec 0.500, Tokens/sec 250.500, Trained \
Tokens 5000, Peak mem 9.500 GB
Iter 20: Saved adapter weights to a/adapters.safetensors and a/0000020_adapters.safetensors.
Test loss 2.500, Test ppl 12.182.
""",
    "mmengine": """\
2023/05/01 10:00:00 - mmengine - INFO - Epoch(train)  [1][  50/1000]  lr: 1.0e-04  eta: 1:02:03  \
time: 0.5  data_time: 0.1  memory: 1234  grad_norm: 1.5  loss: 2.5
mmseg - INFO - Iter [60/80000]\tlr: 1.000e-02, loss: 1.2500
2023/05/01 10:00:09 - mmengine - INFO - Epoch(val) [1][100/100]  accuracy: 0.5  loss: 2.25
2023/05/01 10:00:10 - mmengine - INFO - Saving checkpoint at 1 epochs
""",
    "modded-nanogpt": """\
    print0(f'step:{step}/{n} val_loss:{val_loss:.4f}', console=True)
====================================================================================================
step:0/30 val_loss:10.5000 train_time:2ms step_avg:nanms
step:1/30 train_loss:10.4000 train_time:70ms step_avg:nanms
step:2/30 train_loss:inf train_time:140ms step_avg:70.00ms
peak memory allocated: 31200 MiB reserved: 40000 MiB
step:0/30 val_loss:10.6000 train_time:2ms step_avg:nanms
""",
    "build-nanogpt": """\
0 val 10.5000
0 hella 0.2500
0 train 10.750000
1 train nan
2 val 9.5
""",
    "nanogpt": """\
tokens per iteration will be: 491,520
found vocab_size = 65 (inside data/x/meta.pkl)
step 0: train loss 4.2500, val loss 4.5000
iter 0: loss 4.3000, time 900.50ms, mfu -100.00%
iter 10: loss 3.2500, time 100.25ms, mfu 21.50%
saving checkpoint to out-x
Resuming training from out-x
iter 10: loss 3.1000, time 100.00ms, mfu 21.00%
""",
    "nanochat": """\
Step 00010/00700 | Training loss: 1.234500| lrm: 0.99| num_tokens: 10,000
Step 00010 | Validation bpb: 1.500000
step 00011 (1.50%) | loss: 1.25 | lrm: 0.98 | dt: 90.00ms | tok/sec: 5,000 | mfu: 3.00 | \
epoch: 1 | total time: 0.50m
""",
    "nanotron": """\
10/17/2025 16:31:50 [INFO|DP=0|PP=0|TP=0]: [Start training] datetime: 2025-10-17 | mbs: 2 | \
global_batch_size: 64 | sequence_length: 2048 | train_steps: 500 | start_iteration_step: 0
10/17/2025 16:31:56 [INFO|DP=0|PP=0|TP=0]: iteration: 1 / 500 | consumed_tokens: 131K | \
elapsed_time_per_iteration_ms: 11.5K | tokens_per_sec: 22.8K | lm_loss: 11.5 | lr: 1e-05 | \
grad_norm: 1.25 | cuda_memory_allocated: 5.98G | hd_free_memory_tb: 312G | eta: 1 day, 2:03:04
10/17/2025 16:32:08 [WARNING|DP=0|PP=0|TP=0]: Saving checkpoint at checkpoints/2
""",
    "nemo": """\
[default0]:Training epoch 0, iteration 3/19 | lr: 1.5e-07 | global_batch_size: 512 | \
global_step: 3 | reduced_train_loss: 11.5 | train_step_timing in s: 7.25 | consumed_samples: 2048 \
| val_loss: 10.25
[NeMo I 2025-03-07 22:35:29 mc:522] Async checkpoint save for step 3 (/a/b-step=3.ckpt) finalized \
successfully.
[default0]:Restored all states from the checkpoint at /a/b-step=3/weights
Epoch 0: :  20%|## | 4/20 [00:10<00:30, 1.0it/s, reduced_train_loss=9.5, global_step=4.000]
""",
    "neox": """\
[2023-05-22 21:52:36,066] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=1, \
lr=[2.5e-09, 2.5e-09], mom=[[0.9, 0.95], [0.9, 0.95]]
 samples/sec: 12.500 | iteration       10/   32000 | elapsed time per iteration (ms): 1250.5 | \
learning rate: 2.500E-09 | approx flops per GPU: 98.7TFLOPS | lm_loss: 1.0125E+01 | \
loss scale: 4096.0 | number of skipped iterations:   1 | number of nan iterations:   0 |
after 10 iterations memory (MB) | allocated: 100.5 | max allocated: 200.0 | reserved: 300.0
time (ms) | forward: 500.25 | backward: 600.50 | optimizer: 100.00
""",
    "olmo": """\
2024-05-01 10:00:00.123 h:0 olmo.train:1 INFO [step=1/9,epoch=0]
    train/CrossEntropyLoss=5.5
    train/Perplexity=244
    throughput/total_tokens=4,194,304
    optim/grad/transformer.blocks.0.ff.weight.norm=0.5
[rank1]:[step=2/9,epoch=0]
[rank0]:    train/CrossEntropyLoss=4.5
""",
    "torchtitan": """\
[titan] 2025-03-01 10:00:01,123 - root - INFO - step:  1  loss:  8.25  grad_norm:  1.5  memory: \
20.51GiB(25.1%)  tps: 10,001  tflops: 100.5  mfu: 30.25%
validate step:  1  loss: 11.7500  memory: 12.50GiB(13.25%)  tps: 99,050
[titan] 2025-03-01 10:00:02,123 - root - INFO - Saving the checkpoint (or staging if async).
[titan] 2025-03-01 10:00:03,123 - root - INFO - step: 10  loss: nan  memory: 20.51GiB(25.1%)
""",
    "transformers": """\
[INFO|callbacks.py:310] 2024-05-01 10:00:00,000 >> {'loss': 2.3457, 'learning_rate': 5.0e-05, \
'epoch': 0.12, 'throughput': 1234.50}
{'loss': 2.34567, 'grad_norm': 1.5, 'learning_rate': 5e-05, 'epoch': 0.12}
  4%|4| 10/250 [00:31<10:01, 1.60it/s]
{'eval_loss': 2.5, 'eval_runtime': 1.5, 'epoch': 0.24}
{'loss': '2.25', 'grad_norm': 'nan', 'learning_rate': '5e-05', 'epoch': '0.24'}
Saving model checkpoint to /a/checkpoint-20
""",
    "csv": """\
step,loss,lr,val loss,wall time
1,2.5,1e-4,,1700000000.5
2,nan,"1,234.5",2.75,1700000001.5
3,2.25,2e-4,,
""",
    "json": '[{"step": 1, "loss": 2.5, "opt": {"lr": 1e-4}}, {"step": 2, "loss": NaN}]\n',
    "megatron-golden": """\
{"lm loss": {"start_step": 0, "end_step": 50, "step_interval": 5, "values": {"1": 10.5, "5": \
"nan", "10": 9.5}}, "iteration-time": {"start_step": 0, "end_step": 50, "step_interval": 5, \
"values": [1.5, 1.25]}}
""",
    "mindspeed-baseline": """\
{"lm loss": [10.5, 9.5, 8.5], "throughput": [100.5, 110.5, 120.5], "time info": [1500, 1250, \
1000], "memo info": [{"rank": 0, "allocated memory": 12.5}]}
""",
    "trainer-state": """\
{"best_metric": null, "best_model_checkpoint": "/a/checkpoint-10", "epoch": 0.5, "global_step": \
20, "is_world_process_zero": true, "log_history": [{"epoch": 0.25, "loss": 2.5, "grad_norm": 1.5, \
"step": 10}, {"eval_loss": 2.75, "epoch": 0.25, "step": 10}, {"loss": "nan", "step": 20}], \
"max_steps": 40, "num_train_epochs": 1}
""",
    "wandb-summary": """\
{"train/CrossEntropyLoss": 2.5, "optim/total_grad_norm": NaN, "best": {"loss": 2.25}, "note": "x", \
"optim/grad/transformer.blocks.0.ff.weight.norm": 0.5, "samples": {"_type": "table-file"}, \
"_step": 120, "_runtime": 33.5, "_timestamp": 1700000000.5, "_wandb": {"runtime": 33}}
""",
}

# ------------------------------------------------------------------------------- binary formats


def crc32c(data: bytes) -> int:
    """Bit by bit, from the definition."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def tf_record(data: bytes) -> bytes:
    """A record of an event file, with right checksums."""

    def mask(crc: int) -> bytes:
        return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(data))
    return length + mask(crc32c(length)) + data + mask(crc32c(data))


def wandb_block(*records: bytes) -> bytes:
    """A ``.wandb`` file of short records, with right checksums."""
    out = bytearray(b":W&B\xe1\xbe\x00")
    for data in records:
        data = data[: 32768 - 7 - len(out)] if len(out) < 32000 else b""
        out += struct.pack("<IHB", zlib.crc32(b"\x01" + data), len(data), 1) + data
    return bytes(out)


def _number(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _field(key: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return _number(key << 3) + _number(value)
    data = value.encode() if isinstance(value, str) else value
    return _number(key << 3 | 2) + _number(len(data)) + data


def _event(step: int, tag: str, value: float, tensor: bool = False) -> bytes:
    plain = b"\x15" + struct.pack("<f", value)
    tensors = _field(8, _field(1, 1) + _field(2, b"") + _field(4, struct.pack("<f", value)))
    plugin = _field(9, _field(1, _field(1, "scalars")))
    told = _field(1, tag) + (plugin + tensors if tensor else plain)
    return b"\x09" + struct.pack("<d", 1.7e9 + step) + _field(2, step) + _field(5, _field(1, told))


def _history(values: dict[str, object], step: int) -> bytes:
    rows = {**values, "_step": step, "_timestamp": 1.7e9 + step}
    told = b"".join(_field(1, _field(2, k) + _field(16, json.dumps(v))) for k, v in rows.items())
    return _field(1, step + 1) + _field(2, told + _field(2, _field(1, step)))


EVENTS = (
    b"\x09" + struct.pack("<d", 1.7e9) + _field(3, b"brain.Event:2"),
    _event(1, "loss", 2.5),
    _event(1, "lr", 0.5, tensor=True),
    _event(2, "loss", 2.25),
    _event(300, "grad_norm", float("nan")),
)
"""Contents of the records of an event file."""

WANDB = (
    _field(17, _field(1, "abc") + _field(4, _field(1, _field(1, "lr") + _field(6, "0.5")))),
    _history({"loss": 2.5, "opt": {"lr": 1e-4}, "text": "x"}, 0),
    _history({"loss": float("nan"), "train/global_step": 20}, 1),
    _field(12, _field(4, "train/global_step")),
    _field(18, _field(1, 1)),
)
"""Contents of the records of a ``.wandb`` file."""


def _parquet() -> bytes:
    frame = pl.DataFrame(
        {"step": [1, 2, 3], "loss": [2.5, None, 2.25], "lr": ["0.1", "x", None], "a": [[1], [], []]}
    )
    out = io.BytesIO()
    frame.write_parquet(out)
    return out.getvalue()


LOGS: dict[str, bytes] = {
    **{name: text.encode() for name, text in _TEXTS.items()},
    "tensorboard": b"".join(map(tf_record, EVENTS)),
    "wandb": wandb_block(*WANDB),
    "parquet": _parquet(),
}
"""Format of logs -> a small file of it."""

# -------------------------------------------------------------------------------- configurations

_CONFIGS = {
    "accelerate": """\
compute_environment: LOCAL_MACHINE
deepspeed_config:
  gradient_accumulation_steps: 4
  gradient_clipping: 1.0
  zero_stage: 2
distributed_type: DEEPSPEED
downcast_bf16: 'no'
main_training_function: main
mixed_precision: bf16
num_machines: 1
num_processes: 8
""",
    "deepspeed": """\
{"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": "auto",
 "steps_per_print": 10, "gradient_clipping": 1.0, "zero_optimization": {"stage": 2},
 "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.95], "eps": 1e-8}},
 "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 100}},
 "fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 16}, "bf16": {"enabled": false}}
""",
    "megatron": """\
#!/bin/bash
GPUS=8
NODES=${NNODES:-2}
ARGS=(--num-layers 24 --hidden-size $((16 * 64)) --num-attention-heads 16)
if [ "$1" = "x" ]; then LR=1e-4; else LR=2e-4; fi
for i in 1; do echo $i; done
case $NODES in 2) W=1;; *) W=2;; esac
torchrun --nproc_per_node $GPUS --nnodes ${NODES} pretrain_gpt.py "${ARGS[@]}" \\
    --lr $LR --min-lr=1e-5 --lr-decay-style cosine --train-iters 5000 --bf16 \\
    --micro-batch-size 4 --global-batch-size $((GPUS * NODES * 4)) --clip-grad 1 --adam-beta1 .9 \\
    --data-path $DATA --tensor-model-parallel-size 2 2>&1 | tee log.txt
""",
    "megatron-dump": """\
using world size: 8, data-parallel size: 8
------------------------ arguments ------------------------
  adam_beta1 ...................................... 0.9
  adam_eps ........................................ 1e-08
  clip_grad ....................................... 1.0
  data_path ....................................... ['a', 'b']
  hidden_size ..................................... 1024
  init_method_std ................................. 0.02
  lr .............................................. 0.0001
  num_layers ...................................... 24
  pipeline_model_parallel_size .................... 1
  train_samples ................................... None
-------------------- end of arguments ---------------------
""",
    "transformers": """\
TrainingArguments(
adam_beta1=0.9,
adam_epsilon=1e-08,
dataloader_drop_last=False,
gradient_accumulation_steps=4,
learning_rate=5e-05,
lr_scheduler_type=SchedulerType.COSINE,
max_steps=-1,
num_train_epochs=3.0,
per_device_train_batch_size=8,
)
""",
    "transformers-model": """\
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "vocab_size": 99,
 "num_hidden_layers": 2, "num_attention_heads": 4, "rms_norm_eps": 1e-05, "torch_dtype": "bfloat16"}
""",
    "surefoot": """\
seed = 1
[architecture]
layers = 4
width = 128
heads = 4
vocab_size = 2048
sequence_length = 256
[optimizer]
learning_rate = 4e-3
[schedule]
kind = "cosine"
steps = 500
warmup_steps = 25
[batch]
global_size = 16
[[data.sources]]
kind = "stdlib"
""",
    "surefoot-spec": """\
format = 1
name = "a"
seed = 3
trainer = "surefoot"
[architecture]
layers = 4
norm = "rmsnorm"
[optimizer]
name = "adamw"
learning_rate = 0.004
betas = [0.9, 0.95]
[schedule]
steps = 500
[batch]
global_size = 16
[data]
dataset = "x"
[sources."optimizer.learning_rate"]
kind = "recipe"
line = 3
""",
}


def _configs() -> dict[str, tuple[str, bytes]]:
    made = {name: (name, text.encode()) for name, text in _CONFIGS.items()}
    for path in sorted(SAMPLES.iterdir()):
        made[path.stem] = (path.name, path.read_bytes())
    return made


CONFIGS: dict[str, tuple[str, bytes]] = _configs()
"""What it is -> (name of the file, a small configuration)."""
