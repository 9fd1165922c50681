"""MoCo: train images, two views each -> encoder and head, against a ring of past keys made by a slowly following key network.

L_i = -log( exp(q_i k_i / t) / (exp(q_i k_i / t) + sum_j exp(q_i r_j / t)) ),  theta_key <- m theta_key + (1 - m) theta_query
(He et al. 2020, equations 1 and 2, algorithm 1: one direction, the first view asks and the second answers.)
Differs: the ring starts with keys of train views, not with random vectors; keys of the query's own image are no negatives.
"""
import copy
import math

import torch

from stages.lib.infonce import Temperature, compared, guessing, info_nce, unit_rows
from stages.lib.loop import Objective, pretrain
from stages.lib.ring import Ring, follow
from stages.lib.stage import run
from stages.lib.together import gathered


class MoCo(Objective):
    def __init__(self, network, recipe, source):
        super().__init__(network, recipe, source)
        self.options, self.settings = dict(recipe["negatives"]), recipe["moco"]
        self.temperature = Temperature(recipe["temperature"], self.options.pop("learn_temperature"))
        self.key_network = copy.deepcopy(network).requires_grad_(False)
        for layer in self.key_network.modules():
            if isinstance(layer, torch.nn.SyncBatchNorm):
                layer.momentum = 0.0  # keys use their batch's statistics, but only `follow` moves the running ones
        self.ring = Ring(self.settings["queue"], self.encode(source.ids[:2], 0).shape[1])
        self.register_buffer("steps", torch.tensor(0))

    def begin(self):
        """Fill the ring with train views of the epochs 0, -1, ... (as many passes as it takes), the newest of epoch 0."""
        passes = -(-len(self.ring.keys) // len(self.source))
        for epoch in range(1 - passes, 1):
            for ids in self.source.order(epoch).split(self.recipe["pretrain"]["batch_size"]):
                self.ring.enqueue(self.encode(ids, epoch), ids, epoch, self.steps)

    @torch.no_grad()
    def encode(self, ids, epoch):
        """The keys of the second views of images `ids` in an epoch by today's key network, [n, D]."""
        parts = [self.key_network(self.source.view(part, epoch, 1))[1] for part in ids.split(self.recipe["pretrain"]["batch_size"])]
        return compared(torch.cat(parts), self.recipe["pretrain"]["normalize"])

    def forward(self, views, ids):
        first, second = views.chunk(2)
        z = gathered(self.network(first)[1], len(ids))
        with torch.no_grad():
            z_key = gathered(self.key_network(second)[1], len(ids))
        queries, self.keys = (compared(rows, self.recipe["pretrain"]["normalize"]) for rows in (z, z_key))
        similarity = torch.cat([(queries * self.keys).sum(dim=1, keepdim=True), queries @ self.ring.keys.T], dim=1)
        positive = torch.zeros_like(ids)
        negative = torch.cat([torch.zeros_like(ids, dtype=torch.bool)[:, None], ~self.source.same(ids, self.ring.ids)], dim=1)
        loss, candidates = info_nce(similarity, positive, negative, self.temperature(), **self.options)
        return loss, torch.cat([z, z_key]), {"reference": guessing(candidates), "temperature": self.temperature.number()}

    def after_step(self, ids, epoch):
        """Contrast first, enqueue after: no query meets its own key among the negatives."""
        self.temperature.clamp()
        self.ring.enqueue(self.keys, ids, epoch, self.steps)
        follow(self.key_network, self.network, self.settings["key_momentum"])
        self.steps += 1

    @torch.no_grad()
    def staleness(self):
        now = torch.empty_like(self.ring.keys)
        for epoch in self.ring.epochs.unique().tolist():
            chosen = self.ring.epochs == epoch
            now[chosen] = self.encode(self.ring.ids[chosen], epoch)
        cosine = (unit_rows(now) * unit_rows(self.ring.keys)).sum(dim=1).double()
        age = self.steps - self.ring.made
        return [{"age_steps": years, "cosine": cosine[age == years].mean().item(), "n": int((age == years).sum())} for years in age.unique().tolist()]

    @staticmethod
    def notes(recipe, images, steps):
        queue, momentum = recipe["moco"]["queue"], recipe["moco"]["key_momentum"]
        if queue > images:
            yield f"moco.queue: {queue} keys are more than the {images} train images; an image is in the ring several times, in other views"
        half_life = math.log(0.5) / math.log(momentum) if 0 < momentum < 1 else 0
        if half_life > steps:
            yield (f"moco.key_momentum: {momentum} has a half-life of {half_life:.0f} steps, longer than the {steps} steps of this run: "
                   "the key network stays near its start")


def main(plan, images, split, relation, models, curves, staleness, resume):
    pretrain(MoCo, plan, images, split, relation, models, curves, staleness, resume)


if __name__ == "__main__":
    run(main)
