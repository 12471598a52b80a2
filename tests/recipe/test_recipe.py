"""Recipes in and out: values, sources, derived defaults, and the way through a TrainSpec."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.errors import RecipeError
from surefoot.recipe import Recipe, load, sections
from surefoot.recipe.kinds import as_toml, default_words, expected, section_in
from surefoot.recipe.messages import all_names
from surefoot.records import Source, TrainSpec, from_json, to_json

SHIPPED = sorted((Path(__file__).parents[2] / "recipes").glob("*.toml"))


def through_json(recipe: Recipe, sources=None) -> TrainSpec:
    written = json.dumps(to_json(recipe.to_spec(sources)), allow_nan=False)
    return from_json(TrainSpec, json.loads(written))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_recipe_parses_and_is_named_like_its_file(path):
    recipe, sources = load(path)
    assert recipe.name == path.stem
    assert Recipe.from_spec(through_json(recipe, sources)) == recipe.resolved()


def test_some_recipe_ships():
    assert SHIPPED


# ------------------------------------------------------------------------------ sources, --set


def test_each_value_knows_where_it_was_stated(write):
    path = write()
    recipe, sources = load(path, ["optimizer.eps=1e-9", "schedule.steps=100"])
    assert recipe.optimizer.eps == 1e-9
    assert recipe.schedule.steps == 100
    assert sources["optimizer.learning_rate"] == Source(kind="recipe", file=str(path), line=13)
    assert sources["schedule.steps"] == Source(kind="flag", flag="--set schedule.steps=100")
    assert sources["optimizer.eps"] == Source(kind="flag", flag="--set optimizer.eps=1e-9")
    assert sources["optimizer.beta2"] == Source(kind="default")
    spec = through_json(recipe, sources)
    assert spec.sources == sources


def test_set_reaches_every_field(write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recipe, _ = load(
        write(),
        [
            "name=two words",
            "seed=7",
            "data.sources[1].path=here/x.txt",
            "data.sources[1].weight=3",
            "data.tokenizer=tok.json",
            "architecture.tied_embeddings=true",
            "init.std=0.02",
            "data.sources[1].weight=4",
        ],
    )
    assert (recipe.name, recipe.seed, recipe.init.std) == ("two words", 7, 0.02)
    assert recipe.architecture.tied_embeddings is True
    assert recipe.data.sources[1].weight == 4
    # Paths of a flag start where the command was typed.
    assert recipe.data.sources[1].path == str(tmp_path / "here/x.txt")
    assert recipe.data.tokenizer == str(tmp_path / "tok.json")


def test_paths_in_a_recipe_start_at_its_folder(write, tmp_path, monkeypatch):
    path = write()
    monkeypatch.chdir("/")
    recipe, _ = load(path)
    assert recipe.data.sources[0].path is None
    assert recipe.data.sources[1].path == str(tmp_path / "corpus/*.txt")
    assert recipe.data.tokenizer == "bpe"


def test_home_and_absolute_paths(write, monkeypatch):
    monkeypatch.setenv("HOME", "/home/reader")
    recipe, _ = load(write("corpus/*.txt", "~/books"), ["data.cache_dir=/scratch/cache"])
    assert recipe.data.sources[1].path == "/home/reader/books"
    assert recipe.data.cache_dir == "/scratch/cache"


# ---------------------------------------------------------------------------- derived defaults


def test_resolved_values(write):
    recipe, _ = load(write())
    resolved = recipe.resolved()
    small = math.sqrt(2 / (5 * 64))
    assert resolved.architecture.ff_width == 192  # 8/3 · 64 = 170.7, up to a multiple of 32
    assert resolved.architecture.embedding_scale == 1.0
    assert resolved.architecture.head_scale == 1.0
    assert resolved.init.std == small
    assert resolved.init.embedding_std == 1.0
    assert resolved.batch.micro_size == 16
    assert resolved.data.seed == 1
    assert resolved.schedule.decay_steps is None
    assert resolved.resolved() == resolved


def test_resolved_values_of_the_other_branches(write):
    recipe, _ = load(
        write("kv_heads = 2\n"),
        [
            "architecture.activation=gelu",
            "architecture.embedding_scale=sqrt_width",
            "architecture.tied_embeddings=true",
            "init.embedding_std=small",
            "schedule.kind=wsd",
            "batch.micro_size=4",
            "data.seed=9",
        ],
    )
    resolved = recipe.resolved()
    assert resolved.architecture.kv_heads == 4
    assert resolved.architecture.ff_width == 256
    assert resolved.architecture.embedding_scale == 8.0
    # Tied: the token just read has the logit d · std · scale = 4.
    assert resolved.architecture.head_scale == pytest.approx(4 / math.sqrt(64 * 2 / 5))
    assert resolved.schedule.decay_steps == 50
    assert resolved.batch.micro_size == 4
    assert resolved.data.seed == 9
    near_end, _ = load(write(), ["schedule.kind=wsd", "schedule.warmup_steps=490"])
    assert near_end.resolved().schedule.decay_steps == 10


def test_tied_head_scale_undoes_a_large_embedding(write):
    recipe, _ = load(write(), ["architecture.tied_embeddings=true", "init.embedding_std=0.5"])
    assert recipe.resolved().architecture.head_scale == 4 / (64 * 0.5)
    tiny, _ = load(write(), ["architecture.tied_embeddings=true", "init.embedding_std=0.01"])
    assert tiny.resolved().architecture.head_scale == 1


# ---------------------------------------------------------------------- the normal form and back


def test_the_spec_states_the_normal_form(write):
    recipe, _ = load(write())
    spec = recipe.to_spec()
    stated = spec.stated()
    assert stated["architecture.head_dim"] == 16
    assert stated["architecture.norm_placement"] == "pre"
    assert stated["optimizer.clip_norm"] == 1.0
    assert stated["data.weights"] == (2.0, 1.0)
    assert stated["data.sources"][0] == "stdlib"
    assert spec.trainer == "surefoot"
    assert spec.options["checkpoint"] == {"every": 100, "keep_newest": 3, "confirm_after": 50}
    assert "parallelism.world_size" not in stated


_small = st.integers(1, 10**6)


@st.composite
def recipes(draw):
    kv_heads, group, half = draw(st.tuples(*[st.integers(1, 4)] * 3))
    heads = kv_heads * group
    kind = draw(st.sampled_from(["cosine", "wsd", "linear", "constant"]))
    steps = draw(_small)
    warmup = draw(st.integers(0, steps))
    ramp = draw(st.booleans())
    low, increment, stages = draw(st.tuples(*[st.integers(1, 9)] * 3))
    rate = st.floats(1e-30, 1e30)
    return Recipe(
        name=draw(st.none() | st.text(max_size=9)),
        seed=draw(st.integers(0, 2**63 - 1)),
        architecture=sections.Architecture(
            layers=draw(st.integers(1, 10**4)),
            width=heads * 2 * half,
            heads=heads,
            kv_heads=draw(st.sampled_from([None, kv_heads])),
            ff_width=draw(st.none() | _small),
            vocab_size=draw(_small),
            sequence_length=draw(_small),
            activation=draw(st.sampled_from(["swiglu", "gelu"])),
            tied_embeddings=draw(st.booleans()),
            embedding_scale=draw(st.just("sqrt_width") | rate),
            head_scale=draw(st.just("auto") | rate),
        ),
        init=sections.Init(
            std=draw(st.just("small") | rate), pretrained=draw(st.none() | st.text())
        ),
        loss=sections.Loss(z_loss_weight=draw(st.sampled_from([0.0, 0, 1e-4, 3]))),
        optimizer=sections.Optimizer(learning_rate=draw(rate), clip_norm=draw(st.just(0.0) | rate)),
        schedule=sections.Schedule(
            kind=kind,
            steps=steps,
            warmup_steps=warmup,
            decay_steps=draw(st.none() | st.integers(0, steps - warmup)) if kind == "wsd" else None,
        ),
        batch=sections.Batch(
            global_size=low + increment * stages,
            micro_size=draw(st.none() | _small),
            ramp_from=low if ramp else None,
            ramp_increment=increment if ramp else None,
            ramp_samples=draw(_small) if ramp else None,
        ),
        data=sections.Data(
            sources=tuple(
                draw(
                    st.lists(
                        st.builds(sections.DataSource, kind=st.just("stdlib"), weight=rate)
                        | st.builds(
                            sections.DataSource,
                            kind=st.just("files"),
                            path=st.text(min_size=1, max_size=9),
                            max_bytes=st.none() | _small,
                        ),
                        min_size=1,
                        max_size=3,
                    )
                )
            ),
            seed=draw(st.none() | st.integers(0, 9)),
        ),
        training=sections.Training(
            compile=draw(st.booleans()), threads=draw(st.none() | st.integers(1, 4096))
        ),
    )


@settings(max_examples=100, deadline=None)
@given(recipes())
def test_recipe_to_spec_to_json_and_back(recipe):
    spec = through_json(recipe)
    back = Recipe.from_spec(spec)
    assert back == recipe.resolved()
    # A second time round nothing moves: what resumes is what was asked.
    assert through_json(back) == spec


# ------------------------------------------------------------------------- every field, any value

FIELDS = [name for name in all_names(Recipe) if name.count(".") or name in ("name", "seed")]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**63, -(2**63), 10**400])
    | st.floats()
    | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(name=st.sampled_from(FIELDS), value=VALUES)
def test_any_value_is_taken_or_refused_in_one_line(name, value):
    data = {
        "architecture": {
            "layers": 2,
            "width": 64,
            "heads": 4,
            "vocab_size": 9,
            "sequence_length": 8,
        },
        "optimizer": {"learning_rate": 1.0},
        "schedule": {"steps": 9, "warmup_steps": 1},
        "batch": {"global_size": 4},
        "data": {"sources": [{"kind": "stdlib"}]},
    }
    table, (*parents, key) = data, name.replace("[0]", ".0").split(".")
    for part in parents:
        table = table[int(part)] if part.isdigit() else table.setdefault(part, {})
    table[key] = value
    try:
        recipe = Recipe.parse(data, where="r.toml")
    except RecipeError as error:
        message = str(error)
    else:
        assert Recipe.from_spec(recipe.to_spec()) == recipe.resolved()
        return
    assert message.startswith("r.toml: ")
    assert "\n" not in message
    assert name.rpartition(".")[2] in message
    assert len(message) < 400


def test_every_field_has_a_meaning_and_its_kind_in_words():
    def walk(model):
        for name, field in model.model_fields.items():
            inner = section_in(field.annotation)
            if inner is None:
                assert field.description, f"{model.__name__}.{name}"
                assert field.description.rstrip().endswith("."), f"{model.__name__}.{name}"
                assert expected(field)
            else:
                assert inner.__doc__
                walk(inner)

    walk(Recipe)


def test_words_for_kinds_and_defaults():
    fields = sections.Architecture.model_fields
    assert expected(fields["layers"]) == "a whole number > 0 and <= 10000"
    assert expected(fields["kv_heads"]) == "a whole number > 0"
    assert expected(fields["norm"]) == "'rmsnorm' or 'layernorm'"
    assert expected(fields["embedding_scale"]) == "a number > 0 or 'sqrt_width'"
    assert expected(sections.Optimizer.model_fields["beta1"]) == "a number >= 0 and < 1"
    assert expected(sections.Data.model_fields["sources"]) == "a list of one or more tables"
    assert expected(Recipe.model_fields["architecture"]) == "a table"
    assert default_words(fields["layers"]) == "required"
    assert default_words(fields["kv_heads"]) == ""
    assert default_words(fields["qk_norm"]) == "true"
    assert default_words(fields["norm"]) == "'rmsnorm'"
    assert as_toml("x" * 99) == "'" + "x" * 56 + "..."
