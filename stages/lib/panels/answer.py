"""Panels that answer: what each policy of views erases, the ledger as a matrix, the claims, the recipes.

A panel is a function of the report's inputs (a dict) that returns what its template lays out, or None where there is nothing to show.
"""
import math

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


def floors_last(given):
    """Names of the runs, those that are not trained last."""
    return sorted(given["runs"], key=lambda name: name not in trained(given))


def answer(given):
    """One card for each policy of views and relation: what became of each factor in h, by kNN, in each of its runs, and three images with views."""
    rows = [row for row in given["ledger"] if row["probe"] == "knn" and row["space"] == "h"]
    cells = {(row["run"], row["factor"]): row for row in rows}
    factors = factors_in(rows, given["named_factors"])
    bare = {row["factor"]: number(row["mean"]) for row in given["ledger"] if row["probe"] == "knn" and row["space"] == "pixels"}
    cards = {}
    for name in trained(given):
        run = given["runs"][name]
        cards.setdefault((run.get("views", ""), run["relation"]), []).append(name)
    if not cards or not factors:
        return None
    listed = own_and_common(given["policies"], [policy for policy, _ in cards])
    found = []
    for (policy, relation), names in cards.items():
        dead = [name for name in names if "h" in collapsed(given, name)]
        told = [fate([cells[name, factor] for name in names if (name, factor) in cells], factor, given, dead) for factor in factors]
        found.append({"policy": policy, **listed[policy], "relation": relation, "positives": positives(relation, given),
                      "kinds": list(dict.fromkeys(key.split(".")[0] for key, _ in listed[policy]["common"])),
                      "factors": sorted((one for one in told if one["runs"]), key=lambda one: WORDS.index(one["word"])),
                      "tiles": sheet_of_views(given, policy)[:3]})
    beside = [{"factor": factor, "chance": number(next(row["chance"] for row in rows if row["factor"] == factor)), "pixels": bare.get(factor)}
              for factor in factors]
    lost = any(run["dead"] or run["lost_seeds"] for card in found for one in card["factors"] for run in one["runs"])
    return {"cards": found, "beside": beside, "collapsed": lost, "reference": next((name for name in given["runs"] if name not in trained(given)), None)}


def positives(relation, given):
    """What a relation takes for the same: its kind, and the factor or the run that it is told by."""
    entry = given["relation_entries"][relation]
    factor = given["named_factors"][0] if entry.get("factor") == "main" else entry.get("factor")
    return {"kind": entry["kind"], "by": factor or entry.get("run")}


WORDS = ["loses", "loses open", "loses part", "weakens", "lifts", "keeps", "differs", "unsure", "unread"]


def fate(rows, factor, given, dead=()):
    """What became of a factor in some runs (ledger rows): each before and after, and a word for what surely happened in most of them.

    By the whole interval of a run's retention: lost if it lies below `kept`, kept if above, weakened if it holds `kept` but lies below 1, lifted if
    the judge says gained. Lost wholly if the judge says erased of most that lost it, in part if of all that partly is left, else some of both or open
    which. differs: one run surely keeps what another does not; unread: less than `room` above guessing before training too. Runs in `dead` are shown
    but, beside others, not counted: a collapse is not the policy's doing.
    """
    kept, counted = given["judge"]["kept"], [row for row in rows if row["run"] not in dead] or rows
    ends = [(number(row["retention_low"]), number(row["retention_high"])) for row in counted]
    lost, kept_in = sum(high is not None and high < kept for _, high in ends), sum(low is not None and low > kept for low, _ in ends)
    counts = {"loses": lost, "weakens": sum(high is not None and high < 1 and low <= kept for low, high in ends),
              "lifts": sum(row["verdict"] == "gained" for row in counted), "keeps": kept_in,
              "unread": sum(row["untrained"] != "" and float(row["untrained"]) - float(row["chance"]) < given["judge"]["room"] for row in counted)}
    word = "differs" if kept_in and counts["weakens"] else next((word for word, count in counts.items() if 2 * count > len(counted)), "unsure")
    count, means = counts.get(word), [number(row["mean"]) for row in counted]
    weakened = sum(shown_verdict(row, kept) == "weakened" for row in counted) if word == "loses" else 0
    if word == "loses":
        how = [row["verdict"] for row, (_, high) in zip(counted, ends, strict=True) if high is not None and high < kept]
        word = "loses" if 2 * how.count("erased") > lost else "loses part" if set(how) == {"partly"} else "loses open"
    return {"factor": factor, "word": word, "count": count, "weakened": weakened, "lost": lost, "kept": kept_in, "all": len(counted),
            "means": means, "before": number(counted[0]["untrained"]) if counted else None, "runs": [
                {"run": row["run"], "verdict": shown_verdict(row, kept), "dead": row["run"] in dead, "counted": row in counted,
                 "lost_seeds": lost_seeds(given, row["run"], ("h",)), **{key: number(row[key]) for key in ("mean", "chance", "untrained")}} for row in rows]}


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


