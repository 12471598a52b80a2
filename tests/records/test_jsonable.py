"""Records go to strict JSON and come back the same; what is wrong is named by its field."""

import dataclasses
import json
import math
import types
import typing
from collections.abc import Mapping
from enum import Enum

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot import records
from surefoot.records import from_json, number_from_json, number_to_json, to_json

# A Run holds a polars frame; it is written as a folder, not as JSON.
RECORDS = [
    kind
    for name in records.__all__
    if dataclasses.is_dataclass(kind := getattr(records, name)) and name != "Run"
]

_plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
).map(to_json)


def values(kind) -> st.SearchStrategy:
    """Any value of an annotation, non-finite numbers and None included."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        return instances(kind)
    if kind is typing.Any:
        return _plain
    if origin is typing.Literal:
        return st.sampled_from(arguments)
    if origin in (types.UnionType, typing.Union):
        return st.one_of([values(option) for option in arguments])
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(values(arguments[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*[values(item) for item in arguments])
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(st.text(max_size=5), values(arguments[1]), max_size=3)
    return {
        int: st.integers(),
        float: st.floats(),
        str: st.text(max_size=9),
        bool: st.booleans(),
        type(None): st.none(),
    }[kind]


@st.composite
def instances(draw, kind):
    hints = typing.get_type_hints(kind)
    return kind(
        **{field.name: draw(values(hints[field.name])) for field in dataclasses.fields(kind)}
    )


def same(a, b) -> bool:
    """Equality in which NaN equals NaN and 1 is not 1.0 is not True."""
    if type(a) is not type(b):
        return False
    if dataclasses.is_dataclass(a):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    if isinstance(a, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def test_there_are_records():
    assert len(RECORDS) > 20


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_round_trip_through_strict_json(kind):
    @settings(max_examples=30, deadline=None, database=None)
    @given(instances(kind))
    def check(record):
        text = json.dumps(to_json(record), allow_nan=False)
        assert same(from_json(kind, json.loads(text)), record)

    check()


@pytest.mark.parametrize("kind", [*RECORDS, records.Run], ids=lambda kind: kind.__name__)
def test_records_are_frozen_slotted_and_by_keyword(kind):
    parameters = kind.__dataclass_params__
    assert parameters.frozen
    assert all(field.kw_only for field in dataclasses.fields(kind))
    assert "__slots__" in kind.__dict__


def test_a_record_cannot_be_changed_or_grow():
    place = records.Place(run="a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        place.run = "b"
    with pytest.raises((AttributeError, TypeError)):
        place.colour = "red"


def test_non_finite_numbers_are_strings_and_only_where_a_number_is_meant():
    verdict = records.Verdict(step=1, status="healthy", scores={"z": math.nan, "x": -math.inf})
    assert to_json(verdict)["scores"] == {"z": "nan", "x": "-inf"}
    back = from_json(records.Verdict, to_json(verdict))
    assert math.isnan(back.scores["z"])
    assert back.scores["x"] == -math.inf
    # In a text field "nan" stays text.
    assert (
        from_json(records.Finding, {"code": "inf", "name": "nan", "severity": "info"}).name == "nan"
    )
    assert [number_from_json(x) for x in ("inf", "-inf", 2)] == [math.inf, -math.inf, 2.0]
    assert [number_to_json(x) for x in (math.nan, math.inf, -math.inf, 1.5)] == [
        "nan",
        "inf",
        "-inf",
        1.5,
    ]


def test_an_integer_of_a_mixed_field_stays_an_integer():
    record = records.StepRecord(step=3, values={"tokens": 4096, "loss": 2.0, "grad_norm": math.inf})
    values = from_json(records.StepRecord, to_json(record)).values
    assert values == {"tokens": 4096, "loss": 2.0, "grad_norm": math.inf}
    assert isinstance(values["tokens"], int)
    assert isinstance(values["loss"], float)


def test_unknown_keys_are_left_out_and_missing_ones_take_their_default():
    place = from_json(records.Place, {"run": "a", "moon": 3, "steps": [1, 2]})
    assert place == records.Place(run="a", steps=(1, 2))


class Colour(Enum):
    RED = "red"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Paint:
    colour: Colour = Colour.RED


def test_what_json_has_no_word_for():
    assert to_json(np.float32(0.5)) == 0.5
    assert to_json(np.array([1.0, np.nan])) == [1.0, "nan"]
    assert to_json({2: {"b", "a"}}) == {"2": ["a", "b"]}
    assert from_json(Paint, to_json(Paint())) == Paint()
    with pytest.raises(TypeError, match=r"cannot write a object as JSON: <object"):
        to_json(object())


@pytest.mark.parametrize(
    ("kind", "data", "message"),
    [
        (records.Place, [], "Place: expected a table, got []"),
        (records.Place, {"steps": 3}, "Place.steps: expected a list, got 3"),
        (records.Place, {"steps": [1]}, "Place.steps: expected 2 items, got 1"),
        (records.Place, {"steps": [1, "x"]}, "Place.steps[1]: expected int, got 'x'"),
        (records.TrainSpec, {"optimizer": {"eps": 10**400}},
         f"TrainSpec.optimizer.eps: expected a number that a float can hold, got {10**400}"),
        (records.Place, {"line": True}, "Place.line: expected int, got True"),
        (records.Place, {"line": 1.5}, "Place.line: expected int, got 1.5"),
        (records.Place, {"run": 5}, "Place.run: expected str, got 5"),
        (records.TrainSpec, {"optimizer": {"eps": "small"}},
         "TrainSpec.optimizer.eps: expected a number or \"nan\", \"inf\", \"-inf\", got 'small'"),
        (records.TrainSpec, {"optimizer": {"eps": True}},
         "TrainSpec.optimizer.eps: expected float, got True"),
        (records.TrainSpec, {"architecture": {"qk_norm": 1}},
         "TrainSpec.architecture.qk_norm: expected bool, got 1"),
        (records.TrainSpec, {"data": {"weights": [1, [2]]}},
         "TrainSpec.data.weights[1]: expected float, got [2]"),
        (records.TrainSpec, {"sources": {"seed": {"kind": "flag", "line": "4"}}},
         "TrainSpec.sources.seed.line: expected int, got '4'"),
        (records.TrainSpec, {"sources": {"seed": {}}},
         "TrainSpec.sources.seed: missing 'kind'"),
        (records.TrainSpec, {"options": 3}, "TrainSpec.options: expected a table, got 3"),
        (records.StepRecord, {"step": 1, "values": {"loss": "low"}},
         "StepRecord.values.loss: expected float or int, got 'low'"),
        (records.Finding, {"code": "X", "name": "x", "severity": "bad"},
         "Finding.severity: expected one of 'info', 'warning', 'error', got 'bad'"),
        (records.Finding, {"code": "X"}, "Finding: missing 'name', 'severity'"),
        (Paint, {"colour": "blue"}, "Paint.colour: expected one of 'red', got 'blue'"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_what_is_wrong_is_named_by_its_path(kind, data, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is asserted in full
        from_json(kind, data)
    assert str(caught.value) == message
