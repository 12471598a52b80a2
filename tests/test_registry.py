"""The one registry: collisions are errors, unknown names get a hint, freezing holds."""

import pytest

from surefoot.errors import UsageError
from surefoot.registry import Registry


@pytest.fixture
def shapes():
    registry = Registry("schedule")

    @registry.register("cosine")
    def cosine():
        return 1

    @registry.register("linear")
    def linear():
        return 2

    return registry


def test_it_is_a_mapping_in_the_order_of_registration(shapes):
    assert list(shapes) == ["cosine", "linear"]
    assert len(shapes) == 2
    assert shapes["cosine"]() == 1
    assert "wsd" not in shapes
    assert shapes.get("wsd") is None
    with pytest.raises(KeyError):
        shapes["wsd"]


def test_the_decorator_gives_back_what_it_was_given(shapes):
    def wsd():
        return 3

    assert shapes.register("wsd")(wsd) is wsd
    assert shapes.lookup("wsd") is wsd


def test_a_name_can_be_taken_once(shapes):
    with pytest.raises(ValueError, match=r"schedule 'cosine' is already <function .*cosine"):
        shapes.register("cosine")(lambda: 9)
    assert shapes["cosine"]() == 1
    # A module that is loaded twice registers the same object: no collision.
    shapes.register("cosine")(shapes["cosine"])


def test_a_frozen_registry_stays_as_it_is(shapes):
    shapes.freeze()
    with pytest.raises(ValueError, match="the schedule registry is frozen: cannot add 'wsd'"):
        shapes.register("wsd")(lambda: 9)
    assert list(shapes) == ["cosine", "linear"]
    assert shapes.lookup("linear")() == 2


def test_an_unknown_name_gets_the_nearest_and_all(shapes):
    with pytest.raises(UsageError) as caught:
        shapes.lookup("cosinus")
    assert str(caught.value) == (
        "unknown schedule 'cosinus' (did you mean 'cosine'?); known: cosine, linear"
    )
    with pytest.raises(UsageError, match=r"^unknown schedule 'x'; known: cosine, linear$"):
        shapes.lookup("x")
