import subprocess
import sys


def _loaded(code):
    code += "\nimport sys; print(*sorted(m for m in sys.modules))"
    return set(subprocess.check_output([sys.executable, "-c", code], text=True).split())


def test_importing_the_part_loads_nothing_heavy():
    loaded = _loaded("import surefoot.report")
    assert "surefoot.report.page" in loaded
    assert not loaded & {"torch", "polars", "numpy", "plotly", "tsdownsample"}


def test_writing_a_report_loads_neither_torch_nor_plotly(tmp_path):
    loaded = _loaded(
        "import polars as pl\n"
        "from surefoot.records import Run\n"
        "from surefoot.report import summary, write_html\n"
        "run = Run(name='r', signals=pl.DataFrame({'step': [1, 2], 'loss': [3.0, 2.0]}))\n"
        f"summary(run, []); write_html(run, [], {str(tmp_path / 'r.html')!r})"
    )
    assert "surefoot.report.figures" in loaded
    assert not loaded & {"torch", "plotly", "pandas"}
