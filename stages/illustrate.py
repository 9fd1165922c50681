"""Illustrate: hand-worked numbers and traced steps -> figures (PNG): temperature, queue and key momentum; a step of SimCLR; a step of MoCo."""
import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np

from stages.lib.checks import load_archive
from stages.lib.stage import run
from stages.lib.style import BLACK, BLUE, GREEN, GREY, ORANGE, STYLE
from stages.lib.tables import read_json, read_params, replacing

DASHES = ["-", "--", ":", "-."]
NOTE = {"textcoords": "offset points", "fontsize": 8.5, "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.8}}


def temperature(numbers):
    """Candidate probabilities and gradients against temperature; the queue's update; where key networks go."""
    figure, axes = plt.subplots(2, 3, figsize=(13, 7.2), layout="constrained")
    for row, (name, words) in enumerate([("right_order", "positive ahead"), ("wrong_order", "positive behind")]):
        choices = numbers["sweep"][name]
        t = [choice["temperature"] for choice in choices]
        for candidate, (label, color) in enumerate([("positive", GREEN), ("harder negative", ORANGE), ("easier negative", BLUE)]):
            legend = f"{label}, s = {choices[0]['similarities'][candidate]}"
            axes[row, 0].plot(t, [choice["probabilities"][candidate] for choice in choices], DASHES[candidate], color=color, linewidth=2, label=legend)
            axes[row, 1].plot(t, [abs(choice["by_similarity"][candidate]) for choice in choices], DASHES[candidate], color=color, linewidth=2)
        for choice in numbers["choices"][name]:
            axes[row, 0].plot(choice["temperature"], choice["probabilities"][0], "o", color=GREEN, markersize=5)
            axes[row, 0].annotate(f"{choice['probabilities'][0]:.4f}", (choice["temperature"], choice["probabilities"][0]), xytext=(6, 5 - 18 * row), **NOTE)
            axes[row, 1].plot(choice["temperature"], -choice["by_similarity"][0], "o", color=GREEN, markersize=5)
            axes[row, 1].annotate(f"{-choice['by_similarity'][0]:.4f}", (choice["temperature"], -choice["by_similarity"][0]), xytext=(6, 5), **NOTE)
        for ax, what in zip(axes[row], ("probability of a candidate", "pull or push on it, |dL/ds|"), strict=False):
            ax.set_xscale("log")
            ax.set_xticks([0.05, 0.1, 0.2, 0.5, 1, 2], ["0.05", "0.1", "0.2", "0.5", "1", "2"])
            ax.minorticks_off()
            ax.set_xlabel("temperature")
            ax.set_title(f"{what} ({words})", loc="left", fontsize=9.5)
        axes[row, 0].set_ylim(-0.03, 1.08)
        axes[row, 0].legend(fontsize=8.5, frameon=False, loc="upper right")
    queue(axes[0, 2], numbers["queue"])
    key_steps(axes[1, 2], numbers["key_momentum"])
    return figure


def boxes(ax, texts, y, colors, width=1.0):
    """A row of boxes with a text in each, the first at x = 0."""
    for place, (text, color) in enumerate(zip(texts, colors, strict=True)):
        ax.add_patch(plt.Rectangle((place * width + 0.05, y), width - 0.1, 0.8, facecolor=color, edgecolor=BLACK, alpha=0.85))
        ax.text((place + 0.5) * width, y + 0.4, text, ha="center", va="center", color="white", fontsize=10)


def bare(ax):
    ax.set_xticks([])
    ax.set_yticks([])
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)


def queue(ax, told):
    """The ring of six before and after two keys are added."""
    before, added, after = told["before"], told["added"], told["after"]
    boxes(ax, before, 3, [GREY if letter not in after else BLUE for letter in before])
    boxes(ax, after, 0, [ORANGE if letter in added else BLUE for letter in after])
    ax.text(0, 4.05, "before, oldest first", fontsize=9)
    ax.text(0, 1.05, f"after {' and '.join(added)} came in: {' and '.join(letter for letter in before if letter not in after)} left", fontsize=9)
    for place, letter in enumerate(after):
        if letter in before:
            ax.annotate("", (place + 0.5, 1.45), (before.index(letter) + 0.5, 2.95), arrowprops={"arrowstyle": "->", "color": GREY})
    ax.set_xlim(-0.1, 6.1)
    ax.set_ylim(-0.3, 4.6)
    ax.set_title("a queue of six: first in, first out", loc="left", fontsize=9.5)
    bare(ax)


