"""Colored shapes: params -> rendered images of which every factor is known, the same number for each shape and color."""
import numpy as np

from stages.lib.images.shapes import SHAPES, render
from stages.lib.source import write_dataset
from stages.lib.stage import run
from stages.lib.tables import read_params


def draw_factors(settings):
    """Rows of factors in random order; what is not balanced is uniform in the range that params.yaml gives, rounded to 4 digits."""
    generator = np.random.default_rng(settings["seed"])
    kinds = [(shape, color) for shape in SHAPES for color in settings["colors"]] * settings["per_kind"]
    ranges = {"x": settings["position"], "y": settings["position"], "scale": settings["scale"],
              "brightness": settings["brightness"], "background": settings["background"]}
    columns = {name: generator.uniform(low, high, len(kinds)).round(4).tolist() for name, (low, high) in ranges.items()}
    order = generator.permutation(len(kinds))
    return [{"shape": kinds[kind][0], "color": kinds[kind][1], **{name: columns[name][row] for name in ranges}}
            for row, kind in enumerate(order)]


def main(params, name, raw, images, index, factors, rejected):
    settings = read_params(params, "datasets", name, "images")
    rows = draw_factors(settings)
    pixels = render([{"id": row, **values} for row, values in enumerate(rows)],
                    settings["size"], settings["colors"], settings["noise"], settings["seed"])
    sources = [f"shapes:{row}" for row in range(len(rows))]
    write_dataset(pixels, sources, rows, {"images": images, "index": index, "factors": factors, "rejected": rejected})


if __name__ == "__main__":
    run(main)
