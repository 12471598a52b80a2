"""Tables of text."""

import csv
import gzip
import math
import time

import pytest

from surefoot.errors import LogError
from surefoot.readers import read_run
from surefoot.readers.logs._csv_layout import layout_of
from surefoot.readers.logs.csv_table import CHUNK

from ..conftest import REAL, column

CASES = REAL.parent / "cases"

PLAIN = "step,loss,lr\n1,2.5,1.000e-04\n2,2.25,2.000e-04\n3,nan,3.000e-04\n"


def test_a_plain_table(read_text):
    run = read_text(PLAIN, "metrics.csv")
    assert run.reading["format"] == "csv"
    assert column(run, "step") == [1, 2, 3]
    assert column(run, "loss")[:2] == [2.5, 2.25]
    assert math.isnan(column(run, "loss")[2])
    assert column(run, "learning_rate") == [1e-4, 2e-4, 3e-4]


@pytest.mark.parametrize(
    "text",
    [
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("\n", "\r"),
        PLAIN.replace(",", "\t"),
        PLAIN.replace(",", ";"),
        PLAIN.replace(",", ", "),
        PLAIN.replace(",", "   "),
        "# run of today\n\n" + PLAIN + "# the end\n\n",
        PLAIN.replace("step,", "# step,").replace(",", " "),
        '"step","loss","lr"\n' + PLAIN.partition("\n")[2].replace("2.25", '"2.25"'),
        PLAIN.removesuffix("\n"),
        "sep=;\n" + PLAIN.replace(",", ";"),
    ],
    ids=["crlf", "cr", "tabs", "semicolons", "blanks after", "blanks", "comments", "# header",
         "quoted", "no last end", "sep="],
)  # fmt: skip
def test_ways_of_writing_it(read_text, text):
    run = read_text(text)
    assert column(run, "step") == [1, 2, 3]
    assert column(run, "loss")[:2] == [2.5, 2.25]
    assert column(run, "learning_rate") == [1e-4, 2e-4, 3e-4]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
def test_encodings(read_text, encoding):
    assert column(read_text(PLAIN, encoding=encoding), "step") == [1, 2, 3]


@pytest.mark.parametrize("encoding", ["utf-8", "gb18030"])
def test_names_in_chinese(read_text, encoding):
    run = read_text("步数,训练损失,学习率\n1,2.5,0.1\n2,2.25,0.2\n", encoding=encoding)
    assert column(run, "step") == [1, 2]
    assert column(run, "loss") == [2.5, 2.25]
    assert column(run, "learning_rate") == [0.1, 0.2]


def test_decimal_commas(read_text):
    run = read_text("Schritt;step;loss;lr\n a;1;2,5;1e-4\n b;2;1.002,25;1,5e-4\n")
    assert column(run, "loss") == [2.5, 1002.25]
    assert column(run, "learning_rate") == [1e-4, 1.5e-4]


def test_thousands_suffixes_and_sizes(read_text):
    run = read_text('step,loss,tokens,memory\n1,2.5,"1,024",4.5GiB\n2,2.0,1.5M,512 MiB\n')
    assert column(run, "tokens") == [1024.0, 1_500_000.0]
    assert column(run, "memory") == [4.5 * 2**30, 512 * 2.0**20]


def test_missing_cells_are_missing_and_words_are_left_out(read_text):
    run = read_text(
        "step,train/loss,val/loss,run,note\n"
        "1,2.5,,a,start\n"
        "2,2.25,None,a,\n"
        "3,inf,2.75,a,\n"
        "4,,,a,\n"
        "5,2.0\n"
    )
    assert column(run, "step") == [1, 2, 3, 5]
    assert column(run, "loss") == [2.5, 2.25, math.inf, 2.0]
    assert column(run, "validation_loss") == [None, None, 2.75, None]
    assert set(run.signals.columns) == {"step", "attempt", "loss", "validation_loss"}


