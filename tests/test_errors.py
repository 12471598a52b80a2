"""The error tree: one line each, exit status, and what to type."""

import re

import pytest

from surefoot import errors
from surefoot.errors import MissingExtraError, SurefootError, UsageError, nearest, require

CLASSES = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, SurefootError)
}


def test_the_tree_in_the_docstring_is_the_tree():
    drawn = re.findall(r"^ +(?:[├└]── )?(\w+)  +\S", errors.__doc__, flags=re.MULTILINE)
    assert sorted(drawn) == sorted(CLASSES)


@pytest.mark.parametrize("kind", CLASSES.values(), ids=CLASSES)
def test_every_error_is_for_people(kind):
    assert issubclass(kind, Exception)
    assert kind.__doc__.endswith(".")
    assert kind.exit_code == 2


def test_a_message_is_one_line():
    assert str(UsageError("first\n  second\tthird ")) == "first second third"


def test_a_missing_package_names_the_extra():
    with pytest.raises(MissingExtraError) as caught:
        require("surefoot_no_such_package.inner", "hf")
    assert str(caught.value) == (
        "this needs the package 'surefoot_no_such_package', which is not installed: "
        "type pip install 'surefoot[hf]'"
    )


def test_an_installed_package_is_returned():
    assert require("json.decoder", "hf").__name__ == "json.decoder"


def test_a_package_that_lacks_one_of_its_own_is_not_blamed_on_the_extra(tmp_path, monkeypatch):
    (tmp_path / "surefoot_half.py").write_text("import surefoot_no_such_package\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="surefoot_no_such_package"):
        require("surefoot_half", "hf")


def test_a_part_of_an_installed_package_that_is_gone():
    # An old version of the package: still the extra's business.
    with pytest.raises(MissingExtraError, match=r"surefoot\[hf\]"):
        require("json.no_such_part", "hf")


@pytest.mark.parametrize(
    ("word", "hint"),
    [("layer", " (did you mean 'layers'?)"), ("qqqq", ""), ("", "")],
)
def test_nearest(word, hint):
    assert nearest(word, ["layers", "width", "heads"]) == hint