def key_steps(ax, runs):
    """Second parameter of a key network that starts at 2 and follows a query at 4."""
    for place, told in enumerate(runs):
        values = [place[1] for place in told["places"]]
        ax.plot(range(len(values)), values, DASHES[place % 4], color=[BLACK, BLUE, GREEN, GREY][place % 4], linewidth=2, label=f"momentum {told['momentum']:g}")
        if told["momentum"] == 0.9:
            for step in (1, 2):
                ax.plot(step, values[step], "o", color=BLUE, markersize=5)
                ax.annotate("({:g}, {:g})".format(*told["places"][step]), (step, values[step]), xytext=(9, -5), **NOTE)
    ax.axhline(4, color=ORANGE, linewidth=1.2)
    ax.text(len(runs[0]["places"]) - 1, 4.05, "query (2, 4)", color=ORANGE, ha="right", fontsize=8.5)
    ax.set_ylim(1.85, 4.3)
    ax.set_xlabel("step")
    ax.set_title("key network from (0, 2): its second parameter", loc="left", fontsize=9.5)
    ax.legend(fontsize=8.5, frameon=False, loc="center right")


def strip(ax, images, names, title):
    """Images beside each other, a name under each."""
    side = images.shape[-1]
    sheet = np.ones((side, len(images) * (side + 2) - 2, 3))
    for place, image in enumerate(images):
        sheet[:, place * (side + 2) : place * (side + 2) + side] = image.transpose(1, 2, 0)
    ax.imshow(sheet.clip(0, 1), interpolation="nearest")
    bare(ax)
    ax.set_xticks([place * (side + 2) + side / 2 - 0.5 for place in range(len(images))], names, fontsize=9)
    ax.tick_params(length=0)
    ax.set_title(title, loc="left", fontsize=9.5)


def bands(ax, rows, names, title):
    """Vectors as rows of colors, blue below and red above zero."""
    reach = np.abs(rows).max()
    ax.imshow(rows, cmap="RdBu_r", vmin=-reach, vmax=reach, aspect="auto", interpolation="nearest")
    ax.set_yticks(range(len(rows)), names, fontsize=9)
    ax.set_xticks([0, rows.shape[1] - 1], ["1", str(rows.shape[1])])
    ax.grid(visible=False)
    ax.set_title(f"{title} (largest {reach:.2g})", loc="left", fontsize=9.5)


def matrix(ax, values, candidate, positive, rows, columns, title, shades, low, high):
    """A number in each cell: positives framed, cells that are no candidates crossed out."""
    ax.imshow(np.where(candidate, values, np.nan), cmap=shades, vmin=low, vmax=high, aspect="auto", interpolation="nearest")
    for i, j in np.ndindex(values.shape):
        if candidate[i, j]:
            ax.text(j, i, f"{values[i, j]:.2f}", ha="center", va="center", fontsize=8.5, color=BLACK)
        else:
            ax.plot([j - 0.3, j + 0.3], [i - 0.3, i + 0.3], color=GREY, linewidth=1)
            ax.plot([j - 0.3, j + 0.3], [i + 0.3, i - 0.3], color=GREY, linewidth=1)
        if j == positive[i]:
            ax.add_patch(plt.Rectangle((j - 0.47, i - 0.47), 0.94, 0.94, fill=False, edgecolor=GREEN, linewidth=2.6))
    ax.set_xticks(range(len(columns)), columns, fontsize=8.5)
    ax.set_yticks(range(len(rows)), rows, fontsize=9)
    ax.grid(visible=False)
    ax.set_title(title, loc="left", fontsize=9.5)


def bars(ax, names, values, colors, title, form):
    """Horizontal bars with their numbers."""
    ax.barh(range(len(values)), values, color=colors, height=0.65)
    for place, value in enumerate(values):
        ax.text(value, place, " " + form.format(value), va="center", fontsize=8.5)
    ax.set_yticks(range(len(values)), names, fontsize=9)
    ax.set_xlim(0, 1.28 * max(max(values), 1e-12))
    ax.set_xticks([])
    ax.invert_yaxis()
    ax.grid(visible=False)
    ax.set_title(title, loc="left", fontsize=9.5)


def simclr(trace):
    """One step of SimCLR, numbered in reading order."""
    letters = "ABCDEFGHIJKLMNOP"[: len(trace["ids"])]
    names = [letter + view for view in "12" for letter in letters]
    figure = plt.figure(figsize=(15, 9.6), layout="constrained")
    grid = figure.add_gridspec(3, 12, height_ratios=[1.15, 2.1, 2.1])
    first, second = np.split(trace["views"], 2)
    strip(figure.add_subplot(grid[0, :4]), trace["images"] / 255, [f"{letter}: image {number}" for letter, number in zip(letters, trace["ids"], strict=True)],
          "1  the batch's images")
    strip(figure.add_subplot(grid[0, 4:8]), first, names[: len(letters)], "2  their first views")
    strip(figure.add_subplot(grid[0, 8:]), second, names[len(letters):], "    and their second views")
    bands(figure.add_subplot(grid[1, :4]), trace["h"], names, "3  h, by the encoder")
    bands(figure.add_subplot(grid[1, 4:7]), trace["z"], names, "4  z, by the head")
    matrix(figure.add_subplot(grid[1, 7:]), trace["similarity"], trace["candidate"], trace["positive"], names, names,
           "5  similarity s of z: row = who chooses, green = its positive, x = itself", "Blues", -1, 2.5)
    matrix(figure.add_subplot(grid[2, :5]), trace["probability"], trace["candidate"], trace["positive"], names, names,
           f"6  probability: softmax of s / {trace['temperature']:g} along a row", "Oranges", 0, 1.5)
    bars(figure.add_subplot(grid[2, 5:8]), names, trace["losses"], BLUE, f"7  loss: -log of the green one; mean {trace['loss']:.3f}", "{:.2f}")
    step = grid[2, 8:].subgridspec(2, 1)
    bars(figure.add_subplot(step[0]), ["encoder", "head"], trace["gradient"], ORANGE, "8  length of the gradient, through z into h", "{:.2f}")
    bars(figure.add_subplot(step[1]), ["encoder", "head"], 100 * trace["moved"], GREEN,
         f"9  weights moved, % of their length; loss then {trace['loss_after']:.3f}", "{:.2f} %")
    return figure


