"""Truths survive their file, and a file that is none is named."""

import json

import pytest

from surefoot.errors import UsageError
from surefoot.testing import Truth, read_truths, write_truths


def test_truths_come_back_as_they_were(tmp_path):
    truths = [
        Truth(case="a", set="dev", kind="clean", group="clean", cause="", healthy=True, steps=700),
        Truth(
            case="b", set="dev", kind="rate-slip", group="rate", cause="rate", point=True,
            accepted=("unknown", "rate"), injection_step=300, manifest_step=301,
            manifest_signal="grad_norm@head", harm_nats=float("inf"), peak_nats=2.5,
            recovered=False, steps=500,
        ),
    ]  # fmt: skip
    path = tmp_path / "set" / "truths.json"
    write_truths(path, truths)
    assert read_truths(path) == truths
    assert truths[1].faulty
    assert not truths[0].faulty
    json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_a_key_of_a_later_version_is_passed_over(tmp_path):
    path = tmp_path / "truths.json"
    entry = {"case": "a", "set": "s", "kind": "clean", "group": "clean", "cause": "", "new": 1}
    path.write_text(json.dumps({"format": 1, "truths": [entry]}))
    assert read_truths(path)[0].case == "a"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read"),
        ("[]", "no file of truths"),
        ("{", "no file of truths"),
        ('{"format": 2, "truths": []}', "format 2, this version of surefoot reads 1"),
    ],
)
def test_what_is_no_file_of_truths_is_named(tmp_path, text, said):
    path = tmp_path / "truths.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match=said) as caught:
        read_truths(path)
    assert str(path) in str(caught.value)
