"""Do remedies prevent what they are said to prevent? Trains the experiments' cells, resumably.

    python benchmarks/prevention/run.py                        # go on where the last call stopped
    python benchmarks/prevention/run.py --experiment starts --minutes 30
    python benchmarks/prevention/run.py --quick                # small forms of all, five minutes
    python benchmarks/prevention/table.py                      # RESULTS.md and the pictures

Each finished cell is appended to ``results/EXPERIMENT.jsonl`` and is not made again; a cell takes 5
to 60 seconds, so that no more than that is lost. Two of these calls may run at once: a cell is
claimed by the process that makes it.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))

import samples as texts
from cell import Cell, run
from experiments import EXPERIMENTS, cells

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("SUREFOOT_CACHE", Path.home() / ".cache" / "surefoot")) / "prevention"


def done(folder: Path) -> dict[str, dict[str, object]]:
    """Results by key; a line that a crash cut short counts as not made."""
    found = {}
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            try:
                result = json.loads(line)
            except ValueError:
                continue
            found[result["key"]] = result
    return found


def append(folder: Path, result: dict[str, object]) -> None:
    """Add a result durably; a torn line before it is closed first."""
    path = folder / f"{result['experiment']}.jsonl"
    with path.open("ab") as file:
        torn = file.tell() and not path.read_bytes().endswith(b"\n")
        file.write((b"\n" if torn else b"") + json.dumps(result).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def claim(folder: Path, cell: Cell) -> Path | None:
    """A lock file of the cell, or None if another process that still lives has it."""
    path = folder / f".{cell.key}.lock"
    for _ in range(2):
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(str(os.getpid()))
            return path
        except FileExistsError:
            if _lives(path):
                return None
            path.unlink(missing_ok=True)
    return None


def _lives(path: Path) -> bool:
    try:
        os.kill(int(path.read_text("utf-8")), 0)
    except (OSError, ValueError):
        return False
    return True


def main() -> None:
    """Make what is missing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--experiment", action="append", choices=EXPERIMENTS, help="default: all")
    parser.add_argument("--variant", action="append", help="only these rows; default: all")
    parser.add_argument("--minutes", type=float, default=1e9, help="start no cell after so many")
    parser.add_argument(
        "--quick", action="store_true", help="small forms, into a folder of their own"
    )
    parser.add_argument("--results", type=Path, help="folder of the results")
    options = parser.parse_args()
    folder = options.results or HERE / ("results-quick" if options.quick else "results")
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    began = time.monotonic()
    wanted = cells(tuple(options.experiment or EXPERIMENTS), quick=options.quick)
    for name in options.variant or ():
        if all(cell.variant != name for cell in wanted):
            parser.error(f"no row is called {name!r}")
    made = done(folder)
    ready = sum(cell.key in made for cell in wanted)
    print(f"{ready} of {len(wanted)} cells are made; the others follow", flush=True)
    loaded: dict[int, texts.Text] = {}
    for number, cell in enumerate(wanted, start=1):
        if options.variant and cell.variant not in options.variant:
            continue
        if time.monotonic() - began > 60 * options.minutes:
            print(f"stopped after {options.minutes:g} minutes; the same call goes on", flush=True)
            return
        # Read again only where it counts: another process may have made the cell since.
        if cell.key in made or cell.key in (made := done(folder)):
            continue
        lock = claim(folder, cell)
        if lock is None:
            continue
        try:
            if cell.length not in loaded:
                loaded[cell.length] = texts.load(cell.length, CACHE)
            result = run(cell, loaded[cell.length])
            result["python"] = ".".join(map(str, sys.version_info[:3]))
            result["torch"] = str(torch.__version__)
            append(folder, result)
        finally:
            lock.unlink(missing_ok=True)
        print(
            f"{number}/{len(wanted)} {cell.experiment}: {cell.variant}, rate {cell.rate:g}, seed "
            f"{cell.seed}: validation loss {result['validation_loss']:.3f}, {result['spikes']} "
            f"spikes, {result['seconds']} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
