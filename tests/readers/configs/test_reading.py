"""Several files as one, contradictions, folders, what is no configuration, and damage."""

import random
import time
from contextlib import suppress

import pytest

from surefoot.errors import ConfigError, SurefootError, UsageError
from surefoot.readers import read_configs, read_spec
from surefoot.readers.configs.fields import fit, kinds
from surefoot.readers.configs.trainers import formats
from surefoot.records import from_json, to_json
from surefoot.records.spec import TrainSpec

LAUNCH = """\
#!/bin/bash
CLIP=1.0
cat <<EOT > ds.json
{
  "train_micro_batch_size_per_gpu": 4,
  "gradient_clipping": 0.3,
  "zero_optimization": {"stage": 1},
  "bf16": {"enabled": true}
}
EOT
deepspeed --num_gpus 8 pretrain_gpt.py --num-layers 2 --hidden-size 64 --clip-grad $CLIP \\
  --micro-batch-size 2 --bf16 --deepspeed --lr 1e-3
"""


def test_contradictions_within_a_script(read):
    found = read(LAUNCH)
    assert [file.format for file in found.files] == ["megatron", "deepspeed"]
    clip, micro = found.findings
    assert (clip.code, clip.severity, clip.place.field) == (
        "CFG001",
        "error",
        "optimizer.clip_norm",
    )
    assert clip.evidence["values"] == [1.0, 0.3]
    assert clip.evidence["lines"] == [11, 6]
    assert "1.0 in" in clip.message
    assert "0.3 in" in clip.message
    assert "DeepSpeed's value is used, silently" in clip.message
    assert found.spec.optimizer.clip_norm == 0.3
    assert (micro.severity, micro.place.field) == ("warning", "batch.micro_size")
    assert "not known" in micro.message
    assert found.spec.batch.micro_size == 2


def test_contradictions_between_files_of_one_kind(read):
    found = read("--num-layers 2\n--lr 1e-3\n--bf16\n", "--num-layers 2\n--lr 2e-3\n")
    (finding,) = found.findings
    assert (finding.severity, finding.place.field) == ("warning", "optimizer.learning_rate")
    assert "not known" in finding.message
    assert found.spec.optimizer.learning_rate == 1e-3


def test_a_stated_value_beats_what_another_file_would_fill_in(read):
    found = read('{"zero_optimization": {"stage": 2}}', "--lr 1\n--adam-eps 1e-6\n--zero-stage 2\n")
    assert found.findings == ()
    assert found.spec.optimizer.clip_norm == 1.0  # Megatron's default goes before DeepSpeed's
    assert found.spec.trainer == "Megatron-DeepSpeed"


def test_a_comment_that_contradicts(read):
    found = read(
        "# 4 nodes x 8 GPUs\n"
        "torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py --lr 1 --bf16 --clip-grad 1\n"
    )
    assert found.spec.parallelism.nodes == 2
    assert found.spec.parallelism.world_size == 16
    assert {(f.severity, f.place.field) for f in found.findings} == {
        ("warning", "parallelism.nodes"), ("warning", "parallelism.world_size"),
    }  # fmt: skip
    assert "the comment counts for nothing" in found.findings[0].message


def test_keys_given_twice(read):
    found = read(
        '{"zero_optimization": {"stage": 1},\n "train_batch_size": 1,\n "train_batch_size": 2}'
    )
    (finding,) = found.findings
    assert finding.severity == "warning"
    assert "DeepSpeed refuses this" in finding.message
    found = read("python t.py --lr 1 --bf16 --lr 2 --clip-grad 1\n")
    (finding,) = found.findings
    assert (finding.severity, finding.evidence["values"]) == ("warning", [1, 2])
    assert found.spec.optimizer.learning_rate == 2.0


def test_folders(write, tmp_path):
    write("m/config.json", '{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}')
    write("m/tokenizer.json", '{"version": "1.0", "added_tokens": []}')
    write("m/model.safetensors", b"\x00\x01\x02" * 50)
    write("m/README.md", "# Model: nothing\n")
    found = read_configs(tmp_path / "m")
    assert [file.format for file in found.files] == ["transformers"]
    assert found.spec.architecture.head_dim == 16
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="no file in it"):
        read_configs(tmp_path / "empty")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.txt", "It was a dark night.\n", "no configuration: neither JSON"),
        ("a.yaml", "a: [1\n", r"a\.yaml:2: not valid YAML"),
        ("a.toml", "[a\n", r"a\.toml:1: not valid TOML"),
        ("a.json", '{"foo": 1, "bar": 2}', "no trainer that is known has its keys"),
        ("a.json", "[1, 2]", "no configuration: neither JSON"),
        ("a", "", "no configuration"),
    ],
)
def test_what_is_no_configuration(write, name, text, words):
    with pytest.raises(ConfigError, match=words) as caught:
        read_configs(write(name, text))
    assert "\n" not in str(caught.value)


def test_no_path():
    with pytest.raises(UsageError):
        read_configs()


