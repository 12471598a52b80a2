import json
import math
import re
from pathlib import Path

import polars as pl
import pytest

from surefoot.records import (
    CheckpointInfo,
    Event,
    Finding,
    Place,
    Run,
    ScheduleSpec,
    TrainSpec,
    from_json,
)
from surefoot.report import json_schema, overview, to_json

FOLDER = Path(__file__).parents[1] / "golden" / "json"
GOLDEN = FOLDER / "diagnose.json"
GOLDEN_REPORT = FOLDER / "report.json"

_TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}


def _errors(value, schema, root, where="$"):
    """What is wrong with ``value``: the part of JSON Schema that the published schema uses."""
    found = []
    for word, wanted in schema.items():
        if word in ("$schema", "$id", "$defs", "title", "description", "then"):
            continue
        elif word == "$ref":
            found += _errors(value, root["$defs"][wanted.removeprefix("#/$defs/")], root, where)
        elif word == "type":
            kinds = [wanted] if isinstance(wanted, str) else wanted
            if isinstance(value, bool) or not any(isinstance(value, _TYPES[k]) for k in kinds):
                return [f"{where}: {value!r} is not {wanted}"]
        elif word == "const":
            found += [] if value == wanted else [f"{where}: not {wanted!r}"]
        elif word == "enum":
            found += [] if value in wanted else [f"{where}: {value!r} not in {wanted}"]
        elif word == "anyOf":
            if all(_errors(value, option, root, where) for option in wanted):
                found.append(f"{where}: {value!r} fits no option")
        elif word == "required":
            if isinstance(value, dict):
                found += [f"{where}: no {key!r}" for key in wanted if key not in value]
        elif word == "properties":
            for key, inner in wanted.items():
                if isinstance(value, dict) and key in value:
                    found += _errors(value[key], inner, root, f"{where}.{key}")
        elif word == "items":
            for index, item in enumerate(value):
                found += _errors(item, wanted, root, f"{where}[{index}]")
        elif word == "if":
            if not _errors(value, wanted, root, where):
                found += _errors(value, schema["then"], root, where)
        elif word == "pattern":
            found += [] if re.search(wanted, value) else [f"{where}: {value!r} not {wanted}"]
        elif word in ("minimum", "minLength", "minItems", "maxItems"):
            size = value if word == "minimum" else len(value)
            if size is not None and (size > wanted if word == "maxItems" else size < wanted):
                found.append(f"{where}: {word} {wanted}, got {size}")
        else:
            raise AssertionError(f"the check does not know {word!r}")
    return found


def _document():
    spike = Finding(
        code="SPK003",
        name="divergence",
        severity="error",
        place=Place(run="runs/trial", attempt=1, steps=(310, 340), signal="loss"),
        evidence={
            "incident": "a1-s00310",
            "onset_step": 308,
            "onset_interval": (305, 310),
            "leading_signal": "grad_norm",
            "peak_step": 333,
            "peak_nats": math.inf,
            "recovered_step": None,
            "last_healthy_step": 304,
            "rewind_to_step": 300,
            "false_alarm_rate": 0.5,
        },
        message="the loss left its course of 2.61 nats and keeps rising",
        actions=("rewind to the checkpoint of step 300", "skip the samples of steps 305 to 333"),
        references=("Chowdhery et al. 2022, 2204.02311",),
    )
    field = Finding(
        code="OPT002",
        name="large-eps",
        severity="warning",
        place=Place(field="optimizer.eps", file="recipe.toml", line=12),
        evidence={"eps": 1e-3, "low": -math.inf, "ratio": math.nan},
        message="eps is above sqrt(v)",
    )
    return to_json(
        "diagnose",
        [Path("runs/trial"), "recipe.toml"],
        [spike, field],
        not_checked=[{"code": "OPT004", "needs": "optimizer.beta2"}],
        summary={"steps": 340, "loss_last": math.nan},
    )


def test_the_document_is_the_golden_one():
    text = json.dumps(_document(), allow_nan=False, indent=2, ensure_ascii=False) + "\n"
    assert text == GOLDEN.read_text("utf-8")


def test_the_golden_document_fits_the_published_schema():
    schema = json_schema()
    assert _errors(json.loads(GOLDEN.read_text("utf-8")), schema, schema) == []


