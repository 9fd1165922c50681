"""Probe: frozen features and factors -> readouts of one run, one tidy table; what each probe made of each test image is kept beside it.

Every probe is fitted on train rows, chosen on val rows and read on test rows, for every factor: a class by kNN (cosine, k
nearest train rows), linear (standardized by train, logistic regression), Recall@k and few-shot; a number by ridge regression.
kNN and linear are also read by slices of the test images, and again on interventions: `flips` is the share of test images
whose prediction changes, `accuracy` is held against the label before the change. Transformations are told apart by a
linear probe (SimCLR, table 3).
"""
import os
from pathlib import Path

import numpy as np

from stages.lib.checks import load_array, load_factors, load_features, load_images, load_split, same_number
from stages.lib.factors import classes_of, holds, numbers_of, slices_of
from stages.lib.neighbors import nearest, vote
from stages.lib.readouts import balanced_accuracy, few_shot, linear, r2_by_image, recall_at, ridge, share, standardizer
from stages.lib.stage import run
from stages.lib.tables import TIDY, read_params, replacing, write_table
from stages.lib.workers import over_seeds, tick


def cell(factor, probe, metric, value, n, slice_name="all", note=""):
    return {"factor": factor, "probe": probe, "slice": slice_name, "metric": metric, "value": value, "n": n, "note": note}


def class_probes(features, changed, parts, factors, settings):
    """{(factor, probe): ({split or intervention: predicted labels}, {metric: value})} for kNN and linear.

    changed: {intervention: features [T, D]}. The neighbors of a row serve all factors.
    """
    train, k = features[parts["train"]], min(settings["k"], len(parts["train"]))
    rows = {"val": features[parts["val"]], "test": features[parts["test"]], **changed}
    found = {name: nearest(queries, train, k) for name, queries in rows.items()}
    scale = standardizer(train)
    scaled = {name: scale(part) for name, part in {"train": train, **rows}.items()}
    probes = {}
    for factor, labels in factors.items():
        known = {part: labels[parts[part]] for part in parts}
        votes = {name: vote(*found[name], known["train"], labels.max() + 1) for name in rows}
        probes[factor, "knn"] = votes, {"k": k, "val_accuracy": share(votes["val"] == known["val"])}
        predict, metrics = linear(scaled["train"], known["train"], scaled["val"], known["val"], settings["C"], settings["max_iter"])
        probes[factor, "linear"] = {name: predict(scaled[name]) for name in rows}, metrics
    return probes


def class_rows(factor, probe, predicted, metrics, labels, parts, slices):
    """Rows of one probe of one factor: test, slices of test, interventions."""
    truth, made = labels[parts["test"]], predicted["test"]
    counts = np.bincount(labels[parts["train"]], minlength=labels.max() + 1)
    right = made == truth
    values = {"accuracy": share(right), "balanced_accuracy": balanced_accuracy(made, truth), "majority": share(truth == counts.argmax()), **metrics}
    rows = [cell(factor, probe, metric, value, len(truth)) for metric, value in values.items()]
    rarest = np.flatnonzero(counts)[counts[counts > 0].argmin()]
    for name, chosen in {**slices, "rarest": truth == rarest}.items():
        rows.append(cell(factor, probe, "accuracy", share(right[chosen]), int(chosen.sum()), name, "" if chosen.any() else "no test image in this slice"))
    for name in [name for name in predicted if name not in ("val", "test")]:
        rows.append(cell(factor, probe, "flips", share(predicted[name] != made), len(truth), f"intervention={name}"))
        rows.append(cell(factor, probe, "accuracy", share(predicted[name] == truth), len(truth), f"intervention={name}"))
    return rows, right


def read_classes(features, changed, parts, factors, slices, settings, seed):
    """(rows, {(factor, probe): bool [T]}) of every factor that is a class. slices: {name: bool [T]}, {factor: {name: bool [T]}}."""
    rows, kept = [], {}
    train, test = features[parts["train"]], features[parts["test"]]
    for (factor, probe), (predicted, metrics) in class_probes(features, changed, parts, factors, settings).items():
        labels = factors[factor]
        found, kept[factor, probe] = class_rows(factor, probe, predicted, metrics, labels, parts, {**slices[""], **slices[factor]})
        rows += found
        if probe == "linear":
            continue
        for k in settings["recall"]:
            values, n = recall_at(test, labels[parts["test"]], k)
            rows += [cell(factor, f"recall@{k}", name, value, n, note="" if n else "no class has two test images") for name, value in values.items()]
        for shots in settings["shots"]:
            values = few_shot(train, labels[parts["train"]], test, labels[parts["test"]], shots, settings["episodes"], seed)
            rows += [cell(factor, f"few_shot@{shots}", name, value, len(test)) for name, value in values.items()]
    return rows, kept


def read_numbers(features, parts, factors, settings):
    """(rows, {(factor, ridge): float [T], its mean is R2}) of every numeric factor."""
    if not factors:
        return [], {}
    scale = standardizer(features[parts["train"]])
    rows = {part: scale(features[parts[part]]) for part in parts}
    targets = {part: np.stack([numbers[parts[part]] for numbers in factors.values()], axis=1) for part in parts}
    predict, penalties, on_val = ridge(rows["train"], targets["train"], rows["val"], targets["val"], settings["penalties"])
    predicted, found, kept = predict(rows["test"]), [], {}
    for place, factor in enumerate(factors):
        scores = r2_by_image(targets["test"][:, place], predicted[:, place])
        if scores is None:
            found.append(cell(factor, "ridge", "r2", None, len(predicted), note="does not vary on test"))
            continue
        kept[factor, "ridge"] = scores
        values = {"r2": share(scores), "penalty": penalties[place], "val_r2": float(on_val[place]) if np.isfinite(on_val[place]) else None}
        found += [cell(factor, "ridge", metric, value, len(predicted)) for metric, value in values.items()]
    return found, kept


