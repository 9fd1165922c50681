"""Judge: the tables of all runs -> headline, summary, ledger of factors, and a verdict on each claim, with intervals.

Retention of a factor: r = (accuracy - chance) / (accuracy of the untrained encoder - chance), chance being the share of
the most frequent train class among the test images. A claim holds a difference (left - right) against a margin.
"""
import math
import re
from collections import defaultdict
from pathlib import Path

import numpy as np

from stages.lib.intervals import estimate, of_seeds
from stages.lib.stage import Refused, run
from stages.lib.tables import read_json, read_params, read_table, write_json, write_table

LEDGER = ["run", "space", "factor", "probe", "mean", "low", "high", "n", "seeds", "chance", "untrained",
          "retention", "retention_low", "retention_high", "verdict", "note"]
# what a claim allows of left - right, by its word, for a margin m: the open interval in which it is true
TRUE_WITHIN = {"above": lambda m: (m, math.inf), "below": lambda m: (-math.inf, -m), "near": lambda m: (-m, m),
               "not above": lambda m: (-math.inf, m), "not below": lambda m: (-m, math.inf)}


class Readouts:
    """All readouts: `right[run, space, factor, probe]` bool [R, T], `values[...]` {metric: mean over seeds}, `loss[run]`, `plans[run]`."""

    def __init__(self, runs, probe, correct, curves, plans):
        self.right, self.values, self.loss, self.spread = {}, defaultdict(dict), {}, {}
        self.plans = {name: read_json(f"{plans}/{name}.json") for name in runs}
        for name in ["pixels", *runs]:
            for key, right in read_correct(f"{correct}/{name}.npz").items():
                self.right[name, *key] = right
            cells = defaultdict(list)
            for row in read_table(f"{probe}/{name}.csv", ["run", "space", "factor", "probe", "metric", "value"]):
                if row["run"] != name:
                    raise Refused(f"{probe}/{name}.csv: holds run {row['run']}, not {name}; rerun probe@{name}")
                cells[name, row["space"], row["factor"], row["probe"], row["metric"]].append(row["value"])
            for (*key, metric), found in cells.items():
                self.values[tuple(key)][metric] = None if "" in found else float(np.mean([float(value) for value in found]))
        for name in runs:
            rows = read_table(f"{curves}/{name}.csv", ["epoch", "loss", "z_spread"])
            last = [row for row in rows if row["epoch"] == rows[-1]["epoch"]]
            losses = [float(row["loss"]) for row in last if row["loss"]]
            self.spread[name] = [float(row["z_spread"]) for row in last]
            self.loss[name] = float(np.mean(losses)) if losses else None

    def chance(self, key):
        return self.values[key]["majority"]

    def rank(self, name, space):
        return self.values[name, space, "", "spectrum"]["effective_rank"]

    def floor(self, name):
        """The untrained run with the same encoder and seeds as run `name`, or None."""
        if name == "pixels":
            return None
        same = [other for other, plan in self.plans.items() if plan["objective"] == "untrained"
                and all(plan[key] == self.plans[name][key] for key in ("encoder", "seed", "replicates"))]
        return same[0] if same else None


def read_correct(path):
    """{(space, factor, probe): bool [R, T]} of one run."""
    with np.load(path, allow_pickle=False) as file:
        return {re.fullmatch(r"([^/]*)/(.*)/([^/]*)", name, re.DOTALL).groups(): file[name] for name in file.files}  # a factor's name may hold a /


def ledger(readouts, settings):
    """One row for each run, space, factor and probe."""
    rows = []
    for key, right in readouts.right.items():
        found = estimate(right, settings["confidence"], paired=False, seeded=key[0] != "pixels")
        floor = readouts.floor(key[0])
        reference = readouts.right.get((floor, *key[1:]))
        row = dict(zip(LEDGER, [*key, found.mean, clip(found.low), clip(found.high), right.shape[1], len(right), readouts.chance(key)], strict=False))
        rows.append({**row, **retention(right, reference, readouts.chance(key), settings), "untrained": None if reference is None else float(reference.mean())})
    return [{name: tidy(row[name]) for name in LEDGER} for row in rows]


