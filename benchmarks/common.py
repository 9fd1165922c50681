"""What the benchmarks share: contestants run in turn, several rounds; medians and ratios; results.md."""
import platform
import re
import statistics
import time
from pathlib import Path

import torch

from stages.lib.workers import over_seeds

RESULTS = Path(__file__).parent / "results.md"
SMALL = {"name": "small", "layers": [[16, 2], [32, 1], [32, 2]], "norm": "none", "h": 48, "head": "mlp", "hidden": 48, "z": 24}
RESNET = {"name": "resnet18", "norm": "group", "head": "mlp", "hidden": 512, "z": 128}


def in_turn(contestants, rounds):
    """{name: [units per second of each round]}; contestants: {name: function -> (units, seconds)}, one after the other in each round."""
    rates = {name: [] for name in contestants}
    for function in contestants.values():
        function()  # a round that does not count: caches, imports, allocators
    for _ in range(rounds):
        for name, function in contestants.items():
            units, seconds = function()
            rates[name].append(units / seconds)
    return rates


def together(work, processes):
    """(units, seconds) of `processes` forked one-thread processes that each call work(number) -> units, clocked from the first start to the last end."""
    def timed(number):
        started = time.monotonic()
        units = work(number)
        return started, units, time.monotonic()
    results = over_seeds(timed, list(range(processes)), 0, "benchmark")
    return sum(units for _, units, _ in results), max(end for *_, end in results) - min(start for start, *_ in results)


def table(rates, base, unit):
    """Markdown: median rate of each contestant, its range, and the median over rounds of its ratio to `base` in the same round."""
    lines = [f"| | {unit}, median | range | relative to {base} |", "| --- | --- | --- | --- |"]
    for name, values in rates.items():
        ratio = statistics.median(value / reference for value, reference in zip(values, rates[base], strict=True))
        lines.append(f"| {name} | {statistics.median(values):,.0f} | {min(values):,.0f} to {max(values):,.0f} | {ratio:.2f} |")
    return "\n".join(lines)


def ratio(rates, over, under):
    """Median over rounds of the ratio of two contestants in the same round."""
    return statistics.median(a / b for a, b in zip(rates[over], rates[under], strict=True))


def aims(*rows):
    """Markdown: rows of (what, value, "at least" or "at most", aim) as a list that says whether, and by how much, each is missed."""
    def told(number):
        return f"{number:,.0f}" if number >= 100 else f"{number:.2f}"

    lines = []
    for what, value, sense, aim in rows:
        short = aim - value if sense == "at least" else value - aim
        lines.append(f"- {what}: {told(value)}, aim {sense} {told(aim)}: " + (f"**missed by {told(short)}**" if short > 0 else "reached"))
    return "\n".join(lines)


def publish(title, text):
    """Put a section into results.md, in place of the one of that title."""
    print(f"\n## {title}\n\n{text}\n", flush=True)
    old = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else "# Results\n\nWritten by `make bench` and `make bench-long`. See README.md.\n"
    section = f"\n## {title}\n\nOn {platform.machine()}, torch {torch.__version__}.\n\n{text}\n"
    pattern = re.compile(rf"\n## {re.escape(title)}\n.*?(?=\n## |\Z)", re.DOTALL)
    RESULTS.write_text(pattern.sub(lambda _: section, old) if pattern.search(old) else old + section, encoding="utf-8")
