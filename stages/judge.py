"""Judge: the tables of all runs -> headline, summary, ledger of factors, collapse, and a verdict on each claim, with intervals.

Retention of a factor: r = (accuracy - chance) / (accuracy of the untrained encoder - chance), chance being the share of
the most frequent train class among the test images; for a number R2 in place of accuracy, and chance 0. A claim holds a
difference (left - right) against a margin; the claims are tested together, by Holm's correction.
"""
import math
from collections import defaultdict

import numpy as np

from stages.lib.checks import load_archive, load_numbers, refuse
from stages.lib.intervals import estimate, holm, of_seeds, p_values
from stages.lib.stage import Refused, run
from stages.lib.tables import TIDY, read_json, read_params, write_json, write_table

LEDGER = ["run", "space", "factor", "probe", "mean", "low", "high", "n", "seeds", "chance", "untrained", "val",
          "retention", "retention_low", "retention_high", "verdict", "note"]
COLLAPSE = ["effective_rank", "rank_me", "used", "dimensions", "std", "spread"]
# what a claim allows of left - right, by its word, for a margin m: the open interval in which it is true
TRUE_WITHIN = {"above": lambda m: (m, math.inf), "below": lambda m: (-math.inf, -m), "near": lambda m: (-m, m),
               "not above": lambda m: (-math.inf, m), "not below": lambda m: (-m, math.inf)}


class Readouts:
    """All readouts: `right[run, space, factor, probe]` [R, T] (bool; for ridge float, of mean R2), `values[...]` {metric: mean over
    seeds} on all test images, `by_seed[...]` {metric: [of each seed]} of what belongs to no factor, `loss[run]`, `plans[run]`."""

    def __init__(self, runs, paths):
        self.right, self.values, self.by_seed, self.loss, self.spread = {}, defaultdict(dict), defaultdict(dict), {}, {}
        self.plans = {name: read_json(f"{paths['plans']}/{name}.json") for name in runs}
        for name in ["pixels", *runs]:
            for table, right in (("probe", "correct"), ("geometry", None), ("finetune", "tuned")):
                if name == "pixels" and table != "probe":
                    continue
                self.read_values(name, f"{paths[table]}/{name}.csv")
                if right:
                    found = {(name, *key): values for key, values in load_right(f"{paths[right]}/{name}.npz").items()}
                    self.agree(found, f"{paths[table]}/{name}.csv", f"{paths[right]}/{name}.npz")
                    self.right |= found
        for name in runs:
            rows = load_numbers(f"{paths['curves']}/{name}.csv", ["seed"], ["epoch", "loss", "z_spread"])
            self.planned(name, rows, f"{paths['curves']}/{name}.csv")
            last = [row for row in rows if row["epoch"] == rows[-1]["epoch"]]
            losses = [float(row["loss"]) for row in last if row["loss"]]
            self.spread[name] = [float(row["z_spread"]) for row in last]
            self.loss[name] = float(np.mean(losses)) if losses else None

    def read_values(self, name, path):
        cells = defaultdict(list)
        for row in load_numbers(path, [column for column in TIDY if column != "value"], ["value"]):
            if row["run"] != name:
                raise Refused(f"{path}: holds run {row['run']}, not {name}; rerun the stage that wrote it")
            if row["slice"] == "all":
                cells[name, row["space"], row["factor"], row["probe"], row["metric"]].append(row["value"])
        for (*key, metric), found in cells.items():
            self.values[tuple(key)][metric] = None if "" in found else float(np.mean([float(value) for value in found]))
            if not key[2] and "" not in found:
                self.by_seed[tuple(key)][metric] = [float(value) for value in found]

    def agree(self, found, table, archive):
        """Refuse a table and an archive that do not come from the same readout: the scores of one are the means of the other."""
        for key, right in found.items():
            score = self.values[key].get("r2" if key[3] == "ridge" else "accuracy")
            if score is None or abs(score - right.mean()) > 1e-9:
                refuse(table, f"its score of {'.'.join(key[1:])} is not that of {archive}")

    def planned(self, name, rows, path):
        """Refuse the curve of another plan: other seeds, or another number of epochs."""
        plan = self.plans[name]
        seeds = [str(plan["seed"] + replicate) for replicate in range(plan["replicates"])]
        last = plan.get("pretrain", {"epochs": 0})["epochs"]
        if [(row["seed"], row["epoch"]) for row in rows] != [(seed, str(epoch)) for seed in seeds for epoch in range(last + 1)]:
            refuse(path, f"does not hold the epochs 0 to {last} of the seeds {seeds[0]} to {seeds[-1]}")

    def chance(self, key):
        return 0.0 if key[3] == "ridge" else self.values[key]["majority"]

    def collapse(self, name, space, settings):
        """(untrained, none, dimensional or complete; {metric: value}) of a space of a run."""
        values = self.values[name, space, "", "collapse"]
        verdict = ("untrained" if self.plans[name]["objective"] == "untrained"  # little spread is where training starts, not what it did
                   else "complete" if complete(values["effective_rank"], values["spread"], settings)
                   else "dimensional" if values["used"] < settings["collapse_share"] * values["dimensions"] else "none")
        return verdict, values

    def collapsed_seeds(self, name, space, settings):
        """In how many seeds of a trained run a space has collapsed completely, each by itself: a mean over seeds may hide one."""
        found = self.by_seed[name, space, "", "collapse"]
        return sum(complete(rank, spread, settings) for rank, spread in zip(found["effective_rank"], found["spread"], strict=True))

    def floor(self, name):
        """The untrained run with the same encoder and seeds as run `name`, or None."""
        if name == "pixels":
            return None
        same = [other for other, plan in self.plans.items() if plan["objective"] == "untrained"
                and all(plan[key] == self.plans[name][key] for key in ("encoder", "seed", "replicates"))]
        return same[0] if same else None