def retention(right, reference, chance, settings):
    """How much of what the untrained encoder shows of a factor is there after training, with interval and verdict."""
    blank = {"retention": None, "retention_low": None, "retention_high": None, "verdict": "unclear"}
    if reference is None:
        return {**blank, "verdict": "", "note": "no untrained run with this encoder" if len(right) > 1 else "not trained"}
    if len(right) < 2:
        return {**blank, "note": "one replicate: no interval over seeds"}
    room = reference.mean() - chance
    base = estimate(reference, settings["confidence"], paired=False)
    if room < settings["room"] or base.low <= chance:
        return {**blank, "note": "the untrained encoder is near chance"}
    ratio = float((right.mean() - chance) / room)
    # the delta method for a ratio: the error of (right - ratio * reference), paired, over the denominator
    error = estimate(right - ratio * reference, settings["confidence"], paired=True)
    half = (error.high - error.low) / 2 / room
    low, high = ratio - half, ratio + half
    verdict = ("gained" if low > settings["gained"] else "kept" if low > settings["kept"] else "erased" if high < settings["erased"]
               else "partly" if low > settings["erased"] and high < settings["kept"] else "unclear")
    return {"retention": ratio, "retention_low": low, "retention_high": high, "verdict": verdict, "note": ""}


def judge_claim(claim, readouts, settings, main_factor):
    """{verdict, effect, low, high, seeds, differs, confounded, reason} of one claim of params.yaml."""
    def side(entry):
        factor = main_factor if entry["factor"] == "main" else entry["factor"]
        return entry["run"], entry["space"], factor, entry["probe"]

    blank = {"verdict": "not applicable", "effect": None, "low": None, "high": None, "seeds": None, "differs": "", "confounded": False}
    if claim["left"]["probe"] == "spread":
        return {**blank, **judge_spread(claim, readouts.spread.get(claim["left"]["run"]), settings)}
    left = side(claim["left"])
    keys = [left, *([side(claim["right"])] if isinstance(claim["right"], dict) else [])]
    for key in keys:
        if key not in readouts.right:
            return {**blank, "reason": f"there is no readout {'.'.join(key)} here"}
    values = readouts.right[left].astype(float)
    if len(keys) == 2:
        found = estimate(values - readouts.right[keys[1]], settings["confidence"], paired=True)
        differs = differences(readouts.plans.get(keys[0][0]), readouts.plans.get(keys[1][0]))
    else:
        number = readouts.chance(left) if claim["right"] == "chance" else claim["right"]
        found = estimate(values, settings["confidence"], paired=False)
        found = found._replace(mean=found.mean - number, low=shift(found.low, -number), high=shift(found.high, -number))
        differs = []
    unexpected = [name for name in differs if name not in claim["allow"]]
    result = {**blank, "effect": tidy(found.mean), "low": tidy(found.low), "high": tidy(found.high), "seeds": len(values),
              "differs": ", ".join(differs), "confounded": len(unexpected) > 1, "reason": ""}
    collapsed = [key for key in keys if key[1] != "pixels" and readouts.rank(key[0], key[1]) < settings["collapse_rank"]]
    if collapsed:
        return {**result, "verdict": "not testable", "reason": f"{collapsed[0][1]} of {collapsed[0][0]} has collapsed"}
    if found.low is None:
        return {**result, "verdict": "unclear", "reason": "one replicate: no interval over seeds"}
    if len(keys) == 2 and all(estimate(readouts.right[key], settings["confidence"], paired=False, seeded=len(readouts.right[key]) > 1).high >= 1 for key in keys):
        return {**result, "verdict": "not testable", "reason": "both sides are at the ceiling of 1"}
    return {**result, **hold(claim, found)}


def judge_spread(claim, spreads, settings):
    """A claim on the spread of z after the last epoch (1: its unit rows point everywhere alike, 0: all one way) against a number, over seeds."""
    if spreads is None:
        return {"reason": f"there is no run {claim['left']['run']} here"}
    found = of_seeds([spread - claim["right"] for spread in spreads], settings["confidence"])
    result = {"effect": tidy(found.mean), "low": tidy(found.low), "high": tidy(found.high), "seeds": len(spreads), "reason": ""}
    if found.low is None:
        return {**result, "verdict": "unclear", "reason": "one replicate: no interval over seeds"}
    return {**result, **hold(claim, found)}


