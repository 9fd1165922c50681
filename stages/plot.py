"""Plot: tables -> figures (PNG): loss curves, the ledger as factor x space x run, a sheet of views; and tables for `dvc plots`."""
import math
import unicodedata
from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

from stages.lib.checks import load_archive, load_numbers
from stages.lib.neighbors import vote
from stages.lib.stage import run
from stages.lib.style import BLACK, BLUE, GREY, ORANGE, STYLE
from stages.lib.tables import read_params, read_table, replacing, write_table

SPACES = {"h": (BLUE, "o"), "z": (ORANGE, "s"), "pixels": (BLACK, "D")}


class Labels:
    """Names as matplotlib's own font can show them; one that is too long, or has a glyph it lacks, gets a number, which key.csv explains."""

    def __init__(self):
        self.font = FT2Font(font_manager.findfont("DejaVu Sans"))
        self.key = {}

    def __call__(self, name, width=22):
        # category C: line breaks, and marks that would turn the direction of what follows
        plain = all(self.font.get_char_index(ord(letter)) and unicodedata.category(letter)[0] != "C" for letter in name)
        if plain and len(name) <= width:
            return name
        number = f"[{self.key.setdefault(name, len(self.key) + 1)}]"
        return f"{name[: width - len(number) - 2]}… {number}" if plain else number


def number(cell):
    return float(cell) if cell else math.nan


