"""Key and number pairs of free text, bars, and steps that epochs count anew."""

import math
import time

import pytest

from surefoot.readers.logs._bars import bar
from surefoot.readers.logs._epochs import EpochSteps
from surefoot.readers.logs._pairs import LONGEST, pairs, short
from surefoot.readers.text import Line


def read(text, start=0):
    return {pair.key: pair.value for pair in pairs(text, start)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("loss: 2.5 | lr=3e-4 | norm 1.25", {"loss": 2.5, "lr": 3e-4, "norm": 1.25}),
        ("Peak mem 8.5 GB, It/sec 0.5", {"Peak mem (GB)": 8.5, "It/sec": 0.5}),
        ("time 12.5ms, mfu 40.5%", {"time (ms)": 12.5, "mfu (%)": 40.5}),
        ("iter time: 350.5 ms (step) x: 1", {"iter time (ms)": 350.5, "x": 1.0}),
        ("tok/sec: 1,747,000 | a 2", {"tok/sec": 1_747_000.0, "a": 2.0}),
        ("TPS: 16.88K | seen: 1.5B | n: 2M", {"TPS": 16880.0, "seen": 1.5e9, "n": 2e6}),
        ("memory(GiB): 72.5 elapsed (ms): 3", {"memory(GiB)": 72.5, "elapsed (ms)": 3.0}),
        ("步数：100，损失：2.5、学习率：3e-4", {"步数": 100.0, "损失": 2.5, "学习率": 3e-4}),
        ("{'a': 1.5, \"b\": '2'}", {"a": 1.5, "b": 2.0}),
        ("eta: 2:46:39  loss: 2.5", {"loss": 2.5}),
        ("2024-05-01 10:00:01 loss 2.5", {"loss": 2.5}),
        ("v2.1.0b loss=1.25.", {"v2.1.0b loss": 1.25}),
        ("lr 1e-3 tokens/s 1200", {"lr": 1e-3, "tokens/s": 1200.0}),
        ("val: n/a | x 5", {"x": 5.0}),
        ("total time: 2.5m", {"total time (min)": 2.5}),
        ("12 13 14", {}),
        ("Step [ 100/600], loss 3", {"Step": 100.0, "loss": 3.0}),
    ],
)
def test_pairs(text, expected):
    assert read(text) == expected


def test_not_a_number_and_infinity_stay_what_they_are():
    found = read("loss nan, norm: inf, low=-inf step_avg:nanms nanz: 3 x: Infinity.")
    assert math.isnan(found.pop("loss"))
    assert math.isnan(found.pop("step_avg (ms)"))
    assert found == {"norm": math.inf, "low": -math.inf, "nanz": 3.0, "x": math.inf}


def test_a_fraction_has_its_whole_and_a_sign_is_told():
    step, loss = pairs("Epoch step 12/3,400 loss=2.5")
    assert (step.key, step.value, step.of, step.told) == ("Epoch step", 12.0, 3400.0, False)
    assert (loss.key, loss.of, loss.told, loss.start) == ("loss", None, True, 20)


def test_it_begins_where_it_is_told_to():
    assert read("a 1 b 2", 4) == {"b": 2.0}


@pytest.mark.parametrize(
    "text", ["x" * 10**7, "1 " * 10**6, "a: " * 10**6, ": " * 10**6, "1" * 10**7, "(a" * 10**6]
)
def test_long_lines_take_no_time(text):
    begin = time.process_time()
    list(pairs(text))
    assert time.process_time() - begin < 1.0


def test_short_cuts_only_what_is_long():
    line = Line(3, "abc", 1, 2.0)
    assert short(line) is line
    assert short(Line(3, "x" * (LONGEST + 5), 1)) == Line(3, "x" * LONGEST, 1)


def test_a_drawn_bar():
    text = "Train:  12%|█▏        | 5/40 [06:05<43:34, 74.69s/it, loss=2.5, v_num=0]{'a': 1}"
    drawn = bar(text)
    assert (drawn.description, drawn.n, drawn.total, drawn.exact) == ("Train", 5, 40, True)
    assert drawn.postfix == "loss=2.5, v_num=0"
    assert text[drawn.end :] == "{'a': 1}"


def test_a_bar_of_thousands_is_rounded_and_one_of_days_is_read():
    assert bar("t: 10%|#| 1.23k/50.0k [0<1, 2it/s, loss=1]")[1:4] == (1230, 50_000, False)
    drawn = bar("9%|#| 9/100 [1:00<2 days, 5:00:00, 8.0s/it, loss=1.5]")
    assert (drawn.n, drawn.total) == (9, 100)
    assert drawn.postfix.endswith("loss=1.5")


def test_a_rich_bar():
    drawn = bar("Epoch 0/9 ━━━━━━━━━━ 25/100 0:00:12 • 0:00:36 2.00it/s v_num: 0 loss: 2.5")
    assert (drawn.description, drawn.n, drawn.total) == ("Epoch 0/9", 25, 100)
    assert drawn.postfix == "v_num: 0 loss: 2.5"


@pytest.mark.parametrize("text", ["5it [00:01, 3it/s]", "100%|", "12%|x| 3/", "50% | 1/2"])
def test_no_bar(text):
    assert bar(text) is None


@pytest.mark.parametrize("text", ["10%|" * 10**6, "━" * 10**6, "1%|x| 1/2 [" * 10**5])
def test_bars_take_no_time(text):
    begin = time.process_time()
    bar(text)
    assert time.process_time() - begin < 1.0


def test_epochs_that_count_anew():
    steps = EpochSteps()
    assert [steps.step(e, s, 600) for e, s in [(1, 100), (1, 600), (2, 100), (3, 100)]] == [
        100,
        600,
        700,
        1300,
    ]
    assert steps.within


def test_epochs_of_a_step_that_goes_on():
    steps = EpochSteps()
    assert [steps.step(e, s, 900) for e, s in [(1, 100), (2, 400), (3, 900)]] == [100, 400, 900]
    assert not steps.within


def test_epochs_without_a_whole_and_from_zero():
    steps = EpochSteps()
    assert [steps.step(e, s, None) for e, s in [(0, 0), (0, 9), (1, 0), (1, 9), (2, 0)]] == [
        0,
        9,
        10,
        19,
        20,
    ]


def test_epochs_told_for_certain_begin_in_the_middle():
    steps = EpochSteps()
    assert steps.step(3, 7, 100, sure=True) == 207
    assert steps.step(4, 7, 100, sure=True) == 307
    assert steps.step(2, 7, 100, sure=True) == 107  # restarted
