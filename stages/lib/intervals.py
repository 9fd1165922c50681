"""Intervals of an accuracy, or of a difference of two, over seeds and test images together."""
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


def of_seeds(values, confidence):
    """Mean of `values` [R], one number a seed, and its two-sided interval: Student's t over seeds."""
    values = np.asarray(values, dtype=np.float64)
    if len(values) < 2:
        return Estimate(float(values.mean()), None, None, None, None)
    error = float(values.std(ddof=1)) / math.sqrt(len(values))
    half = stats.t.ppf((1 + confidence) / 2, len(values) - 1) * error
    return Estimate(float(values.mean()), values.mean() - half, values.mean() + half, error, len(values) - 1)
