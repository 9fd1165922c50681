"""Intervals of an accuracy, or of a difference of two, over seeds and test images together; and tests of several claims at once."""
import math
from typing import NamedTuple

import numpy as np
from scipy import optimize, stats


class Estimate(NamedTuple):
    mean: float
    low: float | None  # None: one seed tells nothing about seeds
    high: float | None
    parts: list | None  # (squared standard error, degrees of freedom) of the images, and of the seeds


def estimate(values, confidence, paired, seeded=True):
    """Mean of `values` [R seeds, T test images] and its two-sided interval.

    values: 0 or 1 (right or wrong), or with paired=True differences of these by seed and image. seeded: False where
    there is nothing random to repeat (pixels), so that one row is enough.
    SE^2 = SE_seeds^2 + SE_images^2: variance of the seeds' means / R, and of the images' means / T. The images' variance
    counts pseudo-images, so that perfect scores keep a width: two right and two wrong for an accuracy (Agresti and
    Coull 1998), half a win and half a loss for a paired difference (Agresti and Min 2005). The quantile is `quantile`'s.
    """
    values = np.asarray(values, dtype=np.float64)
    seeds, images = values.shape
    mean = float(values.mean())
    if seeded and seeds < 2:
        return Estimate(mean, None, None, None)
    by_image = values.mean(axis=0)
    extra, weight = (np.array([-1.0, 1.0]), 0.5) if paired else (np.array([0.0, 1.0]), 2.0)
    total = images + weight * len(extra)
    center = (by_image.sum() + weight * extra.sum()) / total
    spread = (((by_image - center) ** 2).sum() + weight * ((extra - center) ** 2).sum()) / (total - 1)
    parts = [(spread / total, images - 1)]
    if seeded:
        parts.append((values.mean(axis=1).var(ddof=1) / seeds, seeds - 1))
    half = quantile(1 - confidence, parts) * math.sqrt(sum(part for part, _ in parts))
    return Estimate(mean, mean - half, mean + half, parts)


def of_seeds(values, confidence):
    """Mean of `values` [R], one number a seed, and its two-sided interval: Student's t over seeds."""
    values = np.asarray(values, dtype=np.float64)
    mean = float(values.mean())
    if len(values) < 2:
        return Estimate(mean, None, None, None)
    parts = [(max(float(values.var(ddof=1)), np.finfo(float).tiny) / len(values), len(values) - 1)]
    half = quantile(1 - confidence, parts) * math.sqrt(parts[0][0])
    return Estimate(mean, mean - half, mean + half, parts)


def quantile(p, parts):
    """Two-sided quantile of effect / SE: Student's t of each part, weighted by its squared standard error (Cochran and Cox 1957, "Experimental designs").

    Differs from one t with the degrees of freedom of Welch and Satterthwaite, which at three seeds called up to 8 % of null
    comparisons at a nominal 5 % (docs/judge.md): by chance equal seeds make it count images alone.
    """
    total = sum(part for part, _ in parts)
    return sum(part * stats.t.isf(p / 2, freedom) for part, freedom in parts) / total


def tail(distance, parts):
    """One-sided p of an effect this far above a bound: half the two-sided p at which the interval just reaches the bound."""
    if math.isinf(distance):
        return 0.0 if distance > 0 else 1.0
    ratio, least = abs(distance) / math.sqrt(sum(part for part, _ in parts)), 1e-15
    two_sided = least if quantile(least, parts) <= ratio else optimize.brentq(lambda p: quantile(p, parts) - ratio, least, 1.0)
    return two_sided / 2 if distance > 0 else 1 - two_sided / 2


def p_values(found, low, high):
    """(p that the effect is inside the open interval (low, high), p that it is outside), of an Estimate; low or high may be infinite.

    Two-sided, so that p < 1 - confidence just where the interval of that confidence lies wholly inside, or wholly outside.
    """
    inside = 2 * max(tail(found.mean - low, found.parts), tail(high - found.mean, found.parts))
    outside = 2 * min(tail(low - found.mean, found.parts), tail(found.mean - high, found.parts))
    return min(1.0, float(inside)), min(1.0, float(outside))


def holm(p):
    """p values adjusted for their number, in the order given: the i-th smallest times (m - i + 1), made monotone, at most 1 (Holm 1979)."""
    order, adjusted, largest = sorted(range(len(p)), key=lambda i: p[i]), [0.0] * len(p), 0.0
    for place, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p) - place) * p[i]))
        adjusted[i] = largest
    return adjusted
