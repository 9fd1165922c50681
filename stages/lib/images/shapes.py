"""Renderer of colored shapes: one image from one row of factors and nothing else, so that a factor can be changed alone."""
import numpy as np

SUBPIXELS = 4  # per side and pixel: coverage in steps of 1/16

# inside(shape): x, y in units of the shape's radius, y downward, center at (0, 0)
SHAPES = {
    "circle": lambda x, y: x**2 + y**2 <= 1,
    "square": lambda x, y: np.maximum(np.abs(x), np.abs(y)) <= 0.9,
    "triangle": lambda x, y: (np.abs(y) <= 0.9) & (np.abs(x) <= (y + 0.9) / 2),  # as tall and as wide as 1.8 radii, apex on top
}


def render(rows, side, colors, noise, seed):
    """uint8 [N, 3, side, side], the images of `rows`.

    rows:   dicts with id, shape (a name in SHAPES), color (a name in colors), x and y (center, pixels from the middle),
            scale (radius, pixels), brightness (factor on the fill), background (grey level in [0, 1])
    colors: name -> (red, green, blue) in [0, 1]
    noise:  standard deviation of the pixel noise, drawn from (seed, id): an image whose row changes keeps its noise
    """
    steps = (np.arange(side * SUBPIXELS) + 0.5) / SUBPIXELS - side / 2
    images = np.empty((len(rows), 3, side, side), np.uint8)
    for image, row in zip(images, rows, strict=True):
        x = (steps[None, :] - float(row["x"])) / float(row["scale"])
        y = (steps[:, None] - float(row["y"])) / float(row["scale"])
        inside = SHAPES[row["shape"]](x, y)
        cover = inside.reshape(side, SUBPIXELS, side, SUBPIXELS).mean(axis=(1, 3))
        fill = float(row["brightness"]) * np.asarray(colors[row["color"]])
        pixels = float(row["background"]) * (1 - cover) + fill[:, None, None] * cover
        pixels = pixels + noise * np.random.default_rng([seed, int(row["id"])]).standard_normal(pixels.shape)
        image[:] = np.rint(255 * pixels.clip(0, 1))
    return images
