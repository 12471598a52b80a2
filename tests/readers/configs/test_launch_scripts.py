"""Launch scripts as clusters have them: Slurm's numbers, shells in shells, chains, branches."""

import time

import pytest

from surefoot.errors import ConfigError
from surefoot.readers.configs.documents import commands, shell
from surefoot.readers.configs.documents.conditions import truth

from .conftest import place, stated
from .test_shell import flags, lines

SLURM = """\
#!/bin/bash
#SBATCH --nodes=6
#SBATCH --gres=gpu:h100:4          # number of GPUs
NODES=$SLURM_NNODES
EACH=4
MODEL="
    --num-layers 12 \\
    --hidden-size $((EACH * 64)) \\
    --pp-partition-method 'type:transformer|embedding' \\
"
export LAUNCHER="python -u -m torch.distributed.run \\
    --nproc_per_node $EACH \\
    --nnodes $NODES \\
    "
export CMD=" \\
    `pwd`/pretrain_gpt.py \\
    --tensor-model-parallel-size 2 \\
    $MODEL --lr 2e-4 \\
    --micro-batch-size $((NODES / 3)) --bf16 \\
    "
export STOP="pkill python"
clear; srun --jobid $SLURM_JOBID bash -c '$STOP; $LAUNCHER --node_rank $SLURM_PROCID $CMD' 2>&1 \\
    | tee main.log
"""


def test_a_shell_inside_a_shell_expands_what_was_exported(read):
    found = read(SLURM)
    assert found.findings == ()
    spec = found.spec
    assert (spec.architecture.layers, spec.architecture.width) == (12, 256)
    assert (spec.parallelism.nodes, spec.parallelism.world_size) == (6, 24)
    assert spec.parallelism.data == 12
    assert spec.batch.micro_size == 2
    assert spec.options["megatron"]["pp-partition-method"] == "type:transformer|embedding"
    assert place(found, "architecture.width") == (8, "--hidden-size")
    # Behind a variable in the same quotes stands a flag of the later line.
    assert place(found, "optimizer.learning_rate") == (18, "--lr")


def test_slurm_sets_numbers_from_the_scripts_own_lines():
    text = (
        "#SBATCH --nodes 3\n#SBATCH --ntasks-per-node=8\n#SBATCH --gpus-per-node=8\n"
        "p.py --a $SLURM_JOB_NUM_NODES --b ${SLURM_NTASKS} --c $SLURM_GPUS_ON_NODE "
        "--d $SLURM_JOB_ID\n"
    )
    found = flags(text)
    assert (found["a"], found["b"], found["c"]) == (3, 24, 8)
    assert "$SLURM_JOB_ID is not known" in found["d"]
    assert "not known" in flags("#SBATCH --nodes=2-4\np.py --a $SLURM_NNODES\n")["a"]
    assert flags("#SBATCH -N 2\nSLURM_NNODES=5\np.py --a $SLURM_NNODES\n")["a"] == 5


@pytest.mark.parametrize(
    "end",
    ["> out.log 2>&1", "&> out.log", ">& out.log", "|& tee out.log", "2>&1 | tee -a out.log",
     ">>out.log", "2> err.log > out.log", "; echo done", "&& echo --b"],
)  # fmt: skip
def test_redirections_of_evaluated_words_are_no_values(end):
    found = flags(f'CMD="torchrun t.py --lr 1 --bf16 {end}"\neval $CMD\n')
    assert found == {"lr": 1, "bf16": True}


@pytest.mark.parametrize(
    ("line", "want"),
    [
        ("[ 1 = 1 ] && A=2", 2),
        ("[ 1 = 2 ] && A=2", 1),
        ("[ 1 = 1 ] || A=2", 1),
        ("[ 1 = 2 ] || A=2", 2),
        ("[[ 1 == 1 ]] && A=2 || A=3", 2),
        ("[[ 1 == 2 ]] && A=2 || A=3", 3),
        ("[ 1 = 1 ] && [ 1 = 2 ] && A=2", 1),
        ("[ 1 = 1 ] && [ 2 = 2 ] && A=2", 2),
        ("mkdir x && A=2", 2),
        ('[ -n "$X" ] && A=2 || A=3', "$A: 2 or 3, by the condition in line 2"),
        ('[ -n "$X" ] && A=2', "$A: 2 or 1, by the condition in line 2"),
        ('[ 1 = 1 ] && [ -n "$X" ] && A=2', "$A: 2 or 1, by the condition in line 2"),
        ("if [ 1 = 1 ] && [ 1 = 2 ]; then A=2; fi", 1),
        ("if [[ 1 == 1 && 2 -gt 1 ]]; then A=2; fi", 2),
        ('if [ 1 = 1 ] && [ "$X" = 2 ]; then A=2; fi', "$A: 2 or 1, by the condition in line 2"),
        ('if [ 1 = 1 ] || [ "$X" = 2 ]; then A=2; fi', 2),
    ],
)
def test_chains_of_tests_and_commands(line, want):
    assert flags(f"A=1\n{line}\np.py --a $A\n") == {"a": want}


