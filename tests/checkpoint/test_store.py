"""Saving, loading, statuses and what stays on the disk."""

import json
import math
import os
import shutil
import textwrap

import pytest
import torch

from surefoot.checkpoint import CheckpointStore
from surefoot.errors import CheckpointError


def steps(store):
    return [info.step for info in store.infos()]


def statuses(store):
    return {info.step: info.status for info in store.infos()}


def test_round_trip_is_bit_equal_and_in_place(store, make_tensors, bits_equal):
    saved = make_tensors(7)
    state = {"step": 10, "detector": {"window": [0.1, 1e-300, -0.0]}, "none": None, "ok": True}
    info = store.save(10, saved, state)
    assert (info.step, info.status, info.reason) == (10, "provisional", None)
    into = {name: torch.full_like(tensor, 1) for name, tensor in saved.items()}
    places = {name: tensor.data_ptr() for name, tensor in into.items()}
    assert store.load(10, into) == state
    assert bits_equal(into, saved)
    assert {name: tensor.data_ptr() for name, tensor in into.items()} == places


def test_parameters_are_saved_and_loaded_without_touching_autograd(store):
    live = {"w": torch.nn.Parameter(torch.ones(3))}
    store.save(1, live, {})
    with torch.no_grad():
        live["w"].zero_()
    version = live["w"].grad_fn
    store.load(1, live)
    assert live["w"].tolist() == [1, 1, 1]
    assert live["w"].requires_grad
    assert live["w"].grad_fn is version


def test_equal_states_make_equal_files(tmp_path, make_tensors):
    for name in ("a", "b"):
        CheckpointStore(tmp_path / name).save(10, make_tensors(1), {"x": 1})
    files = sorted((tmp_path / "a" / "step-000000010").iterdir())
    assert len(files) == 4
    for file in files:
        assert file.read_bytes() == (tmp_path / "b" / file.parent.name / file.name).read_bytes()


def test_saved_tensors_are_those_of_the_moment(store):
    tensor = torch.zeros(3)
    store.save(1, {"w": tensor}, {})
    tensor.fill_(5)
    into = {"w": torch.ones(3)}
    store.load(1, into)
    assert into["w"].tolist() == [0, 0, 0]


def test_numbers_that_are_not_finite_become_strings(store, root):
    store.save(1, {"w": torch.zeros(1)}, {"loss": math.nan, "best": -math.inf})
    text = (root / "step-000000001" / "state.json").read_text()
    json.loads(text, parse_constant=pytest.fail)
    assert store.load(1, {"w": torch.zeros(1)}) == {"loss": "nan", "best": "-inf"}


def test_a_state_that_is_no_json_is_refused_before_anything_is_written(store, root):
    with pytest.raises(TypeError, match="cannot write a object as JSON"):
        store.save(1, {"w": torch.zeros(1)}, {"bad": object()})
    assert not root.exists()


def test_arguments_are_checked(store, root):
    with pytest.raises(TypeError, match="'w': expected a tensor, got float"):
        store.save(1, {"w": 1.0}, {})
    with pytest.raises(ValueError, match="step of 0 or more, got -1"):
        store.save(-1, {}, {})
    with pytest.raises(ValueError, match="short word"):
        store.save(1, {}, {}, quarantine="loss rose by 3.1 nats at step 7")
    with pytest.raises(ValueError, match="keep_newest=0"):
        CheckpointStore(root, keep_newest=0)
    assert not root.exists()


def test_an_empty_folder_has_nothing(store, root):
    assert store.infos() == ()
    assert store.latest() is store.resumable() is store.newest_confirmed() is None
    assert store.confirm(100) == ()
    with pytest.raises(CheckpointError, match="no checkpoint of step 3; there are none"):
        store.load(3, {})
    assert not root.exists()


def test_a_missing_step_is_told_with_those_there_are(store):
    store.save(10, {"w": torch.zeros(1)}, {})
    store.save(20, {"w": torch.zeros(1)}, {})
    with pytest.raises(CheckpointError, match="no checkpoint of step 15; there are those of steps"):
        store.load(15, {})


def test_newest_and_resumable(store):
    for step in (10, 20, 30):
        store.save(step, {"w": torch.full((2,), float(step))}, {"at": step})
    assert store.latest() == store.resumable() == 30
    assert store.load(30, {"w": torch.zeros(2)}) == {"at": 30}


def test_confirm_marks_all_older_provisional_ones(store):
    for step in (10, 20, 30):
        store.save(step, {}, {})
    assert store.confirm(5) == ()
    assert store.confirm(20) == (10, 20)
    assert store.confirm(29) == ()
    assert statuses(store) == {10: "confirmed", 20: "confirmed", 30: "provisional"}
    assert store.newest_confirmed() == 20
    assert store.newest_confirmed(max_step=19) == 10
    assert store.newest_confirmed(max_step=9) is None
    assert store.confirm(30) == (30,)


