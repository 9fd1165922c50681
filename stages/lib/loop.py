"""The training loop that every objective shares: seeds in parallel, batches, optimizer, curves, and what makes it stop."""
import contextlib
import math
import os

import numpy as np
import torch
from torch import nn

from stages.lib.adamw import AdamW
from stages.lib.checks import load_images, load_relation, load_split
from stages.lib.draws import Draws
from stages.lib.encoder import save_network, start
from stages.lib.infonce import matched, unit_rows
from stages.lib.resume import Saved, setting
from stages.lib.ring import STALENESS
from stages.lib.spectrum import effective_rank
from stages.lib.stage import Refused
from stages.lib.tables import read_json, write_table
from stages.lib.together import average, joined, rank, share, take_gpu, world
from stages.lib.views import pair_of_views, view
from stages.lib.workers import in_turn, over_seeds, tick


class Objective(nn.Module):
    """What an objective adds to a network: `forward` is its loss; the other methods are called where their names say.

    Its parameters that require a gradient are trained; all its parameters and buffers are its state. `source`: a Source.
    """

    def __init__(self, network, recipe, source):
        super().__init__()
        self.network, self.recipe, self.source = network, recipe, source

    def begin(self):
        """Before the first step."""

    def forward(self, views, ids):
        """views [2b, 3, S, S] (row i pairs with i + b) of this process's share of the images ids int64 [B], all of it where there is one
        process -> (loss of the batch, z [2B, D] of all its views, gathered; dict of further columns of the curve; `reference` is the
        loss of a network that tells nothing apart)."""
        raise NotImplementedError

    def after_step(self, ids, epoch):
        """After the optimizer has stepped on the images `ids`."""

    def staleness(self):
        """After each epoch: rows {age_steps, cosine, n} of the keys that are kept; none where no key is."""
        return []

    @staticmethod
    def notes(recipe, images, steps):
        """What a person should know about this recipe, `images` train images and `steps` steps, in lines."""
        return []


def pretrain(objective, plan, images, split, relation, models, curves, staleness, resume):
    """Train one network per seed on the train images and write its weights, its curve and the age of its keys; `objective` is a class above.

    resume: folder of saved states, from which a training that was broken off goes on; a finished one is there too.
    """
    recipe = read_json(plan)
    settings = recipe.get("pretrain")  # none: the objective does not train
    with joined(settings["processes"], recipe["device"]) if settings else contextlib.nullcontext():
        train = TrainImages(images, split, relation)
        seeds = [recipe["seed"] + replicate for replicate in range(recipe["replicates"])]
        if train.relation.ndim > 1 and len(train.relation) != len(seeds):
            raise Refused(f"{relation} was mined for {len(train.relation)} seeds, this run has {len(seeds)} replicates; rerun its mine stage")
        parts = batches(len(train), settings["batch_size"], settings["processes"]) if settings else []
        steps = settings["epochs"] * len(parts) if settings else 0
        common = setting(recipe, images) if settings else None

        def work(seed):
            if recipe["device"] == "cuda" and world() == 1:  # else `joined` has done so
                take_gpu(seed - recipe["seed"])
            saved = Saved(resume, common, seed, train.ids, train.relation_of(seed, recipe), recipe["resume"]["limit_mb"]) if settings else None
            network, curve, ages = train_one(objective, recipe, train, seed, saved)
            if rank() == 0:
                save_network(f"{models}/{seed}.safetensors", network)
            return curve, ages

        label = f"pretrain {os.path.basename(curves)[:-4]}"
        for note in objective.notes(recipe, len(train), steps) if rank() == 0 else ():
            print(f"note: {note}")
        results = over_seeds(work, seeds, steps, label) if world() == 1 else in_turn(work, seeds, steps, label, rank() > 0)
        if rank() == 0:
            write_curves(results, curves, staleness)
            last = np.mean([curve[-1]["loss"] for curve, _ in results]) if settings else None
            print(f"{models}: {len(seeds)} seeds, " + (f"mean final loss {last:.4f} nats" if settings else "untrained") + f"; {curves}")


def write_curves(results, curves, staleness):
    rows = [row for curve, _ in results for row in curve]
    write_table(curves, rows, list(dict.fromkeys(name for row in rows for name in row)))
    write_table(staleness, [row for _, ages in results for row in ages], STALENESS)


