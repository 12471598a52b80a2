"""``surefoot diagnose`` and ``surefoot check``, as a user types them."""

import gzip
import json
import math

import pytest

from surefoot.report import json_schema

RECORD = (
    " iteration {step:8d}/    1000 | consumed samples: {samples:12d} | elapsed time per iteration "
    "(ms): 512.0 | learning rate: 1.000E-04 | global batch size:    64 | lm loss: {loss:.6E} | "
    "grad norm: {norm:.3f} | number of skipped iterations:   0 |\n"
)


def record(step: int, loss: float, norm: float = 1.0) -> str:
    return RECORD.format(step=step, samples=step * 64, loss=loss, norm=norm)


def healthy(steps: range) -> str:
    return "".join(
        record(i, 3.0 + 0.02 * math.sin(7.3 * i), 1 + 0.1 * math.sin(3.1 * i)) for i in steps
    )


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "good.log").write_text(healthy(range(1, 301)))
    (tmp_path / "bad.log").write_text(
        healthy(range(1, 201)) + "".join(record(i, math.nan, math.nan) for i in range(201, 220))
    )
    return tmp_path


def test_a_healthy_log_is_told_and_nothing_found(folder, command):
    done = command(folder, "diagnose", "good.log")
    assert done.returncode == 0, done.stderr
    assert "read as  Megatron-LM (surely, " in done.stdout
    assert "steps  1 to 300 (300 recorded, 1,000 planned)" in done.stdout
    assert "step_time (elapsed time per iteration (ms) → s)" in " ".join(done.stdout.split())
    assert "no findings" in done.stdout


def test_a_nan_is_an_error_and_status_1(folder, command):
    done = command(folder, "diagnose", "bad.log", "--format", "json")
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert told["command"] == "diagnose"
    assert set(json_schema()["required"]) <= set(told)
    (finding,) = [f for f in told["findings"] if f["severity"] == "error"]
    assert finding["code"] == "SPK004"
    assert finding["evidence"]["onset_step"] == 201
    assert told["summary"]["reading"]["format"] == "megatron"
    assert told["summary"]["reading"]["fields"]["loss"]["key"] == "lm loss"


def test_what_happened_before_a_restart_is_told_though_the_run_went_on(folder, command):
    text = (folder / "bad.log").read_text() + healthy(range(190, 400))
    (folder / "restarted.log").write_text(text)
    done = command(folder, "diagnose", "restarted.log", "--format", "json")
    told = json.loads(done.stdout)
    assert [(f["code"], f["place"]["attempt"]) for f in told["findings"]] == [("SPK004", 0)]
    assert [a["rows"] for a in told["summary"]["reading"]["attempts"]] == [219, 210]


def test_html_goes_to_a_file_or_to_stdout_alone(folder, command):
    done = command(folder, "diagnose", "good.log", "--format", "html")
    assert done.stdout.startswith("<!")
    assert "How it was read" in done.stdout
    done = command(folder, "diagnose", "good.log", "--out", "report.html")
    assert "report: report.html" in done.stderr
    assert (folder / "report.html").read_text().startswith("<!")


def test_packed_logs_of_a_folder_are_one_run_and_its_arguments_are_read(folder, command):
    run = folder / "run"
    run.mkdir()
    (run / "1.log.gz").write_bytes(gzip.compress(healthy(range(1, 101)).encode()))
    (run / "2.log.gz").write_bytes(gzip.compress(healthy(range(101, 201)).encode()))
    (run / "args.txt").write_text(
        "--num-layers 12\n--hidden-size 768\n--vocab-size 50257\n--fp16\n"
    )
    (run / "notes.md").write_text("It went well.\n")
    done = command(folder, "diagnose", "run", "--format", "json")
    assert done.returncode == 0, done.stderr
    reading = json.loads(done.stdout)["summary"]["reading"]
    assert [file.rpartition("/")[2] for file in reading["files"]] == ["1.log.gz", "2.log.gz"]
    assert [(a["first"], a["last"]) for a in reading["attempts"]] == [(1, 100), (101, 200)]
    assert json.loads(done.stdout)["summary"]["problems"] == []


