"""The price of candidates: SimCLR with a batch that gives C negatives (C / 2 + 1 images) against MoCo with a queue of C and the default batch.

    python -m benchmarks.candidates [--candidates 100 250 500 1000 2000 4000] [--steps 600] [--replicates 4]

Both take the same number of steps of the same size on 4,608 train images of shapes with swapped colors; so SimCLR sees more images the larger
its batch, and that is part of its price. Read out as in the pipeline, by its own stages. Time is processor time of the one-thread workers;
memory is anonymous, of one worker, the import of torch included. Writes candidates.png too.
"""
import argparse
from pathlib import Path

import matplotlib
import numpy as np

from benchmarks.common import publish
from benchmarks.project import commands, project, spend
from stages.lib.tables import read_json, read_table

TRAIN, PARTS = 4608, {"val": 1152, "test": 1440}
PANELS = {"ms": "processor time of a step, ms", "mb": "memory of a worker, MB", "shape": "shape, 5-NN on h", "color": "color, 5-NN on h"}
STYLE = {"simclr": ("#0072b2", "o", "SimCLR, batch of C/2 + 1"), "moco": ("#d55e00", "s", "MoCo, batch of {batch}, queue of C")}


def recipes(candidates, steps, batch):
    """{run: its entry in params.yaml}"""
    def epochs(batch):
        return max(1, round(steps / -(-TRAIN // batch)))

    shared = {"relation": "instance", "views": "swap_color"}
    runs = {}
    for count in candidates:
        size = count // 2 + 1
        runs[f"simclr_{count}"] = {"objective": "simclr", **shared, "pretrain": {"batch_size": size, "epochs": epochs(size)}}
        runs[f"moco_{count}"] = {"objective": "moco", **shared, "moco": {"queue": count}, "pretrain": {"epochs": epochs(batch)}}
    return runs


def change(runs, replicates):
    def apply(params):
        shapes = params["datasets"]["shapes"]
        kinds = len(shapes["images"]["shapes"]) * len(shapes["images"]["colors"])
        shapes["images"]["per_kind"] = (TRAIN + sum(PARTS.values())) // kinds
        shapes["split"] |= {"train": TRAIN, **PARTS}
        params |= {"replicates": replicates, "runs": runs, "claims": {}, "mined": {}, "transfers": {}, "interventions": {}}
        params["datasets"] = {"shapes": shapes}
        params["transformations"] = {"swap": params["transformations"]["swap"]}
        params["probe"] |= {"C": [1], "shots": [1], "episodes": 2}
        params["explain"] |= {objective: next(name for name in runs if name.startswith(objective)) for objective in STYLE}
    return apply


def readout(path, factor):
    """Accuracy of each seed, kNN on h."""
    wanted = {"space": "h", "factor": factor, "probe": "knn", "slice": "all", "metric": "accuracy"}
    return [float(row["value"]) for row in read_table(path) if all(row[name] == value for name, value in wanted.items())]


def measure(candidates, steps, replicates):
    """{(objective, C): {batch, steps, ms, mb, shape: [by seed], color: [by seed]}}"""
    found = {}
    with project(lambda params: change(recipes(candidates, steps, params["pretrain"]["batch_size"]), replicates)(params)) as folder:
        known = commands(folder)
        for stage in ("plan", "dataset@shapes", "split@shapes", "relate@instance", "intervene"):
            spend(known[stage], folder)
        for count in candidates:
            for objective in STYLE:
                run = f"{objective}_{count}"
                spent = spend(known[f"pretrain@{run}"], folder)
                for stage in ("extract", "probe"):
                    spend(known[f"{stage}@{run}"], folder)
                curve = read_table(f"{folder}/metrics/curves/{run}.csv")
                batch = read_json(f"{folder}/data/plans/{run}.json")["pretrain"]["batch_size"]
                taken = max(int(row["epoch"]) for row in curve) * -(-TRAIN // batch)
                found[objective, count] = {
                    "batch": batch, "steps": taken, "ms": 1000 * sum(spent.workers.values()) / replicates / taken, "mb": spent.alone,
                    **{factor: readout(f"{folder}/metrics/probe/{run}.csv", factor) for factor in ("shape", "color")}}
                print(run, found[objective, count], flush=True)
    return found


def draw(found, path):
    """Four panels over the number of candidates; bars: standard error over seeds."""
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(2, 2, figsize=(9, 6.5), sharex=True, layout="constrained")
    for ax, (name, title) in zip(axes.flat, PANELS.items(), strict=True):
        for objective, (color, marker, label) in STYLE.items():
            counts = sorted(count for one, count in found if one == objective)
            values = [np.atleast_1d(found[objective, count][name]) for count in counts]
            errors = [value.std(ddof=1) / len(value) ** 0.5 if len(value) > 1 else 0 for value in values]
            ax.errorbar(counts, [value.mean() for value in values], errors, color=color, marker=marker, capsize=3,
                        label=label.format(batch=found[objective, counts[0]]["batch"]))
        ax.set(xscale="log", title=title)
        ax.set_xticks(counts, [f"{count:,}" for count in counts])
        ax.minorticks_off()
        ax.grid(alpha=0.3)
        if name == "ms":
            ax.set_yscale("log")
            ax.yaxis.set_major_formatter("{x:g}")
        else:
            ax.set_ylim(*({"shape": (1 / 3, 1.02), "color": (1 / 2, 1.02)}.get(name) or (0, None)))  # from guessing, or from nothing
    axes[0, 0].legend()
    for ax in axes[1]:
        ax.set_xlabel("candidates C (negatives of an anchor)")
    times = {objective: found[objective, counts[-1]]["ms"] / found[objective, counts[0]]["ms"] for objective in STYLE}
    figure.suptitle(f"From {counts[0]:,} to {counts[-1]:,} candidates a step costs SimCLR {times['simclr']:.0f} times as much, MoCo {times['moco']:.1f} times",
                    fontweight="bold")
    figure.supxlabel("Everywhere about the same number of steps; means over seeds with their standard error; accuracy axes begin at guessing", fontsize="small")
    figure.savefig(path, dpi=110)


def main(candidates, steps, replicates):
    found = measure(candidates, steps, replicates)
    draw(found, Path(__file__).with_suffix(".png"))
    lines = ["| | C | batch | steps | ms a step | ms a step and 100 images | MB | shape | color |", "| --- " * 9 + "|"]
    for (objective, count), row in sorted(found.items(), reverse=True, key=lambda item: (item[0][0], -item[0][1])):
        scores = [f"{np.mean(row[factor]):.3f} ± {np.std(row[factor], ddof=1) / len(row[factor]) ** 0.5:.3f}" for factor in ("shape", "color")]
        lines.append(f"| {objective} | {count:,} | {row['batch']:,} | {row['steps']:,} | {row['ms']:.1f} | {100 * row['ms'] / row['batch']:.1f} | "
                     f"{row['mb']:,.0f} | {' | '.join(scores)} |")
    publish("The price of candidates", "\n".join(lines) + f"\n\nMeans over {replicates} seeds with their standard error; 5-NN on h.\n\n![](candidates.png)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, nargs="+", default=[100, 250, 500, 1000, 2000, 4000])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--replicates", type=int, default=4)
    main(**vars(parser.parse_args()))
