"""Notebooks: read as what their cells printed."""

import gzip
import json

import pytest

from surefoot.readers import read_run
from surefoot.readers.text import Source, lines
from surefoot.readers.text.notebook import is_notebook, printed


def notebook(*outputs, **more) -> dict:
    """A notebook of version 4 with one cell for each list of outputs."""
    cells = [{"cell_type": "code", "source": ["print(loss)"], "outputs": list(o)} for o in outputs]
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **more}


STREAM = {"output_type": "stream", "name": "stdout", "text": ["step 1\n", "step 2"]}
RESULT = {"output_type": "execute_result", "data": {"text/plain": ["0.5"], "text/html": ["<b>"]}}


def test_streams_and_results_come_in_the_order_of_the_cells_each_on_its_own_line():
    markdown = {"cell_type": "markdown", "source": ["loss: 7.0"]}
    document = notebook([STREAM, RESULT], [{**STREAM, "text": "end\n"}])
    document["cells"].insert(1, markdown)
    assert printed(json.dumps(document).encode()) == b"step 1\nstep 2\n0.5\nend\n"


def test_version_three_keeps_its_cells_in_worksheets():
    document = {"nbformat": 3, "worksheets": [{"cells": [{"outputs": [{"text": ["a\n"]}]}]}]}
    assert printed(json.dumps(document).encode()) == b"a\n"


@pytest.mark.parametrize(
    "text", ['{"cells": [', '{"cells": [], "metadata": {}}', "[1]", '{"cells":' + "[" * 100_000]
)
def test_what_is_no_notebook_is_left_as_it_is(text, tmp_path):
    assert printed(text.encode()) is None
    path = tmp_path / "a.ipynb"
    path.write_text(text + ' "cell_type"')
    with Source(path) as source:
        assert source.whole() == (text + ' "cell_type"').encode()
        assert source.file == path


def test_a_metrics_file_with_cells_is_no_notebook():
    assert not is_notebook(b'{"step": 1, "cells": 3}')
    assert is_notebook(b'\xef\xbb\xbf{\n "cells": [\n {"cell_type": "code"')


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_source_gives_the_printed_text(tmp_path, pack):
    text = "".join(f"line {n}\n" for n in range(40_000))  # longer than a head
    path = tmp_path / "run.ipynb"
    path.write_bytes(pack(json.dumps(notebook([{**STREAM, "text": text}]), indent=1).encode()))
    with Source(path) as source:
        assert source.file is None
        told = [line.text for line in lines(source)]
    assert told == [f"line {n}" for n in range(40_000)]


def test_a_log_in_a_notebook_is_read(tmp_path):
    text = "".join(
        f" iteration {n}/ 20 | lm loss: {9.0 - n / 10:.6E} | grad norm: 1.5 |\n" for n in (10, 20)
    )
    path = tmp_path / "run.ipynb"
    path.write_text(json.dumps(notebook([{**STREAM, "text": text}])))
    run = read_run(path)
    assert run.signals["step"].to_list() == [10, 20]
    assert run.signals["loss"].to_list() == [8.0, 7.0]


def test_the_corpus_notebook_holds_the_lines_of_its_streams(corpus):
    path = corpus("nemo-resiliency-nb/resiliency-in-pretraining-demo.ipynb")
    document = json.loads(path.read_text())
    streams = [
        "".join(output["text"])
        for cell in document["cells"]
        for output in cell.get("outputs", [])
        if output["output_type"] == "stream"
    ]
    with Source(path) as source:
        text = b"".join(source.chunks()).decode()
    assert len(streams) > 5
    assert all(stream in text for stream in streams)
    assert text.count("reduced_train_loss") == sum(s.count("reduced_train_loss") for s in streams)