def test_a_table_is_mapped(folder, command):
    (folder / "m.csv").write_text("it,train/weird\n" + "".join(f"{i},3.{i}\n" for i in range(9)))
    done = command(
        folder, "diagnose", "m.csv", "--map", "loss=train/weird", "--map", "step=it",
        "--format", "json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["summary"]["loss"]["first"] == {"step": 0, "value": 3.0}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing.log"], "surefoot: there is no file nothing.log"),
        (["god.log"], "(did you mean 'good.log'?)"),
        (["empty.log"], "empty.log is empty: it holds no metrics"),
        (["prose.log"], "prose.log holds no metrics: none of its 2 lines looks like one"),
        (["odd.log"], "the lines most like metrics are: line 1: T#5 ~ lossy 3.25"),
        (["odd.log"], "surefoot diagnose odd.log --map step=KEY --map loss=KEY"),
        (["good.log", "--format-in", "megatro"], "unknown log format 'megatro' (did you mean"),
        (["good.log", "--map", "loss"], "--map loss: expected SIGNAL=KEY, such as loss=train/ce"),
        (["good.log", "--map", "loss=lm los"], "no key 'lm los' (did you mean 'lm loss'?); keys: "),
        (["good.log", "--map", "los=lm loss"], "no signal 'los' (did you mean 'loss'?)"),
        ([""], "expected a log, got an empty path"),
        (["args.txt"], "args.txt is a configuration, not a log: type surefoot check args.txt"),
        (["good.log", "--out", "."], "--out .: is a folder; name a file in it"),
        (["good.log", "--format", "xml"], "--format xml: expected text, json or html"),
        (["good.log", "--out", "no/where.html"], "--out no/where.html: there is no folder no"),
        (["good.log", "--vocab-size", "1"], "--vocab-size 1: expected 2 or more"),
    ],
)
def test_what_cannot_be_meant_is_one_line_and_status_2(folder, command, arguments, words):
    (folder / "empty.log").write_text("")
    (folder / "args.txt").write_text("--num-layers 12\n--hidden-size 768\n--lr 3e-4\n--bf16\n")
    (folder / "prose.log").write_text("All went well.\nNothing to see here.\n")
    (folder / "odd.log").write_text("T#5 ~ lossy 3.25 ~ grad 1.5\nT#6 ~ lossy 3.5 ~ grad 1.25\n")
    done = command(folder, "diagnose", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert words in " ".join(done.stderr.split())
    assert len(done.stderr.splitlines()) == 1


def test_check_tells_every_field_with_its_source_and_contradictions(folder, command):
    (folder / "args.txt").write_text(
        "--num-layers 12\n--hidden-size 768\n--num-attention-heads 12\n--adam-beta2 0.95\n--bf16\n"
        "--deepspeed\n--deepspeed_config ds.json\n"
    )
    (folder / "ds.json").write_text(
        '{\n "fp16": {"enabled": true},\n "gradient_clipping": 0.5\n}\n'
    )
    done = command(folder, "check", "args.txt", "ds.json")
    words = " ".join(done.stdout.split())
    assert "optimizer.beta2 0.95 args.txt:4 --adam-beta2" in words
    assert "architecture.head_dim 64 follows from 768 channels / 12 heads" in words
    assert "CFG001" in words
    assert done.returncode == 1
    told = json.loads(command(folder, "check", "args.txt", "--format", "json").stdout)
    assert told["summary"]["fields"]["optimizer.beta2"] == {
        "value": 0.95, "kind": "config", "file": "args.txt", "line": 4, "flag": "--adam-beta2",
    }  # fmt: skip


def test_check_says_what_it_cannot_read(folder, command):
    done = command(folder, "check", "good.log")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    done = command(folder, "check", "god.log")
    assert "there is no file god.log (did you mean 'good.log'?)" in done.stderr


def test_a_log_without_losses_is_not_called_healthy(folder, command):
    text = healthy(range(1, 40)).replace("lm loss", "flops")
    lines = [line.partition("| grad norm")[0] + "|" for line in text.splitlines()]
    (folder / "mute.log").write_text("\n".join(lines).replace("flops", "other"))
    done = command(folder, "diagnose", "mute.log")
    assert "nothing was judged: no training loss and no gradient norm is recorded" in done.stdout
    assert "no findings" not in done.stdout


def test_a_stray_record_of_an_old_step_discards_nothing(folder, command):
    stray = record(5, 3.0).replace(" | lm loss: 3.000000E+00", "")
    text = healthy(range(1, 301)) + stray + healthy(range(301, 601))
    (folder / "stray.log").write_text(text)
    told = json.loads(command(folder, "diagnose", "stray.log", "--format", "json").stdout)
    assert [(a["first"], a["last"]) for a in told["summary"]["reading"]["attempts"]] == [(1, 600)]
    assert "a record of step 5 between steps 300 and 301 is left out" in told["summary"]["problems"]


def test_prose_beside_a_log_is_no_configuration_and_the_log_knows_its_own_length(folder, command):
    run = folder / "run"
    run.mkdir()
    (run / "train.log").write_text(healthy(range(1, 101)))
    (run / "README.md").write_text(
        "# A run\n\nIt was started so:\n\n    python pretrain_gpt.py --save-interval 7 "
        "--train-iters 1234\n\nand it was good.\n"
    )
    (run / "args.txt").write_text(
        "--num-layers 12\n--hidden-size 768\n--train-iters 777\n--lr 1e-4\n"
    )
    told = json.loads(command(folder, "diagnose", "run", "--format", "json").stdout)["summary"]
    assert told["planned_steps"] == 1000
    assert [file.rpartition("/")[2] for file in told["reading"]["settings"]] == ["args.txt"]


def test_keys_of_plain_lines_are_mapped(folder, command):
    (folder / "odd.log").write_text("".join(f"n={i} xent={3 - i / 100}\n" for i in range(30)))
    done = command(folder, "diagnose", "odd.log", "--map", "step=n", "--map", "loss=xent")
    assert done.returncode == 0, done.stderr
    assert "steps  0 to 29 (30 recorded)" in done.stdout