def moco(trace):
    """One step of MoCo, numbered in reading order."""
    letters = "ABCDEFGHIJKLMNOP"[: len(trace["ids"])]
    figure = plt.figure(figsize=(15, 10.4), layout="constrained")
    grid = figure.add_gridspec(4, 12, height_ratios=[1.2, 1.7, 1.7, 1.1])
    first, second = np.split(trace["views"], 2)
    strip(figure.add_subplot(grid[0, :4]), trace["images"] / 255, [f"{letter}: image {number}" for letter, number in zip(letters, trace["ids"], strict=True)],
          "1  the batch's images")
    queries, keys = ([f"{kind}{letter}" for letter in letters] for kind in ("q", "k"))
    strip(figure.add_subplot(grid[0, 4:8]), first, queries, "2  first views, for the query network")
    strip(figure.add_subplot(grid[0, 8:]), second, keys, "    second views, for the key network")
    bands(figure.add_subplot(grid[1, :4]), trace["h"], queries, "3  h of the queries")
    bands(figure.add_subplot(grid[1, 4:7]), trace["queries"], queries, "4  queries")
    bands(figure.add_subplot(grid[1, 7:9]), trace["keys"], keys, "5  keys")
    ring = [f"{number}\nage {age}" for number, age in zip(trace["ring_ids"], trace["ring_age"], strict=True)]
    bands(figure.add_subplot(grid[1, 9:]), trace["ring_keys"], trace["ring_ids"], "6  ring: keys of images")
    positive = np.zeros(len(letters), int)
    matrix(figure.add_subplot(grid[2, :4]), trace["similarity"], trace["candidate"], positive, queries, ["own key", *ring],
           "7  similarity: own key (green) and ring", "Blues", -1, 2.5)
    matrix(figure.add_subplot(grid[2, 4:8]), trace["probability"], trace["candidate"], positive, queries, ["own key", *ring],
           f"8  probability: softmax of s / {trace['temperature']:g} along a row", "Oranges", 0, 1.5)
    bars(figure.add_subplot(grid[2, 8:10]), queries, trace["losses"], BLUE, f"9  loss, mean {trace['loss']:.3f}", "{:.2f}")
    bars(figure.add_subplot(grid[2, 10:]), ["encoder", "head"], trace["gradient"], ORANGE, "10  length of gradient", "{:.2f}")
    bars(figure.add_subplot(grid[3, :5]), ["query encoder", "query head", "key encoder", "key head"], 100 * np.append(trace["moved"], trace["key_moved"]),
         [GREEN, GREEN, GREY, GREY], f"11  weights moved, % of their length (key momentum {trace['key_momentum']:g})", "{:.3f} %")
    ax = figure.add_subplot(grid[3, 5:])
    before, after = list(trace["ring_ids"]), list(trace["ring_ids_after"])
    leaving, coming = min(len(letters), len(before)), min(len(letters), len(after))
    boxes(ax, before, 1.6, [GREY] * leaving + [BLUE] * (len(before) - leaving))
    boxes(ax, after, 0, [BLUE] * (len(after) - coming) + [ORANGE] * coming)
    ax.text(len(before) + 0.1, 2, "ring before, oldest first\n(grey leave)", va="center", fontsize=9)
    ax.text(len(before) + 0.1, 0.4, "ring after\n(orange: this step's keys)", va="center", fontsize=9)
    ax.set_xlim(-0.1, len(before) + 3.2)
    ax.set_ylim(-0.2, 2.6)
    ax.set_title("12  the ring, by image: contrast first, enqueue after", loc="left", fontsize=9.5)
    bare(ax)
    return figure


def main(params, numbers_json, simclr_trace, moco_trace, temperature_png, simclr_png, moco_png):
    dpi = read_params(params, "illustrate", "dpi")
    traces = [load_archive(path) for path in (simclr_trace, moco_trace)]
    with plt.rc_context(STYLE):
        figures = {temperature_png: temperature(read_json(numbers_json)), simclr_png: simclr(traces[0]), moco_png: moco(traces[1])}
        for path, figure in figures.items():
            with replacing(path, "wb") as file:
                figure.savefig(file, format="png", dpi=dpi)
    print(f"{', '.join(figures)}: drawn")


if __name__ == "__main__":
    run(main)
