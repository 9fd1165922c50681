"""Finetune: a run's encoder and few labels -> its accuracy on the main factor when all of it is trained, within a fixed budget.

A linear layer from zero is put on h; both are trained by cross-entropy on `labels` train images, the classes in turn, for
`steps` steps of AdamW. Labels and batches depend on the seed alone, so they are the same for every run; the run of the
untrained objective is the floor. lr is the one with the best val accuracy (the smallest of equals).
"""
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from stages.lib.adamw import AdamW
from stages.lib.checks import load_factors, load_images, load_split
from stages.lib.encoder import load_network
from stages.lib.factors import classes_of
from stages.lib.stage import run
from stages.lib.tables import TIDY, read_params, replacing, write_table
from stages.lib.together import take_gpu
from stages.lib.workers import over_seeds, tick


def labeled(train, labels, count, seed):
    """`count` of the rows `train` (all, if there are fewer), classes in turn as long as they last, in random order within each; int [.]."""
    order = np.random.default_rng([seed, 0]).permutation(train)
    turns = np.empty(len(order), dtype=int)
    for one in np.unique(labels[order]):
        members = labels[order] == one
        turns[members] = np.arange(members.sum())
    return order[np.argsort(turns, kind="stable")][:count]


def batch_of(rows, size, step, seed):
    """The rows of one step: `size` of them (all, if there are fewer) at random without repeats."""
    return np.random.default_rng([seed, 1, step]).permutation(rows)[:size]


def train(path, images, labels, rows, lr, settings, seed, device):
    """Encoder and a new linear layer, trained; labels int [N]; rows: those that may be used."""
    network = load_network(path).encoder.requires_grad_(True).to(device)
    width = network(images[rows[:1]].to(device).float() / 255).shape[1]
    last = nn.Linear(width, int(labels.max()) + 1).to(device)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    model = nn.Sequential(network, last).train()
    optimizer = AdamW(model.parameters(), lr=lr, weight_decay=0.0, fused=True)
    for step in range(settings["steps"]):
        batch = np.sort(batch_of(rows, settings["batch_size"], step, seed))
        loss = F.cross_entropy(model(images[batch].to(device).float() / 255), labels[batch].to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        tick(seed=seed)
    return model.eval()


@torch.inference_mode()
def predict(model, images, rows, device):
    """int [len(rows)]"""
    return np.concatenate([model(images[part].to(device).float() / 255).argmax(dim=1).cpu().numpy() for part in np.array_split(rows, -(-len(rows) // 1024))])


def main(params, dataset, images, factors, split, run_name, models, table, correct):
    settings, device, first, replicates = (read_params(params, key) for key in ("finetune", "device", "seed", "replicates"))
    factor = read_params(params, "datasets", dataset, "main_factor")
    pixels = load_images(images)
    classes, parts = classes_of(load_factors(factors, len(pixels))), load_split(split, len(pixels))
    labels = classes.get(factor)
    seeds = [first + replicate for replicate in range(replicates)]

    def work(seed):
        if device == "cuda":
            take_gpu(seed - first)
        source, targets = torch.from_numpy(np.array(pixels)), torch.from_numpy(labels)
        rows = labeled(parts["train"], labels, settings["labels"], seed)
        best = None
        for lr in settings["lr"]:
            model = train(f"{models}/{seed}.safetensors", source, targets, rows, lr, settings, seed, device)
            score = float((predict(model, source, parts["val"], device) == labels[parts["val"]]).mean())
            if best is None or score > best[0]:
                best = score, lr, predict(model, source, parts["test"], device) == labels[parts["test"]]
        return *best, len(rows)

    tidy, right = [], {}
    if labels is None:  # the main factor is a number, or does not vary
        tidy.append({"run": run_name, "seed": first, "space": "h", "factor": factor, "probe": "finetune", "slice": "all",
                     "metric": "accuracy", "value": None, "n": 0, "note": "the main factor is no class that varies"})
    else:
        results = over_seeds(work, seeds, len(settings["lr"]) * settings["steps"], f"finetune {run_name}")
        majority = float((labels[parts["test"]] == np.bincount(labels[parts["train"]]).argmax()).mean())
        for seed, (score, lr, hits, count) in zip(seeds, results, strict=True):
            values = {"accuracy": float(hits.mean()), "majority": majority, "val_accuracy": score, "lr": lr, "labels": count, "steps": settings["steps"]}
            tidy += [{"run": run_name, "seed": seed, "space": "h", "factor": factor, "probe": "finetune", "slice": "all",
                      "metric": metric, "value": value, "n": len(hits), "note": ""} for metric, value in values.items()]
        right[f"h/{factor}/finetune"] = np.stack([hits for _, _, hits, _ in results])
    write_table(table, tidy, TIDY)
    with replacing(correct, "wb") as file:
        np.savez(file, **right)
    print(f"{table}: " + (f"accuracy {np.mean(list(right.values())):.3f} on {factor} from {settings['labels']} labels" if right else tidy[0]["note"]))


if __name__ == "__main__":
    run(main)