def test_confirm_sees_checkpoints_saved_after_it_was_asked(store):
    store.save(10, {}, {})
    assert store.confirm(100) == (10,)
    store.save(20, {}, {})
    assert store.confirm(100) == (20,)


def test_confirm_reads_nothing_while_nothing_can_change(store, monkeypatch):
    store.save(10, {}, {})
    assert store.confirm(3) == ()
    monkeypatch.setattr("surefoot.checkpoint.store.known_checkpoints", pytest.fail)
    assert store.confirm(9) == ()


def test_quarantined_is_never_latest_and_never_confirmed(store):
    store.save(10, {}, {})
    info = store.save(20, {}, {}, quarantine="incident")
    assert (info.status, info.reason) == ("quarantined", "incident")
    assert store.latest() == store.resumable() == 10
    assert store.confirm(100) == (10,)
    assert statuses(store) == {10: "confirmed", 20: "quarantined"}


def test_a_signal_checkpoint_is_gone_on_from_but_is_not_latest(store):
    store.save(10, {}, {})
    store.save(13, {}, {}, quarantine="signal")
    assert store.latest() == 10
    assert store.resumable() == 13
    store.save(20, {}, {})
    assert store.latest() == store.resumable() == 20


def test_a_run_stopped_before_its_first_checkpoint_goes_on_from_the_signal_one(store):
    store.save(3, {}, {}, quarantine="signal")
    assert store.latest() is None
    assert store.resumable() == 3


def test_quarantine_after_the_fact(store):
    for step in (10, 20):
        store.save(step, {"w": torch.ones(1)}, {})
    store.confirm(20)
    store.quarantine(20, "incident")
    assert statuses(store) == {10: "confirmed", 20: "quarantined"}
    assert store.latest() == store.resumable() == store.newest_confirmed() == 10
    store.verify(20)
    assert store.load(20, {"w": torch.zeros(1)}) == {}
    with pytest.raises(CheckpointError, match="no checkpoint of step 30"):
        store.quarantine(30, "incident")
    with pytest.raises(ValueError, match="short word"):
        store.quarantine(10, "")


@pytest.mark.parametrize("damage", ["lost", "torn", "foreign", "newer"])
def test_without_its_index_all_are_provisional_but_quarantine_stays(store, root, damage):
    store.save(10, {}, {})
    store.save(20, {}, {})
    store.save(25, {}, {}, quarantine="signal")
    store.save(30, {}, {})
    store.confirm(20)
    store.quarantine(30, "incident")
    index = root / "index.json"
    if damage == "lost":
        index.unlink()
    elif damage == "torn":
        index.write_bytes(index.read_bytes()[:-20])
    elif damage == "foreign":
        index.write_text('["x"]')
    else:
        index.write_text(index.read_text().replace('"format": 1', '"format": 2'))
    expected = {10: "provisional", 20: "provisional", 25: "quarantined", 30: "quarantined"}
    assert statuses(store) == expected
    assert [info.reason for info in store.infos()] == [None, None, "signal", "incident"]
    assert store.latest() == 20
    assert CheckpointStore(root).confirm(10) == (10,)  # a restart writes it anew
    assert json.loads(index.read_text())["checkpoints"][0]["status"] == "confirmed"


def test_index_is_readable_without_surefoot(store, root):
    store.save(10, {}, {})
    store.save(20, {}, {}, quarantine="signal")
    store.confirm(10)
    index = json.loads((root / "index.json").read_text())
    assert index["format"] == 1
    assert [
        {key: entry[key] for key in ("step", "path", "status", "reason")}
        for entry in index["checkpoints"]
    ] == [
        {"step": 10, "path": "step-000000010", "status": "confirmed", "reason": None},
        {"step": 20, "path": "step-000000020", "status": "quarantined", "reason": "signal"},
    ]


def test_confirmation_does_not_pass_on_to_another_save_of_the_same_step(store, root):
    store.save(10, {"w": torch.zeros(1)}, {})
    store.confirm(10)
    before = (root / "index.json").read_bytes()
    store.save(10, {"w": torch.ones(1)}, {})
    assert statuses(store) == {10: "provisional"}
    (root / "index.json").write_bytes(before)  # as after a kill before the index was written
    assert statuses(store) == {10: "provisional"}


def test_saving_a_step_again_replaces_it(store, root):
    store.save(10, {"w": torch.zeros(2)}, {"attempt": 0})
    store.save(10, {"w": torch.ones(2)}, {"attempt": 1})
    into = {"w": torch.zeros(2)}
    assert store.load(10, into) == {"attempt": 1}
    assert into["w"].tolist() == [1, 1]
    assert sorted(path.name for path in root.iterdir()) == ["index.json", "step-000000010"]


