"""Nearest neighbors by cosine, exact, in tiles of a fixed size: memory does not grow with queries times support."""
import numpy as np

ROWS, COLUMNS = 512, 4096  # of a tile of similarities: 8 MB of float32, which stay in a cache
FOLDS = 64  # a tile is folded so often before it is searched


def unit_rows(rows):
    """rows / |rows|, float32 [N, D]; a zero row stays zero, so that it is equally far from everything."""
    rows = np.asarray(rows, dtype=np.float32)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norms == 0, 1, norms)


def nearest(queries, support, k, exclude=None):
    """The k rows of `support` [M, D] most similar to each row of `queries` [N, D]: (int64 [N, k], cosine float32 [N, k]).

    Most similar first; equal similarities in order of rows. exclude: int [N], a row of `support` that a query may not
    find (itself), or -1 for none.
    """
    queries, support = unit_rows(queries), unit_rows(support)
    found = np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.float32)
    width = min(max(COLUMNS, -(-k // FOLDS) * FOLDS), len(support))
    for first in range(0, len(queries), ROWS):
        part, best = slice(first, first + ROWS), None
        for seen in range(0, len(support), width):
            start = min(seen, len(support) - width)  # the last tile as wide as the others: BLAS rounds by the shape, and equal rows stay equal
            similarity = queries[part] @ support[start : start + width].T
            similarity[:, : seen - start] = -np.inf
            if exclude is not None:
                rows = np.flatnonzero((exclude[part] >= start) & (exclude[part] < start + width))
                similarity[rows, exclude[part][rows] - start] = -np.inf
            best = better(*best, similarity, start) if best else top(similarity, k)
        for into, values in zip(found, best, strict=True):
            into[part] = values
    return found


def better(columns, values, similarity, start):
    """The best so far, [N, k] as `top` gives them, put right by the similarities of further columns, from number `start` on.

    Few of these beat the last of the best. So they are folded to their maxima, and only behind a maximum that does is looked.
    """
    count, k = values.shape
    folds = similarity.reshape(count, FOLDS, -1)
    rows, places = np.nonzero(folds.max(axis=1) > values[:, -1:])
    behind, fold = np.nonzero(folds[rows, :, places] > values[rows, -1:])
    rows, places = rows[behind], places[behind]
    values = np.append(values, folds[rows, fold, places])
    columns = np.append(columns, start + fold * folds.shape[2] + places)
    rows = np.append(np.repeat(np.arange(count), k), rows)
    order = np.lexsort((columns, -values, rows))
    chosen = order[np.searchsorted(rows[order], np.arange(count))[:, None] + np.arange(k)]
    return columns[chosen], values[chosen]


def top(similarity, k):
    """Columns and values of the k largest entries of each row, largest first, ties in order of columns."""
    if k < similarity.shape[1]:
        border = np.partition(similarity, -k, axis=1)[:, -k, None]
    else:
        border = np.full((len(similarity), 1), -np.inf, np.float32)
    columns = np.empty((len(similarity), k), np.int64)
    counts = (similarity >= border).sum(axis=1)
    plain = counts == k
    columns[plain] = np.nonzero(similarity[plain] >= border[plain])[1].reshape(-1, k)
    for row in np.flatnonzero(~plain):  # ties at the border: the first rows win
        candidates = np.flatnonzero(similarity[row] >= border[row])
        columns[row] = np.sort(candidates[np.argsort(-similarity[row, candidates], kind="stable")[:k]])
    values = np.take_along_axis(similarity, columns, axis=1)
    order = np.argsort(-values, axis=1, kind="stable")
    return np.take_along_axis(columns, order, axis=1), np.take_along_axis(values, order, axis=1)


def vote(neighbors, similarity, labels, classes):
    """The class with most votes among a query's neighbors, int64 [N]; ties go to the larger summed similarity, then to the nearest neighbor.

    labels: int [M] of the support rows, classes: their number.
    """
    voters = labels[neighbors]
    rows = np.arange(len(neighbors))[:, None]
    votes, weight = np.zeros((len(neighbors), classes)), np.zeros((len(neighbors), classes))
    np.add.at(votes, (rows, voters), 1)
    np.add.at(weight, (rows, voters), similarity)
    leading = votes == votes.max(axis=1, keepdims=True)
    weight = np.where(leading, weight, -np.inf)
    best = weight == weight.max(axis=1, keepdims=True)
    return voters[np.arange(len(voters)), best[rows, voters].argmax(axis=1)]
