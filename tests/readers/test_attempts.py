"""Restarts: attempts are kept apart, the winning history is put together, overlaps compared."""

import pytest

LINE = (
    " iteration {:8d}/    1000 | learning rate: 1.000E-04 | lm loss: {:.6E} | grad norm: 1.000 |\n"
)


def log(*rows: tuple[int, float]) -> str:
    return "".join(LINE.format(*row) for row in rows)


def test_a_step_that_goes_back_begins_an_attempt_and_the_later_rows_win(read_text):
    first = [(i, 5.0 - i / 100) for i in range(1, 21)]
    second = [(i, 4.0 - i / 100) for i in range(11, 31)]
    run = read_text(log(*first, *second))
    assert run.signals["step"].to_list() == list(range(1, 31))
    assert run.signals["attempt"].to_list() == [0] * 10 + [1] * 20
    assert run.signals["loss"].to_list() == pytest.approx(
        [5.0 - i / 100 for i in range(1, 11)] + [4.0 - i / 100 for i in range(11, 31)], rel=1e-12
    )
    assert run.superseded["step"].to_list() == list(range(11, 21))
    assert run.superseded["loss"].to_list() == pytest.approx(
        [5.0 - i / 100 for i in range(11, 21)], rel=1e-12
    )
    assert [(a["first"], a["last"], a["rows"]) for a in run.reading["attempts"]] == [
        (1, 20, 20), (11, 30, 20),
    ]  # fmt: skip


def test_overlaps_that_repeat_are_equal(read_text):
    rows = [(i, 5.0 - i / 100) for i in range(1, 21)]
    run = read_text(log(*rows, *rows[9:], (21, 4.0)))
    (overlap,) = run.reading["overlaps"]
    assert overlap["equal"] is True
    assert overlap["steps"] == [10, 20]
    assert overlap["count"] == 11
    assert overlap["largest"] == 0.0


def test_overlaps_that_do_not_repeat_say_from_where_and_by_how_much(read_text):
    rows = [(i, 5.0) for i in range(1, 21)]
    again = [(i, 5.0 if i < 15 else 5.25) for i in range(10, 25)]
    (overlap,) = read_text(log(*rows, *again)).reading["overlaps"]
    assert overlap["equal"] is False
    assert overlap["first_different"] == 15
    assert overlap["largest"] == 0.25


def test_three_attempts_of_which_the_second_reached_less_far(read_text):
    rows = [(i, 5.0) for i in range(1, 31)] + [(i, 4.0) for i in range(20, 24)]
    rows += [(i, 3.0) for i in range(10, 40)]
    run = read_text(log(*rows))
    assert run.signals["loss"].to_list() == [5.0] * 9 + [3.0] * 30
    assert run.superseded["attempt"].to_list() == [0] * 21 + [1] * 4


def test_a_loaded_checkpoint_begins_an_attempt_though_no_step_goes_back(read_text):
    text = log(*[(i, 5.0) for i in range(1, 11)])
    text += " successfully loaded checkpoint from /checkpoints [ t 0 ] at iteration 10\n"
    run = read_text(text + log(*[(i, 5.0) for i in range(11, 21)]))
    assert run.signals["attempt"].to_list() == [0] * 10 + [1] * 10
    assert run.superseded is None


@pytest.mark.parametrize("lag", [1, 2])
def test_ranks_that_do_not_say_who_they_are_are_one_attempt(read_text, lag):
    """Both ranks print every record, the second one ``lag`` records later."""
    rows = [(i, 5.0 - i / 100) for i in range(1, 31)]
    mixed = []
    for index in range(len(rows) + lag):
        if index < len(rows):
            mixed.append(rows[index])
        if index >= lag:
            mixed.append(rows[index - lag])
    run = read_text(log(*mixed))
    assert run.signals["step"].to_list() == list(range(1, 31))
    assert run.superseded is None


def test_ranks_with_losses_of_their_own_are_one_attempt_and_the_first_told_stays(read_text):
    rows = [row for i in range(1, 31) for row in ((i, 5.0), (i, 5.5), (i, 5.25))]
    run = read_text(log(*rows))
    assert run.signals["loss"].to_list() == [5.0] * 30
    assert run.superseded is None
    assert any("60 lines tell another loss" in problem for problem in run.problems)


def test_a_placeholder_of_another_rank_gives_way_to_the_loss(read_text):
    rows = []
    for i in range(1, 11):
        rows.append("[rank0]:" + LINE.format(i, -1.0))
        rows.append("[rank7]:" + LINE.format(i, 5.0 - i / 10))
    run = read_text("".join(rows))
    assert run.signals["loss"].to_list() == [5.0 - i / 10 for i in range(1, 11)]
    assert run.superseded is None


def test_a_rank_that_lags_over_a_restart_joins_the_attempt(read_text):
    rows = [*range(1, 21), *range(11, 31)]
    first = ["[rank0]:" + LINE.format(i, 5.0) for i in rows]
    second = ["[rank1]:" + LINE.format(i, 5.0) for i in rows]
    mixed = []
    for index in range(len(rows) + 3):
        mixed += first[index : index + 1] + (second[index - 3 : index - 2] if index >= 3 else [])
    run = read_text("".join(mixed))
    assert run.signals["attempt"].to_list() == [0] * 10 + [1] * 20
    assert [a["rows"] for a in run.reading["attempts"]] == [20, 20]


def test_gaps_are_told_by_the_log_s_own_interval(read_text):
    steps = [i for i in range(10, 310, 10) if not 100 <= i <= 150 and i != 200]
    run = read_text(log(*[(i, 5.0) for i in steps]))
    assert "rows of steps 100 to 150 and 200 are missing" in run.problems


def test_an_odd_first_row_is_no_gap(read_text):
    run = read_text(log((1, 9.0), *[(i, 5.0) for i in range(10, 310, 10)]))
    assert run.problems == ()
