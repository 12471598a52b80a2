"""`surefoot train` as a user meets it: how it ends, and what it says when it cannot go on."""

import shutil
import subprocess
from pathlib import Path

import pytest

from surefoot import runs
from surefoot.checkpoint import CheckpointStore

# A rate at which weights, and with them the loss, overflow in the first updates.
OVERFLOW = ("--set", "optimizer.learning_rate=1e30", "--set", "optimizer.clip_norm=0")


@pytest.fixture(scope="module")
def finished(tiny, command, tmp_path_factory):
    """A folder with the finished run `x`."""
    folder = tmp_path_factory.mktemp("finished")
    done = command(folder, "train", str(tiny / "tiny.toml"), "--name", "x")
    assert done.returncode == 0, done.stderr
    return folder, done


def test_a_run_ends_with_loss_baselines_sample_and_report(finished):
    folder, done = finished
    lines = done.stdout.splitlines()
    assert lines[0].startswith("validation loss in nats per token")
    assert [line.split()[0] for line in lines[1:4]] == ["surefoot", "bigram", "unigram"]
    assert "a sample the model wrote:" in lines
    assert lines[-1] == "report: runs/x/report.html"
    html = (folder / "runs/x/report.html").read_text(encoding="utf-8")
    assert "<html" in html
    assert "step 12/12" in done.stderr


def test_non_finite_halts_at_the_last_good_checkpoint(tiny, command, tmp_path):
    done = command(tmp_path, "train", str(tiny / "tiny.toml"), "--name", "x", *OVERFLOW)
    assert done.returncode == 3, done.stderr
    assert "SPK004" in done.stdout
    assert "last good checkpoint: step 0" in done.stdout
    folder = tmp_path / "runs" / "x"
    assert "SPK004" in (folder / "postmortem.md").read_text(encoding="utf-8")
    store = CheckpointStore(folder / "checkpoints")
    assert store.latest() == 0
    assert store.resumable() == 0
    run = runs.open(folder)
    # The checkpoint kept for replay has all its rows.
    kept = max(info.step for info in store.infos())
    assert run.signals["step"].to_list() == list(range(1, kept + 1))
    kinds = [event.kind for event in run.events]
    # Explained in the ledger before it takes effect.
    assert kinds.index("finding") < kinds.index("action") < kinds.index("halted")


def test_skip_goes_on_without_ever_updating_from_a_non_finite_gradient(tiny, command, tmp_path):
    done = command(
        tmp_path,
        "train",
        str(tiny / "tiny.toml"),
        "--name",
        "x",
        *OVERFLOW,
        "--set",
        "detection.on_nonfinite=skip",
    )
    assert done.returncode == 1, done.stderr  # it ran to its end, with an error found
    assert "no sample" in done.stdout
    run = runs.open(tmp_path / "runs" / "x")
    skipped = run.signals["update_skipped"].sum()
    assert skipped > 0
    assert [event.kind for event in run.events].count("update_skipped") == skipped
    assert run.signals["consumed_samples"].to_list() == [4 * step for step in range(1, 13)]


def says(done, *parts: str, status: int = 2) -> None:
    """One line on stderr, the right status, nothing on stdout."""
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    for part in parts:
        assert part in done.stderr


def test_a_name_that_is_taken(finished, tiny, command):
    folder, _ = finished
    before = sorted(p.relative_to(folder) for p in folder.rglob("*"))
    done = command(folder, "train", str(tiny / "tiny.toml"), "--name", "x")
    says(done, "run 'x' exists in runs", "--resume", "another --name")
    assert sorted(p.relative_to(folder) for p in folder.rglob("*")) == before


def test_resume_with_another_recipe_lists_what_differs(finished, tiny, command):
    folder, _ = finished
    done = command(
        folder, "train", str(tiny / "tiny.toml"), "--name", "x", "--resume",
        "--set", "optimizer.learning_rate=1e-3", "--set", "checkpoint.every=5",
    )  # fmt: skip
    says(
        done,
        "optimizer.learning_rate (run: 0.01, asked: 0.001)",
        "checkpoint.every (run: 4, asked: 5)",
        "surefoot train --name x --resume",
    )


