"""Panels of training: loss curves with their reference, dimensions in use, age of the keys, who counts as the same."""
from stages.lib.charts import line_chart, mean_by
from stages.lib.panels.answer import collapsed, lost_seeds, trained

RESNET = {"resnet18": 512, "resnet50": 2048}  # width of h, which is their own


def by_seed(rows, key, value):
    """[[(number, value)]]: one line a seed, of rows (dicts of strings) that have the value."""
    lines = {}
    for row in rows:
        if row.get(value, "") != "":
            lines.setdefault(row["seed"], []).append((float(row[key]), float(row[value])))
    return list(lines.values())


def seeds_and_mean(rows, value):
    return [*({"points": line, "kind": "seed"} for line in by_seed(rows, "epoch", value)), {"points": mean_by(rows, "epoch", value), "kind": "mean"}]


def curves(given):
    """Loss by epoch of each trained run, seeds thin and their mean thick, with that of a network that tells nothing apart."""
    charts = []
    for name in trained(given):
        rows = given["curves"][name]
        reference = mean_by(rows, "epoch", "reference")
        chart = line_chart([{"points": reference, "kind": "reference"}, *seeds_and_mean(rows, "loss")])
        if chart:
            last = mean_by(rows, "epoch", "loss")[-1][1]
            charts.append({"run": name, "chart": chart, "last": last, "reference": reference[-1][1] if reference else None})
    return {"charts": charts} if charts else None


def ranks(given):
    """Effective rank of z by epoch against the number of dimensions there are, and its spread: 1 where its unit rows point everywhere alike."""
    charts = []
    for name in trained(given):
        encoder = given["plans"][name]["encoder"]
        size = encoder["z"] if encoder["head"] != "none" else encoder.get("h") or RESNET[encoder["name"]]
        rows = given["curves"][name]
        points = mean_by(rows, "epoch", "z_rank")
        if points:
            chart = line_chart([{"points": [(points[0][0], size), (points[-1][0], size)], "kind": "reference"}, *seeds_and_mean(rows, "z_rank")], include=[0])
            spread = line_chart(seeds_and_mean(rows, "z_spread"), include=[0, 1])
            charts.append({"run": name, "chart": chart, "last": points[-1][1], "size": size, "collapsed": "z" in collapsed(given, name),
                           "lost_seeds": lost_seeds(given, name, ("z",)),
                           "spread": spread, "last_spread": mean_by(rows, "epoch", "z_spread")[-1][1]})
    return {"charts": charts} if charts else None


def staleness(given):
    """Cosine between a stored key and the same view encoded today, by age in steps: after the first, the middle and the last epoch."""
    charts = []
    for name in trained(given):
        rows = given["staleness"][name]
        epochs = sorted({int(row["epoch"]) for row in rows})
        if not epochs:
            continue
        chosen = list(dict.fromkeys([epochs[0], epochs[len(epochs) // 2], epochs[-1]]))
        lines = [{"points": mean_by([row for row in rows if int(row["epoch"]) == epoch], "age_steps", "cosine"), "kind": f"step{place}", "label": str(epoch)}
                 for place, epoch in enumerate(chosen)]
        oldest = lines[-1]["points"][-1]
        moco = given["plans"][name].get("moco", {})
        charts.append({"run": name, "chart": line_chart(lines, include=[0.9, 1]), "epochs": chosen, "age": oldest[0], "cosine": oldest[1],
                       "momentum": moco.get("key_momentum"), "queue": moco.get("queue")})
    return {"charts": charts} if charts else None


def relations(given):
    """For each relation and factor: the share of wrong positives and of false negatives, mean over seeds where it was mined."""
    found = []
    for name, report in given["relations"].items():
        seeds, lines = list(report["seeds"].values()), []
        for factor in seeds[0]["factors"]:
            scores = [seed["factors"][factor] for seed in seeds]
            lines.append({"factor": factor, **{key: mean([score[key] for score in scores]) for key in ("wrong_positives", "false_negatives")}})
        found.append({"name": name, "kind": report["kind"], "runs": [run for run in given["runs"] if given["runs"][run]["relation"] == name], "lines": lines})
    return {"relations": found} if any(relation["lines"] for relation in found) else None


KINDS = ["mean", "z", "reference"]  # styles of the positive and of two negatives


def explain(given):
    """The hand-worked numbers: probabilities and gradients against temperature, each example as a row, the queue, the key network's steps."""
    numbers, charts = given["explain"], []
    for order, choices in numbers["sweep"].items():
        for what in ("probabilities", "by_similarity"):
            lines = [{"points": [(choice["temperature"], abs(choice[what][place])) for choice in choices], "kind": KINDS[place]} for place in range(3)]
            charts.append({"order": order, "what": what, "similarities": choices[0]["similarities"],
                           "chart": line_chart(lines, include=[0], whole_x=False, log_x=True)})
    steps = [{**line, "chart": line_chart([{"points": [(0, 2), (len(line["places"]) - 1, 2)], "kind": "reference"},
                                           {"points": list(enumerate(place[0] for place in line["places"])), "kind": "mean"}], include=[0])}
             for line in numbers["key_momentum"]]
    return {"charts": charts, "choices": [choice for choices in numbers["choices"].values() for choice in choices], "queue": numbers["queue"], "steps": steps}


def mean(values):
    """Mean of the numbers among `values`, None where there is none."""
    values = [value for value in values if value is not None]
    return sum(values) / len(values) if values else None
