"""Sweeps: one setting varied over experiments in DVC's queue -> docs/sweeps/<name>.csv and .png: what is read from h and z against the setting.

python -m docs.sweeps [NAME ...] [-S key=value ...] [--to FOLDER]; settings of -S hold for every experiment. Only the runs of a sweep are
trained and read out: whatever else `dvc repro` makes is left alone, and what has been trained before comes from DVC's cache.
"""
import argparse
import csv
import io
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
from dvc.api import DVCFileSystem
from ruamel.yaml import YAML

from docs.clone import ROOT, clone, told
from stages.lib.intervals import estimate
from stages.lib.style import BLUE, GREY, ORANGE, STYLE
from stages.lib.tables import replacing, write_table

COLUMNS = ["sweep", "point", "run", "space", "factor", "probe", "mean", "low", "high", "val", "chance", "untrained", "n", "seeds"]
SPACES = {"h": (BLUE, "o", -1), "z": (ORANGE, "s", 1)}
JITTER = "views.keep_color.jitter"
CROP = "crop:{scale:[0.6,1],ratio:[1,1]}"
STRONG = "jitter:{probability:1,brightness:0.8,contrast:0.8,saturation:0.8,hue:0.2}"


class Sweep(NamedTuple):
    axis: str
    scale: str  # log, linear, or even: one place after the other
    runs: list
    points: dict  # what stands on the axis: settings of `dvc exp run`


def policy(operations):
    return [f"+views.swept={{{operations}}}", "runs.simclr_keep.views=swept"]


def batch(images, epochs):
    """As many negatives from the ring as from a batch: 2B - 2 (SimCLR sees 2B views). 400 steps for either."""
    return [f"moco.queue={2 * images - 2}", f"+runs.simclr_swap.pretrain.batch_size={images}", f"+runs.simclr_swap.pretrain.epochs={epochs}"]


SWEEPS = {
    "temperature": Sweep("temperature", "log", ["simclr_keep", "simclr_swap"],
                         {f"{t}": [f"temperature={t}"] for t in (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2)}),
    # Chen et al. 2020: brightness, contrast and saturation 0.8 s, hue 0.2 s
    "jitter": Sweep("strength s of the color jitter", "linear", ["simclr_keep"],
                    {f"{s}": [f"{JITTER}.{part}={0.8 * s:g}" for part in ("brightness", "contrast", "saturation")] + [f"+{JITTER}.hue={0.2 * s:g}"]
                     for s in (0, 0.25, 0.5, 0.75, 1)}),
    "crop": Sweep("kind of view", "even", ["simclr_keep"],
                  {"crop": policy(CROP), "color": policy(STRONG), "crop and color": policy(f"{CROP},{STRONG}")}),
    "grayscale": Sweep("probability of a gray view", "linear", ["simclr_keep"],
                       {f"{p}": [f"+views.keep_color.grayscale={p}"] for p in (0, 0.2, 0.5, 0.8, 1)}),
    "momentum": Sweep("key momentum", "even", ["moco_swap"], {f"{m}": [f"moco.key_momentum={m}"] for m in (0, 0.9, 0.99, 0.999, 1)}),
    "queue": Sweep("number of negatives", "log", ["moco_swap", "simclr_swap"],
                   {f"{2 * images - 2}": batch(images, epochs) for images, epochs in ((15, 10), (30, 20), (60, 40), (120, 80), (200, 133))}),
    "head": Sweep("head after the encoder", "even", ["simclr_keep", "simclr_swap"], {name: [f"encoder.head={name}"] for name in ("none", "linear", "mlp")}),
}


