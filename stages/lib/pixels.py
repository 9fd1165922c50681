"""Changes of pixels by a known strength, for images from any source: the same for each image, and nothing at strength 0."""
import math

import torch

from stages.lib.draws import Draws
from stages.lib.views import gaussian_blur, grayscale


def alter(images, strengths, ids):
    """uint8 images [B, 3, S, S] with the named changes in the order of CHANGES, each by its strength; uint8 again.

    ids: int64 [B], of which alone the pixel noise depends.
    """
    pixels = torch.as_tensor(images).float() / 255
    for name, change in CHANGES.items():
        if strengths.get(name):
            pixels = change(pixels, strengths[name], ids)
    return (pixels * 255).round().clamp(0, 255).to(torch.uint8).numpy()


def blend(images, others, share):
    return (1 - share) * images + share * others


def stamp(images):
    """A white block of 3/16 of the side, near the top left corner."""
    cell = max(1, images.shape[-1] // 16)
    marked = images.clone()
    marked[:, :, cell : 4 * cell, cell : 4 * cell] = 1.0
    return marked


def blur(images, sigma, ids):
    radius = min(math.ceil(3 * sigma), images.shape[-1] - 1)
    return gaussian_blur(images, torch.full((len(images),), float(sigma)), radius)


def noise(images, deviation, ids):
    return (images + deviation * Draws((0,), ids).normal(*images.shape[1:])).clamp(0, 1)


CHANGES = {
    "swap": lambda images, share, ids: blend(images, images.flip(1), share),
    "grayscale": lambda images, share, ids: blend(images, grayscale(images), share),
    "flip": lambda images, share, ids: blend(images, images.flip(3), share),
    "rotate": lambda images, turns, ids: torch.rot90(images, turns, (2, 3)),
    "watermark": lambda images, share, ids: blend(images, stamp(images), share),
    "gamma": lambda images, strength, ids: images ** (2.0**strength),
    "blur": blur,
    "noise": noise,
}
