"""``explain``: codes, fields of a recipe and signals, all from the places that define them."""

import pytest

from surefoot.cli import main


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("optimizer.eps", ["optimizer.eps", "well below sqrt(v)", "Takes: a number > 0", "1e-08"]),
        ("warmup_steps", ["schedule.warmup_steps", "Required."]),
        # A constant gradient scale cancels under Adam: said where it is asked for.
        ("optimizer.shallow_gradient", ["cancels but for eps, the global clip", "1/(1-beta2)"]),
        ("architecture.embedding_gradient", ["cancels but for eps and the global clip"]),
        ("architecture", ["[architecture]", "norm_placement"]),
        ("data.sources[0].weight", ["Share of the training samples"]),
        ("adam_rms", ["adam_rms [1]", "second moment", "2304.13013"]),
        ("SPK003", ["SPK003"]),
    ],
)
def test_explains(word, told, capsys):
    assert main(["explain", word]) == 0
    printed = capsys.readouterr().out
    for text in told:
        assert text in printed


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("optimizer.epz", "did you mean 'optimizer.eps'?"),
        ("every", "is the name of several fields: evaluation.every, checkpoint.every"),
        ("SPK01", "unknown code 'SPK01'"),
    ],
)
def test_an_unknown_word_costs_one_line(word, told, capsys):
    assert main(["explain", word]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1
