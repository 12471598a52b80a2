"""Every sample is told from its contents, and none is taken by another trainer."""

import contextlib
import re

import pytest

from surefoot.errors import ConfigError

from .trainer_samples import FORMATS, SAMPLES, sample, text


def test_no_sample_is_left_out():
    assert {path.name for path in SAMPLES.iterdir()} == set(FORMATS)


@pytest.mark.parametrize("name", FORMATS)
def test_samples_are_told(name):
    (file,) = sample(name).files
    assert file.format == FORMATS[name]


@pytest.mark.parametrize("name", FORMATS)
def test_the_name_of_the_file_does_not_matter(name, read):
    assert read(text(name)).files[0].format == FORMATS[name]


@pytest.mark.parametrize(
    "name", ["torchtitan.toml", "olmo_core.json", "litgpt.yaml", "axolotl.yml", "levanter.yaml",
             "llama_factory.yaml", "nemo.yaml", "nanotron.yaml"]
)  # fmt: skip
def test_inside_the_file_of_w_and_b(name, read):
    """Its config.yaml has every key of the first level with its contents below ``value``."""
    import json
    import tomllib

    import yaml

    load = {"toml": tomllib.loads, "json": json.loads}.get(name.rpartition(".")[2], yaml.safe_load)
    wrapped = {key: {"desc": None, "value": value} for key, value in load(text(name)).items()}
    wrapped["_wandb"] = {"desc": None, "value": {"cli_version": "0.19", "t": {"1": [1, 2]}}}
    found = read(config__yaml="wandb_version: 1\n\n" + yaml.safe_dump(wrapped))
    assert found.files[0].format == FORMATS[name]
    assert found.spec.trainer == sample(name).spec.trainer
    for field, value in sample(name).spec.stated().items():
        if sample(name).spec.sources[field].kind == "config":
            assert found.spec.stated()[field] == value, field


@pytest.mark.parametrize(
    "lines",
    [
        "repos:\n- repo: local\n  hooks:\n  - id: ruff\n",
        "version: 3\nservices:\n  web:\n    image: nginx\n    ports: [80]\n",
        "name: tests\non: [push]\njobs:\n  a:\n    runs-on: ubuntu-latest\n",
        "[project]\nname = 'x'\nversion = '1'\n[tool.ruff]\nline-length = 100\n",
        '{"name": "x", "version": "1.0", "scripts": {"test": "x"}, "seed": 3}\n',
        "name: x\nseed: 1\nmodel: y\ndata: z\n",
    ],
)
def test_files_of_others_are_not_taken(lines, read):
    with pytest.raises(ConfigError):
        read(lines)


@pytest.mark.parametrize("name", FORMATS)
def test_a_torn_file_says_so_or_reads(name, read):
    whole = text(name)
    for share in (0.3, 0.6, 0.95):
        with contextlib.suppress(ConfigError):
            read(whole[: int(share * len(whole))])


_VALUE = re.compile(r"(?<=[:=] )(?:\d[\w.+-]*|[Tt]rue|[Ff]alse|[a-z]\w+)(?=,?$)", re.MULTILINE)


@pytest.mark.parametrize("value", [".inf", "nan", "-1", "0", "1e400", "[1, 2]", "{}", "true", ""])
@pytest.mark.parametrize("name", FORMATS)
def test_absurd_values_end_in_a_sentence(name, value, read):
    """Every third value is replaced: nothing may end in another error."""
    for start in range(3):
        counted = iter(range(10_000))
        lines = _VALUE.sub(
            lambda match, counted=counted, start=start: (
                value if next(counted) % 3 == start else match[0]
            ),
            text(name),
        )
        with contextlib.suppress(ConfigError):
            read(lines)
