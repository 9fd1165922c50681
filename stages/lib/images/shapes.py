"""Renderer of colored shapes: one image from one row of factors and nothing else, so that a factor can be changed alone."""
import colorsys

import numpy as np

SUBPIXELS = 4  # per side and pixel: coverage in steps of 1/16

# inside(shape): x, y in units of the shape's radius, y downward, center at (0, 0)
SHAPES = {
    "circle": lambda x, y: x**2 + y**2 <= 1,
    "square": lambda x, y: np.maximum(np.abs(x), np.abs(y)) <= 0.9,
    "triangle": lambda x, y: (np.abs(y) <= 0.9) & (np.abs(x) <= (y + 0.9) / 2),  # as tall and as wide as 1.8 radii, apex on top
    "diamond": lambda x, y: np.abs(x) + np.abs(y) <= 1,
    "cross": lambda x, y: (np.minimum(np.abs(x), np.abs(y)) <= 0.35) & (np.maximum(np.abs(x), np.abs(y)) <= 1),
    "ring": lambda x, y: (x**2 + y**2 <= 1) & (x**2 + y**2 >= 0.3),
}
# lit(texture): row and column of a pixel -> where the fill keeps its brightness; elsewhere it has half of it
TEXTURES = {
    "plain": lambda row, column: np.ones(np.broadcast_shapes(row.shape, column.shape), bool),
    "stripes": lambda row, column: np.broadcast_to(row // 2 % 2 == 0, np.broadcast_shapes(row.shape, column.shape)),
    "checks": lambda row, column: (row // 2 + column // 2) % 2 == 0,
}
# white patterns of 3x3 cells in the top left corner; none looks like another when mirrored
MARKS = {
    "block": ["###", "###", "###"],
    "bar": ["...", "###", "..."],
    "pillar": [".#.", ".#.", ".#."],
    "dot": ["...", ".#.", "..."],
    "plus": [".#.", "###", ".#."],
    "frame": ["###", "#.#", "###"],
}


def hue_of(color):
    """Hue of (red, green, blue) in turns, [0, 1)."""
    return colorsys.rgb_to_hsv(*color)[0]


def change(row, factor, value, colors):
    """The row with another value of one factor. `hue` is color at a finer scale, so it moves with the color."""
    changed = {**row, factor: value}
    if factor == "color" and "hue" in row:
        changed["hue"] = round((float(row["hue"]) + hue_of(colors[value]) - hue_of(colors[row["color"]])) % 1, 4)
    return changed


def fill_of(row, colors):
    """(red, green, blue) of a row's fill: its color, turned to its own hue if it has one, times its brightness."""
    color = colors[row["color"]]
    if "hue" in row:
        color = colorsys.hsv_to_rgb(float(row["hue"]), *colorsys.rgb_to_hsv(*color)[1:])
    fill = float(row["brightness"]) * np.asarray(color)
    if "mix" in row:
        fill[0 if fill[0] < fill[2] else 2] += float(row["mix"])
    return fill


def stamp(pixels, mark):
    """Paint a mark into `pixels` [3, S, S] in place, one cell away from the corner; a cell is a pixel at S = 16 and grows with S."""
    cell = max(1, pixels.shape[1] // 16)
    lit = np.kron([[sign == "#" for sign in line] for line in MARKS[mark]], np.ones((cell, cell), bool))
    pixels[:, cell : 4 * cell, cell : 4 * cell][:, lit] = 1.0


def render(rows, side, colors, noise, seed):
    """uint8 [N, 3, side, side], the images of `rows`.

    rows:   dicts with id, shape (a name in SHAPES), color (a name in colors), x and y (center, pixels from the middle),
            scale (radius, pixels), brightness (factor on the fill), background (grey level in [0, 1]); and if the data set
            varies them: tint (of the background: red raised and blue lowered by it), mix (what the lower of the fill's red and
            blue is raised by), hue (of the fill, turns), texture (a name in TEXTURES), watermark (a name in MARKS)
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
        fill = fill_of(row, colors)[:, None, None]
        if "texture" in row:
            fill = fill * np.where(TEXTURES[row["texture"]](np.arange(side)[:, None], np.arange(side)[None]), 1.0, 0.5)
        ground = float(row["background"]) + float(row.get("tint", 0)) * np.array([1, 0, -1])[:, None, None]
        pixels = ground * (1 - cover) + fill * cover
        if "watermark" in row:
            stamp(pixels, row["watermark"])
        pixels = pixels + noise * np.random.default_rng([seed, int(row["id"])]).standard_normal(pixels.shape)
        image[:] = np.rint(255 * pixels.clip(0, 1))
    return images
