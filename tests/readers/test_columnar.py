"""Long logs read as columns give the table that reading line by line gives."""

import random

import pytest

from surefoot.readers import columnar, read_run
from surefoot.readers.columnar import chunks
from surefoot.readers.columnar.parts import ChunkReader


def log(seed: int, lines: int = 600) -> str:
    """A Megatron log with all that may happen to one."""
    rng = random.Random(seed)
    style = {
        "stamp": rng.choice(
            ["", "[{date} 10:{m:02d}:{s:02d}] ", "{date} 10:{m:02d}:{s:02d}.{s:03d} "]
        ),
        "rank": rng.choice(["", "[default7]:", "[rank0]:"]),
        "zeros": rng.random() < 0.5,
        "timers": rng.random() < 0.5,
        "timer_bar": rng.choice(["", " |"]),
        "total": rng.choice([400, 100000]),
        "crlf": rng.random() < 0.2,
    }
    out, step = [], rng.choice([0, 29000])
    every = rng.choice([1, 10])
    for index in range(lines):
        step += every
        if rng.random() < 0.004 and index > 20:
            step -= every * rng.randint(1, 15)
            if rng.random() < 0.5:
                out.append(f"  successfully loaded checkpoint from /c at iteration {step - every}")
        head = style["rank"] + style["stamp"].format(
            date=f"2025-0{rng.randint(1, 9)}-{rng.randint(1, 28):02d}", m=index % 60, s=index % 60
        )
        loss = rng.choice(["nan", "inf"]) if rng.random() < 0.01 else f"{rng.random() * 12:.6E}"
        fields = [
            f"consumed samples: {step * 64:12d}",
            f"elapsed time per iteration (ms): {rng.random() * 10 ** rng.randint(2, 5):.1f}",
            f"learning rate: {1e-4 * rng.random():.3E}",
            "global batch size:    64",
            *([f"lm loss: {loss}"] if rng.random() > 0.02 else []),
            "loss scale: 65536.0",
            f"grad norm: {rng.random() * 10 ** rng.choice([0, 0, 0, 3]):.3f}",
            *(["num zeros: 0.0"] if style["zeros"] else []),
            f"number of skipped iterations: {rng.choice([0] * 50 + [1]):3d}",
            "number of nan iterations:   0",
        ]
        record = f"{head} iteration {step:8d}/{style['total']:8d} | {' | '.join(fields)} |"
        if rng.random() < 0.003:
            record = record[: rng.randint(20, len(record))]
        out.append(record)
        if style["timers"] and index % 3 == 0:
            out.append(
                f"time (ms) | forward: {rng.random() * 1e3:.2f} | backward: {rng.random():.2f}"
                + style["timer_bar"]
            )
        if index % 50 == 49:
            out.append(
                f" validation loss at iteration {step} | lm loss value: {loss} | "
                f"lm loss PPL: {rng.random():.6E} | "
            )
        if rng.random() < 0.05:
            out.append(rng.choice(["", "time (ms)", "WARNING: something | or other", "a | b | c"]))
        if rng.random() < 0.01:
            out.append("\x1b[32mcoloured\x1b[0m iteration of speech | nothing: 3 |")
    return ("\r\n" if style["crlf"] else "\n").join(out)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("chunk", [3_000, 1 << 20])
def test_equals_reading_line_by_line(seed, chunk, tmp_path, monkeypatch):
    path = tmp_path / "log"
    path.write_text(log(seed), newline="")
    monkeypatch.setattr(columnar, "usable", lambda *_: False)
    slow = read_run(path)
    monkeypatch.undo()
    monkeypatch.setattr(chunks, "CHUNK", chunk)
    quick = read_run(path)
    assert quick.reading["format"] == slow.reading["format"] == "megatron"
    for a, b in ((quick.signals, slow.signals), (quick.superseded, slow.superseded)):
        if b is None:
            assert a is None
            continue
        assert sorted(a.columns) == sorted(b.columns)
        columns = sorted(a.columns)
        assert a.select(columns).equals(b.select(columns), null_equal=True)
    assert quick.reading["attempts"] == slow.reading["attempts"]
    assert quick.reading["overlaps"] == slow.reading["overlaps"]
    assert quick.problems == slow.problems
    assert quick.checkpoints == slow.checkpoints


def test_most_lines_of_a_plain_log_are_read_as_columns(tmp_path, monkeypatch):
    """Else the speed is gone, and no other test would tell."""
    path = tmp_path / "log"
    lines = [
        f" [2025-01-02 10:{i // 60 % 60:02d}:{i % 60:02d}] iteration {i:8d}/   90000 | "
        f"consumed samples: {i * 64:12d} | elapsed time per iteration (ms): {900 + i / 1e3:.1f} | "
        f"learning rate: {1e-4 * i / 5000:.6E} | lm loss: {9 - i / 1e3:.6E} | "
        f"grad norm: {1 + i / 1e4:.3f} | params norm: {100 + i / 100:.3f} |\n"
        f"time (ms) | forward-compute: {100 + i / 1e3:.2f} | optimizer: {20 + i / 1e3:.2f}\n"
        for i in range(1, 4001)
    ]
    path.write_text("".join(lines))
    slow: list[int] = []
    read = ChunkReader.read
    monkeypatch.setattr(
        ChunkReader, "read", lambda *a: (r := read(*a), slow.append(len(r.rest)))[0]
    )
    run = read_run(path)
    assert len(run.signals) == 4000
    assert run.signals["time_optimizer"][-1] == pytest.approx(0.024, abs=1e-12)
    assert run.signals["timestamp"][0] == 1735812001.0
    assert sum(slow) < 200


def test_an_endless_line_takes_no_more_than_its_beginning(tmp_path, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK", 1 << 16)
    good = " iteration {:8d}/     100 | learning rate: 1.000E-04 | lm loss: 2.500000E+00 |\n"
    path = tmp_path / "log"
    path.write_text(
        "".join(good.format(i) for i in range(1, 40)) + "x" * 3_000_000 + "\n" + good.format(40)
    )
    run = read_run(path)
    assert run.signals["step"].to_list() == list(range(1, 41))
