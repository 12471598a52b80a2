"""spec.toml comes back as it was written; what is newer or torn says so."""

import math
import tomllib
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot import recipe, runs
from surefoot.errors import RunFolderError
from surefoot.records import OptimizerSpec, Source, TrainSpec
from surefoot.runs.spec import decode_spec, encode_spec

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.toml"))

words = st.text(st.characters(codec="utf-8"), max_size=8)
plain = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | words
trees = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
VALUES = {
    "int | None": st.integers(0, 2**40),
    "float | None": st.floats(allow_nan=False),
    "str | None": words,
    "bool | None": st.booleans(),
    "tuple[str, ...] | None": st.lists(words, max_size=3).map(tuple),
    "tuple[float, ...] | None": st.lists(st.floats(allow_nan=False), max_size=3).map(tuple),
}


def sections(kind):
    return st.builds(kind, **{f.name: st.none() | VALUES[str(f.type)] for f in fields(kind)})


SECTIONS = [f for f in fields(TrainSpec) if is_dataclass(f.type)]
specs = st.builds(
    TrainSpec,
    name=st.none() | words,
    trainer=st.none() | words,
    seed=st.none() | st.integers(),
    environment=st.dictionaries(words, trees, max_size=3),
    options=st.dictionaries(words, st.dictionaries(words, trees, max_size=3), max_size=3),
    sources=st.dictionaries(
        words,
        st.builds(Source, kind=words, file=st.none() | words, line=st.none() | st.integers(0, 9)),
        max_size=3,
    ),
    **{f.name: sections(f.type) for f in SECTIONS},
)


@given(specs)
@settings(max_examples=80, deadline=None)
def test_any_spec_comes_back(spec):
    assert len(SECTIONS) > 8
    data = encode_spec(spec)
    assert decode_spec(data, "x") == spec
    assert data.startswith(b"format = 1\n")


@pytest.mark.parametrize("value", [0.1, 1e-8, 1e300, 5e-324, -0.0, math.inf, -math.inf, 1 / 3])
def test_floats_are_exact(value):
    spec = TrainSpec(optimizer=OptimizerSpec(eps=value), options={"a": {"b": [value]}})
    back = decode_spec(encode_spec(spec), "x")
    assert math.copysign(1, back.optimizer.eps) == math.copysign(1, value)
    assert back == spec


def test_nan_is_kept():
    spec = TrainSpec(optimizer=OptimizerSpec(eps=math.nan), options={"a": {"b": math.nan}})
    back = decode_spec(encode_spec(spec), "x")
    assert math.isnan(back.optimizer.eps)
    assert math.isnan(back.options["a"]["b"])


def test_what_was_not_stated_is_absent():
    spec = TrainSpec(seed=3, optimizer=OptimizerSpec(eps=1e-8), options={"data": {"x": None}})
    table = tomllib.loads(encode_spec(spec).decode())
    assert table == {
        "format": 1,
        "seed": 3,
        "optimizer": {"eps": 1e-8},
        "options": {"data": {}},
    }


@pytest.mark.parametrize("value", [[None], object(), {1, 2}])
def test_what_has_no_place_in_toml_is_refused(value):
    with pytest.raises(TypeError, match=r"cannot write a \w+ to spec.toml"):
        encode_spec(TrainSpec(options={"a": {"b": value}}))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_spec_of_every_recipe_comes_back(path, tmp_path):
    asked, sources = recipe.load(path, ["schedule.steps=77"])
    spec = asked.to_spec(sources)
    runs.write_spec(tmp_path, spec)
    back = runs.read_spec(tmp_path)
    assert back == spec
    assert recipe.Recipe.from_spec(back).to_spec() == replace(spec, sources={})
    assert back.sources["schedule.steps"].kind == "flag"


def test_a_newer_format_is_refused_by_name(make):
    writer = make()
    writer.close()
    path = writer.folder / "spec.toml"
    path.write_text('format = 2\nname = ["what format 2 calls a name"]\n')
    message = (
        r"spec\.toml: written by a newer surefoot \(format 2, this one reads 1\): upgrade with"
    )
    for read in (runs.read_spec, runs.open, runs.all_attempts):
        with pytest.raises(RunFolderError, match=message):
            read(writer.folder)
    with pytest.raises(RunFolderError, match=message):
        runs.RunWriter.resume(writer.folder, 0, {})


@pytest.mark.parametrize(
    "text",
    [
        "format = 1\nname = ",
        "name = 'x'",
        "format = true",
        "format = 0",
        "format = '1'",
        "format = 1\nseed = 'x'",
        "format = 1\n[optimizer]\neps = 'tiny'",
        "\0",
    ],
)
def test_a_torn_or_foreign_spec_is_an_error_alone_and_a_problem_in_a_run(make, text):
    writer = make(steps=2)
    writer.close()
    (writer.folder / "spec.toml").write_text(text)
    with pytest.raises(RunFolderError, match=r"spec\.toml cannot be read: "):
        runs.read_spec(writer.folder)
    run = runs.open(writer.folder)
    assert run.spec == TrainSpec()
    assert run.signals.height == 2
    assert len(run.problems) == 1
    assert run.problems[0].startswith("spec.toml cannot be read")


def test_a_spec_that_is_not_utf8_or_not_there(make):
    writer = make(steps=2)
    writer.close()
    (writer.folder / "spec.toml").write_bytes(b"format = 1\nname = '\xff'")
    with pytest.raises(RunFolderError, match="cannot be read"):
        runs.read_spec(writer.folder)
    (writer.folder / "spec.toml").unlink()
    with pytest.raises(RunFolderError, match=r"is not a run folder: spec\.toml: No such file"):
        runs.read_spec(writer.folder)
    assert runs.open(writer.folder).signals.height == 2


def test_the_environment_is_strict_json(tmp_path):
    runs.write_environment(tmp_path, {"flops": math.inf, "versions": {"torch": "2.6"}, "n": (1, 2)})
    found = runs.read_environment(tmp_path)
    assert found == {"flops": "inf", "versions": {"torch": "2.6"}, "n": [1, 2]}