def read_transformations(features, folder, space, parts, settings, seed):
    """(rows, {(transformation, transformation): bool [T]}): which alternative, or none, was applied to an image; all equally often."""
    rows, kept = [], {}
    ids = load_array(f"{folder}/ids.npy", np.int64, [1])
    parts = {part: np.flatnonzero(np.isin(ids, members)) for part, members in parts.items()}
    for path in sorted(found.path for found in os.scandir(folder) if found.is_dir()):
        name, generator = os.path.basename(path), np.random.default_rng(seed)
        versions = [features[ids], *(load_features(f"{path}/{number}/{space}.npy", len(ids)) for number in range(1, len(os.listdir(path)) + 1))]
        labels = np.empty(len(ids), dtype=int)
        for members in parts.values():
            labels[members] = generator.permutation(np.resize(np.arange(len(versions)), len(members)))
        chosen = np.choose(labels[:, None], versions)
        scaled = standardizer(chosen[parts["train"]])(chosen)
        known = {part: labels[members] for part, members in parts.items()}
        predict, metrics = linear(scaled[parts["train"]], known["train"], scaled[parts["val"]], known["val"], settings["C"], settings["max_iter"])
        made = predict(scaled[parts["test"]])
        kept[name, "transformation"] = made == known["test"]
        values = {"accuracy": share(made == known["test"]), "majority": share(known["test"] == np.bincount(known["train"]).argmax()), **metrics}
        rows += [cell(name, "transformation", metric, value, len(made)) for metric, value in values.items()]
    return rows, kept


def slices_by_factor(rows, parts, classes, names, hold_out):
    """{"": slices of every factor, factor: those by its own classes}, each {name: bool [T]}."""
    test = [rows[row] for row in parts["test"]]
    common = {name: chosen[parts["test"]] for name, chosen in slices_of(rows, names).items()}
    held = holds(test, hold_out)
    if held.any() and not held.all():
        common |= {"held_out": held, "not_held_out": ~held}
    return {"": common, **{factor: {name: chosen[parts["test"]] for name, chosen in slices_of(rows, [factor]).items()} for factor in classes}}


def main(params, run_name, dataset, features, factors, split, table, correct):
    """`features` is a run's folder of features, or images.npy: then pixels are read out, once."""
    settings, first = (read_params(params, key) for key in ("probe", "seed"))
    parts = load_split(split, None)
    count = sum(map(len, parts.values()))
    rows = load_factors(factors, count)
    classes = {name: labels for name, labels in classes_of(rows).items() if len(set(labels[parts["train"]])) > 1}
    numbers = numbers_of(rows)
    slices = slices_by_factor(rows, parts, classes, settings["slices"], read_params(params, "datasets", dataset, "split", "hold_out"))
    pixels = features.endswith(".npy")
    spaces = ["pixels"] if pixels else ["h", "z"]
    seeds = [first + replicate for replicate in range(1 if pixels else read_params(params, "replicates"))]

    def work(job):
        seed, space = job
        path = features if pixels else f"{features}/{seed}/{space}.npy"
        values = load_images(path) if pixels else load_features(path, count)
        same_number(path, len(values), count)
        values = values.reshape(len(values), -1).astype(np.float32) / (255 if pixels else 1)
        changed = [] if pixels else sorted(Path(features, str(seed), "interventions").glob(f"*/{space}.npy"))
        changed = {path.parent.name: load_features(path, len(parts["test"])) for path in changed}
        found = [read_classes(values, changed, parts, classes, slices, settings, seed), read_numbers(values, parts, numbers, settings)]
        if not pixels:
            found.append(read_transformations(values, f"{features}/{seed}/transformations", space, parts, settings, seed))
        tick()
        return [row for part, _ in found for row in part], {key: kept for _, part in found for key, kept in part.items()}

    jobs = [(seed, space) for seed in seeds for space in spaces]
    results = dict(zip(jobs, over_seeds(work, jobs, 1, f"probe {run_name}"), strict=True))
    tidy = [{"run": run_name, "seed": seed, "space": space, **row} for (seed, space), (found, _) in results.items() for row in found]
    write_table(table, tidy, TIDY)
    keys = [(space, *key) for space in spaces for key in results[seeds[0], space][1]]
    with replacing(correct, "wb") as file:
        np.savez(file, **{"/".join(key): np.stack([results[seed, key[0]][1][key[1:]] for seed in seeds]) for key in keys})
    accuracy = {key: np.mean([results[seed, key[0]][1][key[1:]].mean() for seed in seeds]) for key in keys if key[2] == "knn"}
    print(f"{table}: {len(tidy)} rows; kNN accuracy " + ", ".join(f"{factor} from {space} {value:.3f}" for (space, factor, _), value in accuracy.items()))


if __name__ == "__main__":
    run(main)
