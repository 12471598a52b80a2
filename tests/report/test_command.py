"""`surefoot report` where it cannot write: one line, exit status 2, the right cure."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from surefoot.cli import main
from surefoot.errors import StorageError
from surefoot.records import StepRecord, TrainSpec
from surefoot.report import write_html
from surefoot.runs import RunWriter

FULL = Path("/dev/full")


@pytest.fixture
def folder(tmp_path):
    """A run with the rows 1 to 20."""
    with RunWriter.create(tmp_path / "runs/mine", TrainSpec(name="mine"), {}, {}) as writer:
        for step in range(1, 21):
            writer.append(StepRecord(step=step, values={"loss": 8.0 / step}))
        writer.ledger.append("finished", step=20)
    return writer.folder


def shell(folder, line):
    """Run a line of shell in which ``$REPORT`` is the command on the run."""
    command = f"{sys.executable} -m surefoot report {folder}"
    variables = {**os.environ, "REPORT": command}
    return subprocess.run(
        ["sh", "-c", line], env=variables, capture_output=True, text=True, timeout=60, check=False
    )


def test_text_then_the_page(folder, capsys):
    assert main(["report", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("mine  finished (at step 20)\n")
    assert shown.endswith(f"report: {folder / 'report.html'}\n")
    assert (folder / "report.html").is_file()


def test_json_holds_the_numbers_of_the_run(folder, capsys):
    assert main(["report", str(folder), "--format", "json"]) == 0
    summary = json.loads(capsys.readouterr().out)["summary"]
    assert (summary["status"], summary["step"]) == ("finished", 20)
    assert summary["loss"]["first"] == {"step": 1, "value": 8.0}


def refuse(number):
    def fail(*arguments, **keywords):
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EROFS, "the file system is read-only; remount it writable, "),
        (errno.ENOSPC, "the disk is full ("),
        (errno.EACCES, "permission is denied; check its owner and mode, "),
    ],
)
def test_without_room_for_the_page_the_text_is_still_told(
    folder, capsys, monkeypatch, number, words
):
    monkeypatch.setattr("surefoot.runs.durable.write_all", refuse(number))
    assert main(["report", str(folder)]) == 2
    told = capsys.readouterr()
    assert told.out.startswith("mine  finished")
    assert "report:" not in told.out
    assert told.err.startswith(f"surefoot: cannot write {folder / 'report.html'}: {words}")
    assert told.err.endswith(f"or write it elsewhere: surefoot report {folder} --out PATH\n")
    assert told.err.count("\n") == 1
    assert "--resume" not in told.err


def test_a_folder_in_the_place_of_the_page(folder, capsys):
    (folder / "report.html").mkdir()
    assert main(["report", str(folder)]) == 2
    told = capsys.readouterr()
    assert told.out.startswith("mine  finished")
    assert "report.html: a folder is in its place; move it away, or write it els" in told.err


def test_a_page_into_a_folder_that_is_not_there(folder, capsys, tmp_path):
    assert main(["report", str(folder), "--out", str(tmp_path / "no/page.html")]) == 2
    assert f"there is no folder {tmp_path / 'no'}\n" in capsys.readouterr().err


def test_the_library_names_the_way_on_too(make_run, monkeypatch, tmp_path):
    monkeypatch.setattr("surefoot.runs.durable.write_all", refuse(errno.ENOSPC))
    with pytest.raises(StorageError, match=r"elsewhere: surefoot report RUN --out PATH$"):
        write_html(make_run(30, 1), [], tmp_path / "page.html")


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_a_full_standard_output_is_one_line(folder, form):
    done = shell(folder, f"$REPORT --format {form} > /dev/full")
    assert done.returncode == 2, done.stderr
    assert done.stderr == (
        "surefoot: cannot write to standard output: No space left on device; let it lead "
        "elsewhere, then repeat the command\n"
    )


@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_a_closed_standard_output_is_one_line(folder, form):
    done = shell(folder, f"$REPORT --format {form} >&-")
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("surefoot: cannot write to standard output: it is closed")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_a_reader_that_leaves_is_no_error(folder, form):
    done = shell(folder, f"{{ $REPORT --format {form}; echo $? >&2; }} | true")
    assert done.stderr == "0\n"
    assert (folder / "report.html").is_file() == (form == "text")


def test_json_in_an_encoding_without_the_characters_of_a_name(folder):
    odd = folder.with_name("ü日")
    folder.rename(odd)
    done = shell(odd, "PYTHONIOENCODING=ascii $REPORT --format json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["summary"]["name"] == "ü日"
