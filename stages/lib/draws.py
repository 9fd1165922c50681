"""Random numbers that are a function of (seed, epoch, image, view) alone: no state, so no batch, process or core changes them.

A counter-based generator in the sense of Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3": the counter
(key, image, position) goes through the 32-bit mixing function `lowbias32` (C. Wellons, 2018; bias 0.17), twice.
"""
import math

import numpy as np
import torch

_GOLDEN = 0x9E3779B9  # odd, so that multiples of it visit every 32-bit number


def _signed(number):
    """The int32 with the same bits as `number` modulo 2**32."""
    return (number + 2**31) % 2**32 - 2**31


def _mix(x):
    """lowbias32 on an int32 tensor, in place; int32 products wrap, and the masks make >> a logical shift."""
    x ^= (x >> 16) & 0xFFFF
    x *= 0x7FEB352D
    x ^= (x >> 15) & 0x1FFFF
    x *= _signed(0x846CA68B)
    x ^= (x >> 16) & 0xFFFF
    return x


class Draws:
    """Independent random numbers for one view of each image of a batch.

    key:    tuple of ints, here (seed, epoch, view)
    images: int64 [B], the ids of the images; row i of every draw belongs to images[i] and is the same in any other batch
    Each call takes fresh numbers; the sequence of calls is part of the recipe.
    """

    def __init__(self, key, images):
        word = int(np.random.SeedSequence([part % 2**64 for part in key]).generate_state(1)[0])
        images = torch.as_tensor(images)
        low, high = (images & 0xFFFFFFFF), images >> 32
        rows = torch.where(low >= 2**31, low - 2**32, low).to(torch.int32)
        self.rows = _mix(_mix(rows ^ _signed(word)) + high.to(torch.int32) * _signed(_GOLDEN))
        self.count, self.ready = 0, []

    @classmethod
    def joined(cls, keys, images):
        """The draws of several keys for the same images in one object: rows of the first key, then of the second, ..."""
        parts = [cls(key, images) for key in keys]
        parts[0].rows = torch.cat([part.rows for part in parts])
        return parts[0]

    def uniform(self, *shape):
        """float32 [B, *shape] in (0, 1), the midpoints of 2**23 equal cells."""
        if not shape:  # one number an image: made sixteen at a time, since a call costs more than its numbers
            self.ready = self.ready or list(self.uniform(16).unbind(1))
            return self.ready.pop(0)
        size = math.prod(shape)
        positions = torch.arange(self.count, self.count + size, dtype=torch.int64, device=self.rows.device) * _GOLDEN
        self.count += size
        positions &= 0xFFFFFFFF
        positions = torch.where(positions >= 2**31, positions - 2**32, positions).to(torch.int32)
        bits = _mix(self.rows[:, None] ^ positions)
        bits = (bits >> 9) & 0x7FFFFF
        return ((bits.to(torch.float32) + 0.5) / 2**23).reshape(len(self.rows), *shape)

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
