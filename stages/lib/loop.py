"""The training loop that every objective shares: seeds in parallel, batches, optimizer, curves, and what makes it stop."""
import math
import os

import numpy as np
import torch
from torch import nn

from stages.lib.encoder import save_network, start
from stages.lib.infonce import matched
from stages.lib.spectrum import effective_rank
from stages.lib.stage import Refused
from stages.lib.tables import read_json, read_table, write_table
from stages.lib.views import pair_of_views
from stages.lib.workers import over_seeds, tick


class Objective(nn.Module):
    """What an objective adds to a network: `forward` is its loss, `after_step` what it does once the optimizer has stepped.

    Its parameters that require a gradient are trained; all its parameters and buffers are its state.
    """

    def __init__(self, network, recipe):
        super().__init__()
        self.network, self.recipe = network, recipe

    def forward(self, views, groups):
        """views [2B, 3, S, S] (row i pairs with i + B), groups int64 [B] (the relation) ->
        (loss, z [2B, D], dict of further columns of the curve; `reference` is the loss of a network that cannot tell candidates apart)."""
        raise NotImplementedError

    def after_step(self, views, groups):
        pass


def pretrain(objective, plan, images, split, relation, models, curves):
    """Train one network per seed on the train images and write its weights and curve; `objective` is a class above."""
    recipe = read_json(plan)
    train = TrainImages(images, split, relation)
    seeds = [recipe["seed"] + replicate for replicate in range(recipe["replicates"])]
    if recipe["device"] == "cuda" and not torch.cuda.is_available():
        raise Refused("device: cuda was asked for, but PyTorch finds no CUDA device here; allowed here: cpu")
    settings = recipe.get("pretrain")  # none: the objective does not train
    steps = settings["epochs"] * len(batches(len(train), settings["batch_size"])) if settings else 0

    def work(seed):
        network, curve = train_one(objective, recipe, train, seed)
        save_network(f"{models}/{seed}.safetensors", network)
        return curve

    results = over_seeds(work, seeds, steps, f"pretrain {os.path.basename(curves)[:-4]}")
    rows = [row for curve in results for row in curve]
    write_table(curves, rows, list(dict.fromkeys(name for row in rows for name in row)))
    last = np.mean([curve[-1]["loss"] for curve in results]) if settings else None
    print(f"{models}: {len(seeds)} seeds, " + (f"mean final loss {last:.4f} nats" if settings else "untrained") + f"; {curves}")


class TrainImages:
    """The train images and their groups; reads no label and no other split."""

    def __init__(self, images, split, relation):
        self.images = np.load(images, mmap_mode="r")
        groups = np.load(relation)
        rows = read_table(split, ["id", "split"])
        if not len(rows) == len(self.images) == len(groups):
            raise Refused(f"{split} has {len(rows)} rows, {images} {len(self.images)} and {relation} {len(groups)}; they must agree")
        self.ids = np.array([int(row["id"]) for row in rows if row["split"] == "train"])
        self.groups = torch.from_numpy(groups)

    def __len__(self):
        return len(self.ids)

    def batch(self, ids):
        """uint8 [B, 3, S, S]"""
        return torch.from_numpy(self.images[ids])


def batches(count, size):
    """The slices of ceil(count / size) batches of nearly equal size, which together hold each of `count` rows once."""
    if size > count:
        raise Refused(f"pretrain.batch_size: {size} is larger than the {count} train images; allowed: 2 to {count}")
    edges = np.linspace(0, count, -(-count // size) + 1).round().astype(int)
    return [slice(first, last) for first, last in zip(edges[:-1], edges[1:], strict=True)]


def train_one(objective, recipe, train, seed):
    """(network, curve) of one seed; the curve has one row an epoch, epoch 0 being the start values."""
    settings = recipe.get("pretrain")
    device = torch.device(recipe["device"])
    network = start(recipe["encoder"], train.images.shape[-1], seed).to(device)
    learner = objective(network, recipe).to(device)
    watched = train.batch(train.ids[: recipe["watch"]]).to(device).float() / 255
    curve = [{"seed": seed, "epoch": 0, "loss": None, "reference": None, **health(network, watched)}]
    if not settings:
        return network, curve

    optimizer = torch.optim.AdamW(parameter_groups(learner, settings["weight_decay"]), lr=settings["lr"], fused=True)
    slices = batches(len(train), settings["batch_size"])
    total, step = settings["epochs"] * len(slices), 0
    for epoch in range(1, settings["epochs"] + 1):
        order = train.ids[np.random.default_rng([seed, epoch]).permutation(len(train))]
        network.train()
        logs = []
        for part in slices:
            lr = learning_rate(settings, step, total)
            for group in optimizer.param_groups:
                group["lr"] = lr
            ids = np.sort(order[part])
            views = pair_of_views(train.batch(ids).to(device), torch.from_numpy(ids).to(device), recipe["views"], seed, epoch)
            groups = train.groups[ids].to(device)
            loss, z, further = learner(views, groups)
            if not math.isfinite(loss.item()):
                raise Refused(f"the loss became {loss.item()} at seed {seed}, epoch {epoch}, step {step + 1}, lr {lr:g}; "
                              "no weights were written. Lower pretrain.lr, raise temperature, or look at the images")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            learner.after_step(views, groups)
            logs.append({"loss": loss.item(), **further, "matched": matched(z).item()})
            step += 1
            tick(seed=seed, loss=f"{loss.item():.3f}")
        means = {name: float(np.mean([log[name] for log in logs])) for name in logs[0]}
        curve.append({"seed": seed, "epoch": epoch, **means, "lr": lr, **health(network, watched)})
    return network, curve


def parameter_groups(learner, decay):
    """Weight decay on matrices and kernels only: biases, norms and scalars are exempt."""
    trained = [parameter for parameter in learner.parameters() if parameter.requires_grad]
    return [{"params": [p for p in trained if p.ndim > 1], "weight_decay": decay},
            {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0}]


def learning_rate(settings, step, total):
    """lr of a step (from 0): linear warm-up over `warmup` of all steps, then constant, or a half cosine to zero."""
    warmup = round(settings["warmup"] * total)
    if step < warmup:
        return settings["lr"] * (step + 1) / warmup
    if settings["schedule"] == "constant":
        return settings["lr"]
    return settings["lr"] * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))


@torch.inference_mode()
def health(network, images):
    """Mean standard deviation over the dimensions of z and its effective rank, on the same unaugmented images each epoch."""
    training = network.training
    z = network.eval()(images)[1].double().cpu().numpy()
    network.train(training)
    return {"z_std": float(z.std(axis=0).mean()), "z_rank": effective_rank(z)}