class TrainImages:
    """The train images and who counts as the same; reads no label and no other split."""

    def __init__(self, images, split, relation):
        self.images = load_images(images)
        self.relation = load_relation(relation, len(self.images))  # [N] groups, or one row a seed: [R, N] groups or [R, N, k] neighbors
        self.ids = load_split(split, len(self.images))["train"]

    def __len__(self):
        return len(self.ids)

    def relation_of(self, seed, recipe):
        """int64 [N] groups or [N, k] neighbors."""
        return self.relation if self.relation.ndim == 1 else self.relation[seed - recipe["seed"]]

    def batch(self, ids):
        """uint8 [B, 3, S, S], read from the file: nothing of it is kept."""
        return torch.from_numpy(self.images[ids])

    def on(self, device):
        """All of them on a device, uint8 [n, 3, S, S] in the order of `ids`."""
        whole = torch.empty(len(self), *self.images.shape[1:], dtype=torch.uint8, device=device)
        for rows in np.array_split(np.arange(len(self)), -(-len(self) // PIECE)):
            whole[rows[0] : rows[-1] + 1] = self.batch(self.ids[rows]).to(device)
        return whole


PIECE = 4096  # images that are in memory at once on their way to a device
FLOATS = 2**19  # of views that are made at once: they stay in a core's cache
STRETCHES = 64  # of neighbors in a block: enough for a block to be a sample of the whole file, however that is sorted


def fits(images, device):
    """Whether so many bytes of images may stay on a device: a quarter of what is free, so that other seeds, weights and activations have room."""
    return device.type == "cuda" and images <= torch.cuda.mem_get_info()[0] / 4


class Source:
    """What one seed learns from: the order of its images, their views, and who counts as the same."""

    def __init__(self, train, recipe, seed, device):
        self.train, self.policy, self.seed, self.device, self.block = train, recipe["views"], seed, device, recipe["pretrain"]["block"]
        self.relation = torch.from_numpy(train.relation_of(seed, recipe)).to(device)
        self.ids = torch.from_numpy(train.ids).to(device)
        self.kept = train.on(device) if fits(len(self) * train.images[0].nbytes, device) else None

    def __len__(self):
        return len(self.ids)

    def order(self, epoch):
        """The train images in the random order of an epoch (any whole number), int64 [n]."""
        return self.ids[shuffled(len(self), self.block, np.random.default_rng([self.seed, epoch % 2**64]))]

    def images(self, ids):
        """Images `ids` on the device, uint8 [B, 3, S, S]: those that are kept there, or else read and sent from pinned memory."""
        if self.kept is not None:
            return self.kept[torch.searchsorted(self.ids, ids)]
        images = self.train.batch(ids.cpu().numpy())
        return images if self.device.type == "cpu" else images.pin_memory().to(self.device, non_blocking=True)

    def views(self, ids, epoch):
        """The two views of images `ids` [B] in an epoch, concatenated, [2B, 3, S, S]."""
        return pair_of_views(self.images(ids), ids, self.policy, self.seed, epoch)

    def batches(self, epoch, parts):
        """For each slice of `parts` of the epoch's order: (ids int64 [B] of that batch, the two views of this process's share of it).

        The views of several small batches are made at once: an operation on few pixels costs its call, not its arithmetic.
        """
        order = self.order(epoch)
        whole = [order[part].sort().values for part in parts]
        mine = [ids[share(len(ids))] for ids in whole]
        at_once = max(1, FLOATS // (2 * len(mine[0]) * self.train.images[0].size))
        for first in range(0, len(whole), at_once):
            group = slice(first, first + at_once)
            views = self.views(torch.cat(mine[group]), epoch).unflatten(0, (2, -1))
            for ids, pair in zip(whole[group], views.split([len(ids) for ids in mine[group]], dim=1), strict=True):
                yield ids, pair.flatten(0, 1)

    def view(self, ids, epoch, number):
        """The first (0) or second (1) of these views alone, [B, 3, S, S]."""
        return view(self.images(ids).float() / 255, Draws((self.seed, epoch, number), ids), self.policy)

    def same(self, ids, others):
        """bool [B, M]: whether images `ids` [B] count as the same as images `others` [M]."""
        if self.relation.ndim == 1:
            return self.relation[ids][:, None] == self.relation[others]
        return (self.relation[ids][:, :, None] == others).any(dim=1) | (ids[:, None] == others)


def shuffled(count, block, random):
    """int64 [count]: `count` rows in random order, by blocks of `block` rows where there are more than that.

    Differs from a permutation then: a block is made of up to STRETCHES stretches of neighboring rows, drawn from everywhere, and shuffled
    within itself. So a file larger than memory is read a few megabytes at a time, and each of its pages once an epoch.
    """
    if count <= block:
        return random.permutation(count)
    stretch = -(-block // STRETCHES)
    rows = (random.permutation(-(-count // stretch))[:, None] * stretch + np.arange(stretch)).reshape(-1)
    rows = rows[rows < count]
    for first in range(0, count, block):
        random.shuffle(rows[first : first + block])
    return rows


def batches(count, size, processes):
    """The slices of ceil(count / size) batches of nearly equal size, which together hold each of `count` rows once."""
    if size > count:
        raise Refused(f"pretrain.batch_size: {size} is larger than the {count} train images; allowed: 2 to {count}")
    edges = np.linspace(0, count, -(-count // size) + 1).round().astype(int)
    if np.diff(edges).min() < processes:
        raise Refused(f"pretrain.processes: {processes} cannot share a batch of {np.diff(edges).min()} images; allowed: as many as images, or fewer")
    return [slice(first, last) for first, last in zip(edges[:-1], edges[1:], strict=True)]


def train_one(objective, recipe, train, seed, saved):
    """(network, curve, ages) of one seed; the curve has one row an epoch, epoch 0 being the start values; ages are rows of STALENESS.

    saved: the Saved states of this training, after the newest of which it goes on, or None.
    """
    settings = recipe.get("pretrain")
    device = torch.device(recipe["device"])
    network = start(recipe["encoder"], train.images.shape[-1], seed).to(device, memory_format=torch.channels_last)
    network.bfloat16 = device.type == "cuda"
    watched = train.batch(train.ids[: recipe["watch"]]).to(device).float() / 255
    curve = [{"seed": seed, "epoch": 0, "loss": None, "reference": None, **health(network, watched)}]
    if not settings:
        return network, curve, []

    learner = objective(network, recipe, Source(train, recipe, seed, device)).to(device)
    optimizer = AdamW(parameter_groups(learner, settings["weight_decay"]), lr=settings["lr"], fused=True)
    slices = batches(len(train), settings["batch_size"], settings["processes"])
    total, done, ages = settings["epochs"] * len(slices), 0, []
    if state := saved and saved.load(learner, optimizer):
        done, curve, ages = state["epoch"], state["curve"], state["ages"]
    else:
        learner.begin()
    step = done * len(slices)
    tick(step, seed=seed)
    for epoch in range(done + 1, settings["epochs"] + 1):
        network.train()
        logs = []
        for ids, views in learner.source.batches(epoch, slices):
            lr = learning_rate(settings, step, total)
            for group in optimizer.param_groups:
                group["lr"] = lr
            loss, z, further = learner(views, ids)
            value = loss.item()
            if not math.isfinite(value):
                raise Refused(f"the loss became {value} at seed {seed}, epoch {epoch}, step {step + 1}, lr {lr:g}; "
                              "no weights were written. Lower pretrain.lr, raise temperature, or look at the images")
            learner.zero_grad()
            loss.backward()
            average(learner.parameters())
            optimizer.step()
            learner.after_step(ids, epoch)
            logs.append({"loss": value, **further, "matched": matched(z).item()})
            step += 1
            tick(seed=seed, loss=f"{value:.3f}")
        means = {name: float(np.mean([log[name] for log in logs])) for name in logs[0]}
        if means["loss"] == means["reference"] == 0:
            raise Refused(f"no anchor had a negative in epoch {epoch} (seed {seed}): a loss of 0 that teaches nothing; no weights were written. "
                          "Raise negatives.filter_above (at the start all z point nearly one way), or choose another relation")
        curve.append({"seed": seed, "epoch": epoch, **means, "lr": lr, **health(network, watched)})
        ages += [{"seed": seed, "epoch": epoch, **row} for row in learner.staleness()]
        if saved and rank() == 0 and (epoch % recipe["resume"]["every"] == 0 or epoch == settings["epochs"]):
            saved.save(learner, optimizer, epoch, curve=curve, ages=ages)
    return network, curve, ages


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
    """What z is like on the same unaugmented images each epoch: mean standard deviation over its dimensions, effective rank, mean norm,
    and spread: that standard deviation of unit rows times sqrt(D), 1 where they point everywhere alike, 0 where all point one way."""
    training = network.training
    z = network.eval()(images)[1].double()
    network.train(training)
    spread = unit_rows(z).std(dim=0, correction=0).mean().item() * math.sqrt(z.shape[1])
    z = z.cpu().numpy()
    return {"z_std": float(z.std(axis=0).mean()), "z_rank": effective_rank(z), "z_norm": float(np.linalg.norm(z, axis=1).mean()), "z_spread": spread}
