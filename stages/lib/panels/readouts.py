"""Panels of further readouts, each from tidy tables of runs (dicts of strings): means over seeds, with the least and the most of them."""
import math

from stages.lib.charts import line_chart
from stages.lib.panels.answer import cell_of, floors_last, lost_seeds, number, trained


def select(rows, **wanted):
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def spread(rows):
    """{mean, low, high} of the values of rows, one a seed; None where no row has a value."""
    values = [float(row["value"]) for row in rows if row["value"] != ""]
    return {"mean": sum(values) / len(values), "low": min(values), "high": max(values)} if values else None


def after(rows, prefix):
    """What follows `prefix` in the slices of rows, in order, once each."""
    return list(dict.fromkeys(row["slice"].removeprefix(prefix) for row in rows if row["slice"].startswith(prefix)))


def transformations(given):
    """Which transformation was applied, predicted from h and from z: a matrix of accuracies, runs by transformations."""
    rows = select(given["ledger"], probe="transformation")
    changes = list({row["factor"]: {"name": row["factor"], "chance": number(row["chance"])} for row in rows}.values())
    cells = {(row["run"], row["space"], row["factor"]): cell_of(row, given["judge"]["kept"]) for row in rows}
    lines = [{"run": name, "floor": name not in trained(given),
              "cells": [cells.get((name, space, change["name"])) for change in changes for space in ("h", "z")]}
             for name in floors_last(given) if any(key[0] == name for key in cells)]
    return {"changes": changes, "lines": lines} if lines else None


def interventions(given):
    """By run: how often a prediction flips (kNN), and how far h and z move, when one thing is changed, beside two views and two images.

    changed: for each factor whether an intervention draws the images anew with another value of it.
    """
    runs, redrawn = [], {name: entry.get("factor") for name, entry in given["intervened"].items()}
    for name in floors_last(given):
        flips, moved = select(given["probe"][name], probe="knn", metric="flips"), select(given["geometry"][name], probe="movement", metric="moved")
        factors = [factor for factor in given["named_factors"] if select(flips, factor=factor)]
        lines = []
        for change in [*(f"intervention={name}" for name in after(flips, "intervention=")), "two views", "two images"]:
            plain = change.removeprefix("intervention=")
            lines.append({"change": plain, "changed": [redrawn.get(plain) == factor for factor in factors], "yardstick": plain == change,
                          "cells": [{"space": space, "flips": [spread(select(flips, slice=change, space=space, factor=factor)) for factor in factors],
                                     "moved": spread(select(moved, slice=change, space=space))} for space in ("h", "z")]})
        if flips:
            runs.append({"run": name, "factors": factors, "lines": lines})
    return {"runs": runs, "changed": any(any(line["changed"]) for entry in runs for line in entry["lines"])} if runs else None


def slices(given):
    """kNN accuracy of the main factor from h on all test images and on each slice of them; how far it falls from val to test, where a
    shortcut may be cut off, and from the other test images to combinations held out of training."""
    factor = given["named_factors"][0]
    rows = {name: [row for row in select(given["probe"][name], probe="knn", space="h", factor=factor, metric="accuracy")
                   if not row["slice"].startswith("intervention=")] for name in floors_last(given)}
    names = list(dict.fromkeys(row["slice"] for found in rows.values() for row in found))
    if len(names) < 2:
        return None
    val = {row["run"]: number(row.get("val")) for row in select(given["ledger"], probe="knn", space="h", factor=factor)}
    sizes = {row["slice"]: row["n"] for found in rows.values() for row in found}
    lines = []
    for name, found in rows.items():
        values = {part: spread(select(found, slice=part)) for part in names}
        held, others = values.get("held_out"), values.get("not_held_out")
        lines.append({"run": name, "val": val.get(name), "cells": [values[part] for part in names],
                      "from_val": val[name] - values["all"]["mean"] if val.get(name) is not None and values["all"] else None,
                      "fall": others["mean"] - held["mean"] if held and others else None})
    return {"factor": factor, "names": [{"name": name, "n": sizes[name]} for name in names], "lines": lines, "held_out": "held_out" in names,
            "val": any(line["val"] is not None for line in lines)}


