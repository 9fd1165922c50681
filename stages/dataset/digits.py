"""Painted digits: scikit-learn's 1,797 real handwritten digits, strokes in color on varied backgrounds."""
import numpy as np
from sklearn.datasets import load_digits

from stages.lib.images.digits import render
from stages.lib.source import write_dataset
from stages.lib.stage import run
from stages.lib.tables import read_params


def draw_factors(digits, settings):
    """Rows of factors in the order of the scans: colors in equal numbers at random, the rest uniform in the ranges of params.yaml, to 4 digits."""
    generator = np.random.default_rng(settings["seed"])
    colors = generator.permutation(np.resize(list(settings["colors"]), len(digits))).tolist()
    columns = {name: generator.uniform(*settings[name], len(digits)).round(4).tolist() for name in ("brightness", "background")}
    return [{"digit": int(digit), "color": color, **{name: columns[name][row] for name in columns}}
            for row, (digit, color) in enumerate(zip(digits, colors, strict=True))]


def main(params, name, raw, images, index, factors, rejected):
    settings = read_params(params, "datasets", name, "images")
    rows = draw_factors(load_digits().target, settings)
    pixels = render([{"id": row, **values} for row, values in enumerate(rows)],
                    settings["size"], settings["colors"], settings["noise"], settings["seed"])
    sources = [f"sklearn.datasets.load_digits:{row}" for row in range(len(rows))]
    write_dataset(pixels, sources, rows, {"images": images, "index": index, "factors": factors, "rejected": rejected})


if __name__ == "__main__":
    run(main)