def test_a_quarantined_save_does_not_replace_a_trusted_one(store):
    store.save(10, {"w": torch.zeros(2)}, {"trusted": True})
    store.confirm(10)
    info = store.save(10, {"w": torch.ones(2)}, {"trusted": False}, quarantine="signal")
    assert info.status == "confirmed"
    assert store.load(10, {"w": torch.zeros(2)}) == {"trusted": True}
    assert store.latest() == 10


def test_a_trusted_save_replaces_a_quarantined_one(store):
    store.save(10, {}, {}, quarantine="signal")
    store.save(10, {}, {})
    assert statuses(store) == {10: "provisional"}


def test_abandoned_ones_are_left_behind(store):
    for step in (10, 20, 30):
        store.save(step, {}, {})
    store.confirm(20)
    store.save(33, {}, {}, quarantine="signal")
    store.save(35, {}, {}, quarantine="incident")
    assert store.abandon_after(10) == (20, 30, 33)
    assert [info.reason for info in store.infos()] == [None] + ["abandoned"] * 3 + ["incident"]
    assert store.latest() == store.resumable() == 10
    store.save(20, {}, {})
    assert statuses(store)[20] == "provisional"
    assert store.latest() == 20


def test_only_the_last_saved_quarantined_of_each_reason_stays(store):
    store.save(10, {}, {})
    for step in (11, 12, 13):
        store.save(step, {}, {}, quarantine="signal")
    store.save(14, {}, {}, quarantine="incident")
    store.save(15, {}, {}, quarantine="incident")
    assert steps(store) == [10, 13, 15]
    # After a rewind the steps begin again: the last saved one is not the one of the largest step.
    store.save(12, {}, {}, quarantine="incident")
    assert steps(store) == [10, 12, 13]


def test_quarantined_ones_rotate_nothing_out(store):
    for step in (10, 20, 30, 40, 50, 60):
        store.save(step, {}, {})
    before = steps(store)
    for step in (61, 62, 63, 64):
        store.save(step, {}, {}, quarantine="signal")
        store.save(step + 100, {}, {}, quarantine="incident")
    assert [s for s in steps(store) if s <= 60] == before


def test_the_newest_confirmed_one_outlives_its_turn(store):
    for step in (10, 20, 30, 40):
        store.save(step, {}, {})
    store.confirm(30)
    for step in range(50, 200, 10):
        store.save(step, {}, {})
    assert store.newest_confirmed() == 30
    assert 30 in steps(store)
    assert 20 not in steps(store)
    store.confirm(180)
    for step in range(200, 400, 10):
        store.save(step, {}, {})
    assert store.newest_confirmed() == 180
    assert 30 not in steps(store)


def test_foreign_things_stay(store, root):
    root.mkdir()
    (root / "notes").mkdir()
    (root / "step-7").mkdir()
    (root / "step-000000005-backup").mkdir()
    (root / ".step-5.tmp").mkdir()
    (root / "step-000000040").mkdir()
    (root / "step-000000040" / "mine.txt").write_text("mine")
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    (root / ".trash-step-000000001").symlink_to(outside)
    (root / "step-000000002").symlink_to(outside)
    (root / "readme.txt").write_text("hello")
    foreign = sorted(path.name for path in root.iterdir())
    for step in range(100, 200, 10):
        store.save(step, {}, {})
    assert set(foreign) <= {path.name for path in root.iterdir()}
    assert (outside / "kept").read_text() == "kept"
    assert store.latest() == 190
    assert min(steps(store)) == 100


def test_saving_where_a_foreign_folder_is_moves_it_aside(store, root):
    for n in range(2):
        (root / "step-000000010").mkdir(parents=True)
        (root / "step-000000010" / "mine.txt").write_text(f"mine {n}")
        store.save(10, {}, {"n": n})
        assert store.load(10, {}) == {"n": n}
        shutil.rmtree(root / "step-000000010")
    assert (root / "unreadable-step-000000010" / "mine.txt").read_text() == "mine 0"
    assert (root / "unreadable-step-000000010-2" / "mine.txt").read_text() == "mine 1"


def test_reading_writes_nothing(store, root):
    store.save(10, {"w": torch.zeros(1)}, {})
    (root / ".step-000000020.tmp").mkdir()  # another process is saving
    (root / ".trash-step-000000001").mkdir()
    (root / "index.json").unlink()

    def snapshot():
        return sorted((str(p), p.lstat().st_mtime_ns) for p in root.rglob("*"))

    before = snapshot()
    reader = CheckpointStore(root)
    reader.infos(), reader.latest(), reader.resumable(), reader.newest_confirmed()
    reader.verify(10), reader.load(10, {"w": torch.zeros(1)}), reader.tensors(10)
    assert snapshot() == before


