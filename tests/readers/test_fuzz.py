"""Whatever the bytes are: surefoot's own errors or a sound table, in bounded time and memory.

Random changes of a small file of every format; ``benchmarks/fuzz_readers.py`` does the same for
hours, guided by coverage. What it has found is kept below as tests of its own.
"""

import bz2
import gzip
import lzma
import subprocess
import sys
import time
from random import Random

import polars as pl
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from surefoot.errors import LogError
from surefoot.readers import read_run
from surefoot.readers.formats import LineFormat
from surefoot.readers.gather import Gatherer
from surefoot.readers.logs import formats, parquet
from surefoot.readers.names import Names
from surefoot.readers.points import Point
from surefoot.readers.text import Line, Source, lines
from surefoot.readers.text.weight import too_heavy

from .fuzzing import NUMBERS, configured, follow, mutated, read_one, read_whole, sound
from .seeds import CONFIGS, EVENTS, LOGS, WANDB, tf_record, wandb_block

TEXTS = tuple(LOGS.values())
FEW = settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
SEEDS = st.integers(0, 2**32)


def test_every_format_has_a_seed_that_is_read_as_it(tmp_path):
    assert set(LOGS) == set(formats())
    for name, data in LOGS.items():
        path = tmp_path / "log"
        path.write_bytes(data)
        run = read_whole(path)
        assert run is not None, name
        assert run.reading["format"] == name


@pytest.mark.parametrize("name", sorted(LOGS))
@FEW
@given(seed=SEEDS)
def test_changed_logs(name, seed, tmp_path):
    random = Random(seed)
    data = LOGS[name]
    frames = {"tensorboard": (EVENTS, tf_record), "wandb": (WANDB, None)}.get(name)
    if frames is not None and seed % 2:  # records with right checksums, changed within
        parts, frame = frames
        changed = [mutated(part, random, parts) for part in parts]
        data = b"".join(map(frame, changed)) if frame else wandb_block(*changed)
    else:
        data = mutated(data, random, TEXTS)
    path = tmp_path / "log"
    path.write_bytes(data)
    how = seed % 5
    if how == 0:
        read_whole(path)
    elif how == 1:
        follow(data, name if seed % 3 else None)
    else:
        read_one(path, formats()[name])


@pytest.mark.parametrize("name", sorted(CONFIGS))
@FEW
@given(seed=SEEDS)
def test_changed_configurations(name, seed, tmp_path):
    file, data = CONFIGS[name]
    path = tmp_path / file
    path.write_bytes(mutated(data, Random(seed), tuple(data for _, data in CONFIGS.values())))
    configured(path)


@settings(FEW, max_examples=60)
@given(data=st.binary(max_size=400), head=st.sampled_from([b"", *TEXTS]))
def test_any_bytes(data, head, tmp_path):
    path = tmp_path / "log"
    path.write_bytes(head[:200] + data)
    read_whole(path)
    configured(path)
    follow(head[:200] + data)


AWKWARD = (
    "a", "1", " ", "|", ":", "=", ", ", "1,", "1.", "[", "{", "(", "'", '"', "\\", "\t", "step ",
    "loss=", "a: ", "1 | ", "'a': 1, ", "1/", "10%|", "\x1b[", "1:", "nan ", "[1/2]", "\u6b65", "-",
    '{"a":', ":::MLLOG {", "[[", "[step=1]", "s:1 ", "iter 1", "Epoch 1", "`", "$(", "${a:-",
)  # fmt: skip