def test_lightning_alternates_rows_of_training_and_validation(read_text):
    run = read_text(
        "epoch,lr-AdamW,step,train_loss_step,val_loss\n"
        ",0.001,9,,\n"
        "0,,9,2.5,\n"
        ",0.002,19,,\n"
        "0,,19,2.25,\n"
        "0,,19,,2.75\n"
        "1,,29,2.0,\n"
        "1,,24,,2.5\n"
        "1,,39,1.75,\n"
    )
    assert column(run, "step") == [9, 19, 24, 29, 39]
    assert column(run, "learning_rate") == [0.001, 0.002, None, None, None]
    assert column(run, "loss") == [2.5, 2.25, None, 2.0, 1.75]
    assert column(run, "validation_loss") == [None, 2.75, 2.5, None, None]
    assert len(run.reading["attempts"]) == 1


def test_the_history_of_a_trainer_as_pandas_writes_it(read_text):
    run = read_text(
        ",loss,learning_rate,epoch,step,eval_loss,train_runtime,train_loss\n"
        "0,2.5,0.1,0.1,10,,,\n"
        "1,,,0.1,10,2.75,,\n"
        "2,2.25,0.2,0.2,20,,,\n"
        "3,,,0.2,20,,60.5,9.5\n"
    )
    assert column(run, "step") == [10, 20]
    assert column(run, "loss") == [2.5, 2.25]
    assert column(run, "validation_loss") == [2.75, None]
    assert set(run.signals.columns) == {
        "step", "attempt", "loss", "learning_rate", "epoch", "validation_loss", "train_runtime"
    }  # fmt: skip


def test_a_restart_is_an_attempt_also_when_the_header_is_written_again(read_text):
    run = read_text(PLAIN + "step,loss,lr\n2,2.0,2.000e-04\n3,1.75,3.000e-04\n4,1.5,4.0e-04\n")
    assert [(a["first"], a["last"]) for a in run.reading["attempts"]] == [(1, 3), (2, 4)]
    assert column(run, "loss") == [2.5, 2.0, 1.75, 1.5]


def test_micro_batches_and_sizes_are_not_the_step(read_text):
    run = read_text("batch,iter,step,loss\n8,4,1,2.5\n8,8,2,2.25\n8,12,3,2.0\n")
    assert column(run, "step") == [1, 2, 3]
    run = read_text("max_steps,global_step,loss\n50,5,2.5\n50,10,2.25\n")
    assert column(run, "step") == [5, 10]
    assert run.reading["facts"]["steps"] == 50


def test_no_step_means_rows(read_text):
    run = read_text("loss,grad_norm\n2.5,1.5\n2.25,1.25\n")
    assert column(run, "step") == [1, 2]
    assert run.reading["facts"]["steps_are"] == "rows"


def test_the_user_names_the_columns(read_text):
    text = "k,q,step\n5,2.5,0\n6,2.25,0\n"
    run = read_text(text, mapping={"loss": "q", "step": "k"})
    assert column(run, "step") == [5, 6]
    assert column(run, "loss") == [2.5, 2.25]


def test_what_the_user_names_stands_before_what_is_known(read_text):
    text = "step,loss,train/ce\n1,9.5,2.5\n2,9.25,2.25\n"
    run = read_text(text, mapping={"loss": "train/ce"})
    assert column(run, "loss") == [2.5, 2.25]
    assert column(run, "loss_2") == [9.5, 9.25]


def test_wall_clock_is_the_time_of_a_row(read_text):
    text = "Wall time,Step,Value\n1700000000.5,1,2.5\n1700000002.5,2,2.25\n"
    with pytest.raises(LogError, match="--map loss=Value"):
        read_text(text)
    run = read_text(text, mapping={"loss": "Value"})
    assert column(run, "loss") == [2.5, 2.25]
    assert column(run, "timestamp") == [1700000000.5, 1700000002.5]


EXPORT = (
    '"Step","big - 1 - train/loss","big - 1 - train/loss__MIN","big - 1 - train/loss__MAX"\n'
    '"0","2.5","2.5","2.5"\n"50","2.25","2.0","2.5"\n'
)


