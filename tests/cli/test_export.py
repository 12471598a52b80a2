"""A trained run goes into transformers, and from there into a new run."""

import pytest
import torch

from surefoot import runs
from surefoot.train import load_model


@pytest.fixture(scope="module")
def exported(tiny, command, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    done = command(folder, "train", str(tiny / "tiny.toml"), "--name", "x")
    assert done.returncode == 0, done.stderr
    done = command(folder, "export", "runs/x", "--to", "transformers", "--out", "hf")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "hf: the model of x at step 12\n"
    return folder


def test_transformers_loads_it_with_equal_logits_and_tokens(exported):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(exported / "hf")
    tokenizer = transformers.AutoTokenizer.from_pretrained(exported / "hf")
    ours = load_model(exported / "runs" / "x").model
    text = "bb cc\n\n\tdd  ee\r\n"
    tokens = tokenizer(text, return_tensors="pt").input_ids
    assert tokenizer.decode(tokens[0]) == text
    with torch.no_grad():
        difference = theirs(tokens).logits - ours(tokens)
    assert difference.abs().max() < 1e-4


def test_training_goes_on_from_it(exported, tiny, command, tmp_path):
    done = command(
        tmp_path,
        *("train", str(tiny / "tiny.toml"), "--name", "y", "--init-from", str(exported / "hf")),
        *("--set", "schedule.steps=3"),
    )
    assert done.returncode == 0, done.stderr
    first = runs.open(tmp_path / "runs" / "y").signals["loss"][0]
    before = runs.open(exported / "runs" / "x").signals["loss"]
    assert first < before[0] - 1  # it starts where the other ended, not at ln V
    spec = runs.read_spec(tmp_path / "runs" / "y")
    assert spec.options["init"]["pretrained"] == str(exported / "hf")
    again = command(tmp_path, "train", "--name", "y", "--resume")
    assert again.returncode == 0, again.stderr


def test_data_show_prints_what_was_fed(exported, tiny, command):
    done = command(exported, "data", "show", "runs/x", "--step", "2")
    assert done.returncode == 0, done.stderr
    heads = [line for line in done.stdout.splitlines() if line.startswith("--- sample")]
    assert [line.split()[2].rstrip(",") for line in heads] == ["4", "5", "6", "7"]
    assert "doc" in done.stdout
    beyond = command(exported, "data", "show", "runs/x", "--step", "99")
    assert beyond.returncode == 2
    assert "no record of step 99; it has steps 1 to 12" in beyond.stderr


def test_export_refuses_what_it_would_overwrite(exported, command):
    done = command(exported, "export", "runs/x", "--out", "hf")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_what_init_from_takes_over_is_marked_and_not_to_be_set(exported, tiny, command, tmp_path):
    recipe, folder = str(tiny / "tiny.toml"), str(exported / "hf")
    clash = ["--init-from", folder, "--set", "architecture.width=64"]
    done = command(tmp_path, "train", recipe, "--name", "y", *clash)
    assert done.returncode == 2
    assert "--set architecture.width=64" in done.stderr
    assert "width = 32" in done.stderr
    crash = {"SUREFOOT_CRASH_AT": "step:2"}
    arguments = ["train", recipe, "--name", "y", "--init-from", folder]
    assert command(tmp_path, *arguments, environment=crash).returncode == -9
    source = runs.read_spec(tmp_path / "runs" / "y").sources["architecture.width"]
    assert (source.kind, source.file) == ("config", f"{folder}/config.json")
    again = command(tmp_path, *arguments, "--resume", "--quiet")
    assert again.returncode == 0, again.stderr


def test_what_the_recipe_draws_need_not_fit_the_folder_and_resumes(
    exported, tiny, command, tmp_path
):
    text = (tiny / "tiny.toml").read_text("utf-8")
    odd = '\n[init]\nmethod = "t-fixup"\n'
    text = text.replace("[architecture]", '[architecture]\nnorm_placement = "none"', 1)
    (tmp_path / "odd.toml").write_text(text + odd, "utf-8")
    (tmp_path / "corpus").symlink_to(tiny / "corpus")
    folder = str(exported / "hf")
    arguments = ["train", "odd.toml", "--name", "y", "--init-from", folder]
    done = command(
        tmp_path, *arguments, "--set", "schedule.steps=3", "--set", "schedule.warmup_steps=1"
    )
    assert done.returncode == 0, done.stderr
    assert command(tmp_path, "train", "--name", "y", "--resume").returncode == 0
    assert command(tmp_path, "export", "runs/y", "--out", "again").returncode == 0


def test_a_dense_folder_is_up_cycled_to_the_experts_of_the_recipe(
    exported, tiny, command, tmp_path
):
    folder = str(exported / "hf")
    done = command(
        tmp_path,
        *("train", str(tiny / "tiny.toml"), "--name", "y", "--init-from", folder),
        *("--set", "schedule.steps=3", "--set", "architecture.experts=4"),
    )
    assert done.returncode == 0, done.stderr
    signals = runs.open(tmp_path / "runs" / "y").signals
    # Every expert is a copy: the mixture starts where the dense model ended.
    assert signals["loss"][0] < runs.open(exported / "runs" / "x").signals["loss"][0] - 1
    assert signals["expert_load_max"].is_finite().all()
    assert command(tmp_path, "train", "--name", "y", "--resume").returncode == 0


def test_says_what_was_folded(tiny, command, tmp_path):
    done = command(
        tmp_path,
        *("train", str(tiny / "tiny.toml"), "--name", "w", "--set", "schedule.steps=2"),
        *("--set", "schedule.warmup_steps=1", "--set", "init.method=wesar"),
        *("--set", "architecture.embedding_norm=true"),
    )
    assert done.returncode == 0, done.stderr
    done = command(tmp_path, "export", "runs/w", "--out", "hf")
    assert done.returncode == 0, done.stderr
    (line,) = [x for x in done.stdout.splitlines() if "folded into the weights" in x]
    assert "parametrizations" in line
    assert "embedding_norm" in line
