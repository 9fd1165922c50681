"""Extract: the frozen networks of a run -> h and z of every image, seed by seed (z before normalization).

Beside <seed>/{h,z}.npy [N, .] stand, as {h,z}.npy in folders of their own: <seed>/interventions/<name> [T, .] in the order of
the test ids; <seed>/views/{0,1} [T, .], two views of each test image; <seed>/transformations/<name>/<number> [M, .], the
images of transformations/ids.npy [M] under each alternative.
"""
import contextlib
from pathlib import Path

import numpy as np
import torch

from stages.lib.checks import load_images, load_split
from stages.lib.draws import Draws
from stages.lib.encoder import applied, load_network
from stages.lib.pixels import alter
from stages.lib.stage import Refused, run
from stages.lib.tables import read_params, replacing
from stages.lib.views import view
from stages.lib.workers import over_seeds, tick


def sets_of_images(pixels, ids, interventions, policy, transformations, most):
    """Yields (folder, number of images, slice -> these images, uint8 [., 3, S, S]) to extract; `ids` are those of each split, in order."""
    yield ".", len(pixels), pixels.__getitem__
    for path in sorted(Path(interventions).glob("*.npy")):
        changed = load_images(path)
        yield f"interventions/{path.stem}", len(changed), changed.__getitem__
    for number in (0, 1):
        yield f"views/{number}", len(ids["test"]), lambda part, number=number: view_of(pixels, ids["test"][part], policy, number)
    some = transformed(ids, most)
    for name, alternatives in transformations.items():
        for number, strengths in enumerate(alternatives, start=1):
            yield f"transformations/{name}/{number}", len(some), lambda part, strengths=strengths: alter(pixels[some[part]], strengths, some[part])


def view_of(pixels, ids, policy, number):
    """The first (0) or second (1) view of images `ids`, uint8."""
    images = torch.from_numpy(pixels[ids]).float() / 255
    return (view(images, Draws((0, 0, number), torch.from_numpy(ids)), policy) * 255).round().to(torch.uint8).numpy()


def transformed(ids, most):
    """The first `most` ids of each split, int64 [M]."""
    return np.concatenate([part[:most] for part in ids.values()])


def write(folder, rows, spaces, weights):
    """Write the h and z of batches, which `spaces` yields, as h.npy and z.npy of so many rows; no more than a batch is held. Returns their widths."""
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(replacing(f"{folder}/{space}.npy", "wb")) for space in ("h", "z")]
        for place, batch in enumerate(spaces):
            for space, file, values in zip(("h", "z"), files, batch, strict=True):
                if not np.isfinite(values).all():
                    raise Refused(f"{weights} gives {space} that is not finite")
                if not place:
                    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (rows, values.shape[1])})
                file.write(values.tobytes())
    return [values.shape[1] for values in batch]


def main(params, images, split, interventions, models, features):
    settings, first, replicates, transformations = (read_params(params, key) for key in ("extract", "seed", "replicates", "transformations"))
    pixels = load_images(images)
    ids = load_split(split, len(pixels))
    seeds = [first + replicate for replicate in range(replicates)]

    def work(seed):
        weights = f"{models}/{seed}.safetensors"
        network = load_network(weights)
        if network.side != pixels.shape[-1]:
            raise Refused(f"{weights} was trained on {network.side} pixels, {images} has {pixels.shape[-1]}")
        for folder, count, part in sets_of_images(pixels, ids, interventions, settings["views"], transformations, settings["transformed"]):
            batches = (part(slice(start, start + settings["batch_size"])) for start in range(0, count, settings["batch_size"]))
            widths = write(f"{features}/{seed}/{folder}", count, applied(network, batches, lambda rows: tick(rows, seed=seed)), weights)
        with replacing(f"{features}/{seed}/transformations/ids.npy", "wb") as file:
            np.save(file, transformed(ids, settings["transformed"]), allow_pickle=False)
        return widths

    extra = sum(map(len, transformations.values())) * len(transformed(ids, settings["transformed"]))
    changed = len(list(Path(interventions).glob("*.npy"))) + 2
    h, z = over_seeds(work, seeds, len(pixels) + extra + changed * len(ids["test"]), f"extract {models}")[0]
    print(f"{features}: h of {h} and z of {z} numbers for {len(pixels)} images, {changed - 2} interventions and {len(seeds)} seeds")


if __name__ == "__main__":
    run(main)