def test_an_export_of_one_run(read_text):
    run = read_text(EXPORT)
    assert column(run, "step") == [0, 50]
    assert column(run, "loss") == [2.5, 2.25]
    assert set(run.signals.columns) == {"step", "attempt", "loss"}
    run = read_text(EXPORT, mapping={"grad_norm": "big - 1 - train/loss"})
    assert column(run, "grad_norm") == [2.5, 2.25]


def test_an_export_of_several_runs_asks_which(read_text):
    text = (
        "Step,a - loss,a - loss__MIN,a - loss__MAX,a - lr,a - lr__MIN,a - lr__MAX,"
        "b - loss,b - loss__MIN,b - loss__MAX\n"
        "0,2.5,2.5,2.5,0.1,0.1,0.1,3.5,3.5,3.5\n"
        "1,2.25,2.2,2.5,0.2,0.2,0.2,,,\n"
    )
    with pytest.raises(LogError, match=r'holds 2 runs \(a, b\).*--map loss="a - loss"'):
        read_text(text)
    run = read_text(text, mapping={"loss": "a - loss"})
    assert column(run, "loss") == [2.5, 2.25]
    assert column(run, "learning_rate") == [0.1, 0.2]
    run = read_text(text, mapping={"loss": "b - loss"})
    assert column(run, "step") == [0]
    assert column(run, "loss") == [3.5]


def test_a_number_a_row_beside_its_name(read_text):
    by_step = "step,tag,value\n1,train/loss,2.5\n1,lr,0.1\n2,train/loss,2.25\n2,lr,0.2\n"
    run = read_text(by_step)
    assert column(run, "step") == [1, 2]
    assert column(run, "loss") == [2.5, 2.25]
    assert column(run, "learning_rate") == [0.1, 0.2]
    by_tag = "run,metric,step,value\na,loss,1,2.5\na,loss,2,nan\na,lr,1,0.1\na,lr,2,0.2\n"
    run = read_text(by_tag)
    assert column(run, "step") == [1, 2]
    assert column(run, "learning_rate") == [0.1, 0.2]
    assert len(run.reading["attempts"]) == 1
    again = by_step.replace("2,", "3,") + by_step.partition("\n")[2].replace("1,", "0,")
    assert [a["first"] for a in read_text(again).reading["attempts"]] == [1, 0]


def test_columns_of_splits_are_not_runs(read_text):
    run = read_text("step,train - loss,val - loss\n1,2.5,3.5\n2,2.25,3.25\n")
    assert column(run, "loss") == [2.5, 2.25]
    assert column(run, "validation_loss") == [3.5, 3.25]


def test_damage_within_a_table_leaves_the_rest(read_text):
    run = read_text(f"step,loss\n1,2.5\n2,\0\0\0\n\0\0\n3,2.0\n4,{'9' * 200_000}\n5,1.5\n")
    assert column(run, "step") == [1, 3, 5]
    assert column(run, "loss") == [2.5, 2.0, 1.5]


def test_pairs_without_a_header(read_text):
    run = read_text("1 8.5\n2 7.25\n3 nan\n4 6.125\n")
    assert column(run, "step") == [1, 2, 3, 4]
    assert column(run, "loss")[3] == 6.125
    assert math.isnan(column(run, "loss")[2])
    assert "no header" in run.reading["facts"]["columns_are"]


def test_a_last_row_that_is_cut_loses_the_cell_in_which_it_is_cut(read_text):
    text = "step,loss,grad_norm,lr\n1,2.5,1.5,0.1\n2,2.25,1.25,0.2\n3,2.125,1.1"
    run = read_text(text)
    assert column(run, "loss") == [2.5, 2.25, 2.125]
    assert column(run, "grad_norm") == [1.5, 1.25, None]