def hold(claim, found):
    """{verdict, reason}: an interval of left - right against what the claim's word and margin allow."""
    low, high = TRUE_WITHIN[claim["is"]](claim["margin"])
    if low < found.low and found.high < high:
        return {"verdict": "supported", "reason": ""}
    if found.high <= low or high <= found.low:
        return {"verdict": "refuted", "reason": ""}
    return {"verdict": "unclear", "reason": "the interval crosses the margin"}


def differences(left, right):
    """Names of the settings in which two plans differ. A setting that only one objective reads comes with the objective, so it does not count beside it."""
    if left is None or right is None:
        return []
    left, right = flat(left), flat(right)
    names = [name for name in {**left, **right} if left.get(name) != right.get(name)]
    if "objective" in names:
        names = [name for name in names if name in left and name in right]
    return sorted(names)


def flat(tree, prefix=""):
    """{a: {b: 1}} -> {"a.b": 1}"""
    leaves = {}
    for name, value in tree.items():
        leaves |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return leaves


def headline(readouts, runs, factors):
    """At most six numbers a run: kNN accuracy of the main and the second factor from h and z, effective rank of z, final loss."""
    numbers = {}
    for name in runs:
        cells = {f"{space}_{factor}": readouts.right.get((name, space, factor, "knn")) for space in ("h", "z") for factor in factors}
        numbers[name] = {cell: tidy(float(right.mean())) for cell, right in cells.items() if right is not None}
        numbers[name]["z_rank"] = tidy(readouts.rank(name, "z"))
        if readouts.loss[name] is not None:
            numbers[name]["loss"] = tidy(readouts.loss[name])
    return numbers


def summary(readouts):
    """run > space > factor > probe > metric, means over seeds, on test; what belongs to no factor stands under `all`."""
    tree = {}
    for (name, space, factor, probe), metrics in readouts.values.items():
        tree.setdefault(name, {}).setdefault(space, {}).setdefault(factor or "all", {})[probe] = {m: tidy(v) for m, v in metrics.items()}
    return tree


def tidy(value):
    """Six decimals are far finer than any interval here, and read better."""
    return round(value, 6) + 0.0 if isinstance(value, float) else value


def shift(value, by):
    return None if value is None else value + by


def clip(value):
    return None if value is None else min(1.0, max(0.0, value))


def main(params, probe, correct, curves, plans, headline_json, summary_json, ledger_csv, claims_json):
    settings, runs, claims = (read_params(params, key) for key in ("judge", "runs", "claims"))
    entry = read_params(params, "datasets", read_params(params, "dataset"))
    factors = list(dict.fromkeys([entry["main_factor"], entry["second_factor"]]))
    readouts = Readouts(list(runs), Path(probe), Path(correct), Path(curves), Path(plans))
    verdicts = {name: {"text": claim["text"].replace("{main}", factors[0]), **judge_claim(claim, readouts, settings, factors[0])}
                for name, claim in claims.items()}
    write_json(headline_json, headline(readouts, runs, factors))
    write_json(summary_json, summary(readouts))
    write_table(ledger_csv, ledger(readouts, settings), LEDGER)
    write_json(claims_json, verdicts)
    width = max(map(len, verdicts), default=0)
    for name, verdict in verdicts.items():
        effect = "" if verdict["low"] is None else f"  {verdict['effect']:+.3f} [{verdict['low']:+.3f}, {verdict['high']:+.3f}]"
        print(f"  {name:{width}}  {verdict['verdict']:14}{effect}{'  confounded' if verdict['confounded'] else ''}")
    supported = sum(verdict["verdict"] == "supported" for verdict in verdicts.values())
    print(f"{claims_json}: {supported} of {len(verdicts)} claims supported")


if __name__ == "__main__":
    run(main)