@pytest.mark.parametrize(
    "name", sorted(n for n, f in formats().items() if isinstance(f, LineFormat))
)
def test_a_line_of_a_megabyte_takes_less_than_a_second(name):
    fmt = formats()[name]
    first = LOGS[name].decode().partition("\n")[0][:60]
    # By itself, and behind a beginning that the format knows.
    for piece in Random(name).sample(AWKWARD, 5):
        bulk = piece * ((1 << 20) // len(piece))
        for text in (bulk, first + bulk):
            parser = fmt.parser()
            begin = time.process_time()
            for _ in parser.feed(Line(1, text)):
                pass
            for _ in parser.finish():
                pass
            assert time.process_time() - begin < 1, repr(piece)


# ---------------------------------------------------------------------------- the text layer

ZEROS = {
    "gzip": gzip.compress(bytes(8 << 20)) * 20,
    "bz2": bz2.compress(bytes(8 << 20)) * 20,
    "xz": lzma.compress(bytes(8 << 20)) * 20,
    "zstd": zstandard.compress(bytes(8 << 20)) * 20,
}
"""160 MB each."""


@pytest.mark.parametrize("packing", sorted(ZEROS))
def test_a_bomb_that_unpacks_to_one_endless_line_is_soon_told(packing, tmp_path):
    path = tmp_path / "log"
    path.write_bytes(ZEROS[packing])
    begin = time.process_time()
    with pytest.raises(LogError, match="no metrics"):
        read_run(path)
    assert time.process_time() - begin < 5
    with Source(path) as source:
        read = source.head
        for chunk in source.chunks():
            assert len(chunk) <= 2 << 20
            read = chunk
    assert len(read)


@pytest.mark.parametrize(
    "member", [gzip.compress(b""), bz2.compress(b""), lzma.compress(b"")], ids=["gz", "bz2", "xz"]
)
def test_members_that_hold_nothing_have_an_end(member, tmp_path):
    path = tmp_path / "log"
    path.write_bytes(member * 40_000)
    begin = time.process_time()
    with Source(path) as source:
        assert b"".join(source.chunks()) == b""
        assert "hold nothing" in source.damage
    assert time.process_time() - begin < 5


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_many_small_members_are_one_text(pack, tmp_path):
    whole = [f"iter {i}: loss {5 - i / 1000:.4f}, time 1.00ms\n".encode() for i in range(300)]
    path = tmp_path / "log"
    path.write_bytes(b"".join(map(pack, whole)) + bytes(1000))
    with Source(path) as source:
        assert b"".join(source.chunks()) == b"".join(whole)
        assert source.damage is None


def test_a_look_at_a_file_ends_within_an_endless_line(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"a\n" + b"b" * (8 << 20))
    with Source(path) as source:
        found = list(lines(source, 2 << 20))
    assert [line.text[:1] for line in found] == ["a", "b"]
    with Source(path) as source:
        assert [len(line.text) for line in lines(source)] == [1, 1 << 20]


def test_a_document_of_millions_of_lists_is_refused():
    assert too_heavy(b"[" + b"[]," * 30_000_000 + b"1]")
    assert not too_heavy(b"[" + b"[]," * 1000 + b"1]")
    assert not too_heavy(b'[{"step": 100, "loss": 2.3456789, "learning_rate": 0.0001}' * 500_000)


def test_a_parquet_file_of_too_many_values_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "log.parquet"
    zeros = pl.zeros(2000, eager=True)
    pl.DataFrame({"step": range(2000), "loss": zeros}).write_parquet(path)
    monkeypatch.setattr(parquet, "MOST_CELLS", 3999)
    with pytest.raises(LogError, match="4,000 values"):
        read_run(path)
    monkeypatch.setattr(parquet, "MOST_CELLS", 4000)
    assert read_run(path).signals.height == 2000


def test_a_table_with_a_quote_too_many_takes_no_longer(tmp_path):
    rows = "".join(f"{i},2.5\n" for i in range(200))
    more = "".join(f"{i},2.5\n" for i in range(202, 900_000))
    path = tmp_path / "log.csv"
    path.write_text(f'step,loss\n{rows}"201,2.5\n{more}')
    begin = time.process_time()
    run = read_run(path)
    assert run.signals["step"].to_list() == list(range(200))
    assert "no table" in run.problems[0]
    assert time.process_time() - begin < 5


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are those of Linux")
def test_a_bomb_takes_no_memory(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(gzip.compress(b"step: 1 | loss: 2.5\n") + ZEROS["gzip"])
    code = (
        "import sys, resource\nfrom surefoot.readers import read_run\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))\n"
        "print(read_run(sys.argv[1], format_in='keyvalue').signals.height)\n"
        "print(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0])\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    ).stdout.split()
    assert told[0] == "1"
    assert int(told[1]) < 400 << 10


# ---------------------------------------------------------------------------- what was found


def test_keys_that_are_columns_of_the_table_itself(read_text):
    text = "step: 1 | loss: 2.5 | _step: 7 | $step: 9 | attempt: 3 | _attempt: 4\n"
    run = read_text(text * 2, format_in="keyvalue")
    sound(run.signals)
    assert run.signals["step"].to_list() == [1]
    assert run.signals["attempt"].to_list() == [0]


def test_a_step_that_no_table_can_hold_is_left_out():
    gatherer = Gatherer(Names())
    for step in (1, 2**63, -(2**63) - 1, 2):
        gatherer.take(Point(step, {"loss": 2.5}, line=step % 7))
    gathered = gatherer.gathered()
    sound(gathered.frame)
    assert gathered.frame["step"].to_list() == [1, 2]
    assert len(gathered.problems) == 2


@pytest.mark.parametrize("number", [number.decode() for number in NUMBERS])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("internevo", "tflops=1.5 step={} loss=2.5 tgs (tokens/gpu/second)=10.5"),
        ("internevo", "Validation on en: step={} val/en_loss=2.5"),
        ("maxtext", "number parameters: {} billion"),
        ("mlperf", ':::MLLOG {{"key": "eval_accuracy", "value": [{}, 1], "metadata": {{}}}}'),
        ("mlperf", ':::MLLOG {{"key": "loss", "value": 1, "time_ms": {}}}'),
        ("mlperf", "{{'training_steps': {}, 'step_loss': 4.5, 'global_steps': 5}}"),
        ("nanotron", "[Start training] mbs: 2 | start_iteration_step: {} | a: 1"),
        ("nemo", "Training epoch 0, iteration 3/9 | global_step: {} | reduced_train_loss: 1.5"),
        ("nemo", "Epoch 0: 9%|#| 4/20 [00:10<00:30, 1it/s, reduced_train_loss=9, global_step={}]"),
        ("torchtitan", "step:  1  loss:  8.25  memory: 20.51GiB({}%)  tps: 10,001"),
        ("lightning", "Epoch 1: 9%|#| 5/50 [00:10<00:00, 1.0it/s, loss=2.5, global_step={}]"),
    ],
)  # fmt: skip
def test_numbers_that_are_none_where_one_is_expected(name, text, number, tmp_path):
    path = tmp_path / "log"
    path.write_text(text.format(number) + "\n" + LOGS[name].decode())
    read_one(path, formats()[name])


@pytest.mark.parametrize("number", ["1e999", "nan", "-1e999", "1" * 400, "inf", ".inf", ".nan"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("llama_factory", "warmup_ratio: 0.1"),
        ("llm_foundry", "expansion_ratio: 4"),
        ("levanter", "decay: 0.2"),
    ],
)
def test_numbers_without_an_end_in_a_configuration(name, text, number, tmp_path):
    file, data = CONFIGS[name]
    key = text.partition(":")[0]
    held = data.decode()
    changed = "\n".join(
        f"{line.partition(':')[0]}: {number}" if line.strip().startswith(f"{key}:") else line
        for line in held.split("\n")
    )
    path = tmp_path / file
    path.write_text(changed if changed != held else f"{held}\n{key}: {number}\n")
    configured(path)
