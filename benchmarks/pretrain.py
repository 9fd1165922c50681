"""Images per second of SimCLR pretraining over all cores, or on a GPU: ours, views made beforehand (the limit), lightly, torchvision, kornia.

    python -m benchmarks.pretrain [resnet] [--device cuda]

Same model, batch, optimizer and policy of views (crop, flip, jitter, grayscale, blur). On the CPU every contestant trains one seed
per core in one-thread processes, as our stage does; the peers' data loading runs inside these, or in one more process each where
that is faster. On a GPU one seed is trained, products in bfloat16; images lie there beforehand for ours and for kornia, the other
peers load with a process for each core.
"""
import argparse
import os
import sys
from itertools import count, islice

import kornia.augmentation as K
import numpy as np
import torch
from lightly.loss import NTXentLoss
from lightly.transforms import SimCLRTransform
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2

from benchmarks.common import RESNET, SMALL, aims, in_turn, publish, ratio, table, together
from stages.lib.adamw import AdamW
from stages.lib.encoder import start
from stages.lib.infonce import nt_xent
from stages.lib.loop import Source, TrainImages, batches
from stages.lib.stage import Refused
from stages.lib.together import take_gpu

POLICY = {"crop": {"scale": [0.6, 1], "ratio": [0.75, 1.3333]}, "flip": 0.5,
          "jitter": {"probability": 0.8, "brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1},
          "grayscale": 0.2, "blur": {"probability": 0.5, "sigma": [0.1, 1.0]}}
PLAIN = {"debias": 0, "hardness": 0, "filter_above": 1}
CORES = len(os.sched_getaffinity(0))


class Ours:
    """The batches of the stage's own loop, of images in memory."""

    def __init__(self, images, batch):
        self.images, self.batch = torch.from_numpy(images), batch

    def views(self, steps, seed, device):
        train = Images(self.images)
        source = Source(train, {"views": POLICY, "pretrain": {"block": len(train)}}, seed, torch.device(device))
        parts = batches(len(train), self.batch, 1)
        return islice((views for epoch in count(1) for _, views in source.batches(epoch, parts)), steps)


class Images(TrainImages):
    def __init__(self, images):
        self.images, self.ids, self.relation = images.numpy(), np.arange(len(images)), np.arange(len(images))


class Beforehand(Ours):
    def __init__(self, images, batch):
        super().__init__(images, batch)
        self.made = list(super().views(8, 0, "cpu"))

    def views(self, steps, seed, device):
        made = [views.to(device) for views in self.made]
        return (made[step % 8] for step in range(steps))


class Kornia(Ours):
    def __init__(self, images, batch):
        super().__init__(images, batch)
        side = images.shape[-1]
        self.augment = torch.nn.Sequential(
            K.RandomResizedCrop((side, side), scale=(0.6, 1.0), ratio=(0.75, 1.3333)), K.RandomHorizontalFlip(p=0.5),
            K.ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8), K.RandomGrayscale(p=0.2), K.RandomGaussianBlur((5, 5), (0.1, 1.0), p=0.5))

    @torch.no_grad()
    def views(self, steps, seed, device):
        whole = self.images.to(device)
        for step in range(steps):
            images = whole[(torch.arange(self.batch, device=device) + step * self.batch) % len(whole)].float() / 255
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

    def views(self, steps, seed, device):
        samples = Samples(self.images, steps * self.batch, self.transform, self.pil)
        for first, second in DataLoader(samples, self.batch, num_workers=self.workers, pin_memory=device == "cuda"):
            yield torch.cat([first.to(device, non_blocking=True), second.to(device, non_blocking=True)])


def lightly(side):
    return SimCLRTransform(input_size=side, cj_prob=0.8, cj_strength=0.5, min_scale=0.6, random_gray_scale=0.2, gaussian_blur=0.5, sigmas=(0.1, 1.0))


