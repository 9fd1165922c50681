"""Geometry: frozen features of a run, no probe fitted -> collapse, alignment and uniformity, neighbors, movement, and who gets pushed.

One tidy table, for h and z of each seed, on test images. With u the unit rows, u' those of another view, k the neighbors:
alignment mean |u - u'|^2, uniformity log mean_{i<j} exp(-2 |u_i - u_j|^2) (Wang and Isola 2020, equations 1 and 2);
movement mean(1 - cos); overlap: share of k nearest train rows kept under an intervention; pushes: softmax of cos / t over negatives.
"""
from pathlib import Path

import numpy as np

from stages.lib.checks import load_factors, load_features, load_split
from stages.lib.factors import classes_of
from stages.lib.neighbors import nearest, unit_rows
from stages.lib.spectrum import effective_rank, rank_me, singular_values
from stages.lib.stage import run
from stages.lib.tables import TIDY, read_params, write_table
from stages.lib.workers import over_seeds, tick


def cell(probe, metric, value, n, slice_name="all", factor=""):
    return {"factor": factor, "probe": probe, "slice": slice_name, "metric": metric, "value": None if value is None else float(value),
            "n": n, "note": "needs two images" if value is None else ""}


def collapse(rows, floor):
    """{metric: value} of features [N, D]: ranks, dimensions used (eigenvalues of the covariance above `floor` times the largest) of
    the min(N - 1, D) that could be, mean standard deviation over the dimensions, and `spread`, that of unit rows times sqrt(D):
    1 for isotropic rows."""
    eigenvalues = singular_values(rows, centered=True) ** 2
    used = int((eigenvalues > floor * eigenvalues[0]).sum()) if eigenvalues[0] > 0 else 0
    return {"effective_rank": effective_rank(rows), "rank_me": rank_me(rows), "used": used, "dimensions": min(len(rows) - 1, rows.shape[1]),
            "std": spread(rows).mean(), "spread": spread(unit_rows(rows)).mean() * np.sqrt(rows.shape[1])}


def spread(rows):
    """Standard deviation of each dimension, [D]; 0 where all values are equal, whatever rounding says."""
    rows = np.asarray(rows, dtype=np.float64)
    return np.where(np.ptp(rows, axis=0) == 0, 0.0, rows.std(axis=0))


def by_dimension(rows):
    """{metric: [.]}: standard deviations, raw and of unit rows, and shares of variance along principal axes, each in falling order."""
    variances = singular_values(rows, centered=True) ** 2
    return {"std": np.sort(spread(rows))[::-1], "unit_std": np.sort(spread(unit_rows(rows)))[::-1],
            "variance_share": variances / variances.sum() if variances.sum() > 0 else variances}


def alignment(first, second):
    """Mean squared distance of unit rows of two views, 0 to 4."""
    return float(((unit_rows(first).astype(np.float64) - unit_rows(second)) ** 2).sum(axis=1).mean())


def uniformity(rows):
    """log of the mean over pairs i < j of exp(-2 |u_i - u_j|^2); 0 for equal rows, lower is more uniform. None for a single row."""
    if len(rows) < 2:
        return None
    rows, total = unit_rows(rows).astype(np.float64), 0.0
    squares = (rows**2).sum(axis=1)
    for first in range(0, len(rows), 1024):
        distance = squares[first : first + 1024, None] + squares - 2 * rows[first : first + 1024] @ rows.T
        total += np.exp(-2 * distance).sum()
    return float(np.log((total - len(rows)) / (len(rows) * (len(rows) - 1))))


def movement(before, after):
    """Mean of 1 - cosine between rows, 0 to 2."""
    return float(1 - (unit_rows(before).astype(np.float64) * unit_rows(after)).sum(axis=1).mean())


def distance_of_images(rows):
    """Mean of 1 - cosine over all pairs of different rows: what `movement` is for unrelated images. None for a single row."""
    if len(rows) < 2:
        return None
    rows = unit_rows(rows).astype(np.float64)
    total = (rows.sum(axis=0) ** 2).sum() - (rows**2).sum()
    return float(1 - total / (len(rows) * (len(rows) - 1)))


def diversity(rows, k):
    """{distinct, hubness, k}: share of rows that are among the k nearest of some other row, and the skewness of how often each is.

    Hubness after Radovanovic et al. 2010, "Hubs in space": 0 for an even spread; 0 by definition where all occur equally often.
    None for a single row.
    """
    if len(rows) < 2:
        return {"distinct": None, "hubness": None, "k": 0}
    used = min(k, len(rows) - 1)
    neighbors, _ = nearest(rows, rows, used, exclude=np.arange(len(rows)))
    counts = np.bincount(neighbors.ravel(), minlength=len(rows)).astype(float)
    centered = counts - counts.mean()
    deviation = counts.std()
    return {"distinct": (counts > 0).mean(), "hubness": (centered**3).mean() / deviation**3 if deviation > 0 else 0.0, "k": used}