def run_experiments(name, shared, folder):
    """Queue an experiment a point in the clone `folder` and run them two at a time; what is there afterwards is told by `experiment`."""
    targets = [f"probe@{run}" for run in ("untrained", *SWEEPS[name].runs)]
    for place, settings in enumerate(SWEEPS[name].points.values()):
        words = [word for setting in [*shared, *settings] for word in ("-S", setting)]
        subprocess.run(["dvc", "exp", "run", "--queue", "--name", f"{name}-{place}", *words, *targets], cwd=folder, check=True)
    try:
        subprocess.run(["dvc", "exp", "run", "--run-all", "--jobs", "2"], cwd=folder, check=True)
    finally:
        subprocess.run(["dvc", "queue", "stop", "--kill"], cwd=folder)  # Ctrl-C alone leaves the workers of the queue running
    done = told("dvc", "exp", "list", "--name-only", cwd=folder).split()
    if failed := [f"{name}-{place}" for place in range(len(SWEEPS[name].points)) if f"{name}-{place}" not in done]:  # --run-all ends well all the same
        sys.exit(f"error: these experiments failed, the lines above say why: {', '.join(failed)}")


def read_experiments(name, folder):
    """Rows of COLUMNS: each point, run, space and probe for the two factors of the data set."""
    rows = []
    for place, point in enumerate(SWEEPS[name].points):
        files = DVCFileSystem(str(folder), rev=f"{name}-{place}")
        params = YAML(typ="safe", pure=True).load(files.read_text("params.yaml"))
        entry = params["datasets"][params["dataset"]]
        factors = list(dict.fromkeys(factor for factor in (entry["main_factor"], entry["second_factor"]) if factor != "none"))
        values = {run: read_run(files, run) for run in ("untrained", *SWEEPS[name].runs)}
        for run in SWEEPS[name].runs:
            right, numbers = values[run]
            for key in right:
                space, factor, probe = key
                if factor in factors and probe in ("knn", "linear"):
                    found = estimate(right[key], params["judge"]["confidence"], paired=False)
                    low, high = (None, None) if found.low is None else (max(0.0, found.low), min(1.0, found.high))
                    cells = [name, point, run, *key, found.mean, low, high, numbers[*key, "val_accuracy"], numbers[*key, "majority"],
                             float(values["untrained"][0][key].mean()), right[key].shape[1], len(right[key])]
                    rows.append({column: round(cell, 6) if isinstance(cell, float) else cell for column, cell in zip(COLUMNS, cells, strict=True)})
    return rows


def read_run(files, run):
    """({(space, factor, probe): right or wrong [seeds, test images]}, {(space, factor, probe, metric): mean over seeds}) of a run."""
    with np.load(io.BytesIO(files.read_bytes(f"data/correct/{run}.npz")), allow_pickle=False) as archive:
        right = {(*key.split("/", 1)[:1], *key.split("/", 1)[1].rsplit("/", 1)): archive[key] for key in archive.files}
    numbers = {}
    for row in csv.DictReader(io.StringIO(files.read_text(f"metrics/probe/{run}.csv"))):
        if row["slice"] == "all" and row["value"]:
            numbers.setdefault((row["space"], row["factor"], row["probe"], row["metric"]), []).append(float(row["value"]))
    return right, {key: float(np.mean(values)) for key, values in numbers.items()}


def finding(rows):
    """(size, words) of what the setting changes in one space of one run and factor: the extremes, where their intervals lie apart."""
    low, high = min(rows, key=lambda row: row["mean"]), max(rows, key=lambda row: row["mean"])
    if low["low"] is None or low["high"] >= high["low"]:
        return 0.0, "no clear change"
    return high["mean"] - low["mean"], ", ".join(f"{row['mean']:.2f} at {row['point']}" for row in sorted((low, high), key=rows.index))


def headline(rows, sweep):
    """The largest change that the intervals leave no doubt of, in words."""
    found = []
    for run in sweep.runs:
        for factor in dict.fromkeys(row["factor"] for row in rows):
            size, words = finding([row for row in rows if (row["run"], row["factor"], row["space"]) == (run, factor, "h")])
            found.append((size, f"changes {factor} in h of {run} most: {words}"))
    size, words = max(found)
    return f"{sweep.axis[0].upper()}{sweep.axis[1:]} {words if size else 'makes no difference in h that is clear of its intervals'}"


