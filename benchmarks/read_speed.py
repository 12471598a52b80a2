"""How fast is a long Megatron log read into a table, and in how much memory?

    python benchmarks/read_speed.py                       # 1 GB and 4 GB; about ten minutes
    python benchmarks/read_speed.py --sizes 1 --rounds 3
    python benchmarks/read_speed.py --quick               # seconds: does it run?
    python benchmarks/read_speed.py --peer PYTHON         # a Python that has the package runmedic

The log is made here, from the grammar of real ones: set-up text, one record of all fields an
iteration, timers, validation, checkpoints, iterations whose loss is missing because it was NaN, a
restart. Each reading runs in a fresh process; time is that of the reading, imports excluded, memory
the largest resident set of the process. runmedic (0.1.1) reads losses of such logs; as it is slow
and holds the whole text, both are timed on the first ``--peer-mb`` of the same file, in turn.
"""

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from statistics import median

SUREFOOT = """
import json, resource, sys, time
import polars, numpy
from surefoot.readers import read_run
import surefoot.readers.logs
surefoot.readers.logs.formats()
start = time.perf_counter()
run = read_run(sys.argv[1])
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
status = open("/proc/self/status").readlines() if sys.platform == "linux" else []
anonymous = [line for line in status if line.startswith("RssAnon")]
print(json.dumps({"seconds": seconds, "peak_mb": peak, "rows": len(run.signals),
                  "columns": run.signals.width, "loss": run.signals["loss"].drop_nulls()[-1],
                  "anonymous_mb": int(anonymous[0].split()[1]) / 1024 if anonymous else None}))
"""
RUNMEDIC = """
import json, resource, sys, time
from pathlib import Path
from runmedic.loaders import textlog
start = time.perf_counter()
run = textlog.load(Path(sys.argv[1]))
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"seconds": seconds, "peak_mb": peak, "series": len(run.series)}))
"""


def text(total: int, seed: int = 0) -> Iterator[str]:
    """Lines of a run of ``total`` iterations that was started again once."""
    rng = random.Random(seed)
    yield "using world size: 384, data-parallel-size: 8, tensor-model-parallel size: 4\n"
    for index in range(2000):
        yield f"  option_number_{index} {'.' * 24} {rng.random():.4f}\n"
    step, restarted = 0, False
    while step < total:
        step += 1
        if step == total // 2 and not restarted:
            restarted = True
            step -= 500
            yield f"  successfully loaded checkpoint from /checkpoints at iteration {step - 1}\n"
        loss = f"{1.9 + 9 * 2.718 ** (-step / 2e4) + rng.gauss(0, 0.02):.6E}"
        missing = rng.random() < 1e-5
        told = "" if missing else f" lm loss: {loss} |"
        yield (
            f" [2025-0{1 + step // 700000 % 9}-{1 + step // 25000 % 28:02d} "
            f"{step // 1000 % 24:02d}:{step // 17 % 60:02d}:{step % 60:02d}] "
            f"iteration {step:8d}/{total:8d} | consumed samples: {step * 2048:12d} | "
            f"elapsed time per iteration (ms): {1e5 + rng.random() * 2000:.1f} | "
            f"throughput per GPU (TFLOP/s/GPU): {147 + rng.random():.1f} | "
            f"learning rate: {6e-5 * min(1, step / 2000):.6E} | "
            f"global batch size: {2048:5d} |{told} "
            f"loss scale: 1.0 | grad norm: {rng.gauss(0.3, 0.02):.3f} | "
            f"num zeros: {rng.randrange(10**6)} | params norm: {1500 + step / 1e4:.3f} | "
            f"number of skipped iterations: {0:3d} | "
            f"number of nan iterations: {int(missing):3d} |\n"
        )
        if step % 100 == 0:
            yield (
                f"time (ms) | forward-compute: {rng.random() * 1e4:.2f} | backward-compute: "
                f"{rng.random() * 1e4:.2f} | optimizer: {rng.random() * 1e3:.2f}\n"
            )
        if step % 1000 == 0:
            yield f"  successfully saved checkpoint at iteration {step:7d} to /checkpoints\n"
            yield (
                f" validation loss at iteration {step} | lm loss value: {loss} | "
                f"lm loss PPL: {rng.random() * 1e2:.6E} | \n"
            )


def write(path: Path, size: int) -> int:
    """A log of about ``size`` bytes; its length in iterations."""
    total = max(1000, size // 418)
    with open(path, "w", encoding="utf-8", buffering=1 << 20) as file:
        file.writelines(text(total))
    return total


def child(python: str, code: str, path: Path) -> dict[str, object]:
    """What a fresh process says that reads ``path``."""
    done = subprocess.run(
        [python, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    answer: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sizes", type=float, nargs="*", default=[1.0, 4.0], help="GB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer", help="a Python with runmedic installed")
    parser.add_argument("--peer-mb", type=float, default=32.0)
    parser.add_argument("--folder", type=Path, help="where to write the logs")
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    if asked.quick:
        asked.sizes, asked.rounds, asked.peer_mb = [0.02], 1, 2.0
    print(f"# Reading a long Megatron log, {date.today()}\n")
    print(f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}; ")
    print(f"`{' '.join(['python', *sys.argv])}`\n")
    print("| file | rows | columns | MB/s, each round | median | peak RSS, MB | of it anonymous |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        path = Path(folder) / "train.log"
        for size in asked.sizes:
            write(path, int(size * 1e9))
            found = [child(sys.executable, SUREFOOT, path) for _ in range(asked.rounds)]
            mb = path.stat().st_size / 1e6
            rates = [mb / float(str(item["seconds"])) for item in found]
            print(
                f"| {mb:,.0f} MB | {found[0]['rows']:,} | {found[0]['columns']} | "
                f"{', '.join(f'{rate:.0f}' for rate in rates)} | {median(rates):.0f} | "
                f"{max(float(str(item['peak_mb'])) for item in found):.0f} | "
                f"{max(float(str(item['anonymous_mb'] or 0)) for item in found):.0f} |",
                flush=True,
            )
        if asked.peer:
            write(path, int(asked.peer_mb * 1e6))
            ratios = []
            for _ in range(asked.rounds):
                peer = float(str(child(asked.peer, RUNMEDIC, path)["seconds"]))
                ours = float(str(child(sys.executable, SUREFOOT, path)["seconds"]))
                ratios.append(peer / ours)
            mb = path.stat().st_size / 1e6
            shown = ", ".join(f"{r:.0f}" for r in ratios)
            print(f"\nrunmedic's time over surefoot's on {mb:.0f} MB: {shown}")
            print(f"median {median(ratios):.0f}")


if __name__ == "__main__":
    main()
