"""What every source of images writes: images.npy, images.csv, factors.csv, rejected.csv."""
import hashlib

import numpy as np

from stages.lib.tables import replacing, write_table


def write_dataset(images, names, factors, paths, rejected=()):
    """Write a data set to `paths` (images, index, factors, rejected).

    images: uint8 [N, 3, S, S]; names: where each image comes from; factors: dicts, one row an image, in the same order.
    Images with equal pixels share a group: the id of the first of them.
    """
    hashes = [hashlib.sha256(np.ascontiguousarray(image).tobytes()).hexdigest() for image in images]
    first = {}
    index = [{"id": row, "source": name, "sha256": code, "group": first.setdefault(code, row)}
             for row, (name, code) in enumerate(zip(names, hashes, strict=True))]
    with replacing(paths["images"], "wb") as file:
        np.save(file, images, allow_pickle=False)
    write_table(paths["index"], index, ["id", "source", "sha256", "group"])
    write_table(paths["factors"], [{"id": row, **values} for row, values in enumerate(factors)], ["id", *factors[0]])
    write_table(paths["rejected"], rejected, ["path", "reason"])
    duplicates = len(index) - len(first)
    print(f"{paths['images']}: {len(images)} images of {images.shape[-1]} pixels, {duplicates} exact duplicates, {len(rejected)} files rejected")