def _report():
    """What ``surefoot report`` prints of a run that has some of everything."""
    run = Run(
        name="trial",
        spec=TrainSpec(schedule=ScheduleSpec(steps=10)),
        signals=pl.DataFrame(
            {
                "step": [1, 2, 3, 4, 9],
                "loss": [8.0, math.nan, 4.0, 3.5, math.inf],
                "validation_loss": [None, 5.25, None, 3.75, None],
                "tokens_per_second": [8000.0, 9000.0, 9100.0, math.nan, 9000.0],
                "consumed_tokens": [4096, 8192, 12288, 16384, 36864],
            }
        ),
        events=(
            Event(kind="started", step=0),
            Event(kind="interrupted", step=9, data={"signal": 15}),
        ),
        checkpoints=(
            CheckpointInfo(step=9, path="c9", status="quarantined", reason="signal"),
            CheckpointInfo(step=4, path="c4", status="confirmed"),
        ),
        problems=("rows of steps 5 to 8 are missing",),
    )
    return to_json("report", ["runs/trial"], [], summary=overview(run))


def test_the_summary_of_a_report_is_the_golden_one():
    text = json.dumps(_report(), allow_nan=False, indent=2, ensure_ascii=False) + "\n"
    assert text == GOLDEN_REPORT.read_text("utf-8")
    schema = json_schema()
    assert _errors(json.loads(text), schema, schema) == []


def test_the_summary_of_an_odd_run_fits_the_schema(odd_run):
    schema = json_schema()
    document = to_json("report", [], [], summary=overview(odd_run))
    json.dumps(document, allow_nan=False)
    assert _errors(document, schema, schema) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["status"], "dead"),
        (["step"], "9"),
        (["loss"], None),
        (["loss", "best"], {"step": 4}),
        (["loss", "best", "value"], "Infinity"),
        (["checkpoints", 0, "step"], None),
        (["problems", 0], 5),
        (["tokens_per_second"], "nan"),
    ],
)
def test_the_schema_refuses_another_summary_of_a_report(path, value):
    document = _report()
    inner = document["summary"]
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    assert _errors(document, json_schema(), json_schema())


def test_no_findings_fit_too():
    schema = json_schema()
    document = to_json("check", [], [])
    assert _errors(document, schema, schema) == []
    assert document["summary"] == {"findings": {"error": 0, "warning": 0, "info": 0}}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["schema"], 2),
        (["command"], None),
        (["inputs", 0], 7),
        (["findings", 0, "severity"], "fatal"),
        (["findings", 0, "code"], "spike"),
        (["findings", 0, "place", "steps"], [310]),
        (["findings", 0, "place", "steps"], "310-340"),
        (["findings", 0, "place", "attempt"], "1"),
        (["findings", 0, "evidence", "peak_nats"], "Infinity"),
        (["findings", 0, "evidence", "onset_interval"], None),
        (["findings", 0, "actions"], "rewind"),
        (["not_checked", 0, "needs"], ""),
        (["summary", "findings", "error"], -1),
    ],
)
def test_the_schema_refuses_what_the_contract_does_not_say(path, value):
    document = _document()
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    assert _errors(document, json_schema(), json_schema())


@pytest.mark.parametrize(
    "path",
    [
        ["not_checked"],
        ["findings", 0, "place"],
        ["findings", 0, "place", "layer"],
        ["findings", 0, "evidence", "last_healthy_step"],
        ["summary", "findings"],
    ],
)
def test_the_schema_refuses_a_document_without_a_promised_key(path):
    document = _document()
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    assert _errors(document, json_schema(), json_schema())


def test_findings_come_back_from_the_document():
    found = _document()["findings"][1]
    again = from_json(Finding, json.loads(json.dumps(found)))
    assert again.place == Place(field="optimizer.eps", file="recipe.toml", line=12)
    assert again.evidence == {"eps": 1e-3, "low": "-inf", "ratio": "nan"}


def test_findings_keep_the_order_they_were_given():
    order = [Finding(code=f"SPK00{i}", name="x", severity="info") for i in (3, 1, 2)]
    assert [f["code"] for f in to_json("x", [], order)["findings"]] == [
        "SPK003",
        "SPK001",
        "SPK002",
    ]


def test_what_was_not_checked_must_say_what_it_needs():
    with pytest.raises(ValueError, match=r"expected 'code' and 'needs', got \{'code': 'OPT004'\}"):
        to_json("check", [], [], not_checked=[{"code": "OPT004"}])