def pushes(given):
    """Softmax mass of negatives on images of the same value, by temperature, against their share among the candidates: the false negatives' pull."""
    charts, factor = [], given["named_factors"][0]
    for name in trained(given):
        rows = select(given["geometry"][name], probe="pushes", factor=factor)
        temperatures = sorted(float(text) for text in after(rows, "temperature="))
        if not temperatures:
            continue
        found = {metric: [(float(text), spread(select(rows, slice=f"temperature={text}", metric=metric))["mean"]) for text in after(rows, "temperature=")]
                 for metric in ("mass", "share", "negatives")}
        chart = line_chart([{"points": sorted(found["share"]), "kind": "reference"}, {"points": sorted(found["mass"]), "kind": "mean"}],
                           include=[0, 1], whole_x=False, log_x=True)
        coldest = min(found["mass"])
        charts.append({"run": name, "chart": chart, "temperature": coldest[0], "mass": coldest[1], "share": found["share"][0][1],
                       "negatives": dict(found["negatives"])[coldest[0]]})
    return {"charts": charts, "factor": factor} if charts else None


def collapse(given):
    """Share of variance along each principal axis of h and of z, and the judge's verdict on collapse."""
    charts = []
    for name in given["runs"]:
        rows = select(given["geometry"][name], probe="collapse", metric="variance_share")
        lines = [{"points": [(float(place), spread(select(rows, space=space, slice=f"dimension={place}"))["mean"])
                             for place in after(select(rows, space=space), "dimension=")], "kind": space} for space in ("h", "z")]
        verdicts = {row["space"]: row for row in given["collapse"] if row["run"] == name}
        charts.append({"run": name, "chart": line_chart(lines, include=[0]),
                       "spaces": [{"space": space, "verdict": verdicts[space]["verdict"], "lost_seeds": lost_seeds(given, name, (space,)),
                                   "used": number(verdicts[space]["used"]), "rank": number(verdicts[space]["effective_rank"]),
                                   "size": int(float(verdicts[space]["dimensions"])),
                                   "spread": number(verdicts[space]["spread"])} for space in ("h", "z")]})
    return {"charts": charts} if charts else None


def budgets(given):
    """Recall@k and few-shot accuracy of the main factor from h, and its accuracy where the whole encoder is trained on few labels; what guessing gives."""
    factor, names, labels = given["named_factors"][0], [], None
    found = {}
    for name in floors_last(given):
        rows = [row for row in select(given["probe"][name], space="h", factor=factor, slice="all") if row["metric"] in ("hit_rate", "accuracy")
                and row["probe"].startswith(("recall@", "few_shot@"))]
        tuned = select(given["finetune"][name], factor=factor, slice="all")
        labels = labels or next((row["value"] for row in select(tuned, metric="labels")), None)
        names = list(dict.fromkeys([*names, *(row["probe"] for row in rows)]))
        found[name] = {**{probe: spread(select(rows, probe=probe)) for probe in names}, "finetune": spread(select(tuned, metric="accuracy"))}
    lines = [{"run": name, "cells": [cells.get(probe) for probe in [*names, *(["finetune"] if labels else [])]]} for name, cells in found.items()]
    columns = [*names, *(["finetune"] if labels else [])]
    return {"factor": factor, "names": names, "labels": labels, "lines": lines, "guessing": guessing(given, factor, columns)} if names else None


def guessing(given, factor, probes):
    """What features that say nothing give of each probe: of Recall@k, how often one of k random others is of the same class; of a few labels a class, which
    do not tell how common it is, one of the test images' classes; fine-tuned, the ledger's chance."""
    rows = select(next(iter(given["probe"].values())), probe="knn", space="h", factor=factor, metric="accuracy")
    sizes = list({row["slice"]: int(row["n"]) for row in rows if row["slice"].startswith(f"{factor}=")}.values())
    count, asking = sum(sizes), sum(size for size in sizes if size > 1)  # who is alone in its class does not ask

    def hit(k):
        missed = [size * math.prod((count - size - other) / (count - 1 - other) for other in range(min(k, count - 1))) for size in sizes if size > 1]
        return 1 - sum(missed) / asking
    chance = next((number(row["chance"]) for row in select(given["ledger"], probe="finetune", space="h", factor=factor)), None)
    return [chance if probe == "finetune" else None if not asking else hit(int(probe.removeprefix("recall@"))) if probe.startswith("recall@")
            else 1 / len(sizes) for probe in probes]


def transfers(given):
    """A run's encoder read out on another data set beside the untrained one: kNN and linear, gain with its interval."""
    lines = [{**row, **{key: number(row[key]) for key in ("mean", "low", "high", "chance", "untrained", "gain", "gain_low", "gain_high")}}
             for rows in given["transfers"].values() for row in rows if row["space"] == "h"]
    for line in lines:  # as in the ledger, an interval of an accuracy ends at 0 and 1
        line |= {key: None if line[key] is None else min(1.0, max(0.0, line[key])) for key in ("low", "high")}
    return {"lines": lines} if lines else None