def complete(rank, spread, settings):
    """Whether rows of this effective rank and this spread are all but equal."""
    return rank < settings["collapse_rank"] or spread < settings["collapse_spread"]


def load_right(path):
    """{(space, factor, probe): [R, T]} of one run; a factor's name may hold a slash."""
    found = load_archive(path)
    if any(name.count("/") < 2 or right.ndim != 2 for name, right in found.items()) or len({right.shape for right in found.values()}) > 2:
        refuse(path, "does not hold arrays [seeds, test images] by space, factor and probe")
    return {(*name.split("/", 1)[:1], *name.split("/", 1)[1].rsplit("/", 1)): right for name, right in found.items()}


def collapse_table(readouts, settings):
    """One row for h and z of each run: how many dimensions it uses, and whether it has collapsed."""
    rows = []
    for name in readouts.plans:
        for space in ("h", "z"):
            verdict, values = readouts.collapse(name, space, settings)
            rows.append({"run": name, "space": space, **{metric: tidy(values[metric]) for metric in COLLAPSE}, "verdict": verdict,
                         "collapsed_seeds": None if verdict == "untrained" else readouts.collapsed_seeds(name, space, settings),
                         "seeds": readouts.plans[name]["replicates"]})
    return rows


def ledger(readouts, settings):
    """One row for each run, space, factor and probe."""
    rows = []
    for key, right in readouts.right.items():
        found = estimate(right, settings["confidence"], paired=False, seeded=key[0] != "pixels")
        floor = readouts.floor(key[0])
        reference = readouts.right.get((floor, *key[1:]))
        low = found.low if key[3] == "ridge" else clip(found.low)
        row = dict(zip(LEDGER, [*key, found.mean, low, clip(found.high), right.shape[1], len(right), readouts.chance(key)], strict=False))
        val = readouts.values[key].get("val_r2" if key[3] == "ridge" else "val_accuracy")
        row |= retention(right, reference, readouts.chance(key), settings)
        if key[0] != "pixels" and key[3] != "finetune" and readouts.collapse(key[0], key[1], settings)[0] == "complete":
            row["note"] = "; ".join(filter(None, [row["note"], f"{key[1]} has collapsed"]))
        rows.append({**row, "untrained": None if reference is None else float(reference.mean()), "val": val})
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


def judge_claims(claims, readouts, settings, main_factor):
    """{name: {verdict, effect, low, high, p, p_holm, seeds, differs, confounded, reason}}; interval and p of each claim by itself,
    the verdict by p_holm, which counts all claims that could be tested."""
    found = {name: test_claim(claim, readouts, settings, main_factor) for name, claim in claims.items()}
    tested = [result for result in found.values() if result["p"] is not None]
    for result, p in zip(tested, holm([result["p"] for result in tested]), strict=True):
        result["p_holm"] = tidy(p)
        if result["p"] >= 1 - settings["confidence"]:
            result |= {"verdict": "unclear", "reason": "the interval crosses the margin"}
        elif p >= 1 - settings["confidence"]:
            result |= {"verdict": "unclear", "reason": f"within the noise once all {len(tested)} claims are counted (Holm)"}
        result["p"] = tidy(result["p"])
    return found


