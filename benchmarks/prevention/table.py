"""Writes RESULTS.md and its pictures from what ``run.py`` has made so far.

python benchmarks/prevention/table.py
"""

import argparse
import datetime
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import experiments as grid
import reading
from cell import INDICATORS, unpack
from chart import chart
from reading import Result

HERE = Path(__file__).parent


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, numbers to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    lines = [["-" if item == "nan" else item for item in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def starts(results: list[Result]) -> tuple[str, dict[str, str]]:
    """Experiment 1."""
    rates = (*grid.LOWER_RATES, *grid.START_RATES)
    rows = []
    for name in grid.STARTS:
        mine = reading.of(results, name)
        best = [
            min(losses)
            for seed in sorted({r["seed"] for r in mine})
            if len(losses := [reading.ended(r) for r in mine if r["seed"] == seed])
            == len(grid.start_rates(name))
        ]
        profile = [r["profile"][0] / r["profile"][-1] for r in mine]
        worst = max((r["largest_spike"] for r in mine), default=math.nan)
        rows.append([
            name, *(reading.cell(reading.of(mine, name, rate)) for rate in rates),
            reading.spread(best, 3),
            reading.stable_words(reading.stable_rates(mine, grid.start_rates(name))),
            reading.spike_words(mine), f"{worst:.2f}", reading.spread(profile),
            reading.spread([r["first_grad_norm"] for r in mine]),
        ])  # fmt: skip
    head = [
        "start", *(f"rate {rate:g}" for rate in rates), "best over rates", "largest stable rate",
        "spikes per 1000 steps", "largest spike, nats", "gradient, first over last block",
        "gradient norm at step 0",
    ]  # fmt: skip
    curves = {
        name: [(rate, reading.mean(reading.of(results, name, rate))) for rate in rates]
        for name in grid.STARTS
    }
    first = [
        min(results, key=lambda r, n=name: (r["variant"] != n, r["seed"])) for name in grid.STARTS
    ]
    profiles = {
        r["variant"]: [(i + 1, v / r["profile"][-1]) for i, v in enumerate(r["profile"])]
        for r in first
    }
    return table(head, rows), {
        "starts": chart("Held-out loss by start", curves, x="peak learning rate", y="nats a token",
                        highest=7.0),
        "profile": chart("Gradient at step 0, over the last block's", profiles, x="block",
                         y="ratio", log_y=True),
    }  # fmt: skip


def lengths(results: list[Result]) -> tuple[str, dict[str, str]]:
    """Experiment 1, sequence length at fixed tokens."""
    rows = []
    for rate in (1e-2, 3e-2):
        for name in ("vanilla", "scaled embed"):
            for length in (64, 256, 1024):
                mine = [r for r in reading.of(results, name, rate) if r["length"] == length]
                if mine:
                    rows.append([
                        f"{name}, rate {rate:g}", str(length), reading.cell(mine),
                        reading.spike_words(mine),
                        reading.spread([r["profile"][0] / r["profile"][-1] for r in mine]),
                        f"{max(r['grad_norm_max_after'] for r in mine):.2f}",
                    ])  # fmt: skip
    head = [
        "start", "tokens a sequence", "held-out loss", "spikes per 1000 steps",
        "gradient, first over last block", "largest gradient norm after warm-up",
    ]  # fmt: skip
    return table(head, rows), {}


BEFORE = 8
"""Steps before a spike's onset in which its indicators are looked at."""


def adam(results: list[Result]) -> tuple[str, dict[str, str]]:
    """Experiment 2."""
    rows = []
    for beta2 in grid.BETAS:
        for eps in grid.EPSILONS:
            name = f"beta2 {beta2:g}, eps {eps:g}"
            line = [name]
            for rate in (6.5e-3, 1.5e-2):
                mine = reading.of(results, name, rate)
                largest = max((r["largest_spike"] for r in mine), default=math.nan)
                line += [
                    reading.spike_words(mine), f"{largest:.2f}" if mine else "-",
                    reading.spread([r["last_loss"] for r in mine], 3),
                ]  # fmt: skip
            rows.append(line)
    head = ["", *(
        f"{what}, rate {rate:g}"
        for rate in (6.5e-3, 1.5e-2)
        for what in ("spikes per 1000 steps", "largest, nats", "last training loss")
    )]  # fmt: skip
    return table(head, rows) + "\n" + before_spikes(results), {}


def before_spikes(results: list[Result]) -> str:
    """What each indicator did in the steps before the spikes, against the rest of the runs."""
    rows = []
    for name in INDICATORS:
        before, rest = [], []
        for r in results:
            if name not in r["indicators"]:
                continue
            series = unpack(r["indicators"][name])
            onsets = [o for o in r["onsets"] if o > 100]
            near = np.zeros(len(series), bool)
            for onset in onsets:
                near[max(0, onset - 100) : onset + 200] = True
                window = series[max(0, onset - 1 - BEFORE) : onset]
                if len(window):
                    before.append(float(np.nanmax(window)))
            quiet = series[100:][~near[100:]]
            # The same statistic of stretches far from spikes: the largest of as many steps.
            cut = len(quiet) // (BEFORE + 1) * (BEFORE + 1)
            rest += [float(v) for v in np.nanmax(quiet[:cut].reshape(-1, BEFORE + 1), axis=1)]
        if not before or not rest:
            continue
        above = np.quantile(rest, 0.99)
        rows.append([
            name, f"{statistics.median(before):.3g}", f"{statistics.median(rest):.3g}",
            f"{above:.3g}", f"{np.mean(np.array(before) > above):.2f}", str(len(before)),
        ])  # fmt: skip
    if not rows:
        return ""
    head = [
        f"largest in the {BEFORE} steps up to the onset", "median before spikes",
        "median elsewhere", "99th percentile elsewhere", "share of spikes beyond that", "spikes",
    ]  # fmt: skip
    return table(head, rows)


def sensitivity(results: list[Result]) -> tuple[str, dict[str, str]]:
    """Experiment 3."""
    rates, rows, pictures = grid.SENSITIVITY_RATES, [], {}
    for width in grid.SENSITIVITY_WIDTHS:
        for name in grid.REMEDIES:
            variant = f"{name} (d={width})"
            mine = reading.of(results, variant)
            at = reading.of(mine, variant, 1e-1)
            rows.append([
                variant, reading.spread(reading.sensitivity(mine, rates)),
                reading.stable_words(reading.stable_rates(mine, rates)),
                *(reading.cell(reading.of(mine, variant, rate), 2) for rate in rates),
                f"{max((r['attention_logit_max'] for r in at), default=math.nan):.0f}",
                f"{max((r['grad_norm_max_after'] for r in at), default=math.nan):.1f}",
            ])  # fmt: skip
        for what, title, log in (
            ("validation_loss", "Held-out loss", False),
            ("attention_logit_max", "Largest attention logit", True),
        ):
            curves = {
                name: [
                    (rate, reading.mean(reading.of(results, f"{name} (d={width})", rate), what))
                    for rate in rates
                ]
                for name in grid.REMEDIES
            }
            pictures[f"sensitivity-{what.split('_')[0]}-d{width}"] = chart(
                f"{title}, width {width}",
                curves,
                x="peak learning rate",
                y=title.lower(),
                log_y=log,
            )
    head = [
        "remedy", "rate sensitivity, nats", "largest stable rate",
        *(f"rate {rate:g}" for rate in rates), "largest attention logit at 0.1",
        "largest gradient norm there",
    ]  # fmt: skip
    return table(head, rows), pictures


def remedies(results: list[Result]) -> tuple[str, dict[str, str]]:
    """Experiment 4."""
    rows = []
    for setup in ("bad batches", "by heart"):
        for name in grid.CLIPS:
            mine = reading.of(results, f"{setup}: {name}")
            what = "validation_loss" if setup == "bad batches" else "last_loss"
            tokens = [r["skipped"] / r["steps"] for r in mine]
            rows.append([
                f"{setup}: {name}", reading.spread([r[what] for r in mine], 3),
                reading.spike_words(mine),
                f"{max((r['largest_spike'] for r in mine), default=math.nan):.2f}",
                f"{100 * statistics.fmean(tokens):.2f} %" if tokens else "-", str(len(mine)),
            ])  # fmt: skip
    head = [
        "set-up and remedy", "loss at the end", "spikes per 1000 steps", "largest, nats",
        "tokens lost", "seeds",
    ]  # fmt: skip
    return table(head, rows), {}


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    sections, total, made, seconds = [], 0, 0, 0.0
    texts = (HERE / "words.md").read_text("utf-8").split("\n## ")
    words = {part.split("\n", 1)[0]: part.split("\n", 1)[1].strip() for part in texts[1:]}
    for name in grid.EXPERIMENTS:
        cells = grid.cells((name,))
        results = reading.read(options.results, name, (cell.key for cell in cells))
        total, made = total + len(cells), made + len(results)
        seconds += sum(r["seconds"] for r in results)
        body, pictures = globals()[name](results) if results else ("Nothing is made yet.\n", {})
        for picture, svg in pictures.items():
            (options.out / f"{picture}.svg").write_text(svg, "utf-8")
        shown = "\n".join(f"![{picture}]({picture}.svg)" for picture in pictures)
        title, text = words[name].split("\n", 1)
        sections.append(
            f"## {title}\n\n{text.strip()}\n\n{len(results)} of {len(cells)} cells are made.\n\n"
            f"{body}\n{shown}".rstrip()
            + "\n"
        )
    head = texts[0].replace("MADE", str(made)).replace("TOTAL", str(total))
    head = head.replace("DATE", datetime.date.today().isoformat())
    head = head.replace("HOURS", f"{seconds / 3600:.1f}")
    (options.out / "RESULTS.md").write_text(head.strip() + "\n\n" + "\n".join(sections), "utf-8")
    print(f"{made} of {total} cells; {options.out / 'RESULTS.md'}")


if __name__ == "__main__":
    main()