def torchvision(side):
    one = v2.Compose([v2.RandomResizedCrop(side, scale=(0.6, 1.0)), v2.RandomHorizontalFlip(), v2.RandomApply([v2.ColorJitter(0.4, 0.4, 0.4, 0.1)], 0.8),
                      v2.RandomGrayscale(0.2), v2.RandomApply([v2.GaussianBlur(5, (0.1, 1.0))], 0.5), v2.ToDtype(torch.float32, scale=True)])
    return lambda image: (one(image), one(image))


def our_loss(z):
    return nt_xent(z, torch.eye(len(z) // 2, dtype=torch.bool, device=z.device), True, 0.2, **PLAIN)[0]


def contestant(make, encoder, side, batch, steps, loss, device):
    def work(seed):
        if device == "cuda":
            take_gpu(0)
        network = start(encoder, side, seed).to(device, memory_format=torch.channels_last)
        network.bfloat16 = device == "cuda"
        optimizer = AdamW(network.parameters(), lr=0.002, weight_decay=0.0, fused=True)
        for views in make.views(steps, seed, device):
            value = loss(network(views)[1])
            network.zero_grad()
            value.backward()
            optimizer.step()
        value.item()  # waits for the device
        return steps * batch
    return lambda: together(work, 1 if device == "cuda" else CORES)


def compare(title, encoder, side, batch, steps, slow_steps, rounds, device, least):
    images = np.random.default_rng(0).integers(0, 256, (10 * batch, 3, side, side), dtype=np.uint8)
    their_loss = NTXentLoss(temperature=0.2)
    makers = {"ours": (Ours(images, batch), our_loss, steps), "views made beforehand": (Beforehand(images, batch), our_loss, steps),
              "kornia, batched": (Kornia(images, batch), our_loss, steps)}
    for workers in (0, 1) if device == "cpu" else (CORES,):
        end = f", {workers} workers"
        makers["lightly" + end] = (PerSample(images, batch, lightly(side), True, workers), lambda z: their_loss(*z.chunk(2)), slow_steps)
        makers["torchvision" + end] = (PerSample(images, batch, torchvision(side), False, workers), our_loss, slow_steps)
    rates = in_turn({name: contestant(make, encoder, side, batch, some, loss, device) for name, (make, loss, some) in makers.items()}, rounds)
    best = {peer: min(ratio(rates, "ours", name) for name in rates if name.startswith(peer)) for peer in ("lightly", "torchvision", "kornia")}
    limit = ratio(rates, "ours", "views made beforehand")
    aimed = [*((f"times {peer}", best[peer], "at least", least[peer]) for peer in best), ("of the limit", limit, "at least", least["limit"])]
    publish(title + (", on a GPU" if device == "cuda" else ""), table(rates, "views made beforehand", "images/s")
            + "\n\nOurs against the best setting of each peer:\n\n" + aims(*aimed))


def main(encoder, device, batch, steps, slow_steps, rounds):
    resnet = encoder == "resnet"
    defaults = {("small", "cpu"): (60, 120, 30, 5), ("small", "cuda"): (60, 300, 30, 5), ("resnet", "cpu"): (64, 3, 3, 3), ("resnet", "cuda"): (512, 60, 20, 3)}
    sizes = [given or default for given, default in zip((batch, steps, slow_steps, rounds), defaults[encoder, device], strict=True)]
    least = {"lightly": 1, "torchvision": 1, "kornia": 1, "limit": 0.95} if resnet else {"lightly": 5, "torchvision": 5, "kornia": 2, "limit": 0.85}
    title = "Pretraining, ResNet-18 at 32 pixels" if resnet else "Pretraining at LAB 06 sizes"
    compare(title, RESNET if resnet else SMALL, 32 if resnet else 16, *sizes, device, least)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("encoder", nargs="?", choices=["small", "resnet"], default="small")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    for name in ("batch", "steps", "slow-steps", "rounds"):
        parser.add_argument(f"--{name}", type=int, help="another number than the benchmark's own")
    try:
        main(**vars(parser.parse_args()))
    except Refused as refusal:
        sys.exit(f"error: {refusal}")
