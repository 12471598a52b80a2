"""Configurations in tests: texts written to files, the cases where they are at hand."""

from pathlib import Path

import pytest

from surefoot.readers.configs import Configs, read_configs

CASES = Path(__file__).parents[4] / "shared" / "cases"


@pytest.fixture
def write(tmp_path):
    """``write("a.sh", text) -> Path``."""

    def put(name: str, text: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        return path

    return put


@pytest.fixture
def read(write):
    """``read(name=text, ...) -> Configs``, or ``read(text)`` of one file without an ending."""

    def run(*texts: str, **files: str) -> Configs:
        paths = [write(f"file{i}", text) for i, text in enumerate(texts)]
        paths += [write(name.replace("__", "."), text) for name, text in files.items()]
        return read_configs(*paths)

    return run


@pytest.fixture
def case():
    """``case("05-*/args.txt") -> Path``; the test is skipped without the cases."""

    def find(pattern: str) -> Path:
        found = sorted(CASES.glob(pattern))
        if not found:
            pytest.skip(f"the cases are not at hand ({pattern})")
        return found[0]

    return find


def stated(configs: Configs) -> dict:
    """Fields that files state: neither filled in nor derived."""
    spec = configs.spec
    return {
        field: value
        for field, value in spec.stated().items()
        if spec.sources[field].kind in ("config", "log", "comment")
    }


def place(configs: Configs, field: str) -> tuple:
    """(line, key) of a field."""
    source = configs.spec.sources[field]
    return source.line, source.flag