def curves(tables, labels):
    """Loss by epoch, a panel a run: seeds thin, their mean thick, the loss of a network that cannot tell candidates apart dashed."""
    trained = {name: rows for name, rows in tables.items() if any(row["loss"] for row in rows)}
    if not trained:
        return None
    columns = min(3, len(trained))
    figure, axes = plt.subplots(-(-len(trained) // columns), columns, figsize=(0.6 + 3.1 * columns, 0.7 + 2.5 * -(-len(trained) // columns)),
                                squeeze=False, layout="constrained")
    for ax, (name, rows) in zip(axes.flat, trained.items(), strict=False):
        by_seed = {}
        for row in rows:
            if row["loss"]:
                by_seed.setdefault(row["seed"], []).append((int(row["epoch"]), number(row["loss"]), number(row["reference"])))
        for points in by_seed.values():
            epochs, losses, references = zip(*points, strict=True)
            ax.plot(epochs, losses, color=BLUE, linewidth=0.7, alpha=0.4)
        ax.plot(epochs, references, color=GREY, linestyle="--", linewidth=1.3)
        ax.plot(epochs, np.mean([[loss for _, loss, _ in points] for points in by_seed.values()], axis=0), color=BLUE, linewidth=2)
        ax.set_title(labels(name, 30), loc="left")
        ax.set_xlabel("epoch")
    for ax in list(axes.flat)[len(trained):]:
        ax.remove()
    axes[0, 0].set_ylabel("loss (nats)")
    lines = [plt.Line2D([], [], color=BLUE, linewidth=2), plt.Line2D([], [], color=BLUE, linewidth=0.7, alpha=0.6),
             plt.Line2D([], [], color=GREY, linestyle="--")]
    figure.legend(lines, ["mean over seeds", "one seed", "a network that tells nothing apart"], loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def ledger(rows, names, factors, labels):
    """kNN accuracy on test, a panel a factor, a line a run: h and z with intervals, chance dotted, pixels at the bottom."""
    cells = {(row["run"], row["space"], row["factor"]): row for row in rows if row["probe"] == "knn"}
    factors = [factor for factor in dict.fromkeys([*factors, *(row["factor"] for row in rows)]) if any(key[2] == factor for key in cells)][:4]
    if not factors:
        return None
    lines = [*names, "pixels"]
    figure, axes = plt.subplots(1, len(factors), figsize=(2.2 + 3.3 * len(factors), 1.3 + 0.5 * len(lines)), squeeze=False, sharey=True, layout="constrained")
    for ax, factor in zip(axes[0], factors, strict=True):
        for place, name in enumerate(lines):
            spaces = ["pixels"] if name == "pixels" else ["h", "z"]
            for space, offset in zip(spaces, [0] if name == "pixels" else [-0.15, 0.15], strict=True):
                cell = cells.get((name, space, factor))
                if cell is None:
                    continue
                color, marker = SPACES[space]
                mean, low, high = (number(cell[column]) for column in ("mean", "low", "high"))
                if not math.isnan(low):
                    ax.plot([low, high], [place + offset] * 2, color=color, linewidth=2.2, solid_capstyle="butt")
                ax.plot(mean, place + offset, marker, color=color, markersize=6)
        chance = next(number(row["chance"]) for key, row in cells.items() if key[2] == factor)
        ax.axvline(chance, color=GREY, linestyle=":", linewidth=1.6)
        ax.set_xlim(-0.03, 1.03)
        ax.set_title(labels(factor, 30), loc="left")
        ax.set_xlabel("kNN accuracy on test")
        ax.grid(axis="y", visible=False)
    axes[0, 0].set_yticks(range(len(lines)), [labels(name) for name in lines])
    axes[0, 0].invert_yaxis()
    marks = [plt.Line2D([], [], color=color, marker=marker, linewidth=2.2) for color, marker in SPACES.values()]
    some = next(cell for key, cell in cells.items() if key[0] in names)
    figure.suptitle(f"What each run keeps: read by nearest neighbors on {some['n']} test images, {some['seeds']} seeds, with intervals",
                    x=0.01, ha="left", fontsize=11)
    figure.legend([*marks, plt.Line2D([], [], color=GREY, linestyle=":", linewidth=1.6)], ["h (encoder)", "z (head)", "pixels", "chance"],
                  loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return figure


def views(sheets, labels):
    """A block a policy: originals above two views of each."""
    figure, axes = plt.subplots(1, len(sheets), figsize=(0.4 + 3.6 * len(sheets), 2.4), squeeze=False, layout="constrained")
    for ax, (name, sheet) in zip(axes[0], sheets.items(), strict=True):
        side = sheet.shape[-1]
        mosaic = np.full((3 * (side + 1) + 1, len(sheet) * (side + 1), 3), 255, np.uint8)
        for column, triple in enumerate(sheet):
            for row, image in enumerate(triple):
                top, left = row * (side + 1) + (row > 0), column * (side + 1)  # a wider gap under the originals
                mosaic[top : top + side, left : left + side] = image.transpose(1, 2, 0)
        ax.imshow(mosaic, interpolation="nearest")
        ax.set_title(labels(name, 34), loc="left")
        ax.set_yticks([side / 2, 1.5 * side + 2, 2.5 * side + 3], ["original", "a view", "its other view"] if ax is axes[0, 0] else [""] * 3)
        ax.set_xticks([])
        ax.tick_params(length=0)
        ax.grid(visible=False)
        ax.spines[:].set_visible(False)
    return figure


def mean_curves(tables):
    """Rows {run, epoch, loss, reference}: means over seeds of the trained runs."""
    rows = []
    for name, table in tables.items():
        for epoch in dict.fromkeys(row["epoch"] for row in table if row["loss"]):
            cells = [row for row in table if row["epoch"] == epoch]
            rows.append({"run": name, "epoch": epoch, **{key: float(np.mean([number(row[key]) for row in cells])) for key in ("loss", "reference")}})
    return rows


def confusion(places, values):
    """Rows {run, space, actual, predicted} for the test images of the maps, by the vote of their nearest train images.

    places: {run: arrays of its map}; values: the main factor of every image, strings.
    """
    classes, labels = np.unique(values, return_inverse=True)
    rows = []
    for name, found in places.items():
        for space in ("h", "z"):
            predicted = vote(found[f"{space}/neighbors"], found[f"{space}/similarity"], labels, len(classes))
            rows += [{"run": name, "space": space, "actual": values[image], "predicted": classes[label]}
                     for image, label in zip(found["ids"], predicted, strict=True)]
    return rows


def main(params, curves_dir, ledger_csv, preview, maps, factors, plots):
    settings, names = read_params(params, "plot"), list(read_params(params, "runs"))
    entry = read_params(params, "datasets", read_params(params, "dataset"))
    labels = Labels()
    sheets = load_archive(preview)
    tables = {name: load_numbers(f"{curves_dir}/{name}.csv", ["seed"], ["epoch", "loss", "reference"]) for name in names}
    cells = load_numbers(ledger_csv, ["run", "space", "factor", "probe", "n", "seeds"], ["mean", "low", "high", "chance"])
    with plt.rc_context(STYLE):
        figures = {"curves": curves(tables, labels),
                   "ledger": ledger(cells, names, [entry["main_factor"], entry["second_factor"]], labels),
                   "views": views(sheets, labels)}
        figures = {name: figure for name, figure in figures.items() if figure is not None}
        for name, figure in figures.items():
            with replacing(f"{plots}/{name}.png", "wb") as file:
                figure.savefig(file, format="png", dpi=settings["dpi"])
    write_table(f"{plots}/curves.csv", mean_curves(tables), ["run", "epoch", "loss", "reference"])
    values = [row[entry["main_factor"]] for row in read_table(factors, [entry["main_factor"]])]
    mapped = {name: load_archive(f"{maps}/{name}.npz") for name in names}
    write_table(f"{plots}/confusion.csv", confusion(mapped, values), ["run", "space", "actual", "predicted"])
    write_table(f"{plots}/key.csv", [{"number": place, "name": name} for name, place in labels.key.items()], ["number", "name"])
    for path in Path(plots).iterdir():
        if path.name not in {"key.csv", "curves.csv", "confusion.csv", *(f"{name}.png" for name in figures)}:
            path.unlink()
    print(f"{plots}: {', '.join(figures)}")


if __name__ == "__main__":
    run(main)
