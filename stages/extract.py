"""Extract: the frozen networks of a run -> h and z of every image, seed by seed (z before normalization).

Beside <seed>/{h,z}.npy [N, .] stand, as {h,z}.npy in folders of their own: <seed>/interventions/<name> [T, .] in the order of
the test ids; <seed>/views/{0,1} [T, .], two views of each test image; <seed>/transformations/<name>/<number> [M, .], the
images of transformations/ids.npy [M] under each alternative.
"""
from pathlib import Path

import numpy as np
import torch

from stages.lib.checks import load_images, load_split
from stages.lib.encoder import apply, load_network
from stages.lib.pixels import alter
from stages.lib.stage import Refused, run
from stages.lib.tables import read_params, replacing
from stages.lib.views import pair_of_views
from stages.lib.workers import over_seeds, tick


def sets_of_images(pixels, ids, interventions, policy, transformations, most):
    """Yields (folder, uint8 images [., 3, S, S]) to extract; `ids` are those of each split, in order."""
    yield ".", pixels
    for path in sorted(Path(interventions).glob("*.npy")):
        yield f"interventions/{path.stem}", load_images(path)
    test = torch.from_numpy(ids["test"])
    views = (pair_of_views(torch.from_numpy(pixels[ids["test"]]), test, policy, 0, 0) * 255).round().to(torch.uint8).numpy()
    yield "views/0", views[: len(test)]
    yield "views/1", views[len(test) :]
    some = transformed(ids, most)
    for name, alternatives in transformations.items():
        for number, strengths in enumerate(alternatives, start=1):
            yield f"transformations/{name}/{number}", alter(pixels[some], strengths, some)


def transformed(ids, most):
    """The first `most` ids of each split, int64 [M]."""
    return np.concatenate([part[:most] for part in ids.values()])


def main(params, images, split, interventions, models, features):
    settings, first, replicates, transformations = (read_params(params, key) for key in ("extract", "seed", "replicates", "transformations"))
    pixels = load_images(images)
    ids = load_split(split, len(pixels))
    seeds = [first + replicate for replicate in range(replicates)]

    def work(seed):
        network = load_network(f"{models}/{seed}.safetensors")
        if network.side != pixels.shape[-1]:
            raise Refused(f"{models}/{seed}.safetensors was trained on {network.side} pixels, {images} has {pixels.shape[-1]}")
        for folder, rows in sets_of_images(pixels, ids, interventions, settings["views"], transformations, settings["transformed"]):
            spaces = apply(network, rows, settings["batch_size"], report=lambda count: tick(count, seed=seed))
            for space, values in zip(("h", "z"), spaces, strict=True):
                if not np.isfinite(values).all():
                    raise Refused(f"{models}/{seed}.safetensors gives {space} that is not finite")
                save(f"{features}/{seed}/{folder}/{space}.npy", values)
        save(f"{features}/{seed}/transformations/ids.npy", transformed(ids, settings["transformed"]))
        return [values.shape[1] for values in spaces]

    extra = sum(map(len, transformations.values())) * len(transformed(ids, settings["transformed"]))
    changed = len(list(Path(interventions).glob("*.npy"))) + 2
    h, z = over_seeds(work, seeds, len(pixels) + extra + changed * len(ids["test"]), f"extract {models}")[0]
    print(f"{features}: h of {h} and z of {z} numbers for {len(pixels)} images, {changed - 2} interventions and {len(seeds)} seeds")


def save(path, values):
    with replacing(path, "wb") as file:
        np.save(file, values, allow_pickle=False)


if __name__ == "__main__":
    run(main)