def draw(rows, sweep):
    """A panel a run and factor: kNN accuracy on test against the setting, h and z with intervals; chance and untrained as lines."""
    rows = [row for row in rows if row["probe"] == "knn"]
    factors, points = list(dict.fromkeys(row["factor"] for row in rows)), list(sweep.points)
    places = dict(zip(points, range(len(points)) if sweep.scale == "even" else map(float, points), strict=True))
    figure, axes = plt.subplots(len(sweep.runs), len(factors), figsize=(0.8 + 4.4 * len(factors), 1.4 + 3 * len(sweep.runs)), squeeze=False,
                                sharey=True, layout="constrained")
    for (line, run), (column, factor) in ((a, b) for a in enumerate(sweep.runs) for b in enumerate(factors)):
        ax, words = axes[line, column], []
        for space, (color, marker, side) in SPACES.items():
            cells = [row for row in rows if (row["run"], row["factor"], row["space"]) == (run, factor, space)]
            at = [beside(places[row["point"]], side, sweep, places) for row in cells]
            ax.plot(at, [row["untrained"] for row in cells], color=color, linestyle=(0, (5, 3)), linewidth=1.1, alpha=0.75)
            ax.plot(at, [row["mean"] for row in cells], color=color, marker=marker, markersize=6, linewidth=1.6 if is_number(points[0]) else 0, clip_on=False)
            if cells[0]["low"] is not None:
                ax.vlines(at, [row["low"] for row in cells], [row["high"] for row in cells], color=color, linewidth=2)
            words.append(f"{space}: {finding(cells)[1]}")
        ax.axhline(cells[0]["chance"], color=GREY, linestyle=":", linewidth=1.6)
        ax.set_ylim(-0.03, 1.03)
        if sweep.scale == "log":
            ax.set_xscale("log")
        ax.minorticks_off()
        ax.set_xticks(list(places.values()), points)
        ax.set_title(f"{run}: {factor}", loc="left", pad=32)
        ax.text(0, 1.03, "\n".join(words), transform=ax.transAxes, fontsize=9, va="bottom", in_layout=False)
        ax.set_xlabel(sweep.axis if line == len(sweep.runs) - 1 else "")
    for ax in axes[:, 0]:
        ax.set_ylabel("kNN accuracy on test")
    figure.suptitle(headline(rows, sweep), x=0.01, ha="left", fontsize=11, fontweight="bold")
    marks = [plt.Line2D([], [], color=color, marker=marker, linewidth=2) for color, marker, _ in SPACES.values()]
    marks += [plt.Line2D([], [], color=BLUE, linestyle=(0, (5, 3)), linewidth=1.1), plt.Line2D([], [], color=GREY, linestyle=":", linewidth=1.6)]
    figure.legend(marks, ["h (encoder)", "z (head)", "untrained (h blue, z orange)", "chance"], loc="outside lower center", ncols=4, frameon=False, fontsize=9,
                  title=f"{rows[0]['seeds']} seeds, {rows[0]['n']} test images; intervals over both", title_fontsize=9)
    return figure


def beside(place, side, sweep, places):
    """Where a space stands: a little to the left or right of its point, so that intervals do not hide each other."""
    if sweep.scale == "log":
        return place * 1.03**side
    return place + side * 0.01 * (max(places.values()) - min(places.values()))


def is_number(text):
    return text.replace(".", "", 1).isdigit()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SWEEPS))
    parser.add_argument("-S", dest="shared", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--to", type=Path, default=ROOT / "docs/sweeps", metavar="FOLDER")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in SWEEPS:
            parser.error(f"{name} is no sweep; there are {', '.join(SWEEPS)}")
    for name in arguments.names or SWEEPS:
        with clone() as folder:
            run_experiments(name, arguments.shared, folder)
            rows = read_experiments(name, folder)
        write_table(arguments.to / f"{name}.csv", rows, COLUMNS)
        with plt.rc_context(STYLE), replacing(arguments.to / f"{name}.png", "wb") as file:
            draw(rows, SWEEPS[name]).savefig(file, format="png", dpi=120)
        print(f"{arguments.to / name}.csv, {name}.png: {headline([row for row in rows if row['probe'] == 'knn'], SWEEPS[name])}")


if __name__ == "__main__":
    main()
