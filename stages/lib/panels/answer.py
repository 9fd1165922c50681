"""Panels that answer: what each policy of views erases, the ledger as a matrix, the claims, the recipes.

A panel is a function of the report's inputs (a dict) that returns what its template lays out, or None where there is nothing to show.
"""
VERDICTS = ["gained", "kept", "partly", "erased", "unclear"]
SCALE = ["knn", "linear", "finetune", "ridge"]  # probes of the matrix, in order of preference; others have panels of their own


def number(cell):
    """A cell of a CSV as a float, None if empty."""
    return float(cell) if cell not in ("", None) else None


def factors_in(rows, named):
    """Factors of ledger rows: the named ones first, then the rest in order."""
    present = list(dict.fromkeys(row["factor"] for row in rows))
    return [factor for factor in dict.fromkeys([*named, *present]) if factor in present]


def trained(given):
    return [name for name in given["runs"] if given["plans"][name]["objective"] != "untrained"]


def answer(given):
    """One card for each policy of views and relation: under which verdicts its runs have each factor in h, by kNN, and two images with views."""
    rows = [row for row in given["ledger"] if row["probe"] == "knn" and row["space"] == "h"]
    verdict = {(row["run"], row["factor"]): row["verdict"] or "unclear" for row in rows}
    factors = factors_in(rows, given["named_factors"])
    cards = {}
    for name in trained(given):
        run = given["runs"][name]
        cards.setdefault((run.get("views", ""), run["relation"]), []).append(name)
    if not cards or not factors:
        return None
    found = []
    for (policy, relation), names in cards.items():
        told = [{"factor": factor, "verdicts": [{"verdict": word, "runs": runs} for word in VERDICTS
                                                if (runs := [name for name in names if verdict.get((name, factor)) == word])]} for factor in factors]
        found.append({"policy": policy, "operations": operations(given["policies"].get(policy, {})), "relation": relation, "runs": names,
                      "factors": told, "tiles": sheet_of_views(given, policy)[:3]})
    return {"cards": found, "reference": next((name for name in given["runs"] if name not in trained(given)), None)}


def sheet_of_views(given, policy):
    """[[original, a view, its other view]] as tiles, one for each image of the preview."""
    return [[given["sheet"].add(image, f"view {policy} {row} {place}") if place else given["sheet"].add(image, f"original {row}")
             for place, image in enumerate(triple)] for row, triple in enumerate(given["preview"].get(policy, []))]


def operations(policy):
    """[(operation, values as text)] of a policy of views, in the order of its keys; a mapping's own keys come after a dot."""
    found = []
    for name, value in policy.items():
        parts = {f"{name}.{key}": part for key, part in value.items()} if isinstance(value, dict) else {name: value}
        found += [(key, part if isinstance(part, list) else [part]) for key, part in parts.items()]
    return found


def views(given):
    """Originals and two views of each under every policy that a run uses, then the rest."""
    used = list(dict.fromkeys(run["views"] for run in given["runs"].values() if "views" in run))
    order = [*used, *(name for name in given["preview"] if name not in used)]
    return {"policies": [{"name": name, "operations": operations(given["policies"][name]), "images": sheet_of_views(given, name),
                          "runs": [run for run, recipe in given["runs"].items() if recipe.get("views") == name]} for name in order if name in given["preview"]]}


def cell_of(row):
    """What one cell of the matrix shows; `kept` is (mean - chance) / (1 - chance), within 0 and 1."""
    mean, chance = number(row["mean"]), number(row["chance"])
    kept = (mean - chance) / (1 - chance) if chance < 1 else 0
    return {"mean": mean, "low": number(row["low"]), "high": number(row["high"]), "chance": chance, "kept": round(min(1, max(0, kept)), 3),
            "verdict": row["verdict"], "note": row["note"], "n": row["n"], "seeds": row["seeds"], "retention": number(row["retention"])}


