"""Readouts of frozen features: fitted on train rows, chosen on val rows, read on any others.

Standardize rows by the train rows before `linear` and `ridge`; cosine neighbors (stages/lib/neighbors.py) need no standardizing.
"""
import math
import warnings

import numpy as np
from scipy import stats
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge

from stages.lib.neighbors import nearest, unit_rows


def standardizer(train):
    """rows -> (rows - mean) / standard deviation of the train rows, float32; a dimension that does not vary becomes 0."""
    mean, deviation = train.mean(axis=0, dtype=np.float64), train.std(axis=0, dtype=np.float64)
    still = deviation <= 1e-6 * np.abs(train).max(axis=0, initial=0)  # what rounding leaves of equal float32 numbers
    scale = np.where(still, 0, 1 / np.where(still, 1, deviation))
    return lambda rows: ((rows - mean.astype(np.float32)) * scale.astype(np.float32)).astype(np.float32)


def linear(train, train_labels, val, val_labels, grid, max_iter):
    """(predict: rows -> labels, {C, val_accuracy, converged}): logistic regression, C with the best val accuracy, the smallest of equals; not refitted."""
    if len(np.unique(train_labels)) == 1:
        only = train_labels[0]
        return lambda rows: np.full(len(rows), only), {"C": None, "val_accuracy": share(val_labels == only), "converged": 1}
    best = None
    for C in grid:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LogisticRegression(C=C, max_iter=max_iter).fit(train, train_labels)
        score = share(model.predict(val) == val_labels) if len(val) else 0.0
        if best is None or score > best[0]:
            best = score, C, model
    score, C, model = best
    return model.predict, {"C": C, "val_accuracy": score, "converged": int(model.n_iter_.max() < max_iter)}


def ridge(train, train_targets, val, val_targets, penalties):
    """(predict: rows -> [., F], penalties chosen [F], their R2 on val [F]) for F numeric factors; the largest penalty of equals."""
    train = train.astype(np.float64)  # in float32 a duplicated column is already ill-conditioned
    fits = [Ridge(alpha=penalty).fit(train, train_targets) for penalty in penalties]
    scores = np.array([r2(val_targets, model.predict(val).reshape(val_targets.shape)) for model in fits])
    chosen = len(penalties) - 1 - np.argmax(scores[::-1], axis=0)

    def predict(rows):
        every = np.stack([model.predict(rows).reshape(len(rows), -1) for model in fits])
        return np.take_along_axis(every, chosen[None, None, :], axis=0)[0]

    return predict, [penalties[place] for place in chosen], scores[chosen, np.arange(scores.shape[1])]


def r2(targets, predicted):
    """R2 = 1 - sum of squared errors / sum of squares about the mean, [F]; -inf where the targets do not vary."""
    errors, spread = ((targets - predicted) ** 2).sum(axis=0), ((targets - targets.mean(axis=0)) ** 2).sum(axis=0)
    return np.where(spread > 0, 1 - errors / np.where(spread > 0, spread, 1), -np.inf)


def r2_by_image(targets, predicted):
    """float [T], numbers of which the mean is R2 and the variance / T that of R2, or None where the targets do not vary.

    The delta method for the ratio E / V of mean squared error and variance: R2 - (e_i - (E / V) v_i) / V. So R2 gets its
    interval like an accuracy, paired or not.
    """
    errors, squares = (targets - predicted) ** 2, (targets - targets.mean()) ** 2
    if squares.sum() == 0:
        return None
    ratio = errors.mean() / squares.mean()
    return 1 - ratio - (errors - ratio * squares) / squares.mean()


def recall_at(rows, labels, k):
    """({hit_rate, k, singletons}, n): share of queries with an image of their own class among their k nearest, the query excluded.

    Gallery and queries are the same rows (Musgrave et al. 2020, "A metric learning reality check", Recall@k). A class
    with one image cannot be found: such queries are left out and counted; they stay in the gallery. k is at most all others.
    """
    used = min(k, len(rows) - 1)
    queries = np.bincount(labels)[labels] > 1
    if not queries.any():
        return {"hit_rate": None, "k": used, "singletons": int((~queries).sum())}, 0
    neighbors, _ = nearest(rows[queries], rows, used, exclude=np.flatnonzero(queries))
    hits = (labels[neighbors] == labels[queries][:, None]).any(axis=1)
    return {"hit_rate": share(hits), "k": used, "singletons": int((~queries).sum())}, int(queries.sum())


def few_shot(train, train_labels, test, test_labels, shots, episodes, seed):
    """{accuracy, low, high, shots}: nearest class mean by cosine from `shots` train images a class, mean over episodes with its 95 % t interval.

    The classifier of Snell et al. 2017, "Prototypical networks", on unit rows. shots: the fewest that a class really gave.
    """
    classes, train, test = np.unique(train_labels), unit_rows(train), unit_rows(test)
    members = [np.flatnonzero(train_labels == one) for one in classes]
    scores = []
    for episode in range(episodes):
        generator = np.random.default_rng([seed, shots, episode])
        means = np.stack([train[generator.permutation(rows)[:shots]].mean(axis=0) for rows in members])
        scores.append(share(classes[(test @ unit_rows(means).T).argmax(axis=1)] == test_labels))
    half = stats.t.ppf(0.975, episodes - 1) * np.std(scores, ddof=1) / math.sqrt(episodes)
    mean = float(np.mean(scores))
    return {"accuracy": mean, "low": mean - half, "high": mean + half, "shots": min(shots, *map(len, members))}


def balanced_accuracy(predicted, labels):
    """Mean over the classes that occur of the share of their images predicted right."""
    return float(np.mean([share(predicted[labels == one] == one) for one in np.unique(labels)]))


def share(right):
    return float(np.mean(right)) if len(right) else None
