"""Weights & Biases run files, written here byte by byte as old and new versions do."""

import json
import math
import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.errors import LogError
from surefoot.readers import read_run
from surefoot.readers.logs.wandb_file import FORMAT
from surefoot.readers.text import Source

HEADER = b":W&B" + struct.pack("<HB", 0xBEE1, 0)
TORN = "the last record is cut short: the file was not closed"


def framed(*records: bytes) -> bytes:
    """The records in blocks of 32 KiB."""
    out = bytearray(HEADER)

    def part(kind: int, data: bytes) -> None:
        checksum = zlib.crc32(bytes([kind]) + data)
        out.extend(struct.pack("<IHB", checksum, len(data), kind) + data)

    for data in records:
        room = 32768 - len(out) % 32768
        if room < 7:
            out.extend(bytes(room))
            room = 32768
        if len(data) + 7 <= room:
            part(1, data)
            continue
        part(2, data[: room - 7])
        data = data[room - 7 :]
        while len(data) > 32761:
            part(3, data[:32761])
            data = data[32761:]
        part(4, data)
    return bytes(out)


def number(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def field(key: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return number(key << 3) + number(value)
    data = value.encode() if isinstance(value, str) else value
    return number(key << 3 | 2) + number(len(data)) + data


def double(key: int, value: float) -> bytes:
    return number(key << 3 | 1) + struct.pack("<d", value)


def record(num: int, kind: int, content: bytes) -> bytes:
    return field(1, num) + field(kind, content) + field(200, field(1, "stream"))


def old(values: dict, step: int, num: int = 1) -> bytes:
    """As versions before the Go core: a key, JSON, the step beside the items."""
    told = {**values, "_step": step}
    items = (field(1, field(1, key) + field(16, json.dumps(told[key]))) for key in told)
    return record(num, 2, b"".join(items) + field(2, field(1, step) if step else b""))


def new(values: dict, step: int, num: int = 1) -> bytes:
    """As the Go core: paths of keys, JSON, the step among the items."""
    items = []

    def add(path: tuple[str, ...], value: object) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                add((*path, key), inner)
            return
        keys = b"".join(field(2, key) for key in path)
        items.append(field(1, keys + field(16, json.dumps(value))))

    add((), {**values, "_step": step})
    return record(num, 2, b"".join(items) + field(2, field(1, step)))


@pytest.fixture
def read(tmp_path):
    def read(*records: bytes, raw: bytes | None = None, **options):
        path = tmp_path / "run-x.wandb"
        path.write_bytes(framed(*records) if raw is None else raw)
        return read_run(path, **options)

    return read


def rows(run, *columns: str) -> list[tuple]:
    return run.signals.select("step", *columns).rows()


@pytest.mark.parametrize("write", [old, new])
def test_history_of_every_version_is_read_exactly(read, write):
    run = read(
        *(
            write({"train/loss": n / 7, "lr": 3e-4, "_timestamp": 1.7e9 + n, "_runtime": n}, n)
            for n in range(50)
        )
    )
    assert rows(run, "loss", "learning_rate", "timestamp", "consumed_runtime") == [
        (n, n / 7, 3e-4, 1.7e9 + n, float(n)) for n in range(50)
    ]
    assert run.reading["format"] == "wandb"
    assert run.reading["sure"] == 1.0
    assert run.reading["fields"]["loss"]["key"] == "train/loss"
    assert run.problems == ()


def test_typed_values(read):
    """The newest schema holds numbers as such: integers zigzag, doubles, truth values."""

    def row(n: int) -> bytes:
        def item(key: str, value: bytes) -> bytes:
            return field(1, field(2, key) + value)

        return record(n, 2, b"".join((
            item("_step", field(5, n << 1)),
            item("loss", double(6, n / 3)),
            item("count", field(5, (n << 1) - 1 if n else 0)),  # -n
            item("flag", field(4, 1)),
            item("words", field(7, "1.5")),
            item("nothing", field(3, b"")),
            item("listed", field(8, "[1, 2]")),
            item("grad_norm", field(8, "0.25")),
        )))  # fmt: skip

    run = read(*(row(n) for n in range(20)))
    assert rows(run, "loss", "count", "flag", "grad_norm") == [
        (n, n / 3, float(-n), 1.0, 0.25) for n in range(20)
    ]
    assert {"words", "nothing", "listed"}.isdisjoint(run.signals.columns)


def test_numbers_that_json_lacks(read):
    values = [math.nan, math.inf, -math.inf, 1e300, -0.0]
    run = read(*(new({"loss": value}, n) for n, value in enumerate(values)))
    told = run.signals["loss"].to_list()
    assert math.isnan(told[0])
    assert told[1:4] == [math.inf, -math.inf, 1e300]
    assert math.copysign(1, told[4]) == -1


@pytest.mark.parametrize("write", [old, new])
def test_nested_values_are_joined_and_media_left_out(read, write):
    values = {
        "loss": 1.5,
        "optim": {"adam": {"lr": 0.5}, "name": "adamw"},
        "weights": {"_type": "histogram", "values": [1, 2], "bins": [0, 1, 2], "width": 3},
        "example": {"_type": "image-file", "size": 5},
        "text": "1.0",
        "none": None,
        "list": [1, 2],
    }
    run = read(*(write(values, n) for n in range(3)))
    assert run.signals.columns == ["step", "attempt", "loss", "optim.adam.lr"]
    assert run.signals["optim.adam.lr"].to_list() == [0.5] * 3


def test_the_trainers_own_step_is_preferred(read):
    """As transformers logs: the logger's step only counts the calls."""
    logged = []
    for n in range(1, 31):
        logged.append({"train/loss": n / 4, "train/global_step": n * 10})
        if n % 10 == 0:
            logged.append({"eval/loss": n / 8, "train/global_step": n * 10})
    run = read(*(old(values, n) for n, values in enumerate(logged)))
    assert run.signals["step"].to_list() == [n * 10 for n in range(1, 31)]
    assert run.signals["loss"].to_list() == [n / 4 for n in range(1, 31)]
    evaluated = run.signals.drop_nulls("validation_loss")
    assert rows(run, "validation_loss")[9] == (100, 1.25)
    assert evaluated["step"].to_list() == [100, 200, 300]
    assert run.reading["facts"]["step_key"] == "train/global_step"
    assert len(run.reading["attempts"]) == 1


def test_a_declared_step_is_preferred(read):
    metric = record(1, 12, field(2, "val/*") + field(4, "my_step"))
    run = read(metric, *(new({"loss": n, "my_step": n * 5, "step": n}, n) for n in range(20)))
    assert run.signals["step"].to_list() == [n * 5 for n in range(20)]


def test_a_counter_that_starts_anew_is_no_step(read):
    run = read(*(new({"loss": n, "step": n % 4}, n) for n in range(40)))
    assert run.signals["step"].to_list() == list(range(40))
    assert "step_key" not in run.reading["facts"]


def test_the_user_says_which_step(read):
    records = [new({"loss": n, "tick": n * 3, "global_step": n}, n) for n in range(20)]
    assert read(*records, mapping={"step": "tick"}).signals["step"].to_list() == [
        n * 3 for n in range(20)
    ]
    assert read(*records, mapping={"step": "_step"}).signals["step"].to_list() == list(range(20))


def test_a_row_without_the_step_belongs_to_the_one_before(read):
    logged = [{"loss": n, "global_step": n} for n in range(1, 20)]
    logged.insert(10, {"grad_norm": 0.5})
    run = read(*(new(values, n) for n, values in enumerate(logged)))
    assert rows(run, "grad_norm")[9] == (10, 0.5)
    assert len(run.signals) == 19


def test_what_is_told_of_the_run(read):
    def item(key: str, value: object) -> bytes:
        return field(1, field(1, key) + field(16, json.dumps(value)))

    config = item("lr", 0.1) + item("model", {"layers": 3}) + item("_wandb", {"v": 1})
    started = (
        field(1, "abc") + field(2, "team") + field(3, "pretraining") + field(4, config)
        + field(8, "swift-river-5") + field(13, "node1") + field(19, field(5, "0.19.1"))
        + field(21, field(2, "deadbeef"))
    )  # fmt: skip
    run = read(
        record(1, 17, started),
        record(2, 26, field(2, "CPython 3.12.1") + field(18, "NVIDIA H100") + field(19, 8)),
        record(3, 7, field(3, field(1, "cpu") + field(16, "12.5"))),  # system metrics
        record(4, 5, item("world_size", {"value": 64, "desc": None}) + item("lr", 0.2)),
        *(new({"loss": n}, n) for n in range(10)),
        record(90, 3, field(1, field(2, "best") + field(16, "0.5"))),  # summary
        record(91, 18, field(1, 1)),
    )
    facts = run.reading["facts"]
    assert facts["config"] == {"lr": 0.2, "model": {"layers": 3}, "world_size": 64}
    expected = {
        "run_id": "abc", "entity": "team", "project": "pretraining", "run_name": "swift-river-5",
        "host": "node1", "wandb_version": "0.19.1", "git_commit": "deadbeef",
        "python": "CPython 3.12.1", "gpu_type": "NVIDIA H100", "gpu_count": 8, "world_size": 64,
        "exit_code": 1,
    }  # fmt: skip
    assert expected.items() <= facts.items()
    assert run.signals.columns == ["step", "attempt", "loss"]


def test_a_resumed_run_says_where_it_goes_on(read):
    started = field(1, "abc") + field(14, 500) + field(18, 1)
    run = read(record(1, 17, started), *(new({"loss": n}, n) for n in range(500, 520)))
    assert [(event.kind, event.step) for event in run.events] == [("resumed", 500)]


def test_a_restart_is_an_attempt(read):
    steps = [*range(60), *range(40, 80)]
    run = read(*(new({"loss": n}, n) for n in steps))
    assert [(a["first"], a["last"]) for a in run.reading["attempts"]] == [(0, 59), (40, 79)]


@pytest.mark.parametrize("size", [32768 - 14, 32768 - 7, 32767, 40_000, 200_000])
def test_records_over_many_blocks(read, size):
    blob = record(5, 13, field(3, "x" * size))
    run = read(
        *(part for n in range(30) for part in (new({"loss": n / 3}, n), blob)),
        format_in="wandb",
    )
    assert rows(run, "loss") == [(n, n / 3) for n in range(30)]
    assert run.problems == ()


@settings(max_examples=50, deadline=None)
@given(sizes=st.lists(st.integers(0, 70_000), min_size=1, max_size=20))
def test_records_of_any_length_meet_any_place_of_a_block(sizes, tmp_path_factory):
    path = tmp_path_factory.mktemp("wandb") / "run-x.wandb"
    records = [new({"loss": n, "pad": "x" * size}, n) for n, size in enumerate(sizes)]
    path.write_bytes(framed(*records))
    run = read_run(path, format_in="wandb")
    assert rows(run, "loss") == [(n, float(n)) for n in range(len(sizes))]
    assert run.problems == ()


def test_a_wandb_folder_is_read_from_its_run_file(tmp_path):
    folder = tmp_path / "wandb" / "run-20250101_000000-abc"
    (folder / "files").mkdir(parents=True)
    records = (new({"train/loss": n / 7, "train/lr": 0.5}, n) for n in range(100))
    (folder / "run-abc.wandb").write_bytes(framed(*records))
    (folder / "files" / "wandb-summary.json").write_text('{"train/loss": 99.0, "_step": 99}')
    (folder / "files" / "config.yaml").write_text("lr:\n  value: 0.1\n")
    log = "".join(f"step {n}: loss {n / 7:.2f}\n" for n in range(90, 100))
    (folder / "files" / "output.log").write_text(log)
    run = read_run(folder)
    assert run.reading["format"] == "wandb"
    assert rows(run, "loss") == [(n, n / 7) for n in range(100)]


@pytest.mark.parametrize("head", [b"", b":W&B", HEADER[:-1] + b"\x01", b"\x07" + HEADER])
def test_other_files_are_not_taken_for_it(tmp_path, head):
    path = tmp_path / "a"
    path.write_bytes(head)
    with Source(path) as source:
        assert FORMAT.score(source) == 0.0


SAMPLE = framed(*(new({"loss": float(n), "pad": "x" * 3000}, n) for n in range(60)))
STARTS = [
    len(framed(*(new({"loss": float(n), "pad": "x" * 3000}, n) for n in range(count))))
    for count in range(61)
]


@pytest.mark.parametrize("cut", [1, 8, 3000, 40_000, 32768 * 2, 32768 * 2 + 3, 100_001])
def test_a_file_cut_anywhere_tells_what_is_whole(read, cut):
    run = read(raw=SAMPLE[:-cut])
    whole = sum(start <= len(SAMPLE) - cut for start in STARTS) - 1
    assert rows(run, "loss") == [(n, float(n)) for n in range(whole)]
    assert run.problems == (TORN,)


def test_a_file_cut_between_records_is_whole(read):
    run = read(raw=SAMPLE[: STARTS[20]])
    assert len(run.signals) == 20
    assert run.problems == ()


def test_room_taken_in_advance_is_no_damage(read):
    run = read(raw=SAMPLE + bytes(100_000))
    assert len(run.signals) == 60
    assert run.problems == ()


@pytest.mark.parametrize("place", [STARTS[5] + n for n in (0, 3, 4, 5, 6, 7, 300)])
def test_a_damaged_byte_costs_no_more_than_its_block(read, place):
    data = bytearray(SAMPLE)
    data[place] ^= 0x10
    run = read(raw=bytes(data))
    told = run.signals["step"].to_list()
    lengthened = place in (STARTS[5] + 4, STARTS[5] + 5)  # then the next record is not found
    next_block = next(n for n in range(60) if STARTS[n] > 32768)
    gone = set(range(5, next_block + 1)) if lengthened else {5}
    assert set(told) >= set(range(60)) - gone
    assert 5 not in told
    assert run.signals["loss"].to_list() == [float(n) for n in told]
    assert run.problems[0] == f"1 damaged record, the first at byte {STARTS[5]:,}: left out"


def test_records_of_no_sense_do_no_harm(read):
    odd = (b"", b"\xff\xff", b"\x0b", field(2, b"\xff"), record(1, 2, b""))
    run = read(*odd, *(new({"loss": n}, n) for n in range(20)), *odd)
    assert len(run.signals) == 20
    assert run.problems == ("6 records are no messages and were left out",)


def test_deep_json_does_no_harm(read):
    def row(n: int) -> bytes:
        deep = field(1, field(2, "deep") + field(16, '{"a":' * 100_000))
        fit = field(1, field(2, "fit") + field(16, '{"a":' * 500 + "1" + "}" * 500))
        huge = field(1, field(2, "huge") + field(16, "9" * 5000))
        return record(n, 2, deep + fit + huge + field(1, field(2, "loss") + field(16, "2.5")))

    run = read(*(row(n) for n in range(3)))
    assert run.signals["loss"].to_list() == [2.5] * 3


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_damage_breaks_the_reader_or_forges_a_number(data, tmp_path_factory):
    raw = bytearray(SAMPLE)
    for _ in range(data.draw(st.integers(1, 5))):
        kind = data.draw(st.sampled_from(["flip", "cut", "drop", "insert", "zero"]))
        at = data.draw(st.integers(7, max(7, len(raw) - 1)))
        length = data.draw(st.integers(1, 5000))
        if kind == "flip" and at < len(raw):
            raw[at] ^= data.draw(st.integers(1, 255))
        elif kind == "cut":
            del raw[at:]
        elif kind == "drop":
            del raw[at : at + length]
        elif kind == "insert":
            raw[at:at] = data.draw(st.binary(max_size=60))
        else:
            raw[at : at + length] = bytes(len(raw[at : at + length]))
    path = tmp_path_factory.mktemp("wandb") / "run-x.wandb"
    path.write_bytes(raw)
    try:
        run = read_run(path, format_in="wandb")
    except LogError:
        return
    assert all(value == step for step, value in rows(run, "loss"))


def test_nothing_but_a_header_is_an_error(read):
    with pytest.raises(LogError, match="no whole record"):
        read(raw=HEADER)


def test_a_run_without_history_is_an_error(read):
    with pytest.raises(LogError, match="holds no metrics"):
        read(record(1, 17, field(1, "abc")))


def test_what_wandb_writes(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    run = wandb.init(mode="offline", dir=str(tmp_path), project="p", config={"lr": 0.1})
    for n in range(20):
        run.log({"train/loss": n / 7, "nested": {"a": n}, "x": float("nan")})
    run.finish()
    read = read_run(tmp_path)
    assert rows(read, "loss", "nested.a") == [(n, n / 7, float(n)) for n in range(20)]
    assert read.reading["facts"]["config"] == {"lr": 0.1}
    assert read.reading["facts"]["wandb_version"] == wandb.__version__


PIECES = st.recursive(
    st.binary(max_size=12) | st.sampled_from(["_step", "loss", "_type", "1e999", "[1", '{"a":1}']),
    lambda inner: st.lists(st.tuples(st.integers(1, 26), inner), max_size=4).map(
        lambda parts: b"".join(field(key, value) for key, value in parts)
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(
    contents=st.lists(
        st.tuples(st.sampled_from([2, 5, 11, 12, 17, 18, 26]), PIECES | st.binary(max_size=40)),
        max_size=4,
    )
)
def test_no_content_breaks_the_reader(contents, tmp_path_factory):
    path = tmp_path_factory.mktemp("wandb") / "run-x.wandb"
    records = [field(kind, content) for kind, content in contents]
    path.write_bytes(framed(*records, new({"loss": 1.0}, 7)))
    with Source(path) as source:
        items = list(FORMAT.read(source))
    assert any(getattr(item, "values", {}) == {"loss": 1.0} for item in items)


def test_rows_before_the_first_step_are_told(read):
    logged = [{"setup": 1.0}, {"setup": 2.0}, *({"loss": n, "global_step": n} for n in range(20))]
    run = read(*(new(values, n) for n, values in enumerate(logged)))
    assert run.signals["step"].to_list() == list(range(20))
    assert run.problems[0] == "2 rows come before any that tells global_step: left out"


def test_calls_of_one_step_are_one_row(read):
    """As Lightning logs: each callback by itself, all under one ``trainer/global_step``."""
    logged = []
    for n in range(40):
        logged += [
            {"train_loss": n / 4, "trainer/global_step": n},
            {"lr-AdamW": n / 8, "trainer/global_step": n},
            {"train_loss": n / 4 + (n == 7), "epoch": 0, "trainer/global_step": n},
        ]
    run = read(*(new({**v, "_timestamp": 1e9 + n}, n) for n, v in enumerate(logged)))
    assert rows(run, "loss", "learning_rate", "epoch", "timestamp") == [
        (n, n / 4, n / 8, 0, 1e9 + 3 * n) for n in range(40)
    ]
    assert run.problems[0] == ("another number is told for the same step: 1 times; the first stays")


def test_keys_and_values_of_every_length(read):
    keys = ["k" * n for n in (1, 2, 126, 127, 128, 300)] + ["müller", "a" * 126 + "ü"]
    values = [0, -7, 1e-300, 12345678901234567890, 0.1, 10**100]
    for write in (old, new):
        run = read(*(write({key: value for key in keys}, n) for n, value in enumerate(values)))
        told = run.signals.drop("attempt")
        assert told.columns[0] == "step"
        assert told.width == 1 + len(keys)
        assert all(
            told.row(n) == (n, *[float(value)] * len(keys)) for n, value in enumerate(values)
        )


def test_an_item_that_reaches_beyond_its_record_is_told(read):
    good = new({"loss": 1.5}, 3)
    inner = field(1, field(2, "loss") + field(16, "2.5"))
    longer = record(1, 2, inner[:1] + bytes([inner[1] + 40]) + inner[2:])
    cut = record(1, 2, b"\x0a")
    run = read(good, longer, cut)
    assert rows(run, "loss") == [(3, 1.5)]
    assert "2 records are no messages and were left out" in run.problems
