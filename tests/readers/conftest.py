"""Reading in tests: texts written to files, and the corpus of real logs where it is at hand."""

from pathlib import Path

import pytest

from surefoot.readers import read_run
from surefoot.records import Run

REAL = Path(__file__).parents[3] / "shared" / "corpus"


@pytest.fixture
def read_text(tmp_path):
    """``read_text(text, name="train.log", **options) -> Run`` of a file with that text."""

    def read(text: str, name: str = "train.log", encoding: str = "utf-8", **options) -> Run:
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return read_run(path, **options)

    return read


@pytest.fixture
def corpus():
    """``corpus("issue-nanogpt-215/issue215.log") -> Path``; the test is skipped without it."""

    def find(name: str) -> Path:
        path = REAL / name
        if not path.exists():
            pytest.skip(f"the corpus of real logs is not at hand ({name})")
        return path

    return find


def column(run: Run, name: str) -> list:
    return run.signals[name].to_list()
