"""Colored shapes: params -> rendered images of which every factor is known, the same number for each shape and color."""
import numpy as np

from stages.lib.images.shapes import MARKS, hue_of, render
from stages.lib.source import Rows, fill, scratch, write_dataset
from stages.lib.stage import run
from stages.lib.tables import read_params


def draw_factors(settings):
    """Rows of factors in random order; what is not balanced is uniform in the range that params.yaml gives, rounded to 4 digits."""
    generator = np.random.default_rng(settings["seed"])
    kinds = [(shape, color) for shape in settings["shapes"] for color in settings["colors"]] * settings["per_kind"]
    ranges = {"x": settings["position"], "y": settings["position"], "scale": settings["scale"],
              "brightness": settings["brightness"], "background": settings["background"],
              **{name: settings[name] for name in ("tint", "mix") if name in settings}}
    columns = {name: generator.uniform(low, high, len(kinds)).round(4).tolist() for name, (low, high) in ranges.items()}
    order = generator.permutation(len(kinds))
    if "hue" in settings:
        turns = generator.uniform(*settings["hue"], len(kinds))
        columns["hue"] = [round((hue_of(settings["colors"][color]) + turn) % 1, 4) for (_, color), turn in zip(kinds, turns, strict=True)]
    if "textures" in settings:
        columns["texture"] = generator.permutation(np.resize(settings["textures"], len(kinds))).tolist()
    if "watermark_correlation" in settings:
        columns |= watermarks(settings, [shape for shape, _ in kinds], generator)
    return Rows({"shape": [kinds[kind][0] for kind in order], "color": [kinds[kind][1] for kind in order],
                 **{name: values if name in ranges else [values[kind] for kind in order] for name, values in columns.items()}})


def watermarks(settings, shapes, generator):
    """Columns watermark and tie: a `tied` mark is its shape's own with probability watermark_correlation, else any mark at
    random; a `free` one, the share watermark_free of each kind, is any mark at random (hold_out keeps these for test)."""
    marks = dict(zip(settings["shapes"], MARKS, strict=False))
    per_round = len(shapes) // settings["per_kind"]
    free = np.arange(len(shapes)) // per_round < round(settings["watermark_free"] * settings["per_kind"])
    own = (generator.uniform(size=len(shapes)) < settings["watermark_correlation"]) & ~free
    other = generator.choice(list(marks.values()), len(shapes))
    return {"watermark": [marks[shape] if is_own else str(mark) for shape, is_own, mark in zip(shapes, own, other, strict=True)],
            "tie": ["free" if is_free else "tied" for is_free in free]}


def main(params, name, raw, images, index, factors, rejected):
    settings = read_params(params, "datasets", name, "images")
    rows = draw_factors(settings)

    def draw(row):
        return render([{"id": row, **rows[row]}], settings["size"], settings["colors"], settings["noise"], settings["seed"])

    pixels = scratch(images, len(rows), settings["size"])
    fill(pixels, draw, f"draw {name}")
    sources = (f"shapes:{row}" for row in range(len(rows)))
    write_dataset(pixels, sources, rows, {"images": images, "index": index, "factors": factors, "rejected": rejected})


if __name__ == "__main__":
    run(main)