@pytest.mark.parametrize("by", ["clean", "save"])
def test_leftovers_are_cleaned(store, root, by):
    store.save(10, {}, {})
    for name in (".step-000000020.tmp", ".trash-step-000000001", ".replaced-step-000000010"):
        (root / name).mkdir()
        (root / name / "part").write_text("x")
    (root / "step-000000010" / "manifest.json.tmp").write_text("torn")
    store.verify(10)  # a torn rewrite of the manifest does no harm
    if by == "clean":
        store.clean()
    else:
        store.save(10, {}, {})
    assert sorted(path.name for path in root.iterdir()) == ["index.json", "step-000000010"]
    assert not (root / "step-000000010" / "manifest.json.tmp").exists()


def test_a_replacement_that_did_not_make_it_is_undone(store, root):
    store.save(10, {}, {"which": "old"})
    os.rename(root / "step-000000010", root / ".replaced-step-000000010")
    store.clean()
    assert store.load(10, {}) == {"which": "old"}


def test_steps_of_more_than_nine_digits(store):
    store.save(12_345_678_901, {}, {})
    store.save(20, {}, {})
    assert store.latest() == 12_345_678_901
    assert store.load(12_345_678_901, {}) == {}


def test_tensors_are_described_without_being_read(store, root):
    store.save(10, {"a": torch.zeros(2, 3, dtype=torch.bfloat16), "b": torch.tensor(1)}, {})
    described = store.tensors(10)
    assert {name: (info.shape, info.dtype) for name, info in described.items()} == {
        "a": ((2, 3), torch.bfloat16),
        "b": ((), torch.int64),
    }


def test_partial_load_reads_only_what_is_asked_for(store):
    store.save(10, {"a": torch.ones(2), "b": torch.ones(3)}, {"x": 1})
    into = {"b": torch.zeros(3)}
    assert store.load(10, into, partial=True) == {"x": 1}
    assert into["b"].tolist() == [1, 1, 1]
    with pytest.raises(CheckpointError, match="c is missing in it"):
        store.load(10, {"c": torch.zeros(3)}, partial=True)


@pytest.mark.parametrize(
    ("into", "told"),
    [
        ({"a": torch.zeros(2)}, "b is in it, but not expected"),
        ({"a": torch.zeros(2), "b": torch.zeros(3), "c": torch.zeros(1)}, "c is missing in it"),
        (
            {"a": torch.zeros(1), "b": torch.zeros(3)},
            r"a is float32 \[2\] in it, expected float32 \[1\]",
        ),
        (
            {"a": torch.zeros(2), "b": torch.zeros(3, dtype=torch.bfloat16)},
            r"b is float32 \[3\] in it, expected bfloat16 \[3\]",
        ),
        ({"a": torch.zeros(2, 1), "b": torch.zeros(3)}, r"expected float32 \[2, 1\]"),
    ],
)
def test_other_tensors_are_refused_by_name(store, into, told):
    store.save(10, {"a": torch.ones(2), "b": torch.ones(3)}, {})
    with pytest.raises(CheckpointError, match=told):
        store.load(10, into)
    assert all(not tensor.any() for tensor in into.values())


def test_many_differences_are_counted(store):
    store.save(10, {f"t{n}": torch.zeros(1) for n in range(9)}, {})
    with pytest.raises(CheckpointError, match=r"t0 .*t1 .*t2 .*and 6 more"):
        store.load(10, {})


def test_random_states_of_other_ranks_may_come_and_go(store):
    mine = {"random.rank0.torch": torch.zeros(4, dtype=torch.uint8)}
    gone = {"random.rank1.torch": torch.zeros(4, dtype=torch.uint8)}
    device = {"random.rank0.cuda": torch.zeros(4, dtype=torch.uint8)}
    store.save(10, {**mine, **gone, **device}, {})
    store.load(10, dict(mine))
    new = {"random.rank7.python": torch.full((4,), 9, dtype=torch.uint8)}
    store.load(10, {**mine, **new})
    assert new["random.rank7.python"].tolist() == [9] * 4
    with pytest.raises(CheckpointError, match=r"random\.rank0\.torch is in it"):
        store.load(10, {})


def test_the_sketch_of_the_package_runs(tmp_path, monkeypatch):
    import surefoot.checkpoint as package

    monkeypatch.chdir(tmp_path)
    sketch = textwrap.dedent(package.__doc__.partition("::\n")[2])
    names = {}
    exec(sketch, names)
    assert names["step"] == 100
    assert names["changed"] == ()
