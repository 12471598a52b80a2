"""Standard input: rows come out while it is still being written."""

import os
import threading

import pytest

from surefoot.errors import LogError
from surefoot.readers import Following
from surefoot.readers.text import Source

LINE = "iter {}: loss {:.4f}, time 300.00ms, mfu 30.00%\n"


def following(stream, **options):
    return Following(source=Source("-", stream, keys=options.get("mapping")), **options)


@pytest.fixture
def pipe():
    """(file to read, function that writes bytes, function that closes the writing end)."""
    reading, writing = os.pipe()
    with open(reading, "rb") as stream:
        yield stream, lambda data: os.write(writing, data), lambda: os.close(writing)


def test_a_row_comes_out_when_the_next_one_begins(pipe):
    stream, write, close = pipe
    write("".join(LINE.format(i, 5 - i / 10) for i in range(8)).encode())
    records = following(stream).records()
    seen = []

    def read():
        for record in records:
            seen.append((record.step, record.values["loss"]))

    thread = threading.Thread(target=read)
    thread.start()
    for _ in range(200):
        if len(seen) == 7:
            break
        thread.join(0.05)
    assert seen == [(i, pytest.approx(5 - i / 10)) for i in range(7)]
    write(LINE.format(8, 4.2).encode()[:20])  # half a line is no row
    thread.join(0.2)
    assert len(seen) == 7
    write(LINE.format(8, 4.2).encode()[20:])
    for _ in range(200):
        if len(seen) == 8:
            break
        thread.join(0.05)
    close()
    thread.join(10)
    assert [step for step, _ in seen] == list(range(9))


def test_the_run_is_what_reading_the_file_gives(pipe, read_text):
    text = "".join(LINE.format(i, 5 - i / 10) for i in range(30))
    stream, write, close = pipe
    write(text.encode())
    close()
    live = following(stream)
    assert len(list(live.records())) == 30
    run = live.run()
    assert run.name == "standard input"
    assert run.signals.equals(read_text(text).signals)
    assert run.reading["format"] == "nanogpt"


def test_a_document_is_read_when_the_input_ends(pipe):
    stream, write, close = pipe
    write(b'{"log_history": [{"loss": 2.5, "step": 10, "epoch": 0.1}, {"loss": 2.25, "step": 20}],')
    write(b'"global_step": 20, "max_steps": 100, "is_world_process_zero": true}')
    close()
    live = following(stream)
    assert list(live.records()) == []
    assert live.run().signals["loss"].to_list() == [2.5, 2.25]


def test_input_without_metrics_says_so(pipe):
    stream, write, close = pipe
    write(b"hello\nworld\n")
    close()
    with pytest.raises(LogError, match="standard input holds no metrics: none of its 2 lines"):
        list(following(stream).records())


def test_the_format_may_be_forced(pipe):
    stream, write, close = pipe
    write(LINE.format(3, 4.5).encode())
    close()
    live = following(stream, format_in="nanogpt")
    assert [record.step for record in live.records()] == [3]


def test_restarts_are_new_attempts(pipe):
    stream, write, close = pipe
    steps = [*range(10), *range(4, 12)]
    write("".join(LINE.format(i, 5 - i / 10) for i in steps).encode())
    close()
    records = [(record.attempt, record.step) for record in following(stream).records()]
    assert records == [(0, i) for i in range(10)] + [(1, i) for i in range(4, 12)]
