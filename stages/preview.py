"""Preview: a few train images and two views of each under every policy -> data that the figures show (uint8 [n, 3, 3, S, S]: original, view, view)."""
import numpy as np
import torch

from stages.lib.checks import load_images, load_split
from stages.lib.stage import run
from stages.lib.tables import read_params, replacing
from stages.lib.views import pair_of_views


def main(params, images, split, preview):
    policies, settings = read_params(params, "views"), read_params(params, "preview")
    torch.set_num_threads(1)
    pixels = load_images(images)
    ids = load_split(split, len(pixels))["train"][: settings["images"]]
    originals = torch.from_numpy(pixels[ids])
    sheets = {}
    for name, policy in policies.items():
        views = pair_of_views(originals, torch.from_numpy(ids), policy, settings["seed"], epoch=1)
        first, second = (views * 255).round().to(torch.uint8).chunk(2)
        sheets[name] = torch.stack([originals, first, second], dim=1).numpy()
    with replacing(preview, "wb") as file:
        np.savez(file, **sheets)
    print(f"{preview}: {len(ids)} images under {len(policies)} policies of views")


if __name__ == "__main__":
    run(main)