def test_resume_with_the_same_recipe_is_fine_and_a_finished_run_stays_finished(
    finished, tiny, command
):
    folder, _ = finished
    ledger = (folder / "runs" / "x" / "events.jsonl").read_bytes()
    for recipe in ([], [str(tiny / "tiny.toml")]):
        done = command(folder, "train", *recipe, "--name", "x", "--resume")
        assert done.returncode == 0, done.stderr
        assert "run 'x' is finished: step 12 of 12" in done.stdout
    assert (folder / "runs" / "x" / "events.jsonl").read_bytes() == ledger


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--name", "x"], ["no recipe given", "surefoot train recipes/"]),
        (["--resume"], ["which run?", "--name NAME --resume"]),
        (["--name", "nope", "--resume"], ["no run 'nope'"]),
        (["missing.toml", "--name", "x"], ["missing.toml", "no such recipe"]),
        (["{recipe}", "--name", "../x"], ["--name '../x'", "expected letters"]),
        (
            ["{recipe}", "--name", "x", "--set", "optimiser.eps=1"],
            ["optimiser.eps", "optimizer.eps"],
        ),
        (["{recipe}", "--name", "x", "--set", "schedule.warmup_steps=50"], ["longer than the run"]),
        (["{recipe}", "--name", "x", "--set", "architecture.heads=5"], ["does not divide"]),
        (["{recipe}", "--frobnicate"], ["No such option", "surefoot train --help"]),
    ],
)
def test_unusable_requests(arguments, parts, tiny, command, tmp_path):
    recipe = str(tiny / "tiny.toml")
    done = command(tmp_path, "train", *[a.replace("{recipe}", recipe) for a in arguments])
    says(done, *parts)
    assert not (tmp_path / "runs").exists()


def with_corpus(tiny: Path, folder: Path, write) -> str:
    """The tiny recipe beside a corpus of the test's own making; its path."""
    text = (tiny / "tiny.toml").read_text(encoding="utf-8")
    cache = next(line for line in text.splitlines() if line.startswith("cache_dir"))
    (folder / "tiny.toml").write_text(
        text.replace(cache, f'cache_dir = "{folder / "cache"}"'), encoding="utf-8"
    )
    (folder / "corpus").mkdir()
    write(folder / "corpus")
    return str(folder / "tiny.toml")


def empty(corpus: Path) -> None:
    (corpus / "a.txt").write_text("")


def latin(corpus: Path) -> None:
    for n in range(8):
        (corpus / f"d{n}.txt").write_text("some words " * 400)
    (corpus / "bad.txt").write_bytes(b"caf\xe9 " * 50)


def short(corpus: Path) -> None:
    for n in range(4):
        (corpus / f"d{n}.txt").write_text("ab")


@pytest.mark.parametrize(
    ("write", "parts"),
    [
        (empty, ["corpus"]),
        (latin, ["bad.txt", "--set data.errors=replace"]),
        (short, ["less than one sample", "add text"]),
    ],
)
def test_unusable_data(write, parts, tiny, command, tmp_path):
    done = command(tmp_path, "train", with_corpus(tiny, tmp_path, write), "--name", "x", "--quiet")
    says(done, *parts)
    assert not (tmp_path / "runs" / "x").exists()


def test_replacing_bad_bytes_when_asked(tiny, command, tmp_path):
    recipe = with_corpus(tiny, tmp_path, latin)
    done = command(tmp_path, "train", recipe, "--name", "x", "--set", "data.errors=replace")
    assert done.returncode == 0, done.stderr


def test_torn_and_foreign_files_do_not_stop_a_resume(finished, command, tmp_path):
    folder, _ = finished
    shutil.copytree(folder / "runs" / "x", tmp_path / "runs" / "x")
    run = tmp_path / "runs" / "x"
    (run / "notes.docx").write_bytes(b"mine")
    (run / "signals" / "000000099-000000120.parquet").write_bytes(b"PAR1torn")
    newest = max((run / "checkpoints").glob("step-*"))
    victim = next(p for p in newest.iterdir() if p.suffix == ".distcp")
    victim.write_bytes(victim.read_bytes()[:-7])
    done = command(tmp_path, "train", "--name", "x", "--resume")
    assert done.returncode == 0, done.stderr
    assert "resuming x at step 8" in done.stderr
    assert newest.name in done.stderr
    assert (run / "notes.docx").read_bytes() == b"mine"
    assert runs.open(run).signals["step"].to_list() == list(range(1, 13))


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 6 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(place)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("mounting a tmpfs needs root")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_leaves_the_last_checkpoint_good(tiny, command, small_disk):
    recipe = str(tiny / "tiny.toml")
    started = command(small_disk, "train", recipe, "--name", "x", "--set", "schedule.steps=6")
    assert started.returncode == 0, started.stderr
    (small_disk / "ballast").write_bytes(bytes(1))
    with (small_disk / "ballast").open("wb", buffering=0) as ballast:
        try:
            while ballast.write(bytes(4096)):
                pass
        except OSError:
            pass
    done = command(small_disk, "train", recipe, "--name", "y", "--set", "schedule.steps=6")
    says(done, "disk", status=2) if "reading" not in done.stderr else None
    assert done.returncode == 2
    assert "full" in done.stderr.splitlines()[-1]
    store = CheckpointStore(small_disk / "runs" / "x" / "checkpoints")
    store.verify(store.latest())
