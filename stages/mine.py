"""Mine: h of an earlier run -> which images count as the same, seed by seed, without labels, and how that agrees with the factors.

`clusters`: k-means on unit rows, fitted on train -> int64 [R, N] group numbers, the cluster of every image.
`neighbors`: train images that are among each other's k nearest by cosine -> int64 [R, N, k] ids, -1 for none.
Factors are read for the report only; the relation is written before.
"""
import numpy as np
from sklearn.cluster import KMeans

from stages.lib.checks import load_factors, load_features, load_split
from stages.lib.factors import classes_of
from stages.lib.neighbors import nearest, unit_rows
from stages.lib.relations import of_groups, of_neighbors
from stages.lib.stage import Refused, run
from stages.lib.tables import read_params, replacing, write_json
from stages.lib.workers import over_seeds, tick


def clusters(h, train, count, restarts, seed):
    """int64 [N]: the cluster of each row of h [N, H], by k-means on the rows `train`, the best of `restarts` starts."""
    model = KMeans(count, n_init=restarts, random_state=seed).fit(unit_rows(h[train]))
    return model.predict(unit_rows(h)).astype(np.int64)


def mutual_neighbors(h, train, k):
    """int64 [N, k]: for each row of `train` those of its k nearest others that have it among theirs; -1 elsewhere. Symmetric."""
    near, _ = nearest(h[train], h[train], k, exclude=np.arange(len(train)))
    mutual = (near[near] == np.arange(len(train))[:, None, None]).any(axis=2)
    found = np.full((len(h), k), -1, np.int64)
    found[train] = np.where(mutual, train[near], -1)
    return found


def main(params, name, features, factors, split, relation, agreement):
    entry, first, replicates = (read_params(params, *key) for key in (["mined", name], ["seed"], ["replicates"]))
    parts = load_split(split, None)
    train, count = parts["train"], sum(map(len, parts.values()))
    seeds = [first + replicate for replicate in range(replicates)]
    key, most = ("clusters", len(train)) if entry["kind"] == "clusters" else ("k", len(train) - 1)
    if entry[key] > most:
        raise Refused(f"mined.{name}.{key}: {entry[key]} is too many for {len(train)} train images; allowed: up to {most}")

    def work(seed):
        h = load_features(f"{features}/{seed}/h.npy", count)
        tick()
        if entry["kind"] == "clusters":
            return clusters(h, train, entry["clusters"], entry["restarts"], seed)
        return mutual_neighbors(h, train, entry["k"])

    found = np.stack(over_seeds(work, seeds, 1, f"mine {name}"))
    with replacing(relation, "wb") as file:
        np.save(file, found, allow_pickle=False)
    labels = {factor: classes[train] for factor, classes in classes_of(load_factors(factors, count)).items()}
    place = np.full(found.shape[1] + 1, -1)  # of an image among the train images; the last one serves -1
    place[train] = np.arange(len(train))
    reports = [of_groups(rows[train], labels) if rows.ndim == 1 else of_neighbors(place[rows[train]], labels) for rows in found]
    write_json(agreement, {"kind": entry["kind"], "seeds": {str(seed): report for seed, report in zip(seeds, reports, strict=True)}})
    pairs = np.mean([report["pairs"] for report in reports])
    print(f"{relation}: {pairs:.0f} pairs of train images count as the same (mean of {len(seeds)} seeds); {agreement}")


if __name__ == "__main__":
    run(main)
