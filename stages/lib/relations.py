"""How well a relation agrees with the factors: wrong positives and false negatives, counted over pairs of train images."""
import numpy as np


def of_groups(groups, factors):
    """{groups, sizes, pairs, alone, factors} of group numbers int [n]; factors: name -> class numbers int [n]."""
    _, sizes = np.unique(groups, return_counts=True)
    return {"groups": len(sizes), **counted(sizes, alone=int((sizes == 1).sum()), pairs=pairs_within(groups)),
            "factors": {name: score(pairs_within(groups), pairs_within(groups, classes), pairs_within(classes), len(groups))
                        for name, classes in factors.items()}}


def of_neighbors(neighbors, factors):
    """The same for neighbors int [n, k] (rows, -1 for none, symmetric), which form no groups: sizes are neighbors per image."""
    left, place = np.nonzero(neighbors >= 0)
    right = neighbors[left, place]
    sizes, pairs = (neighbors >= 0).sum(axis=1), len(left) // 2
    return {"groups": None, **counted(sizes, alone=int((sizes == 0).sum()), pairs=pairs),
            "factors": {name: score(pairs, int((classes[left] == classes[right]).sum()) // 2, pairs_within(classes), len(neighbors))
                        for name, classes in factors.items()}}


def counted(sizes, alone, pairs):
    return {"sizes": {"least": int(sizes.min()), "median": float(np.median(sizes)), "most": int(sizes.max())}, "alone": alone, "pairs": pairs}


def pairs_within(*labels):
    """Number of pairs of images that agree in all the label arrays [n]."""
    _, sizes = np.unique(np.stack(labels), axis=1, return_counts=True)
    return int((sizes * (sizes - 1) // 2).sum())


def score(related, right, alike, images):
    """Shares from numbers of pairs: related by the relation, right (of these, with the same value), alike (with the same value at all).

    wrong_positives: of the related pairs, those of different value; false_negatives: of the others, those of the same value.
    """
    others = images * (images - 1) // 2 - related
    found = {"wrong_positives": (related - right) / related if related else None, "false_negatives": (alike - right) / others if others else None}
    reasons = [reason for reason, number in (("no two images are related", related), ("all images are related", others)) if not number]
    return {**found, **({"reason": reasons[0]} if reasons else {})}
