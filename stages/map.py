"""Map: h and z of a run's first seed -> where its test images lie: 2-D maps, and their nearest train images, for a person to look at.

pca: the two directions of largest variance. tsne: van der Maaten and Hinton 2008, started from pca. umap: McInnes et al. 2018,
where the extra `umap` is installed. Neighbors are those by which the kNN probe votes: cosine, among all train images.
"""
import warnings

import numpy as np
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

from stages.lib.checks import load_features, load_split
from stages.lib.neighbors import nearest
from stages.lib.stage import Refused, run
from stages.lib.tables import read_params, replacing
from stages.lib.workers import over_seeds, tick

HEIGHT = 0.75  # of a map of width 1
MIDDLE = np.array([0.5, HEIGHT / 2], np.float32)


def flat_map(rows, method, perplexity, seed):
    """float32 [n, 2], x in [0, 1] and y in [0, HEIGHT], one scale for both, the longest direction lying flat; all in the middle if all rows [n, D] are equal.

    perplexity: about how many neighbors a point of t-SNE or UMAP minds; at most (n - 1) / 3.
    """
    rows = np.asarray(rows, dtype=np.float64)
    if len(rows) < 4 or np.ptp(rows, axis=0).max() <= 1e-6 * np.abs(rows).max(initial=0):  # nothing to spread out but rounding
        return np.tile(MIDDLE, (len(rows), 1))
    perplexity = min(perplexity, (len(rows) - 1) / 3)
    if method == "pca":
        places = PCA(min(2, rows.shape[1]), svd_solver="full").fit_transform(rows)
    elif method == "tsne":
        start = "pca" if rows.shape[1] > 1 else "random"
        places = TSNE(2, perplexity=perplexity, init=start, random_state=seed, n_jobs=1).fit_transform(rows)
    else:
        places = umap_class()(n_components=2, n_neighbors=max(2, round(perplexity)), random_state=seed, n_jobs=1).fit_transform(rows)
    places = PCA(svd_solver="full").fit_transform(np.pad(places, ((0, 0), (0, 2 - places.shape[1]))))
    middle = (places.max(axis=0) + places.min(axis=0)) / 2
    return (MIDDLE + (places - middle) / (np.ptp(places, axis=0) / [1, HEIGHT]).max()).astype(np.float32)


def umap_class():
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from umap import UMAP
    except ImportError:
        raise Refused("map.methods: umap needs umap-learn, which is not installed here; run `pip install umap-learn`, or leave umap out") from None
    return UMAP


def main(params, features, split, places):
    settings, seed = read_params(params, "map"), read_params(params, "seed")
    parts = load_split(split, None)
    train, test, count = parts["train"], parts["test"], sum(map(len, parts.values()))
    test, k = test[: settings["images"]], min(settings["neighbors"], len(train))

    def work(space):
        values = load_features(f"{features}/{seed}/{space}.npy", count)
        neighbors, similarity = nearest(values[test], values[train], k)
        found = {method: flat_map(values[test], method, settings["perplexity"], seed) for method in settings["methods"]}
        tick()
        return {"neighbors": train[neighbors], "similarity": similarity, **found}

    spaces = ["h", "z"]
    results = over_seeds(work, spaces, 1, f"map {features}")
    with replacing(places, "wb") as file:
        np.savez(file, ids=test, **{f"{space}/{name}": array for space, found in zip(spaces, results, strict=True) for name, array in found.items()})
    print(f"{places}: {len(test)} test images in {' and '.join(spaces)} by {', '.join(settings['methods'])}, {k} neighbors each")


if __name__ == "__main__":
    run(main)
