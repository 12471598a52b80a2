"""The variables that Slurm sets, from a script's own ``#SBATCH`` lines."""

import re

_SBATCH = re.compile(
    r"SBATCH\s+(?:--(nodes|ntasks-per-node|gpus-per-node|gres|ntasks)(?:=|\s+)|-(N|n)\s*)(\S+)"
)
_SLURM_NAMES = {
    "nodes": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
    "N": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
    "ntasks-per-node": ("SLURM_NTASKS_PER_NODE",),
    "gpus-per-node": ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"),
    "gres": ("SLURM_GPUS_ON_NODE",),
    "ntasks": ("SLURM_NTASKS", "SLURM_NPROCS"),
    "n": ("SLURM_NTASKS", "SLURM_NPROCS"),
}


def variables(comments: list[tuple[int, str]]) -> dict[str, str | list[str]]:
    """What Slurm sets from the script's own ``#SBATCH`` lines."""
    found: dict[str, str | list[str]] = {}
    for _, text in comments:
        match = _SBATCH.match(text)
        digits = match[3].rpartition(":")[2] if match else ""
        if match and digits.isdigit() and digits.isascii():
            found |= dict.fromkeys(_SLURM_NAMES[match[1] or match[2]], digits)
    nodes, each = found.get("SLURM_NNODES"), found.get("SLURM_NTASKS_PER_NODE")
    if isinstance(nodes, str) and isinstance(each, str) and len(nodes + each) < 18:
        found.setdefault("SLURM_NTASKS", str(int(nodes) * int(each)))
    return found
