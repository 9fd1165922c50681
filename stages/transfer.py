"""Transfer: the frozen encoder of a run -> h and z of another data set, read out there beside those of an untrained encoder.

kNN and linear probes as in stages/probe.py, for every factor that is a class, fitted, chosen and read on the splits of that
data set; intervals over seeds and test images together, of `gain` (trained minus untrained) on paired differences. Data of
another size than the encoder was trained on are not applicable: an empty table.
"""
import numpy as np

from stages.lib.checks import load_factors, load_images, load_split
from stages.lib.encoder import apply, load_network
from stages.lib.factors import classes_of
from stages.lib.intervals import estimate
from stages.lib.neighbors import nearest, vote
from stages.lib.readouts import linear, standardizer
from stages.lib.stage import run
from stages.lib.tables import read_params, write_table
from stages.lib.workers import over_seeds, tick

COLUMNS = ["transfer", "run", "trained_on", "dataset", "space", "factor", "probe", "mean", "low", "high", "n", "seeds", "chance",
           "untrained", "gain", "gain_low", "gain_high"]


def read_out(features, parts, classes, settings):
    """{(factor, probe): bool [T], right or wrong}"""
    scale = standardizer(features[parts["train"]])
    scaled = {part: scale(features[rows]) for part, rows in parts.items()}
    found = nearest(features[parts["test"]], features[parts["train"]], min(settings["k"], len(parts["train"])))
    right = {}
    for factor, labels in classes.items():
        known = {part: labels[rows] for part, rows in parts.items()}
        right[factor, "knn"] = vote(*found, known["train"], labels.max() + 1) == known["test"]
        predict, _ = linear(scaled["train"], known["train"], scaled["val"], known["val"], settings["C"], settings["max_iter"])
        right[factor, "linear"] = predict(scaled["test"]) == known["test"]
    return right


def compare(trained, untrained, confidence):
    """Mean and interval of `trained` [R, T], mean of `untrained`, and gain with its interval; None for intervals that one seed cannot give."""
    own, gain = estimate(trained, confidence, paired=False), estimate(trained.astype(float) - untrained, confidence, paired=True)
    return {"mean": own.mean, "low": own.low, "high": own.high, "n": trained.shape[1], "seeds": len(trained),
            "untrained": float(untrained.mean()), "gain": gain.mean, "gain_low": gain.low, "gain_high": gain.high}


def main(params, name, dataset, images, factors, split, models, floor, table):
    entry, settings, batch_size, confidence, first, replicates = (
        read_params(params, *keys) for keys in (["transfers", name], ["probe"], ["extract", "batch_size"], ["judge", "confidence"], ["seed"], ["replicates"]))
    pixels = load_images(images)
    parts = load_split(split, len(pixels))
    classes = {factor: labels for factor, labels in classes_of(load_factors(factors, len(pixels))).items() if len(set(labels[parts["train"]])) > 1}
    folders = {"trained": models, "untrained": floor}

    def work(job):
        seed, which = job
        network = load_network(f"{folders[which]}/{seed}.safetensors")
        if network.side != pixels.shape[-1]:
            return network.side
        spaces = apply(network, pixels, batch_size, report=lambda rows: tick(rows, seed=seed))
        return {(space, *key): right for space, values in zip(("h", "z"), spaces, strict=True)
                for key, right in read_out(values, parts, classes, settings).items()}

    seeds = [first + replicate for replicate in range(replicates)]
    jobs = [(seed, which) for which in folders for seed in seeds]
    results = dict(zip(jobs, over_seeds(work, jobs, len(pixels), f"transfer {name}"), strict=True))
    side = results[jobs[0]]
    if isinstance(side, int):
        write_table(table, [], COLUMNS)
        print(f"{table}: not applicable, {entry['run']} was trained on {side} pixels, {images} has {pixels.shape[-1]}; give both data sets the same size")
        return
    rows = []
    for space, factor, probe in results[jobs[0]]:
        both = {which: np.stack([results[seed, which][space, factor, probe] for seed in seeds]) for which in folders}
        labels = classes[factor]
        chance = float((labels[parts["test"]] == np.bincount(labels[parts["train"]]).argmax()).mean())
        rows.append({"transfer": name, "run": entry["run"], "trained_on": dataset, "dataset": entry["to"], "space": space, "factor": factor,
                     "probe": probe, "chance": chance, **compare(both["trained"], both["untrained"], confidence)})
    write_table(table, rows, COLUMNS)
    print(f"{table}: {entry['run']} trained on {dataset}, read out on {entry['to']}: kNN on h "
          + ", ".join(f"{row['factor']} {row['mean']:.3f} (untrained {row['untrained']:.3f})" for row in rows if (row["space"], row["probe"]) == ("h", "knn")))


if __name__ == "__main__":
    run(main)
