"""Random numbers that are a function of (seed, epoch, image, view) alone: no state, so no batch, process or core changes them.

A counter-based generator in the sense of Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3": the counter
(key, image, position) goes through the 32-bit mixing function `lowbias32` (C. Wellons, 2018; bias 0.17), twice.
"""
import math

import numpy as np
import torch

_GOLDEN = 0x9E3779B9  # odd, so that multiples of it visit every 32-bit number
_LOW = 0xFFFFFFFF


def _mix(x):
    """lowbias32 of the 32-bit numbers in an int64 array or tensor, in place; products wrap, and their low half is kept."""
    x ^= x >> 16
    x *= 0x7FEB352D
    x &= _LOW
    x ^= x >> 15
    x *= 0x846CA68B
    x &= _LOW
    x ^= x >> 16
    return x


def _unit(bits):
    """The upper 23 of 32 bits as the midpoints of 2**23 equal cells of (0, 1)."""
    return ((bits >> 9) + 0.5) / 2**23


class Draws:
    """Independent random numbers for one view of each image of a batch.

    key:    tuple of ints, here (seed, epoch, view)
    images: int64 [B], the ids of the images; row i of every draw belongs to images[i] and is the same in any other batch
    Each call takes fresh numbers; the sequence of calls is part of the recipe.
    """

    def __init__(self, key, images):
        images = torch.as_tensor(images)
        ids = images.cpu().numpy()  # one number an image: NumPy takes a third of the time of as small tensors
        word = int(np.random.SeedSequence([part % 2**64 for part in key]).generate_state(1)[0])
        self.rows = _mix((_mix((ids & _LOW) ^ word) + (ids >> 32) * _GOLDEN) & _LOW)
        self.device, self.count, self.ready = images.device, 0, []

    @classmethod
    def joined(cls, keys, images):
        """The draws of several keys for the same images in one object: rows of the first key, then of the second, ..."""
        parts = [cls(key, images) for key in keys]
        parts[0].rows = np.concatenate([part.rows for part in parts])
        return parts[0]

    def uniform(self, *shape):
        """float32 [B, *shape] in (0, 1), the midpoints of 2**23 equal cells."""
        if not shape:  # one number an image: made sixteen at a time, since a call costs more than its numbers
            if not self.ready:
                bits = _mix(self.rows ^ self._positions(16)[:, None])
                self.ready = list(torch.from_numpy(_unit(bits).astype(np.float32)).to(self.device))
            return self.ready.pop(0)
        positions = torch.from_numpy(self._positions(math.prod(shape))).to(self.device)
        bits = _mix(torch.from_numpy(self.rows).to(self.device)[:, None] ^ positions)
        return _unit(bits).reshape(len(self.rows), *shape)

    def _positions(self, count):
        """What tells the next `count` numbers of an image from one another, int64 [count]."""
        self.count += count
        return (np.arange(self.count - count, self.count) * _GOLDEN) & _LOW

    def normal(self, *shape):
        """float32 [B, *shape], standard normal by Box and Muller 1958: both numbers of each pair are used."""
        half = -(-math.prod(shape) // 2)
        radius = self.uniform(half).log_().mul_(-2).sqrt_()
        angle = self.uniform(half).mul_(2 * math.pi)
        pairs = torch.cat([radius * angle.cos(), radius * angle.sin()], dim=1)
        return pairs[:, : math.prod(shape)].reshape(len(self.rows), *shape)

    def between(self, low, high):
        """float32 [B], uniform between low and high."""
        return low + (high - low) * self.uniform()

    def chance(self, probability):
        """bool [B], True with the given probability."""
        return self.uniform() < probability
