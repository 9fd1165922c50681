"""Pictures for tests, and the folder data/raw/example: `python tests/pictures.py data/raw/example`."""
import csv
import sys
from pathlib import Path

import numpy as np
from PIL import Image

HUES = {"warm": (0.85, 0.35, 0.15), "cool": (0.15, 0.45, 0.85)}
SUFFIXES = {"png": {}, "jpg": {"quality": 90}, "gif": {}, "webp": {"quality": 90}, "bmp": {}, "tif": {"compression": "tiff_lzw"}}


def pattern(kind, hue, generator, width, height):
    """(an RGB picture of stripes or rings in any direction and place, with pixel noise; their period, a share of the shorter side)."""
    y, x = np.mgrid[:height, :width].astype(float)
    x, y = x - generator.uniform(0.2, 0.8) * width, y - generator.uniform(0.2, 0.8) * height
    angle, period = generator.uniform(0, np.pi), generator.uniform(0.25, 0.45)
    distance = x * np.cos(angle) + y * np.sin(angle) if kind == "stripes" else np.hypot(x, y)
    wave = 0.5 + 0.5 * np.sin(2 * np.pi * distance / period / min(width, height))
    level = generator.uniform(0.7, 1)
    pixels = wave[:, :, None] * np.array(HUES[hue]) * level + (1 - wave[:, :, None]) * generator.uniform(0, 0.25)
    pixels = pixels + generator.normal(0, 0.03, pixels.shape)
    return Image.fromarray(np.rint(255 * pixels.clip(0, 1)).astype(np.uint8)), period


def write_folder(folder, count, least, most, seed, columns=lambda row, generator: {}):
    """`count` pictures in mixed containers, sides from `least` to `most`, in one folder a pattern (`class`); factors.csv tells hue and period."""
    generator = np.random.default_rng(seed)
    rows = []
    for row in range(count):
        kind, hue = ("stripes", "rings")[row % 2], ("warm", "cool")[row // 2 % 2]
        width, height = generator.integers(least, most + 1, 2)
        suffix = list(SUFFIXES)[row // 4 % len(SUFFIXES)]
        path = Path(folder, kind, f"{row:03}.{suffix}")
        path.parent.mkdir(parents=True, exist_ok=True)
        picture, period = pattern(kind, hue, generator, int(width), int(height))
        picture.save(path, **SUFFIXES[suffix])
        rows.append({"path": path.relative_to(folder).as_posix(), "hue": hue, "period": round(period, 3), **columns(row, generator)})
    with open(Path(folder, "factors.csv"), "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    write_folder(sys.argv[1], count=96, least=16, most=22, seed=1)
