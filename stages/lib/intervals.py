"""Intervals of an accuracy, or of a difference of two, over seeds and test images together; and tests of several claims at once."""
import math
from typing import NamedTuple

import numpy as np
from scipy import stats


class Estimate(NamedTuple):
    mean: float
    low: float | None  # None: one seed tells nothing about seeds
    high: float | None
    error: float | None  # standard error
    freedom: float | None  # degrees of freedom


def estimate(values, confidence, paired, seeded=True):
    """Mean of `values` [R seeds, T test images] and its two-sided interval.

    values: 0 or 1 (right or wrong), or with paired=True differences of these by seed and image. seeded: False where
    there is nothing random to repeat (pixels), so that one row is enough.
    SE^2 = SE_seeds^2 + SE_images^2: variance of the seeds' means / R, and of the images' means / T. The images' variance
    counts pseudo-images, so that perfect scores keep a width: two right and two wrong for an accuracy (Agresti and
    Coull 1998), half a win and half a loss for a paired difference (Agresti and Min 2005). The quantile is Student's t
    with the degrees of freedom of Welch and Satterthwaite.
    """
    values = np.asarray(values, dtype=np.float64)
    seeds, images = values.shape
    mean = float(values.mean())
    if seeded and seeds < 2:
        return Estimate(mean, None, None, None, None)
    by_image = values.mean(axis=0)
    extra, weight = (np.array([-1.0, 1.0]), 0.5) if paired else (np.array([0.0, 1.0]), 2.0)
    total = images + weight * len(extra)
    center = (by_image.sum() + weight * extra.sum()) / total
    spread = (((by_image - center) ** 2).sum() + weight * ((extra - center) ** 2).sum()) / (total - 1)
    parts = [(spread / total, images - 1)]
    if seeded:
        parts.append((values.mean(axis=1).var(ddof=1) / seeds, seeds - 1))
    squared = sum(part for part, _ in parts)
    freedom = squared**2 / sum(part**2 / df for part, df in parts)
    half = stats.t.ppf((1 + confidence) / 2, freedom) * math.sqrt(squared)
    return Estimate(mean, mean - half, mean + half, math.sqrt(squared), freedom)


def p_values(found, low, high):
    """(p that the effect is inside the open interval (low, high), p that it is outside), of an Estimate; low or high may be infinite.

    Two-sided, so that p < 1 - confidence just where the interval of that confidence lies wholly inside, or wholly outside.
    """
    above_low = stats.t.sf((found.mean - low) / found.error, found.freedom)  # small where the effect is surely above `low`
    below_high = stats.t.cdf((found.mean - high) / found.error, found.freedom)
    inside = 2 * max(above_low, below_high)
    outside = 2 * min(1 - above_low, 1 - below_high)
    return min(1.0, float(inside)), min(1.0, float(outside))


def holm(p):
    """p values adjusted for their number, in the order given: the i-th smallest times (m - i + 1), made monotone, at most 1 (Holm 1979)."""
    order, adjusted, largest = sorted(range(len(p)), key=lambda i: p[i]), [0.0] * len(p), 0.0
    for place, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p) - place) * p[i]))
        adjusted[i] = largest
    return adjusted
