"""Launch scripts: what they would run is found, and nothing is run."""

import pytest

from surefoot.readers.configs.documents import commands, marks, shell, sums
from surefoot.readers.configs.documents.conditions import truth


def flags(text):
    """Flags of the last command line: name -> value, or the reason why it is open."""
    documents = commands.documents("x.sh", shell.Script(text))
    assert documents, "no command line was found"
    return {key: leaf.open or leaf.value for key, leaf in documents[-1].leaves.items()}


def lines(text):
    documents = commands.documents("x.sh", shell.Script(text))
    return {key: leaf.line for key, leaf in documents[-1].leaves.items()}


def test_a_bare_list_with_comments():
    text = (
        "# 2 nodes\n--lr 1e-4   # peak\n--rampup 16 16 6_000_000\n--fp16\n--shift -1\n--name a=b\n"
    )
    assert flags(text) == {
        "lr": 1e-4, "rampup": (16, 16, 6_000_000), "fp16": True, "shift": -1, "name": "a=b",
    }  # fmt: skip
    assert lines(text) == {"lr": 2, "rampup": 3, "fp16": 4, "shift": 5, "name": 6}


def test_variables_quotes_and_continuations():
    text = (
        "N=24; H=$((N * 64))\n"
        "export LR=3e-4\n"
        'ARGS="--num-layers $N \\\n'
        "   --hidden-size ${H}\n"
        '   --lr $LR"\n'
        "python train.py $ARGS --name 'a b' --path \"$HOME/x\" \\\n"
        "  --last 1\n"
    )
    assert flags(text) == {
        "num-layers": 24, "hidden-size": 1536, "lr": 3e-4, "name": "a b",
        "path": "$HOME is not known without running the script", "last": 1,
    }  # fmt: skip
    assert lines(text) == {
        "num-layers": 3, "hidden-size": 4, "lr": 5, "name": 6, "path": 6, "last": 7,
    }  # fmt: skip


@pytest.mark.parametrize("use", ['"${ARGS[@]}"', "${ARGS[@]}", "${ARGS[*]}"])
def test_arrays(use):
    text = f'ARGS=(\n  --a 1 # one\n  --b "x y"\n)\nARGS+=(--c)\ntorchrun t.py {use} --d 2\n'
    assert flags(text)["a"] == 1
    assert flags(text)["c"] is True
    assert flags(text)["d"] == 2
    assert lines(text) == {"a": 2, "b": 3, "c": 5, "d": 6}


def test_defaults_of_variables():
    text = "B=${MBS:-4}\n: ${C:=7}\npython t.py --a $B --b ${X-2} --c $C --d ${Y:+5} --e ${Z:-$B}\n"
    assert flags(text) == {"a": 4, "b": 2, "c": 7, "d": True, "e": 4}


def test_what_the_machine_or_a_program_gives_stays_open():
    text = "A=$1\nB=$(nproc)\nC=`date`\npython t.py --a $A --b $B --c $C --d $SLURM_NNODES --e 1\n"
    found = flags(text)
    assert found.pop("e") == 1
    assert {key: value.partition(" is not known")[0] for key, value in found.items()} == {
        "a": "$1", "b": "$(nproc)", "c": "$(date)", "d": "$SLURM_NNODES",
    }  # fmt: skip


def test_branches():
    text = (
        "S=7B\n"
        'if [ $S = 1B ]; then L=16; elif [[ $S == "7B" ]]; then L=32; else L=48; fi\n'
        'if [ -n "$X" ]; then A=1; else A=2; fi\n'
        'if [ -n "$X" ]; then B=3; else B=3; fi\n'
        "if [ $L -gt 20 ]; then C=big; fi\n"
        "case $S in\n  1B) D=1 ;;\n  7B|8B) D=2 ;;\n  *) D=3 ;;\nesac\n"
        "case $Y in a) E=1;; *) E=2;; esac\n"
        "for F in 5; do G=$F; done\n"
        "for K in 1 2; do :; done\n"
        "python t.py --l $L --a $A --b $B --c $C --d $D --e $E --g $G --k $K\n"
    )
    assert flags(text) == {
        "l": 32, "a": "$A: 1 or 2, by the condition in line 3", "b": 3, "c": "big", "d": 2,
        "e": "$E: 1 or 2, by the condition in line 11", "g": 5, "k": "$K: one of several in a loop",
    }  # fmt: skip


def test_commands_of_a_branch_that_is_not_taken_are_not_run():
    text = "M=a\nif [ $M = b ]; then\n  python t.py --lr 1\nelse\n  python t.py --lr 2\nfi\n"
    assert flags(text) == {"lr": 2}
    assert len(commands.documents("x", shell.Script(text))) == 1


def test_a_command_in_quotes():
    text = (
        "A='--lr 1e-3'\nL=\"torchrun --nnodes 2\"\n"
        'srun bash -c "$L train.py $A --wd 0.1" | tee log --x\n'
    )
    documents = commands.documents("x", shell.Script(text))
    assert {k: v.value for k, v in documents[0].leaves.items()} == {"lr": 1e-3, "wd": 0.1}
    assert documents[0].program == "train.py"
    assert documents[0].launcher["nnodes"].value == 2


def test_redirections_and_other_commands_are_no_values():
    text = "mkdir -p a; python t.py --lr 1 > log.txt 2>&1 &\nwait\n"
    assert flags(text) == {"lr": 1}


def test_an_unresolved_variable_behind_a_value_may_hold_flags():
    (document,) = commands.documents("x", shell.Script("python t.py --lr 1e-4 $MORE --wd 1\n"))
    assert document.leaves["lr"].value == 1e-4
    assert document.loose == [(1, "$MORE")]


