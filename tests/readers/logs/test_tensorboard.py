"""Event files, written here byte by byte by a writer of its own, and read back exactly."""

import gzip
import math
import struct
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.errors import LogError
from surefoot.readers import read_run
from surefoot.readers.logs._tfrecord import Frames
from surefoot.readers.logs.tensorboard import FORMAT
from surefoot.readers.text import Source


def crc32c(data: bytes) -> int:
    """Bit by bit, from the definition."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def mask(crc: int) -> bytes:
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + mask(crc32c(length)) + data + mask(crc32c(data))


def number(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def field(key: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return number(key << 3) + number(value)
    return number(key << 3 | 2) + number(len(value)) + value


def event(step: int, *values: bytes, time: float = 1.7e9) -> bytes:
    summary = b"".join(field(1, value) for value in values)
    steps = field(2, step) if step else b""
    return record(b"\x09" + struct.pack("<d", time) + steps + field(5, summary))


def simple(tag: str, value: float) -> bytes:
    return field(1, tag.encode()) + b"\x15" + struct.pack("<f", value)


def plugin(name: str) -> bytes:
    return field(9, field(1, field(1, name.encode())))


VERSION = record(b"\x09" + struct.pack("<d", 1.7e9) + field(3, b"brain.Event:2"))


def single(value: float) -> float:
    return struct.unpack("<f", struct.pack("<f", value))[0]


@pytest.fixture
def read(tmp_path):
    """``read(*records, name=...) -> Run`` of an event file with these records."""

    def read(*records: bytes, name: str = "events.out.tfevents.1.host", version: bytes = VERSION):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(version + b"".join(records))
        return read_run(path, format_in="tensorboard")

    return read


def rows(run, *columns: str) -> list[tuple]:
    return run.signals.select("step", *columns).rows()


def test_scalars_of_two_tags_are_one_row_a_step_with_time(read, tmp_path):
    run = read(
        *(
            event(step, simple(tag, step / 7 + add), time=1.7e9 + step + add)
            for step in range(40)
            for tag, add in (("train/loss", 0.5), ("train/grad_norm", 0.25))
        )
    )
    expected = [(n, single(n / 7 + 0.5), single(n / 7 + 0.25), 1.7e9 + n + 0.5) for n in range(40)]
    assert rows(run, "loss", "grad_norm", "timestamp") == expected
    assert run.reading["fields"]["grad_norm"]["key"] == "train/grad_norm"
    assert run.problems == ()
    assert len(run.reading["attempts"]) == 1


def test_recognised_by_content_whatever_its_name(tmp_path):
    path = tmp_path / "train.log"
    path.write_bytes(VERSION + b"".join(event(n, simple("loss", n)) for n in range(20)))
    run = read_run(path)
    assert run.reading["format"] == "tensorboard"
    assert run.reading["sure"] == 1.0
    packed = tmp_path / "x.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_run(packed).signals["loss"].to_list() == [float(n) for n in range(20)]


def test_a_file_whose_first_record_is_no_version_is_still_known(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(event(3, simple("loss", 1.0)))
    with Source(path) as source:
        assert FORMAT.score(source) == 0.9


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"iteration 3 | loss 4.0\n" * 100,
        b"\0" * 5000,
        record(field(1, field(1, b"a training example"))),  # TFRecords of data
        record(b""),
        b"\x7fELF" + bytes(range(256)) * 20,
    ],
)
def test_other_files_are_not_taken_for_event_files(tmp_path, data):
    path = tmp_path / "a"
    path.write_bytes(data)
    with Source(path) as source:
        assert FORMAT.score(source) == 0.0


def test_tags_told_at_other_steps_leave_gaps(read):
    run = read(
        *(event(n, simple("loss", n)) for n in range(1, 31)),
        *(event(n, simple("eval/loss", n / 2)) for n in range(10, 31, 10)),
    )
    assert run.signals["step"].to_list() == list(range(1, 31))
    assert run.signals["loss"].to_list() == [float(n) for n in range(1, 31)]
    told = {10: 5.0, 20: 10.0, 30: 15.0}
    assert run.signals["validation_loss"].to_list() == [told.get(n) for n in range(1, 31)]
    assert len(run.reading["attempts"]) == 1  # the second tag only came later


def test_several_values_in_one_event(read):
    run = read(*(event(n, simple("loss", n), simple("lr", n / 8)) for n in range(20)))
    assert rows(run, "loss", "learning_rate") == [(n, float(n), n / 8) for n in range(20)]


@pytest.mark.parametrize("count", [1, 30])  # one by one, and all at once
@pytest.mark.parametrize(
    ("tensor", "value"),
    [
        (field(1, 1) + field(5, struct.pack("<f", 1.5)), 1.5),  # float_val, packed
        (field(1, 1) + b"\x2d" + struct.pack("<f", 0.1), single(0.1)),  # not packed
        (field(1, 1) + field(2, b"") + field(4, struct.pack("<f", -2.5)), -2.5),
        (field(1, 1) + field(2, field(2, field(1, 1))) + field(4, struct.pack("<f", 4.5)), 4.5),
        (field(1, 2) + field(6, struct.pack("<d", 0.1)), 0.1),
        (field(1, 2) + field(4, struct.pack("<d", 1e300)), 1e300),
        (field(1, 3) + field(7, -5), -5.0),
        (field(1, 9) + field(10, number(7_000_000_000)), 7e9),
        (field(1, 9) + field(4, struct.pack("<q", -12)), -12.0),
        (field(1, 10) + field(11, 1), 1.0),
        (field(1, 19) + field(13, 0x3E00), 1.5),
        (field(1, 19) + field(4, struct.pack("<e", 0.375)), 0.375),
        (field(1, 14) + field(13, 0xC020), -2.5),
        (field(1, 14) + field(4, b"\xc0\x3f"), 1.5),
        (field(1, 22) + field(16, 4_000_000_000), 4e9),
        (field(1, 23) + field(17, (1 << 63) + 2048), float((1 << 63) + 2048)),
        (field(1, 1) + field(2, b""), 0.0),  # TensorFlow leaves out a zero
    ],
)
def test_tensors_of_every_type(read, tensor, value, count):
    scalar = field(1, b"loss") + field(8, tensor) + plugin("scalars")
    run = read(*(event(n, scalar) for n in range(count)))
    assert rows(run, "loss") == [(n, value) for n in range(count)]


def test_only_the_first_value_says_its_plugin(read):
    def tensor(value: float) -> bytes:
        return field(8, field(1, 1) + field(5, struct.pack("<f", value)))

    run = read(
        event(1, field(1, b"loss") + tensor(1) + plugin("scalars")),
        event(1, field(1, b"pr") + tensor(1) + plugin("pr_curves")),
        *(event(n, field(1, b"loss") + tensor(n)) for n in range(2, 40)),
        *(event(n, field(1, b"pr") + tensor(n)) for n in range(2, 40)),
    )
    assert rows(run, "loss") == [(n, float(n)) for n in range(1, 40)]
    assert run.signals.columns == ["step", "attempt", "loss", "timestamp"]


def test_what_is_no_scalar_is_left_out(read):
    histogram = field(1, b"weights") + field(5, b"\x09" + struct.pack("<d", 1.0))
    old_histogram = field(1, b"old") + field(3, b"123")
    image = field(1, b"image") + field(4, field(1, 8) + field(4, b"\x89PNG" * 500))
    words = field(1, b"args") + field(8, field(1, 7) + field(8, b"{}")) + plugin("text")
    vector = field(1, b"v") + field(
        8, field(1, 1) + field(2, field(2, field(1, 2))) + field(4, struct.pack("<ff", 1, 2))
    )
    shapeless = field(1, b"w") + field(8, field(1, 1) + field(5, struct.pack("<ff", 1, 2)))
    hparams = field(1, b"_hparams_/experiment") + plugin("hparams")
    nameless = b"\x15" + struct.pack("<f", 3.0)
    others = (histogram, old_histogram, image, words, vector, shapeless, hparams, nameless)
    run = read(*(event(n, value) for n in range(10) for value in (*others, simple("loss", n))))
    assert run.signals.columns == ["step", "attempt", "loss", "timestamp"]
    assert run.signals["loss"].to_list() == [float(n) for n in range(10)]
    assert run.problems == ()


def test_nan_and_infinity_stay(read):
    values = [math.nan, math.inf, -math.inf, 0.0, -0.0]
    run = read(*(event(n, simple("loss", value)) for n, value in enumerate(values)))
    told = run.signals["loss"].to_list()
    assert math.isnan(told[0])
    assert told[1:3] == [math.inf, -math.inf]
    assert [math.copysign(1, value) for value in told[3:]] == [1, -1]


def test_steps_of_every_size(read):
    steps = sorted({0, 1, *(2**n - 1 for n in range(1, 64, 3)), *(2**n for n in range(1, 63, 3))})
    run = read(*(event(step, simple("loss", n)) for n, step in enumerate(steps)))
    assert run.signals["step"].to_list() == steps
    assert run.signals["loss"].to_list() == [float(n) for n in range(len(steps))]


def test_a_restart_in_the_file_is_an_attempt_for_every_tag(read):
    def told(steps: range, add: float) -> list[bytes]:
        return [event(n, simple(t, n + add)) for n in steps for t in ("loss", "lr")]

    run = read(*told(range(0, 60), 0.25), *told(range(40, 80), 0.5), *told(range(70, 90), 0.75))
    assert run.reading["attempts"] == [
        {"attempt": 0, "first": 0, "last": 59, "rows": 60},
        {"attempt": 1, "first": 40, "last": 79, "rows": 40},
        {"attempt": 2, "first": 70, "last": 89, "rows": 20},
    ]
    add = {n: 0.25 if n < 40 else 0.5 if n < 70 else 0.75 for n in range(90)}
    expected = [(n, n + add[n], n + add[n]) for n in range(90)]
    assert rows(run, "loss", "learning_rate") == expected


def test_a_number_told_twice_stays_what_it_was_and_is_told(read):
    run = read(*(event(n, simple("loss", value)) for n in range(9) for value in (n, n, n + 1)))
    assert run.signals["loss"].to_list() == [float(n) for n in range(9)]
    assert run.problems == ("another number is told for the same step: 9 times; the first stays",)


def test_tags_over_samples_are_left_out(read):
    """As Megatron writes them: the step of such a tag is a number of samples."""
    run = read(
        *(
            record
            for n in range(1, 20)
            for record in (
                event(n, simple("lm loss", n)),
                event(n * 512, simple("lm loss vs samples", n)),
                event(n * 9999, simple("lm-loss-training/lm loss vs tokens", n)),
                event(n * 512, simple("steps-vs-samples/y=steps,x=samples", n)),
            )
        )
    )
    assert run.signals["step"].to_list() == list(range(1, 20))
    assert run.signals.columns == ["step", "attempt", "loss", "timestamp"]


def test_tags_over_samples_are_read_where_there_are_no_others(read):
    run = read(*(event(n * 512, simple("lm loss vs samples", n)) for n in range(9)))
    assert run.signals["step"].to_list() == [n * 512 for n in range(9)]


def test_the_mean_of_the_whole_run_is_not_a_loss_of_a_step(read):
    run = read(event(500, simple("train/train_loss", 2.5)), event(500, simple("train/lr", 1.0)))
    assert "loss" not in run.signals.columns


def write(path: Path, *records: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(VERSION + b"".join(records))


def test_files_of_a_folder_are_attempts_of_one_run(tmp_path):
    write(tmp_path / "events.1", *(event(n, simple("loss", n), time=n) for n in range(1, 61)))
    write(
        tmp_path / "events.2", *(event(n, simple("loss", -n), time=n + 99) for n in range(41, 80))
    )
    run = read_run(tmp_path)
    assert run.reading["format"] == "tensorboard"
    assert [(a["first"], a["last"]) for a in run.reading["attempts"]] == [(1, 60), (41, 79)]
    expected = [float(n) if n <= 40 else float(-n) for n in range(1, 80)]
    assert run.signals["loss"].to_list() == expected


def test_folders_of_one_tag_are_columns(tmp_path):
    """As ``add_scalars`` writes them."""
    own = tmp_path / "events.out.tfevents.1"
    write(own, *(event(n, simple("lr", n)) for n in range(1, 31)))
    for kind, sign in (("train", 1), ("val", -1)):
        path = tmp_path / f"loss_{kind}" / "events.1"
        write(path, *(event(n, simple("loss", n * sign)) for n in range(1, 31)))
    run = read_run(tmp_path)
    assert rows(run, "learning_rate", "loss", "validation_loss") == [
        (n, float(n), float(n), float(-n)) for n in range(1, 31)
    ]
    assert len(run.reading["attempts"]) == 1


def test_a_run_whose_folder_begins_like_a_tag_keeps_its_keys(tmp_path):
    path = tmp_path / "loss_spike_1" / "events.out.tfevents.1"
    write(path, *(event(n, simple("loss", n)) for n in range(9)))
    assert read_run(path).reading["fields"]["loss"]["key"] == "loss"


def test_a_folder_of_validation(tmp_path):
    """As Keras writes them."""
    for kind, sign in (("train", 1), ("validation", -1)):
        path = tmp_path / kind / "events.1"
        write(path, *(event(n, simple("epoch_loss", n * sign)) for n in range(30)))
    run = read_run(tmp_path)
    assert rows(run, "loss", "validation_loss") == [(n, float(n), float(-n)) for n in range(30)]


TAGS = ("loss", "lr", "a/b", "ab/", "grad norm", "t" * 130, "müller", "x" * 300)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**9), many=st.integers(0, 12))
def test_any_mixture_of_records_is_read_exactly(seed, many, tmp_path_factory):
    random = Random(seed)
    told, records = {}, []
    for step in sorted(
        {random.choice([n, n * 130, n * 20000]) for n in range(random.choice([5, 60]))}
    ):
        for tag in random.sample(TAGS, random.randint(1, len(TAGS))):
            value = single(random.choice([random.random(), random.gauss(0, 1e6)]))
            told[step, tag] = value
            kind = random.randint(0, 3) if random.random() < 0.3 else 0
            payload = {
                0: simple(tag, value),
                1: field(1, tag.encode())
                + field(8, field(1, 1) + field(5, struct.pack("<f", value))),
                2: field(1, tag.encode()) + plugin("scalars") + b"\x15" + struct.pack("<f", value),
                3: field(1, tag.encode())
                + field(8, field(1, 2) + field(4, struct.pack("<d", value))),
            }[kind]
            records.append(event(step, payload))
        for n in range(many):
            records.append(
                event(step, field(1, b"h") + field(5, bytes([n]) * random.randint(1, 60)))
            )
    path = tmp_path_factory.mktemp("tb") / "events"
    path.write_bytes(VERSION + b"".join(records))
    there = {tag for _, tag in told}
    mapping = {f"c{n}": tag for n, tag in enumerate(TAGS) if tag in there}
    run = read_run(path, format_in="tensorboard", mapping=mapping)
    read = {
        (row["step"], tag): row[f"c{n}"]
        for row in run.signals.iter_rows(named=True)
        for n, tag in enumerate(TAGS)
        if row.get(f"c{n}") is not None
    }
    assert read == told


SAMPLE = [event(n, simple(tag, n)) for n in range(300, 330) for tag in ("loss", "grad_norm")]


@pytest.mark.parametrize("cut", [*range(1, 60, 7), 200, 1000, 1001, 1777])
def test_a_file_cut_anywhere_tells_what_is_whole(read, cut):
    data = b"".join(SAMPLE)
    kept, size = 0, 0
    for one in SAMPLE:
        if size + len(one) > len(data) - cut:
            break
        size += len(one)
        kept += 1
    run = read(data[: len(data) - cut])
    losses = run.signals["loss"].drop_nulls().to_list()
    norms = run.signals["grad_norm"].drop_nulls().to_list()
    assert losses == [300.0 + n for n in range((kept + 1) // 2)]
    assert norms == [300.0 + n for n in range(kept // 2)]
    torn = size < len(data) - cut
    why = "the last record is cut short: the file was not closed"
    assert run.problems == ((why,) if torn else ())


@pytest.mark.parametrize("place", [*range(len(SAMPLE[0])), 700, 1501])
def test_a_damaged_byte_costs_one_record(read, place):
    data = bytearray(b"".join(SAMPLE))
    data[place] ^= 0x40
    starts = np.cumsum([0, *map(len, SAMPLE)])
    hurt = int(np.searchsorted(starts, place, side="right")) - 1
    run = read(bytes(data))
    gone = ("loss", "grad_norm")[hurt % 2]
    for column in ("loss", "grad_norm"):
        expected = [300.0 + n for n in range(30) if column != gone or n != hurt // 2]
        assert run.signals[column].drop_nulls().to_list() == expected
    at = len(VERSION) + int(starts[hurt])
    assert run.problems[0].startswith(f"1 damaged record, the first at byte {at:,}: left out")


def test_garbage_between_records_is_passed_over(read):
    random = np.random.default_rng(0)
    data = b"".join(SAMPLE[:20]) + random.bytes(3_000_000) + bytes(100_000) + b"".join(SAMPLE[20:])
    run = read(data)
    assert run.signals["loss"].to_list() == [300.0 + n for n in range(30)]
    assert run.problems[0].endswith("3,100,000 bytes were passed over in search of the next one")


def test_a_garbage_end_is_told(read):
    run = read(*SAMPLE, b"\xff" * 5000)
    assert len(run.signals) == 30
    assert "1 damaged record" in run.problems[0]
    assert len(run.problems) == 1


def test_records_of_no_length_and_of_no_sense_do_no_harm(read):
    run = read(record(b""), *SAMPLE, record(b"\xff\xff"), record(b"\x0b"), record(b""))
    assert run.signals["loss"].to_list() == [300.0 + n for n in range(30)]
    assert run.problems == ("2 records are no events and were left out",)


def test_a_forged_length_takes_no_memory(read):
    length = struct.pack("<Q", 1 << 60)
    run = read(*SAMPLE, length + mask(crc32c(length)) + b"abc")
    assert len(run.signals) == 30
    assert run.problems == ("the last record is cut short: the file was not closed",)


def test_a_long_record_is_passed_over():
    length = struct.pack("<Q", 40 << 20)
    long = [length + mask(crc32c(length)), *[bytes(1 << 20)] * 40, bytes(4)]
    frames = Frames([VERSION, *long, *SAMPLE])
    assert sum(len(begins) for _, begins, _ in frames.windows()) == 1 + len(SAMPLE)
    assert (frames.damaged, frames.torn) == (0, False)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_damage_breaks_the_reader_or_forges_a_number(data, tmp_path_factory):
    raw = bytearray(VERSION + b"".join(SAMPLE))
    for _ in range(data.draw(st.integers(1, 5))):
        kind = data.draw(st.sampled_from(["flip", "cut", "drop", "insert", "zero"]))
        at = data.draw(st.integers(0, len(raw) - 1)) if raw else 0
        length = data.draw(st.integers(1, 200))
        if kind == "flip" and raw:
            raw[at] ^= data.draw(st.integers(1, 255))
        elif kind == "cut":
            del raw[at:]
        elif kind == "drop":
            del raw[at : at + length]
        elif kind == "insert":
            raw[at:at] = data.draw(st.binary(max_size=60))
        else:
            raw[at : at + length] = bytes(len(raw[at : at + length]))
    path = tmp_path_factory.mktemp("tb") / "events"
    path.write_bytes(raw)
    try:
        run = read_run(path, format_in="tensorboard")
    except LogError:
        return
    for name in ("loss", "grad_norm"):
        if name in run.signals.columns:
            told = run.signals.select("step", name).drop_nulls()
            assert all(value == step for step, value in told.rows())


def test_nothing_but_damage_is_an_error(read):
    with pytest.raises(LogError, match="no whole record"):
        read(VERSION[:20], version=b"")


def test_without_scalars_it_is_said(read):
    with pytest.raises(LogError, match="holds no metrics"):
        read(event(1, field(1, b"h") + field(5, b"\x08\x01")))


@pytest.fixture
def writer():
    tensorboard = pytest.importorskip("tensorboard.summary.writer.event_file_writer")
    return tensorboard.EventFileWriter


def test_what_tensorboard_writes(writer, tmp_path):
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    out = writer(str(tmp_path))
    for n in range(50):
        value = Summary.Value(tag="loss", simple_value=n / 7)
        out.add_event(Event(wall_time=n + 1, step=n, summary=Summary(value=[value])))
    out.close()
    run = read_run(tmp_path)
    assert rows(run, "loss", "timestamp") == [(n, single(n / 7), n + 1.0) for n in range(50)]
    assert run.problems == ()


def test_tensorboard_reads_what_the_tests_write(tmp_path):
    module = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    write(tmp_path / "events.out.tfevents.1", *SAMPLE)
    accumulator = module.EventAccumulator(str(tmp_path), size_guidance={"scalars": 0})
    accumulator.Reload()
    told = [(one.step, one.value) for one in accumulator.Scalars("grad_norm")]
    assert told == [(n, float(n)) for n in range(300, 330)]


PIECES = st.recursive(
    st.binary(max_size=12),
    lambda inner: st.lists(st.tuples(st.integers(1, 17), inner), max_size=4).map(
        lambda parts: b"".join(field(key, value) for key, value in parts)
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(
    contents=st.lists(PIECES | st.binary(max_size=40), max_size=4), times=st.sampled_from([1, 9])
)
def test_no_content_breaks_the_reader(contents, times, tmp_path_factory):
    path = tmp_path_factory.mktemp("tb") / "events"
    odd = [record(field(5, field(1, content))) for content in contents for _ in range(times)]
    odd += [record(content) for content in contents for _ in range(times)]
    path.write_bytes(b"".join([VERSION, *odd, event(7, simple("loss", 1.5))]))
    with Source(path) as source:
        blocks = [item for item in FORMAT.read(source) if hasattr(item, "steps")]
    assert any(7 in block.steps and 1.5 in block.values.get("loss", ()) for block in blocks)
