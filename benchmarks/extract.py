"""Images per second of extraction against a bare forward pass of the same network over the same batches."""
import os

import numpy as np
import torch

from benchmarks.common import RESNET, SMALL, aims, in_turn, publish, ratio, table, together
from stages.lib.encoder import apply, start

CORES = len(os.sched_getaffinity(0))


def compare(title, encoder, side, count, batch, rounds):
    images = np.random.default_rng(0).integers(0, 256, (count, 3, side, side), dtype=np.uint8)
    batches = [torch.from_numpy(part).float() / 255 for part in np.split(images, count // batch)]

    def ours(seed):
        apply(start(encoder, side, seed).eval(), images, batch)
        return count

    @torch.inference_mode()
    def bare(seed):
        network = start(encoder, side, seed).eval()
        for part in batches:
            network(part)
        return count

    rates = in_turn({"ours": lambda: together(ours, CORES), "bare forward pass": lambda: together(bare, CORES)}, rounds)
    share = ratio(rates, "ours", "bare forward pass")
    publish(title, table(rates, "bare forward pass", "images/s") + "\n\n" + aims(("of the bare forward pass", share, "at least", 0.9)))


if __name__ == "__main__":
    compare("Extraction at LAB 06 sizes", SMALL, 16, 20480, 256, 5)
    compare("Extraction, ResNet-18 at 32 pixels", RESNET, 32, 512, 64, 3)