@pytest.mark.parametrize(
    ("words", "want"),
    [
        ("[ 1 = 1 ] && [ a = b ]", False),
        ("[ 1 = 1 ] || [ a = b ]", True),
        ("[ 1 = 2 ] || [ a = b ]", False),
        ("[[ 1 == 1 && a == a ]] ; then", None),
        ("[[ 1 == 1 && a == a ]]", True),
        ("[[ 1 == 2 || a == a ]]", True),
        ("! [ 1 = 1 ] || [ a = a ]", True),
        ("[ 1 = 1 ] && [ a = a ] || [ a = b ]", None),
    ],
)
def test_several_tests_in_a_condition(words, want):
    assert truth(words.split()) is want


BRANCHES = """\
declare -a ARGS=(
    --num-layers 80
    --swiglu
)
OPT=" --adam-eps 1e-7 --fp16"
MOE=()
[ "${#MOE[@]}" -gt 0 ] && ARGS+=("${MOE[@]}")
if [ -n "$WANDB_API_KEY" ]; then
    ARGS+=(--wandb-project p)
    OPT="$OPT --no-save-optim"
fi
if (( TP > 1 )); then
    ARGS+=(--tp-comm-overlap)
fi
python pretrain_gpt.py --lr 1 --bf16 $EXTRA_ARGS "${ARGS[@]}" "${MOE[@]}" $OPT --last "$@"
"""


def test_flags_before_a_branch_that_may_add_some_are_kept(read):
    document = commands.documents("x", shell.Script(BRANCHES))[-1]
    assert {key: leaf.value for key, leaf in document.leaves.items()} == {
        "lr": 1, "bf16": True, "num-layers": 80, "swiglu": True, "adam-eps": 1e-7, "fp16": True,
        "last": True,
    }  # fmt: skip
    assert all(leaf.open is None for leaf in document.leaves.values())
    assert document.leaves["swiglu"].line == 3
    assert document.leaves["adam-eps"].line == 5
    words = [text for _, text in document.loose]
    assert words[0] == "$EXTRA_ARGS"
    assert any("more of $ARGS, by the condition in line 8" in text for text in words)
    assert any("more of $OPT" in text for text in words)
    assert words[-1] == "${@}"


def test_what_differs_otherwise_stays_open():
    found = flags(
        'A="x --b 1"; if [ "$Q" ]; then A="y --b 2"; fi\n'
        'P="--d 1"; if [ "$Q" ]; then P="5 $P"; fi\n'
        "p.py --a $A --c $P\n"
    )
    assert "by the condition" in found["a"]
    assert "by the condition" in found["c"]
    assert "b" not in found
    assert "d" not in found


def test_an_empty_array_is_no_word():
    assert flags('A=()\np.py --a 1 "${A[@]}" --n ${#A[@]}\n') == {"a": 1, "n": 0}


def test_flags_behind_a_variable_have_the_line_where_they_stand():
    text = 'A="--a 1 \\\n  --b 2"\nB="$A --c 3 \\\n  --d 4"\np.py $B\n'
    assert lines(text) == {"a": 1, "b": 2, "c": 3, "d": 4}


@pytest.mark.parametrize("quote", ["", "'"])
def test_a_configuration_held_in_a_variable(read, quote):
    clip = "0.5" if quote else "$CLIP"
    found = read(
        f"CLIP=0.5\nDS=$(cat <<{quote}EOF{quote}\n{{\n"
        f'  "zero_optimization": {{"stage": 2}},\n  "gradient_clipping": {clip}\n}}\nEOF\n)\n'
        'echo "$DS" > ds.json\n'
        "deepspeed run_clm.py --num_train_epochs 1 --deepspeed ds.json --warmup_ratio 0.1\n"
    )
    assert [file.format for file in found.files] == ["transformers", "deepspeed"]
    assert found.spec.optimizer.clip_norm == 0.5
    assert place(found, "optimizer.clip_norm") == (5, "gradient_clipping")


