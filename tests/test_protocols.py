"""What parts promise one another is what the parts that exist do."""

import inspect

import pytest

from surefoot import runs
from surefoot.detect import LossDetector
from surefoot.protocols import Detector, Ledger


@pytest.mark.parametrize(("promise", "kept_by"), [(Detector, LossDetector), (Ledger, runs.Ledger)])
def test_signatures_agree(promise, kept_by):
    for name, method in vars(promise).items():
        if inspect.isfunction(method) and not name.startswith("_"):
            wanted = inspect.signature(method).parameters.values()
            given = inspect.signature(getattr(kept_by, name)).parameters.values()
            assert [(p.name, p.kind, p.default) for p in given] == [
                (p.name, p.kind, p.default) for p in wanted
            ], name


def test_the_detector_is_one():
    assert isinstance(LossDetector(), Detector)
    assert not isinstance(object(), Detector)
