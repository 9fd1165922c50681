"""Images per second of SimCLR pretraining over all cores: ours, views made beforehand (the limit), lightly, torchvision, kornia.

Same model, batch, optimizer and policy of views (crop, flip, jitter, grayscale, blur). Every contestant trains one seed per
core in one-thread processes, as our stage does; the peers' data loading runs inside these, or in one more process each where
that is faster.
"""
import os
import sys

import kornia.augmentation as K
import numpy as np
import torch
from lightly.loss import NTXentLoss
from lightly.transforms import SimCLRTransform
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2

from benchmarks.common import RESNET, SMALL, in_turn, publish, ratio, table, together
from stages.lib.encoder import start
from stages.lib.infonce import nt_xent
from stages.lib.views import pair_of_views

POLICY = {"crop": {"scale": [0.6, 1], "ratio": [0.75, 1.3333]}, "flip": 0.5,
          "jitter": {"probability": 0.8, "brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1},
          "grayscale": 0.2, "blur": {"probability": 0.5, "sigma": [0.1, 1.0]}}
PLAIN = {"debias": 0, "hardness": 0, "filter_above": 1}
CORES = len(os.sched_getaffinity(0))


class Ours:
    def __init__(self, images, batch):
        self.images, self.batch = torch.from_numpy(images), batch

    def views(self, steps, seed):
        for step in range(steps):
            ids = (torch.arange(self.batch) + step * self.batch) % len(self.images)
            yield pair_of_views(self.images[ids], ids, POLICY, seed, step)


class Beforehand(Ours):
    def __init__(self, images, batch):
        super().__init__(images, batch)
        self.made = list(super().views(8, 0))

    def views(self, steps, seed):
        return (self.made[step % 8] for step in range(steps))


class Kornia(Ours):
    def __init__(self, images, batch):
        super().__init__(images, batch)
        side = images.shape[-1]
        self.augment = torch.nn.Sequential(
            K.RandomResizedCrop((side, side), scale=(0.6, 1.0), ratio=(0.75, 1.3333)), K.RandomHorizontalFlip(p=0.5),
            K.ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8), K.RandomGrayscale(p=0.2), K.RandomGaussianBlur((5, 5), (0.1, 1.0), p=0.5))

    @torch.no_grad()
    def views(self, steps, seed):
        for step in range(steps):
            ids = (torch.arange(self.batch) + step * self.batch) % len(self.images)
            images = self.images[ids].float() / 255
            yield self.augment(torch.cat([images, images]))


class Samples(Dataset):
    """One sample: two views of an image, by a transform of a PIL image or a tensor."""

    def __init__(self, images, length, transform, pil):
        self.images = [Image.fromarray(image.transpose(1, 2, 0)) for image in images] if pil else torch.from_numpy(images)
        self.length, self.transform = length, transform

    def __len__(self):
        return self.length

    def __getitem__(self, row):
        return self.transform(self.images[row % len(self.images)])


class PerSample:
    def __init__(self, images, batch, transform, pil, workers):
        self.images, self.batch, self.transform, self.pil, self.workers = images, batch, transform, pil, workers

    def views(self, steps, seed):
        samples = Samples(self.images, steps * self.batch, self.transform, self.pil)
        for first, second in DataLoader(samples, self.batch, num_workers=self.workers):
            yield torch.cat([first, second])


def lightly(side):
    return SimCLRTransform(input_size=side, cj_prob=0.8, cj_strength=0.5, min_scale=0.6, random_gray_scale=0.2, gaussian_blur=0.5, sigmas=(0.1, 1.0))


def torchvision(side):
    one = v2.Compose([v2.RandomResizedCrop(side, scale=(0.6, 1.0)), v2.RandomHorizontalFlip(), v2.RandomApply([v2.ColorJitter(0.4, 0.4, 0.4, 0.1)], 0.8),
                      v2.RandomGrayscale(0.2), v2.RandomApply([v2.GaussianBlur(5, (0.1, 1.0))], 0.5), v2.ToDtype(torch.float32, scale=True)])
    return lambda image: (one(image), one(image))


def our_loss(z):
    return nt_xent(z, torch.eye(len(z) // 2, dtype=torch.bool), True, 0.2, **PLAIN)[0]


def contestant(make, encoder, side, batch, steps, loss):
    def work(seed):
        network = start(encoder, side, seed)
        optimizer = torch.optim.AdamW(network.parameters(), lr=0.002, weight_decay=0.0, fused=True)
        for views in make.views(steps, seed):
            value = loss(network(views)[1])
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
        return steps * batch
    return lambda: together(work, CORES)


def compare(title, encoder, side, batch, steps, slow_steps, rounds):
    images = np.random.default_rng(0).integers(0, 256, (600, 3, side, side), dtype=np.uint8)
    their_loss = NTXentLoss(temperature=0.2)
    makers = {"ours": (Ours(images, batch), our_loss, steps), "views made beforehand": (Beforehand(images, batch), our_loss, steps),
              "kornia, batched": (Kornia(images, batch), our_loss, steps)}
    for workers in (0, 1):
        end = f", {workers} workers"
        makers["lightly" + end] = (PerSample(images, batch, lightly(side), True, workers), lambda z: their_loss(*z.chunk(2)), slow_steps)
        makers["torchvision" + end] = (PerSample(images, batch, torchvision(side), False, workers), our_loss, slow_steps)
    rates = in_turn({name: contestant(make, encoder, side, batch, count, loss) for name, (make, loss, count) in makers.items()}, rounds)
    best = {peer: min(ratio(rates, "ours", name) for name in rates if name.startswith(peer)) for peer in ("lightly", "torchvision", "kornia")}
    limit = ratio(rates, "ours", "views made beforehand")
    publish(title, table(rates, "views made beforehand", "images/s") + f"\n\nOurs against the best setting of each peer: {best['lightly']:.1f} times lightly, "
            f"{best['torchvision']:.1f} times torchvision, {best['kornia']:.1f} times kornia; {limit:.2f} of the limit.")


if __name__ == "__main__":
    if "resnet" in sys.argv:
        compare("Pretraining, ResNet-18 at 32 pixels", RESNET, 32, 64, 3, 3, 3)
    else:
        compare("Pretraining at LAB 06 sizes", SMALL, 16, 60, 120, 30, 5)
