"""Intervene: test images, each drawn again with one factor changed or altered in its pixels -> one array per intervention.

uint8 [T, 3, S, S] in the order of the test ids. A re-drawn image differs from its original in that factor alone: the row
of factors.csv is the same but for one column, and the pixel noise is kept. What a data set cannot show (no such factor,
or a single value of it) is left out and told in skipped.csv.
"""
import numpy as np

from stages.lib.checks import load_factors, load_images, load_split
from stages.lib.factors import is_numeric
from stages.lib.images import digits, shapes
from stages.lib.pixels import alter
from stages.lib.stage import Refused, run
from stages.lib.tables import read_params, replacing, write_table

RENDERERS = {"shapes": shapes, "digits": digits}


def others(values, to):
    """For each value of a factor, what to change it to: `other` is the next of its values in sorted order, or for numbers the
    one half way round their range; anything else is meant literally. None if nothing would change."""
    if to != "other":
        return None if all(value == str(to) for value in values) else [to] * len(values)
    if len(set(values)) < 2:
        return None
    if not is_numeric(values):
        ordered = sorted(set(values))
        return [ordered[(ordered.index(value) + 1) % len(ordered)] for value in values]
    numbers = np.array(values, dtype=float)
    low, reach = numbers.min(), np.ptp(numbers)
    return (low + (numbers - low + reach / 2) % reach).round(4).tolist()


def redrawn(entry, rows, ids, source, settings):
    """(images or None, reason why none): the images `ids` with one factor changed."""
    if source not in RENDERERS:
        return None, f"images from {source} cannot be drawn again"
    if entry["factor"] not in rows[0]:
        return None, f"there is no factor {entry['factor']}"
    values = others([row[entry["factor"]] for row in rows], entry["to"])
    if values is None:
        return None, f"{entry['factor']} has no other value"
    renderer = RENDERERS[source]
    changed = [renderer.change(rows[row], entry["factor"], values[row], settings["colors"]) for row in ids]
    return draw(renderer, changed, settings), ""


def draw(renderer, rows, settings):
    return renderer.render(rows, settings["size"], settings["colors"], settings["noise"], settings["seed"])


def main(params, dataset, images, factors, split, interventions):
    entries, source, settings = (read_params(params, *keys) for keys in (["interventions"], ["datasets", dataset, "source"], ["datasets", dataset, "images"]))
    pixels = load_images(images)
    rows, ids = load_factors(factors, len(pixels)), load_split(split, len(pixels))["test"]
    originals = pixels[ids]
    if source in RENDERERS and not np.array_equal(draw(RENDERERS[source], [rows[row] for row in ids], settings), originals):
        raise Refused(f"{images} is not what {factors} draws; rerun dataset@{dataset}")
    skipped = []
    for name, entry in entries.items():
        changed, reason = (alter(originals, entry["pixels"], ids), "") if "pixels" in entry else redrawn(entry, rows, ids, source, settings)
        if changed is None:
            skipped.append({"name": name, "reason": reason})
            continue
        with replacing(f"{interventions}/{name}.npy", "wb") as file:
            np.save(file, changed, allow_pickle=False)
    write_table(f"{interventions}/skipped.csv", skipped, ["name", "reason"])
    print(f"{interventions}: {len(entries) - len(skipped)} interventions on {len(ids)} test images"
          + "".join(f"; {row['name']} left out, {row['reason']}" for row in skipped))


if __name__ == "__main__":
    run(main)
