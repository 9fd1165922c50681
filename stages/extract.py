"""Extract: the frozen networks of a run -> h and z of every image, seed by seed (z before normalization)."""
import numpy as np

from stages.lib.checks import load_images
from stages.lib.encoder import apply, load_network
from stages.lib.stage import Refused, run
from stages.lib.tables import read_params, replacing
from stages.lib.workers import over_seeds, tick


def main(params, images, models, features):
    batch_size, first, replicates = (read_params(params, *key) for key in (["extract", "batch_size"], ["seed"], ["replicates"]))
    pixels = load_images(images)
    seeds = [first + replicate for replicate in range(replicates)]

    def work(seed):
        network = load_network(f"{models}/{seed}.safetensors")
        if network.side != pixels.shape[-1]:
            raise Refused(f"{models}/{seed}.safetensors was trained on {network.side} pixels, {images} has {pixels.shape[-1]}")
        spaces = apply(network, pixels, batch_size, report=lambda rows: tick(rows, seed=seed))
        for space, rows in zip(("h", "z"), spaces, strict=True):
            if not np.isfinite(rows).all():
                raise Refused(f"{models}/{seed}.safetensors gives {space} that is not finite")
            with replacing(f"{features}/{seed}/{space}.npy", "wb") as file:
                np.save(file, rows, allow_pickle=False)
        return [rows.shape[1] for rows in spaces]

    h, z = over_seeds(work, seeds, len(pixels), f"extract {models}")[0]
    print(f"{features}: h of {h} and z of {z} numbers for {len(pixels)} images and {len(seeds)} seeds")


if __name__ == "__main__":
    run(main)