def test_claim(claim, readouts, settings, main_factor):
    """One claim of params.yaml by itself: p is None where nothing can be tested, and the reason says why; otherwise the verdict is the
    side, supported or refuted, that p speaks for."""
    def side(entry):
        factor = main_factor if entry["factor"] == "main" else entry["factor"]
        return entry["run"], entry["space"], factor, entry["probe"]

    blank = {"verdict": "not applicable", "effect": None, "low": None, "high": None, "p": None, "p_holm": None, "seeds": None,
             "differs": "", "confounded": False}
    if claim["left"]["probe"] == "spread":
        return {**blank, **test_spread(claim, readouts.spread.get(claim["left"]["run"]), settings)}
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
    collapsed = [key for key in keys if key[1] != "pixels" and readouts.collapse(key[0], key[1], settings)[0] == "complete"]
    if collapsed:
        return {**result, "verdict": "not testable", "reason": f"{collapsed[0][1]} of {collapsed[0][0]} has collapsed"}
    if found.low is None:
        return {**result, "verdict": "unclear", "reason": "one replicate: no interval over seeds"}
    if len(keys) == 2 and all(at_ceiling(readouts.right[key], settings["confidence"]) for key in keys):
        return {**result, "verdict": "not testable", "reason": "both sides are at the ceiling of 1"}
    return {**result, **side_of(claim, found)}


def test_spread(claim, spreads, settings):
    """A claim on the spread of z after the last epoch (1: its unit rows point everywhere alike, 0: all one way) against a number, over seeds."""
    if spreads is None:
        return {"reason": f"there is no run {claim['left']['run']} here"}
    found = of_seeds([spread - claim["right"] for spread in spreads], settings["confidence"])
    result = {"effect": tidy(found.mean), "low": tidy(found.low), "high": tidy(found.high), "seeds": len(spreads), "reason": ""}
    if found.low is None:
        return {**result, "verdict": "unclear", "reason": "one replicate: no interval over seeds"}
    return {**result, **side_of(claim, found)}


def side_of(claim, found):
    """{p, verdict}: the side of what the claim's word and margin allow that an estimate of left - right speaks for."""
    inside, outside = p_values(found, *TRUE_WITHIN[claim["is"]](claim["margin"]))
    return {"p": min(inside, outside), "verdict": "supported" if inside < outside else "refuted"}


def at_ceiling(right, confidence):
    """Whether the interval of [R, T] reaches 1."""
    return estimate(right, confidence, paired=False, seeded=len(right) > 1).high >= 1


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
        numbers[name]["z_rank"] = tidy(readouts.values[name, "z", "", "collapse"]["effective_rank"])
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


def main(params, probe, correct, geometry, finetune, tuned, curves, plans, headline_json, summary_json, ledger_csv, collapse_csv, claims_json):
    settings, runs, claims = (read_params(params, key) for key in ("judge", "runs", "claims"))
    entry = read_params(params, "datasets", read_params(params, "dataset"))
    factors = list(dict.fromkeys([entry["main_factor"], entry["second_factor"]]))
    readouts = Readouts(list(runs), {"probe": probe, "correct": correct, "geometry": geometry, "finetune": finetune, "tuned": tuned,
                                     "curves": curves, "plans": plans})
    verdicts = {name: {"text": claims[name]["text"].replace("{main}", factors[0]), **verdict}
                for name, verdict in judge_claims(claims, readouts, settings, factors[0]).items()}
    write_json(headline_json, headline(readouts, runs, factors))
    write_json(summary_json, summary(readouts))
    write_table(ledger_csv, ledger(readouts, settings), LEDGER)
    write_table(collapse_csv, collapse_table(readouts, settings), ["run", "space", *COLLAPSE, "verdict", "collapsed_seeds", "seeds"])
    write_json(claims_json, verdicts)
    width = max(map(len, verdicts), default=0)
    for name, verdict in verdicts.items():
        effect = "" if verdict["low"] is None else f"  {verdict['effect']:+.3f} [{verdict['low']:+.3f}, {verdict['high']:+.3f}]"
        print(f"  {name:{width}}  {verdict['verdict']:14}{effect}{'  confounded' if verdict['confounded'] else ''}")
    supported = sum(verdict["verdict"] == "supported" for verdict in verdicts.values())
    print(f"{claims_json}: {supported} of {len(verdicts)} claims supported")


if __name__ == "__main__":
    run(main)