def test_surefoots_own_recipe_and_spec(write, tmp_path):
    from pathlib import Path

    from surefoot.recipe import load
    from surefoot.runs.spec import write_spec

    recipe_path = Path(__file__).parents[3] / "recipes" / "stdlib-1m.toml"
    recipe, sources = load(recipe_path)
    spec = recipe.to_spec(sources)
    read = read_spec(recipe_path)
    assert read.stated() | spec.stated() == read.stated()
    assert read.trainer == "surefoot"
    assert read.sources["architecture.width"].line == sources["architecture.width"].line
    write_spec(tmp_path, spec)
    assert read_spec(tmp_path / "spec.toml").optimizer == read.optimizer


def test_a_spec_goes_to_json_and_back(read):
    spec = read(LAUNCH).spec
    again = from_json(TrainSpec, to_json(spec))
    assert again.stated() == spec.stated()
    assert again.sources == spec.sources


def test_the_tables_name_fields_that_exist():
    for form in formats().values():
        for key in form.keys:
            to = form.target(key)
            assert to.field in kinds() or to.field.startswith("environment."), (form.name, key)
            assert form.knows(form.spell(key)), (form.name, key)
        for field in form.fills:
            assert field in kinds(), (form.name, field)


def test_what_trainers_fill_in_fits_the_fields(read):
    from surefoot.readers.configs.documents import Document
    from surefoot.readers.configs.formats import Draft

    for form in formats().values():
        draft = Draft(form, Document("x", "json", {}))
        for field, value in form.filled({}, draft).items():
            if value is not None:
                assert fit(field, value) == value, (form.name, field)


@pytest.mark.parametrize(
    ("field", "value", "want"),
    [
        ("architecture.layers", "6_000", 6000),
        ("architecture.layers", 6.0, 6),
        ("architecture.layers", "1e3", 1000),
        ("batch.global_size", "1,024", 1024),
        ("optimizer.eps", "1e-8", 1e-8),
        ("architecture.bias", "True", True),
        ("architecture.bias", 0, False),
        ("data.sources", "a", ("a",)),
        ("data.weights", (1, "2"), (1.0, 2.0)),
        ("environment.x", {"any": 1}, {"any": 1}),
        ("data.split", 1, "1"),
    ],
)
def test_values_are_made_to_fit(field, value, want):
    got = fit(field, value)
    assert got == want
    assert type(got) is type(want)


@pytest.mark.parametrize(
    ("field", "value"),
    [("architecture.layers", 1.5), ("architecture.layers", True), ("optimizer.eps", "small"),
     ("architecture.bias", "maybe"), ("optimizer.eps", None), ("architecture.layers", float("nan")),
     ("data.split", True), ("optimizer.eps", "1" * 100)],
)  # fmt: skip
def test_values_that_do_not_fit(field, value):
    with pytest.raises(ValueError, match="expected"):
        fit(field, value)


# -------------------------------------------------------------------------------------- damage

HOSTILE = {
    "deep JSON": '{"a":' * 200_000,
    "deep list": "[" * 200_000,
    "deep YAML": "a: " + "[" * 50_000,
    "deep TOML": "a = " + "[" * 50_000,
    "long dotted name": "a" + ".a" * 50_000 + " = 1",
    "deep Python": "x = " + "(" * 50_000,
    "long sum": "x = 1" + "+1" * 100_000,
    "substitutions": "--a " + "$(" * 100_000,
    "defaults": "--a " + "${a:-" * 60_000,
    "quotes": "--a " + '"' * 200_001,
    "conditions": "--x 1\n" + "if [ a ]; then\n" * 20_000,
    "lists": "A=(\n" * 50_000 + "--b",
    "one long word": "x" * 3_000_000,
    "numbers": "1 " * 1_500_000,
    "keys": "a: " * 1_000_000,
    "dots": "------------------------ arguments ------------------------\n"
    + "  a ........ " * 300_000,
    "dump of one name": "------------------------ arguments ------------------------\n"
    + "  a ..... 1\n" * 100_000,
    "printed JSON": " json = {" * 100_000,
    "hashes": "#" * 1_000_000 + "\n--lr 1",
    "digits": "a: " + "9" * 100_000,
    "spaces": " " * 2_000_000 + "[a]",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_texts_end_in_a_sentence_and_soon(read, text):
    start = time.process_time()
    with suppress(SurefootError):  # whose message is one line by its class
        read(text)
    assert time.process_time() - start < 8


def test_cut_and_garbled_files_never_crash(read):
    draw = random.Random(5)
    texts = [LAUNCH, '{"zero_optimization": {"stage": 1, "x": [1, 2]}, "fp16": {"enabled": true}}',
             "a: 1\nmodel_type: llama\nhidden_size: &x 5\nb: {c: *x, d: [1, 2e5]}\n",
             "--lr 1e-4 --bf16\n# x\n--clip-grad ${A:-1} \"$B\"\n"]  # fmt: skip
    for text in texts:
        for _ in range(150):
            cut = text[: draw.randrange(len(text))]
            if draw.random() < 0.5 and cut:
                place = draw.randrange(len(cut))
                cut = cut[:place] + draw.choice("\"'{}[]$()\\\n#:,=\x00ä") + cut[place + 1 :]
            try:
                read(cut)
            except SurefootError:
                continue