def shown_verdict(row, kept):
    """The judge's verdict of a ledger row; where it is unclear only how much was lost: `not kept` (in part or wholly), or `weakened` (surely something)."""
    high = number(row["retention_high"])
    return row["verdict"] if row["verdict"] != "unclear" or high is None or high >= 1 else "not kept" if high < kept else "weakened"


def own_and_common(policies, names):
    """{name: {own, common}}: the operations of each policy, and which of them all of `names` share."""
    listed = {name: operations(policies.get(name, {})) for name in names}
    return {name: {key: [one for one in mine if all(one in other for other in listed.values()) == shared] for key, shared in (("own", False), ("common", True))}
            for name, mine in listed.items()}


def views(given):
    """Originals and two views of each under every policy that a run uses, then the rest."""
    used = list(dict.fromkeys(run["views"] for run in given["runs"].values() if "views" in run))
    order = [name for name in [*used, *(name for name in given["preview"] if name not in used)] if name in given["preview"]]
    listed = own_and_common(given["policies"], order)
    return {"policies": [{"name": name, **listed[name], "images": sheet_of_views(given, name),
                          "runs": [run for run, recipe in given["runs"].items() if recipe.get("views") == name]} for name in order]}


def cell_of(row, surely_kept):
    """What one cell of the matrix shows; `kept` is (mean - chance) / (1 - chance), within 0 and 1."""
    mean, chance = number(row["mean"]), number(row["chance"])
    kept = (mean - chance) / (1 - chance) if chance < 1 else 0
    return {"mean": mean, "low": number(row["low"]), "high": number(row["high"]), "chance": chance, "kept": round(min(1, max(0, kept)), 3),
            "verdict": shown_verdict(row, surely_kept)}


def ledger(given):
    """A matrix for each probe: rows are runs, then the floor (untrained and pixels); columns are factors in h and z."""
    rows, tables = given["ledger"], []
    for probe in [probe for probe in SCALE if any(row["probe"] == probe for row in rows)]:
        chosen = [row for row in rows if row["probe"] == probe]
        cells = {(row["run"], row["space"], row["factor"]): cell_of(row, given["judge"]["kept"]) for row in chosen}
        factors = factors_in(chosen, given["named_factors"])
        spaces = [space for space in ("h", "z") if any(key[1] == space for key in cells)]
        lines = []
        for name in [*floors_last(given), "pixels"]:
            if not any(key[0] == name for key in cells):
                continue
            wide = name == "pixels"
            lines.append({"run": name, "floor": name not in trained(given), "policy": given["runs"].get(name, {}).get("views", ""),
                          "relation": given["runs"].get(name, {}).get("relation", ""), "collapsed": collapsed(given, name),
                          "lost_seeds": lost_seeds(given, name, ("h", "z")),
                          "cells": [{"factor": factor, "space": "pixels" if wide else space, "span": len(spaces) if wide else 1,
                                     "cell": cells.get((name, "pixels" if wide else space, factor))}
                                    for factor in factors for space in (spaces[:1] if wide else spaces)]})
        chances = {factor: next(cell["chance"] for key, cell in cells.items() if key[2] == factor) for factor in factors}
        tables.append({"probe": probe, "factors": [{"name": factor, "chance": chances[factor]} for factor in factors], "spaces": spaces, "lines": lines})
    lost = any(line["collapsed"] or line["lost_seeds"] for table in tables for line in table["lines"])
    return {"tables": tables, "collapsed": lost} if tables else None


def collapsed(given, name):
    """Spaces of a run that have collapsed, by the judge's table."""
    return [row["space"] for row in given["collapse"] if row["run"] == name and row["verdict"] == "complete"]


