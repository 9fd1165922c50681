"""Panels to look at: nearest neighbors of chosen test images, and 2-D maps."""
import numpy as np

from stages.lib.factors import is_numeric

BANDS = 5  # a number colors a map by fifths of its range


def kinds(rows, wanted):
    """The images `wanted` (row numbers), the first of each combination of the factors in `rows` ({factor: values}) before the rest."""
    seen, chosen = set(), []
    for place in wanted:
        kind = tuple(values[place] for values in rows.values())
        if kind not in seen:
            seen.add(kind)
            chosen.append(place)
    return [*chosen, *(place for place in wanted if place not in chosen)]


def label(given, image):
    """An image in words: its number and its values of the main and second factor."""
    row = given["factor_rows"][image]
    return f"{', '.join(row[factor] for factor in given['named_factors'] if factor in row)} ({image})"


def neighbors(given):
    """For each trained run: chosen test images with their nearest train images in untrained h, h and z, and how often the factors agree."""
    from_untrained = next((name for name in given["runs"] if given["plans"][name]["objective"] == "untrained"), None)
    factors = [factor for factor in given["named_factors"] if factor in given["factor_rows"][0]]
    names = [name for name in given["runs"] if given["plans"][name]["objective"] != "untrained"]
    if not names or not factors:
        return None
    values = {factor: np.array([row[factor] for row in given["factor_rows"]]) for factor in factors}
    ids = given["maps"][names[0]]["ids"]
    chosen = kinds(values, ids)[: given["queries"]]
    rows = [int(np.flatnonzero(ids == image)[0]) for image in chosen]

    def group(name, space):
        found = given["maps"][name][f"{space}/neighbors"]
        agree = [{"factor": factor, "share": float((column[found] == column[ids][:, None]).mean())} for factor, column in values.items()]
        near = [[{"tile": given["sheet"].add(given["images"][j], int(j)), "label": label(given, j),
                  "same": [bool(column[j] == column[ids[row]]) for column in values.values()]} for j in found[row]] for row in rows]
        return {"space": space, "untrained": name == from_untrained, "agree": agree, "near": near}

    runs = []
    for name in names:
        groups = [group(from_untrained, "h")] if from_untrained else []
        runs.append({"run": name, "groups": [*groups, group(name, "h"), group(name, "z")]})
    queries = [{"tile": given["sheet"].add(given["images"][image], int(image)), "label": label(given, image)} for image in chosen]
    return {"runs": runs, "queries": queries, "factors": factors, "count": len(ids), "k": len(given["maps"][names[0]]["h/neighbors"][0])}


def space_map(given):
    """What the script draws: places in thousandths by run, space and method; classes by factor; tiles and words by image."""
    names = list(given["runs"])
    first = given["maps"][names[0]]
    ids, methods = first["ids"], [key.removeprefix("h/") for key in first if key.startswith("h/") and key not in ("h/neighbors", "h/similarity")]
    if not len(ids) or not methods:
        return None
    places = {name: {space: {method: np.rint(given["maps"][name][f"{space}/{method}"] * 1000).astype(int).ravel().tolist() for method in methods}
                     for space in ("h", "z")} for name in names}
    coloring = colorings(given, ids)
    if not coloring:
        return None
    usual = next((name for name in names if given["plans"][name]["objective"] != "untrained"), names[0])
    return {"runs": names, "methods": methods, "factors": list(coloring), "run": usual, "count": len(ids),
            "data": {"places": places, "factors": coloring, "tiles": [given["sheet"].add(given["images"][image], int(image)) for image in ids],
                     "labels": [label(given, image) for image in ids]}}


def colorings(given, ids):
    """{factor: {classes, of: class number of each image or -1 for an empty cell, ordered}}; a number is cut into fifths of its range."""
    found, present = {}, list(given["factor_rows"][0])[1:]
    for factor in dict.fromkeys([*(name for name in given["named_factors"] if name in present), *present]):
        values = [row[factor] for row in given["factor_rows"]]
        names = sorted(set(filter(None, values)))
        if len(names) < 2:
            continue
        if is_numeric(names):
            numbers = [float(name) for name in names]
            edges = np.linspace(min(numbers), max(numbers), BANDS + 1)
            bands = [f"{low:.3g} – {high:.3g}" for low, high in zip(edges[:-1], edges[1:], strict=True)]
            band = [int(np.digitize(float(values[image]), edges[1:-1])) if values[image] else -1 for image in ids]
            found[factor] = {"classes": bands, "of": band, "ordered": True}
        else:
            place = {name: number for number, name in enumerate(names)}
            found[factor] = {"classes": names, "of": [place.get(values[image], -1) for image in ids], "ordered": False}
    return found