def test_flags_behind_the_end_of_a_command_are_lost():
    text = "python t.py --a 1 \\\n#  --b 2 \\\n  --c 3\n"
    (document,) = commands.documents("x", shell.Script(text))
    assert list(document.leaves) == ["a"]
    assert [(leaf.key, leaf.line) for leaf in document.lost] == [("c", 3)]


def test_here_documents():
    text = (
        'B=4\ncat <<EOT > $C\n{"a": $B, "b": $UNSET}\nEOT\n'
        "cat > d <<'EOF'\n$B \"x\"\nEOF\npython t.py --z 1\n"
    )
    script = shell.Script(text)
    first, second = [c for c in script.commands if c.here]
    assert marks.shown(first.here[0]) == '{"a": 4, "b": $UNSET}\n'
    assert first.here[1] == 3
    assert second.here == ('$B "x"\n', 6)
    assert flags(text) == {"z": 1}


def test_a_part_of_a_script_that_another_sources():
    text = 'MODEL_ARGS="--num-layers 2 --lr 1"\nDATA_ARGS="--seed 3"\nUSED="--x 1"\nY=$USED\nZ=$Y\n'
    assert flags(text) == {"num-layers": 2, "lr": 1, "seed": 3, "x": 1}


def test_equals_signs_and_dotted_overrides():
    text = "torchrun train.py --a.b=1 model.layers=4 +x.y=z --flag\n"
    assert flags(text) == {"a.b": 1, "model.layers": 4, "+x.y": "z", "flag": True}


def test_a_flag_given_twice():
    (document,) = commands.documents("x", shell.Script("python t.py --lr 1 --lr 2\n--q\n"))[-1:]
    ((old, new),) = document.repeated
    assert (old.value, new.value, document.leaves["lr"].value) == (1, 2, 2)


def test_an_apostrophe_in_a_bare_list_is_text():
    assert flags("--note don't\n--lr 2\n") == {"note": "don't", "lr": 2}


def test_nothing_is_run(tmp_path):
    mark = tmp_path / "mark"
    text = f"touch {mark}\nA=$(touch {mark})\nB=`touch {mark}`\npython t.py --a $A$B$((1+1))\n"
    flags(text)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("text", "value"),
    [("2*3+4", 10), ("2*(3+4)", 14), ("7/2", 3), ("-7/2", -3), ("7%4", 3), ("2**10", 1024),
     ("A*$B*${C}", 24), ("-A", -2)],
)  # fmt: skip
def test_sums(text, value):
    assert sums.compute(text, {"A": "2", "B": "3", "C": "4"}.get) == value


@pytest.mark.parametrize("text", ["", "1/0", "2**99", "Q", "1+", "(1", "1 2", "a[1]", "(" * 300])
def test_what_is_no_sum(text):
    with pytest.raises(sums.NotASum):
        sums.compute(text, {"A": "2"}.get)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["[", "a", "=", "a", "]"], True),
        (["[", "!", "-z", "a", "]"], True),
        (["[[", "3", "-lt", "2", "]]"], False),
        (["!", "test", "a", "!=", "b"], False),
        (["[", marks.opened("$X"), "=", "a", "]"], None),
        (["[", "-f", "x", "]"], None),
        (["grep", "x", "y"], None),
        (["[[", "ab", "==", "a*", "]]"], None),
        (["[", "1", "-eq", "x", "]"], None),
    ],
)
def test_conditions(words, answer):
    assert truth(words) is answer


def test_variables_that_double_one_another_are_refused():
    with pytest.raises(OverflowError):
        shell.Script("A=xxxxxxxx\n" + 'A="$A$A"\n' * 60)


def test_variables_behind_a_switch_may_hold_flags():
    (document,) = commands.documents("x", shell.Script("python t.py --a 1 --no-b $C $D $E\n"))
    assert document.leaves["a"].value == 1
    assert document.leaves["no-b"].open
    assert [text for _, text in document.loose] == ["$D", "$E"]
    (document,) = commands.documents("x", shell.Script("python t.py --ramp 16 16 $X --a 1\n"))
    assert document.leaves["ramp"].open
    assert document.loose == []


CLUSTER = r"""#!/bin/bash
#SBATCH --nodes=4            # of 8 GPUs
#SBATCH --gres=gpu:8
set -x -e
source $ENV/start
NNODES=$SLURM_NNODES
python $REPO/prepare.py --split train --out $OUT
MASTER=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
OPT=" \
    --lr 6e-5 \
    "
#    --min-lr 0 \
ARGS=" \
    --pp 'a|b' \
    --samples 220_000 \
    $OPT \
    "
export LAUNCHER="python -u -m torch.distributed.run \
    --nproc_per_node 8 \
    --nnodes $NNODES \
    "
export CMD=" \
    `pwd`/pretrain_gpt.py \
    --tp 4 \
    $ARGS \
    "
echo $CMD
clear; srun $SRUN --jobid $ID bash -c "$LAUNCHER --node_rank \$SLURM_PROCID $CMD" 2>&1 | tee a
"""


def test_a_launch_script_for_a_cluster():
    found = commands.documents("x", shell.Script(CLUSTER))[-1]
    assert found.program == "pretrain_gpt.py"
    assert {k: v.value for k, v in found.leaves.items()} == {
        "tp": 4, "pp": "a|b", "samples": 220_000, "lr": 6e-5,
    }  # fmt: skip
    assert {k: v.line for k, v in found.leaves.items()} == {
        "tp": 24, "pp": 14, "samples": 15, "lr": 10,
    }  # fmt: skip
    assert found.launcher["nproc_per_node"].value == 8
    assert found.launcher["nnodes"].value == 4  # which Slurm sets from the script's own lines