def lost_seeds(given, name, spaces):
    """[{space, count, seeds}]: in how many seeds of a run a space has collapsed completely, where some have and the space as a whole has not."""
    return [{"space": row["space"], "count": int(row["collapsed_seeds"]), "seeds": int(row["seeds"])} for row in given["collapse"]
            if row["run"] == name and row["space"] in spaces and row["collapsed_seeds"] not in ("", "0") and row["verdict"] != "complete"]


# where left - right must lie for a claim to be true, by its word, for a margin m
TRUE_WITHIN = {"above": lambda m: (m, math.inf), "below": lambda m: (-math.inf, -m), "near": lambda m: (-m, m),
               "not above": lambda m: (-math.inf, m), "not below": lambda m: (-m, math.inf)}


def claims(given):
    """Each claim with its verdict, what it compares, and where its interval and its range of truth lie on a scale that all claims share, in percent.

    A difference of accuracies is shown in points, another as it is.
    """
    if not given["claims"]:
        return None
    ends = [abs(value) for claim in given["claims"].values() for key in ("low", "high", "effect") if (value := claim[key]) is not None]
    reach = 1.08 * max([0.1, *ends])
    found = []
    for name, claim in given["claims"].items():
        entry = given["claimed"][name]
        zone = TRUE_WITHIN[entry["is"]](entry["margin"])
        points = entry["left"]["probe"] not in ("spread", "ridge")
        at = {"low": claim["low"], "effect": claim["effect"], "high": claim["high"], "from": max(zone[0], -reach), "to": min(zone[1], reach)}
        place = {key: None if value is None else round(50 + 50 * min(1, max(-1, value / reach)), 2) for key, value in at.items()}
        found.append({"name": name, **claim, "place": place,
                      "points": points,
                      "zone": in_words(*zone, 100 if points else 1),
                      "allowed": "," in claim["differs"] and not claim["confounded"],
                      "sides": [side(entry[key], given["named_factors"][0]) for key in ("left", "right")]})
    order = ["supported", "refuted", "unclear", "not testable", "not applicable"]
    counts = [(verdict, count) for verdict in order if (count := sum(claim["verdict"] == verdict for claim in given["claims"].values()))]
    return {"claims": found, "counts": counts}


def signed(value, points):
    """A difference as text with its sign, in points or as it is."""
    return "–" if value is None else (f"{100 * value:+.1f}" if points else f"{value:+.3f}").replace("-", "−")


def in_words(low, high, unit=1):
    """A range of differences, open at both ends: above, below or between, and its ends, times `unit`, as text."""
    word = "above" if high == math.inf else "below" if low == -math.inf else "between"
    return {"word": word, **{key: "0" if end == 0 else f"{unit * end:+g}".replace("-", "−") for key, end in (("low", low), ("high", high))}}


def side(entry, main_factor):
    """One side of a claim as text: a readout, a number or chance."""
    if not isinstance(entry, dict):
        return str(entry)
    factor = main_factor if entry.get("factor") == "main" else entry.get("factor")
    return " ".join(filter(None, [entry["run"], entry["space"], factor, entry["probe"]]))


def flat(tree, prefix=""):
    """{a: {b: 1}} -> {"a.b": 1}"""
    leaves = {}
    for name, value in tree.items():
        leaves |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return leaves


def recipes(given):
    """Settings by run: those in which runs differ, and those on which all agree that read them. `own`: not the value of most runs that read it.

    An operation of views that a run does not name is not applied, which is a difference; any other setting is just not read.
    """
    plans = {name: flat(given["plans"][name]) for name in given["runs"]}
    differing, shared = [], []
    for setting in dict.fromkeys(key for plan in plans.values() for key in plan):
        values = [plan.get(setting) for plan in plans.values()]
        read = [value for value in values if value is not None]
        alike = all(value == read[0] for value in read)
        lacking = setting.startswith("views.") and any(setting not in plan and "views" in given["plans"][name] for name, plan in plans.items())
        if alike and not lacking:
            shared.append({"setting": setting, "value": text(read[0])})
            continue
        if lacking:  # among the runs that have views, none is a value too
            read = [plan.get(setting) for name, plan in plans.items() if "views" in given["plans"][name]]
        usual = max(read, key=read.count)
        differing.append({"setting": setting, "cells": [{"value": None if value is None else text(value), "own": value is not None and value != usual}
                                                        for value in values]})
    return {"runs": list(plans), "differing": differing, "shared": shared}


def text(value):
    """A value of a plan as params.yaml would show it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "[" + ", ".join(map(text, value)) + "]" if isinstance(value, list) else f"{value:g}" if isinstance(value, float) else str(value)