def test_rows_come_whole_from_pieces(tmp_path):
    count = 3 * CHUNK // 40
    path = tmp_path / "long.csv"
    with open(path, "w") as file:
        file.write("step,loss,val_loss,note\n")
        file.writelines(
            f'{n},{1 + 1 / n!r},{n / 8 if n % 1000 == 0 else ""},"a\nb"\n' for n in range(1, count)
        )
    run = read_run(path)
    assert run.signals["step"].to_list() == list(range(1, count))
    assert run.signals["loss"].to_list() == [1 + 1 / n for n in range(1, count)]
    told = run.signals.select("step", "validation_loss").drop_nulls().rows()
    assert dict(told) == {n: n / 8 for n in range(1000, count, 1000)}
    packed = tmp_path / "long.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes(), 1))
    assert read_run(packed).signals.equals(run.signals)


@pytest.mark.parametrize(
    "text",
    [
        "step: 1, loss: 2.5\nstep: 2, loss: 2.25\n",
        "param,run_a_l2,run_b_l2\nlayers.1.w,0.5,0.25\nlayers.2.w,0.5,0.5\n",
        "def loss(step, lr):\n    return 1, 2\n",
        "The loss, at step 5, was 2.5.\nIt fell, at step 6, to 2.25.\n",
        "1 100\n2 200\n3 300\n",
        "5 0.5\n5 0.25\n5 0.125\n",
        '{"step": 1, "loss": 2.5}\n',
        "step,loss\n",
        "loss\n",
        "",
    ],
)
def test_what_is_no_table(text):
    assert layout_of(text.encode(), {}) is None or "run_a_l2" in text


def test_a_table_of_tensors_is_no_run(read_text):
    with pytest.raises(LogError):
        read_text("param,run_a_l2,run_b_l2\nlayers.1.w,0.5,0.25\nlayers.2.w,0.5,0.5\n")


def test_a_header_alone_is_enough_where_the_table_grows():
    assert layout_of(b"step,loss\n", {}, growing=True).header == ("step", "loss")
    assert layout_of(b"step,name\n", {"loss": "name"}, growing=True) is not None
    assert layout_of(b"hello, world\n", {}, growing=True) is None


@pytest.mark.parametrize(
    "head", [b"x" * 65536, b"1 " * 32768, b'","' * 20000, b"1,2\n" * 16000, b"\n" * 65536,
             b"step,loss\n" + b'"' * 60000, b"a,b\0\n1,2\n"]
)  # fmt: skip
def test_a_look_is_cheap_and_raises_nothing(head):
    begin = time.process_time()
    layout_of(head, {})
    assert time.process_time() - begin < 1.0


@pytest.mark.parametrize(
    "name", ["llama3_cuda", "llama3_rocm_mi350x", "qwen3_moe_cuda", "qwen3_moe_rocm_mi350x"]
)
def test_corpus_pairs(corpus, name):
    path = corpus(f"torchtitan-losses/{name}.txt")
    rows = [line.split() for line in path.read_text().splitlines()]
    run = read_run(path)
    assert column(run, "step") == [int(step) for step, _ in rows] == [*range(1, 101)]
    assert column(run, "loss") == [float(loss) for _, loss in rows]


def test_case_of_a_schedule():
    path = CASES / "13-accelerate-lr-4x-fast" / "lr.csv"
    if not path.exists():
        pytest.skip("the cases are not at hand")
    rows = list(csv.DictReader(path.read_text().splitlines()))
    run = read_run(path)
    assert column(run, "step") == [int(row["step"]) for row in rows]
    assert column(run, "learning_rate") == [float(row["lr"]) for row in rows]


def test_a_header_that_stands_again_begins_an_attempt(read_text):
    run = read_text("step,loss,lr\n1,2.5,1e-4\n2,inf,1e-4\nstep,loss,lr\n2,2.25,1e-4\n3,2.0,1e-4\n")
    assert [(a["first"], a["last"]) for a in run.reading["attempts"]] == [(1, 2), (2, 3)]
    assert column(run, "loss") == [2.5, 2.25, 2.0]
    assert run.superseded["loss"].to_list() == [math.inf]


def test_a_table_of_runs_is_no_run(read_text):
    with pytest.raises(LogError, match="a table of runs, a row each"):
        read_text("Name,State,loss,lr\na-1,finished,2.1,0.001\nb-2,crashed,2.5,0.01\n", "sweep.csv")