def overlap(before, after, train, k):
    """Mean share of a row's k nearest train rows that are also nearest after it was changed."""
    used = min(k, len(train))
    (left, _), (right, _) = nearest(before, train, used), nearest(after, train, used)
    return float((left[:, :, None] == right[:, None, :]).any(axis=2).mean())


def pushes(rows, labels, temperature):
    """Of each row's negatives (all other rows): {mass: softmax mass on rows of the same class, share: their share among the
    negatives, negatives: exp of the entropy of the softmax}, means over rows.

    By exp(cos / t) / sum over negatives (SimCLR, equation 1, without the positive), a negative's force is its softmax mass.
    """
    rows = unit_rows(rows).astype(np.float64)
    mass, counts = [], []
    for first in range(0, len(rows), 1024):
        logits = rows[first : first + 1024] @ rows.T / temperature
        itself = np.arange(len(logits)), np.arange(first, first + len(logits))
        logits[itself] = -np.inf
        logits -= logits.max(axis=1, keepdims=True)
        weights = np.exp(logits)
        weights /= weights.sum(axis=1, keepdims=True)
        same = labels[first : first + 1024, None] == labels
        mass.append((weights * same).sum(axis=1))
        counts.append(np.exp(-(weights * np.log(np.where(weights > 0, weights, 1))).sum(axis=1)))
    sizes = np.bincount(labels)[labels]
    return {"mass": np.concatenate(mass).mean(), "share": ((sizes - 1) / (len(rows) - 1)).mean(), "negatives": np.concatenate(counts).mean()}


def describe(features, space, folder, parts, classes, settings):
    """Rows of one space of one seed."""
    test, train, k = features[parts["test"]], features[parts["train"]], settings["k"]
    views = [load_features(f"{folder}/views/{number}/{space}.npy", len(test)) for number in (0, 1)]
    rows = [cell("collapse", metric, value, len(test)) for metric, value in collapse(test, settings["floor"]).items()]
    rows += [cell("collapse", metric, value, len(test), f"dimension={place}")
             for metric, values in by_dimension(test).items() for place, value in enumerate(values, start=1)]
    rows += [cell("sphere", "alignment", alignment(*views), len(test)), cell("sphere", "uniformity", uniformity(test), len(test))]
    rows += [cell("neighbors", metric, value, len(test)) for metric, value in diversity(test, k).items()]
    rows += [cell("movement", "moved", movement(*views), len(test), "two views"),
             cell("movement", "overlap", overlap(*views, train, k), len(test), "two views"),
             cell("movement", "moved", distance_of_images(test), len(test), "two images")]
    for path in sorted(Path(folder, "interventions").glob(f"*/{space}.npy")):
        changed, name = load_features(path, len(test)), f"intervention={path.parent.name}"
        rows += [cell("movement", "moved", movement(test, changed), len(test), name),
                 cell("movement", "overlap", overlap(test, changed, train, k), len(test), name)]
    some = parts["train"][: settings["images"]]
    for factor, labels in classes.items() if space == "z" else ():
        for temperature in settings["temperatures"]:
            values = pushes(features[some], labels[some], temperature)
            rows += [cell("pushes", metric, value, len(some), f"temperature={temperature}", factor) for metric, value in values.items()]
    return rows


def main(params, run_name, features, factors, split, table):
    settings, first, replicates = (read_params(params, key) for key in ("geometry", "seed", "replicates"))
    parts = load_split(split, None)
    count = sum(map(len, parts.values()))
    classes = classes_of(load_factors(factors, count))

    def work(job):
        seed, space = job
        rows = describe(load_features(f"{features}/{seed}/{space}.npy", count), space, f"{features}/{seed}", parts, classes, settings)
        tick()
        return [{"run": run_name, "seed": seed, "space": space, **row} for row in rows]

    jobs = [(first + replicate, space) for replicate in range(replicates) for space in ("h", "z")]
    tidy = [row for rows in over_seeds(work, jobs, 1, f"geometry {run_name}") for row in rows]
    write_table(table, tidy, TIDY)
    ranks = [row["value"] for row in tidy if row["metric"] == "effective_rank" and row["space"] == "z"]
    print(f"{table}: {len(tidy)} rows; effective rank of z {np.mean(ranks):.2f}")


if __name__ == "__main__":
    run(main)