def ledger(given):
    """A matrix for each probe: rows are runs, then the floor (untrained and pixels); columns are factors in h and z."""
    rows, tables = given["ledger"], []
    for probe in [probe for probe in SCALE if any(row["probe"] == probe for row in rows)]:
        chosen = [row for row in rows if row["probe"] == probe]
        cells = {(row["run"], row["space"], row["factor"]): cell_of(row) for row in chosen}
        factors = factors_in(chosen, given["named_factors"])
        spaces = [space for space in ("h", "z") if any(key[1] == space for key in cells)]
        lines = []
        for name in [*trained(given), *(name for name in given["runs"] if name not in trained(given)), "pixels"]:
            if not any(key[0] == name for key in cells):
                continue
            wide = name == "pixels"
            lines.append({"run": name, "floor": name not in trained(given), "policy": given["runs"].get(name, {}).get("views", ""),
                          "relation": given["runs"].get(name, {}).get("relation", ""), "collapsed": collapsed(given, name),
                          "cells": [{"factor": factor, "space": "pixels" if wide else space, "span": len(spaces) if wide else 1,
                                     "cell": cells.get((name, "pixels" if wide else space, factor))}
                                    for factor in factors for space in (spaces[:1] if wide else spaces)]})
        chances = {factor: next(cell["chance"] for key, cell in cells.items() if key[2] == factor) for factor in factors}
        tables.append({"probe": probe, "factors": [{"name": factor, "chance": chances[factor]} for factor in factors], "spaces": spaces, "lines": lines})
    return {"tables": tables} if tables else None


def collapsed(given, name):
    """Spaces of a run that have collapsed: by the judge's table where there is one, else by the rank of z at the end of training."""
    if "collapse" in given:
        return [row["space"] for row in given["collapse"] if row["run"] == name and row["verdict"] == "complete"]
    ends = [number(row["z_rank"]) for row in given["curves"].get(name, []) if row["epoch"] == given["curves"][name][-1]["epoch"]]
    return ["z"] if ends and None not in ends and sum(ends) / len(ends) < given["collapse_rank"] else []


def claims(given):
    """Each claim with its verdict, and where its interval lies on a scale that all claims share."""
    if not given["claims"]:
        return None
    ends = [abs(value) for claim in given["claims"].values() for key in ("low", "high", "effect") if (value := claim[key]) is not None]
    reach = max([0.1, *ends])
    place = {name: {key: None if claim[key] is None else round(50 + 50 * claim[key] / reach, 2) for key in ("low", "effect", "high")}
             for name, claim in given["claims"].items()}
    order = ["supported", "refuted", "unclear", "not testable", "not applicable"]
    counts = [(verdict, count) for verdict in order if (count := sum(claim["verdict"] == verdict for claim in given["claims"].values()))]
    return {"claims": [{"name": name, **claim, "place": place[name]} for name, claim in given["claims"].items()], "reach": reach, "counts": counts}


def flat(tree, prefix=""):
    """{a: {b: 1}} -> {"a.b": 1}"""
    leaves = {}
    for name, value in tree.items():
        leaves |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return leaves


def recipes(given):
    """Settings by run; those in which runs differ apart from those that all share. `own`: not the value of most runs that read the setting."""
    plans = {name: flat(given["plans"][name]) for name in given["runs"]}
    differing, shared = [], []
    for setting in dict.fromkeys(key for plan in plans.values() for key in plan):
        values = [plan.get(setting) for plan in plans.values()]
        read = [value for value in values if value is not None]
        if len(read) == len(values) and all(value == read[0] for value in read):
            shared.append({"setting": setting, "value": text(read[0])})
            continue
        usual = max(read, key=read.count)
        differing.append({"setting": setting, "cells": [{"value": None if value is None else text(value), "own": value is not None and value != usual}
                                                        for value in values]})
    return {"runs": list(plans), "differing": differing, "shared": shared}


def text(value):
    """A value of a plan as params.yaml would show it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "[" + ", ".join(map(text, value)) + "]" if isinstance(value, list) else f"{value:g}" if isinstance(value, float) else str(value)