@pytest.mark.parametrize(
    "loop",
    [
        "while [[ $# -gt 0 ]]; do\n  case $1 in\n  --lr) LR=$2;;\n  *) LR=9;;\n  esac\ndone",
        'while [ "$1" != "" ]; do\n  LR=$2\n  shift\ndone',
        "while getopts 'l:' name; do\n  case $name in l) LR=$OPTARG;; esac\ndone",
        'for arg in "$@"; do\n  LR=$arg\ndone',
    ],
)
def test_a_script_is_read_as_if_nothing_was_given_to_it(loop):
    assert flags(f"LR=3e-4\n{loop}\npython t.py --lr $LR --clip ${{1:-2}}\n") == {
        "lr": 3e-4, "clip": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("cut", "want"),
    [("${A//_}", "20tok.sh"), ("${A/_/-}", "2-0_tok.sh"), ("${A%.sh}", "2_0_tok"),
     ("${A%%_*}", 2), ("${A%_*}", 20), ("${A#2_}", "0_tok.sh"), ("${A##*_}", "tok.sh"),
     ("${A#*_}", "0_tok.sh"), ("${A%nothing}", "2_0_tok.sh")],
)  # fmt: skip
def test_parts_of_a_variable(cut, want):
    assert flags(f"A=2_0_tok.sh\np.py --a {cut}\n") == {"a": want}


def test_sums_of_numbers_whose_underscores_were_taken_off():
    text = "T=2_000_000\nT=${T//_}    # for bash\np.py --a $((T/1000)) --b ${T/[0-9]/x}\n"
    found = flags(text)
    assert found["a"] == 2000
    assert "not known" in found["b"]


@pytest.mark.parametrize(("word", "want"), [("true", 2), ("false", 3)])
def test_conditions_that_are_a_word(word, want):
    assert flags(f"X={word}\nif $X; then A=2; else A=3; fi\np.py --a $A\n") == {"a": want}


def test_arrays_inside_a_longer_text(read):
    """As a command is put together before it is run and, in some scripts, printed."""
    found = read(
        "#SBATCH --nodes=2\n#SBATCH --gpus-per-node=4\n"
        "SIZE=(\n\t--num-layers 8\n\t--swiglu\n)\n"
        "DATA=(--split 9,1,0)\n"
        'if [ -n "$COPY" ]; then REPO=$COPY; fi\n'
        'DATA="${DATA[@]} --data-path $(ls $REPO) --seq-length 64"\n'
        "TORCH=(\n  --nproc-per-node $SLURM_GPUS_PER_NODE\n  --nnodes $SLURM_NNODES\n)\n"
        'CMD="torchrun ${TORCH[@]} $REPO/pretrain_gpt.py \\\n  ${SIZE[@]} \\\n  --bf16 $DATA"\n'
        'if [ -n "$WANDB_API_KEY" ]; then CMD="$CMD --wandb-project p"; fi\n'
        'echo -e "\\nCMD: $CMD" >> notes.txt\n'
        'srun -lu --cpus-per-task 4 bash -c "numactl --membind=0-3 $CMD"\n'
    )
    assert found.findings == ()
    assert stated(found) == {
        "architecture.layers": 8,
        "architecture.activation": "swiglu",
        "architecture.sequence_length": 64,
        "precision.compute": "bf16",
        "parallelism.nodes": 2,
        "parallelism.devices_per_node": 4,
        "parallelism.world_size": 8,
        "data.split": "9,1,0",
    }
    assert place(found, "architecture.layers") == (4, "--num-layers")
    assert place(found, "precision.compute") == (16, "--bf16")


def test_conditions_around_many_variables_are_bounded(read):
    text = "".join(f"V{i}=1\n" for i in range(3000)) + "if [ $X ]; then A=1; fi\n" * 3000 + "--b 1"
    start = time.process_time()
    with pytest.raises(ConfigError, match="more conditions than a launch script has"):
        read(text)
    assert time.process_time() - start < 8


def test_an_example_with_a_loop_of_its_own_has_no_trainers_defaults(read):
    found = read(
        "accelerate launch --mixed_precision bf16 --num_processes=8 run_clm_no_trainer.py \\\n"
        "  --block_size 512 --per_device_train_batch_size 4 --learning_rate 1e-4 \\\n"
        "  --max_train_steps 900 --num_warmup_steps 30 --checkpointing_steps epoch \\\n"
        "  --with_tracking\n"
    )
    assert found.findings == ()
    assert found.spec.trainer == "accelerate"
    assert stated(found) == {
        "architecture.sequence_length": 512,
        "optimizer.learning_rate": 1e-4,
        "schedule.steps": 900,
        "schedule.warmup_steps": 30,
        "precision.compute": "bf16",
        "batch.micro_size": 4,
        "parallelism.world_size": 8,
    }
    assert found.spec.optimizer.clip_norm is None


def test_a_model_described_by_overrides(read):
    found = read(
        "python run_clm.py --model_type gpt2 --do_train --learning_rate 1e-4 --save_total_limit 2 "
        '--config_overrides "n_embd=512,n_head=8,n_layer=6,use_cache=False"\n'
    )
    shape = found.spec.architecture
    assert (shape.width, shape.heads, shape.layers, shape.head_dim) == (512, 8, 6, 64)
    assert place(found, "architecture.width") == (1, "--config_overrides")
