"""Painter of digits: one image from one scan and one row of factors, so that a factor can be changed alone."""
import numpy as np
from PIL import Image


def change(row, factor, value, colors):
    """The row with another value of one factor."""
    return {**row, factor: value}


def render(rows, side, colors, noise, seed):
    """uint8 [N, 3, side, side]: the scans that `rows` name, enlarged, strokes in color on a grey background.

    rows:   dicts with id (the scan's number in scikit-learn's digits), color (a name in colors), brightness (factor on the
            color), background (grey level in [0, 1])
    colors: name -> (red, green, blue) in [0, 1]
    noise:  standard deviation of the pixel noise, drawn from (seed, id): an image whose row changes keeps its noise
    """
    from sklearn.datasets import load_digits  # slow to import, and interventions on other images need it not

    scans = load_digits().images.astype(np.float32) / 16
    images = np.empty((len(rows), 3, side, side), np.uint8)
    for image, row in zip(images, rows, strict=True):
        scan = Image.fromarray(scans[int(row["id"])])
        strokes = np.asarray(scan.resize((side, side), Image.Resampling.BILINEAR), dtype=np.float64)
        fill = float(row["brightness"]) * np.asarray(colors[row["color"]])
        pixels = float(row["background"]) * (1 - strokes) + fill[:, None, None] * strokes
        pixels = pixels + noise * np.random.default_rng([seed, int(row["id"])]).standard_normal(pixels.shape)
        image[:] = np.rint(255 * pixels.clip(0, 1))
    return images
