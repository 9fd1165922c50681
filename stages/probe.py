"""Probe: frozen features and factors -> readouts of one run, one tidy table; which test images each probe got right is kept beside it.

Every probe is fitted on train rows, chosen on val rows and read once on test rows, for every factor that is a class;
images whose cell is empty count nowhere.
kNN: cosine on unit rows, k nearest train rows. Linear: standardized by train, logistic regression, C with the best val
accuracy (the smallest of equals), not refitted.
"""
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from stages.lib.factors import classes_of
from stages.lib.neighbors import nearest, vote
from stages.lib.spectrum import effective_rank
from stages.lib.stage import Refused, run
from stages.lib.tables import read_params, read_table, replacing, write_table
from stages.lib.workers import over_seeds, tick

COLUMNS = ["run", "seed", "space", "factor", "probe", "slice", "metric", "value", "n"]


def knn(features, labels, parts, k):
    """(predictions for test, {metric: value}); k is at most the number of train rows."""
    train, test = parts["train"], parts["test"]
    used = min(k, len(train))
    neighbors, similarity = nearest(features[test], features[train], used)
    return vote(neighbors, similarity, labels[train], labels.max() + 1), {"k": used}


def linear(features, labels, parts, grid, max_iter):
    """(predictions for test, {metric: value}): logistic regression on standardized features, C chosen on val."""
    scaler = StandardScaler().fit(features[parts["train"]])
    rows = {part: scaler.transform(features[parts[part]]) for part in parts}
    if len(np.unique(labels[parts["train"]])) == 1:
        return np.full(len(parts["test"]), labels[parts["train"]][0]), {"C": None, "converged": 1}
    fits = []
    for C in grid:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LogisticRegression(C=C, max_iter=max_iter).fit(rows["train"], labels[parts["train"]])
        fits.append((model.score(rows["val"], labels[parts["val"]]), model))
    best = max(range(len(grid)), key=lambda i: (fits[i][0], -grid[i]))
    val, model = fits[best]
    converged = int(model.n_iter_.max() < max_iter)
    return model.predict(rows["test"]), {"C": grid[best], "val_accuracy": float(val), "converged": converged}


def read_out(features, factors, every_part, settings):
    """All probes of one space: (rows without run, seed and space; {(factor, probe): bool [T], right or wrong per test image})."""
    rows, right = [], {}
    for factor, labels in factors.items():
        parts = known(labels, every_part)
        if not readable(labels, parts):
            continue
        majority = np.bincount(labels[parts["train"]]).argmax()
        chance = float((labels[parts["test"]] == majority).mean())
        probes = {"knn": lambda y: knn(features, y, parts, settings["k"]),
                  "linear": lambda y: linear(features, y, parts, settings["C"], settings["max_iter"])}
        for probe, fit in probes.items():
            predicted, metrics = fit(labels)
            correct = predicted == labels[parts["test"]]
            right[factor, probe] = correct
            values = {"accuracy": float(correct.mean()), "majority": chance, **metrics}
            rows += [{"factor": factor, "probe": probe, "slice": "all", "metric": metric, "value": value, "n": len(correct)}
                     for metric, value in values.items()]
    test = every_part["test"]
    rows.append({"factor": "", "probe": "spectrum", "slice": "all", "metric": "effective_rank", "value": effective_rank(features[test]), "n": len(test)})
    return rows, right


def known(labels, parts):
    """`parts` without the images whose cell is empty (label -1)."""
    return {part: rows[labels[rows] >= 0] for part, rows in parts.items()}


def readable(labels, parts):
    """Whether a probe can be fitted, chosen and right: two classes in train, a row in val, a class of train in test (not so for what made the split)."""
    train, test = np.unique(labels[parts["train"]]), labels[parts["test"]]
    return len(train) > 1 and len(parts["val"]) > 0 and bool(np.isin(test, train).any())


def main(params, run_name, features, factors, split, table, correct):
    """`features` is a run's folder of features, or images.npy: then pixels are read out, once."""
    settings, first, replicates = (read_params(params, key) for key in ("probe", "seed", "replicates"))
    said = read_params(params, "datasets", read_params(params, "dataset"), "columns")
    classes, parts = classes_of(read_table(factors), said), parts_of(read_table(split, ["id", "split"]))
    pixels = features.endswith(".npy")
    spaces = ["pixels"] if pixels else ["h", "z"]
    seeds = [first + replicate for replicate in range(1 if pixels else replicates)]

    def work(job):
        seed, space = job
        path = features if pixels else f"{features}/{seed}/{space}.npy"
        rows = np.load(path)
        if len(rows) != sum(map(len, parts.values())):
            raise Refused(f"{path} has {len(rows)} rows, {split} {sum(map(len, parts.values()))}; rerun the stage that wrote it")
        rows = rows.reshape(len(rows), -1).astype(np.float32) / (255 if pixels else 1)
        found = read_out(rows, classes, parts, settings)
        tick()
        return found

    jobs = [(seed, space) for seed in seeds for space in spaces]
    results = dict(zip(jobs, over_seeds(work, jobs, 1, f"probe {run_name}"), strict=True))
    tidy = [{"run": run_name, "seed": seed, "space": space, **row} for (seed, space), (rows, _) in results.items() for row in rows]
    write_table(table, tidy, COLUMNS)
    keys = [(space, *key) for space in spaces for key in results[seeds[0], space][1]]
    with replacing(correct, "wb") as file:
        np.savez(file, **{"/".join(key): np.stack([results[seed, key[0]][1][key[1:]] for seed in seeds]) for key in keys})
    accuracy = {key: np.mean([results[seed, key[0]][1][key[1:]].mean() for seed in seeds]) for key in keys if key[2] == "knn"}
    print(f"{table}: {len(tidy)} rows; kNN accuracy " + ", ".join(f"{factor} from {space} {value:.3f}" for (space, factor, _), value in accuracy.items()))


def parts_of(rows):
    """{train, val, test: int [.]}, the row numbers of each split."""
    return {part: np.array([row for row, entry in enumerate(rows) if entry["split"] == part], dtype=int) for part in ("train", "val", "test")}


if __name__ == "__main__":
    run(main)
