"""``surefoot check --init TARGET``: what it prints, refuses and writes."""

import json
import re

import pytest

GPT2 = {"model_type": "gpt2", "n_embd": 64, "n_head": 2, "n_layer": 3, "n_positions": 64,
        "vocab_size": 100}  # fmt: skip


@pytest.fixture
def folder(tiny, tmp_path):
    text = (tiny / "tiny.toml").read_text("utf-8").replace("steps = 12", "steps = 400")
    (tmp_path / "a.toml").write_text(text, "utf-8")
    (tmp_path / "config.json").write_text(json.dumps(GPT2), "utf-8")
    return tmp_path


def test_a_recipe_as_text(command, folder):
    done = command(folder, "check", "--init", "a.toml")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "a.toml"
    assert lines[1] == '  surefoot\'s decoder, init.method = "spike-no-more"'
    assert "no findings" in lines
    table = [line.split() for line in lines if line.strip()[:1].isdigit()]
    assert [row[0] for row in table if len(row) == 11] == ["0", "1"]
    assert "  end" in done.stdout
    assert max(map(len, lines)) <= 80


def test_a_setting_that_starts_badly_is_told_and_explained(command, folder):
    arguments = ("--set", 'init.method="he"', "--set", "architecture.qk_norm=false")
    done = command(folder, "check", "--init", "a.toml", *arguments)
    assert done.returncode == 0  # warnings
    assert "warning INI002 shortcut-too-small: a.toml" in done.stdout
    assert command(folder, "explain", "INI002").returncode == 0


def test_an_error_is_an_exit_status(command, folder):
    done = command(folder, "check", "--init", "a.toml", "--set", "init.std=1e30")
    assert done.returncode == 1
    assert "error INI008 start-not-finite" in done.stdout


def test_json_is_strict_and_holds_every_layer(command, folder):
    done = command(folder, "check", "--init", ".", "--format", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["schema"], document["command"]) == (1, "check")
    assert document["inputs"] == ["."]
    summary = document["summary"]
    assert [layer["layer"] for layer in summary["layers"]] == [0, 1, 2]
    assert summary["gradient_growth"] > 0
    assert summary["sizes"]["width"] == 64
    assert summary["ln_vocab"] == pytest.approx(4.605, abs=1e-3)
    assert {table["role"] for table in summary["tables"]} == {"embedding", "position"}
    assert set(summary["layers"][0]) >= {"stream_rms", "stream_gradient", "entropy"}
    assert {entry["code"] for entry in document["not_checked"]} == {"INI006", "INI007"}
    broken = command(
        folder, "check", "--init", "a.toml", "--set", "init.std=1e30", "--format", "json"
    )
    assert json.loads(broken.stdout)["summary"]["loss"] == "nan"


def test_html_to_a_file_or_to_stdout(command, folder):
    done = command(folder, "check", "--init", "a.toml", "--out", "start.html")
    assert done.returncode == 0
    assert done.stderr == "report: start.html\n"
    page = (folder / "start.html").read_text("utf-8")
    assert "id='chart-gradient'" in page
    printed = command(folder, "check", "--init", "a.toml", "--format", "html")
    assert printed.stdout.rstrip("\n") == page.rstrip("\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "expected a PATH to check, or --init TARGET"),
        (("x", "--init", "a.toml"), "--init a.toml takes no PATH beside it (got x)"),
        (("x", "--set", "a=b"), "--set goes with --init TARGET"),
        (("x", "--out", "b.html"), "--out goes with --init TARGET"),
        (("x", "--sequence-length", "8"), "--sequence-length goes with --init TARGET"),
        (("config.json", "--format", "html"), "--format html: expected text or json"),
        (("--init", "a.toml", "--format", "pdf"), "--format pdf: expected text, json or html"),
        (("--init", "a.toml", "--out", "."), "--out .: is a folder; name a file in it"),
        (("--init", "a.toml", "--out", "no/b.html"), "--out no/b.html: there is no folder no"),
        (("--init", "b.toml"), "there is no file b.toml (did you mean 'a.toml'?)"),
        (("--init", "a.toml", "--set", "init.x=1"), "--set init.x=1: there is no field init.x"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(command, folder, arguments, message):
    done = command(folder, "check", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert message.split(":")[0] in done.stderr
    if "init.x" not in message:
        assert done.stderr == f"surefoot: {message}\n"


def test_a_reduced_model_is_announced(command, folder):
    wide = {**GPT2, "n_embd": 31 * 128, "n_head": 31, "n_layer": 48, "n_positions": 64}
    (folder / "config.json").write_text(json.dumps(wide), "utf-8")
    done = command(folder, "check", "--init", "config.json")
    assert done.returncode == 0
    assert re.fullmatch(r"building it \d+ wide instead of 3968\n", done.stderr)
    assert "x sqrt(r), but the embedding's" in " ".join(done.stdout.split())
    lines = [line.split() for line in done.stdout.splitlines()]
    shown = [words[0] for words in lines if len(words) == 11 and words[0].isdigit()]
    assert (shown[0], shown[-1], len(shown)) == ("0", "47", 16)


def test_without_torch_it_says_what_to_install(monkeypatch, folder):
    import importlib

    from surefoot import errors
    from surefoot.cli.checking_init import Asked, run

    def missing(module):
        if module == "torch":
            raise ModuleNotFoundError("no torch", name="torch")
        return importlib.import_module(module)

    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")  # which the command would set for good
    monkeypatch.setattr(errors, "import_module", missing)
    with pytest.raises(errors.MissingExtraError, match=r"pip install 'surefoot\[torch\]'"):
        run(Asked(target=folder / "a.toml"))
