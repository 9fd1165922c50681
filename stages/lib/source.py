"""What every source of images writes: images.npy, images.csv, factors.csv, rejected.csv; and images too many for memory."""
import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from stages.lib.tables import replacing, write_table
from stages.lib.workers import over_seeds, tick

CHUNK = 64  # images that a worker takes at a time


class Rows(Sequence):
    """Columns {name: N values} seen as N dicts, each made when it is asked for: a million of them kept would take half a gigabyte."""

    def __init__(self, columns):
        self.columns = columns

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __getitem__(self, row):
        return {name: values[row] for name, values in self.columns.items()}


def write_dataset(images, names, factors, paths, rejected=(), ties=None, notes=None):
    """Write a data set to `paths` (images, index, factors, rejected).

    images: uint8 [N, 3, S, S], in memory or a memory map; names: where each image comes from; factors: dicts with the same
    keys, one row an image, in the same order; ties: a hashable per image, equal for images that belong together; notes: dicts
    with the same keys, further columns of the index, which tell of a file and are no factors.
    Images with equal ties (none given: equal pixels) share a group: the id of the first of them.
    """
    hashes = [hashlib.sha256(np.ascontiguousarray(image).tobytes()).hexdigest() for image in images]
    equal = firsts(hashes)
    groups = equal if ties is None else firsts(ties)
    with replacing(paths["images"], "wb") as file:
        np.save(file, images, allow_pickle=False)
    write_table(paths["index"], ({"id": row, "source": name, "sha256": code, "group": group, **(notes[row] if notes else {})}
                                 for row, (name, code, group) in enumerate(zip(names, hashes, groups, strict=True))),
                ["id", "source", "sha256", "group", *(notes[0] if notes else {})])
    write_table(paths["factors"], ({"id": row, **values} for row, values in enumerate(factors)), ["id", *factors[0]])
    write_table(paths["rejected"], rejected, ["path", "reason"])
    if mixed := len({first for row, first in enumerate(equal) if factors[row] != factors[first]}):
        print(f"  {mixed} images are there under several labels: all copies are kept, in one group")
    exact = len(images) - len(set(equal))
    near = "" if ties is None else f" and {len(images) - len(set(groups)) - exact} near"
    print(f"{paths['images']}: {len(images)} images of {images.shape[-1]} pixels, {exact} exact{near} duplicates, {len(rejected)} files rejected")


def firsts(values):
    """For each value the row of the first that equals it."""
    first = {}
    return [first.setdefault(value, row) for row, value in enumerate(values)]


def scratch(path, count, side):
    """A memory map uint8 [count, 3, side, side] that forked workers share, on the disk of `path`; it is gone when the process is."""
    shape = (count, 3, side, side)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=Path(path).parent) as file:
        if hasattr(os, "posix_fallocate"):  # a full disk is an error here, and would be a killed worker later
            os.posix_fallocate(file.fileno(), 0, int(np.prod(shape)))
        return np.memmap(file, np.uint8, "w+", shape=shape)


def fill(images, read, label):
    """Set images[row] to the first value of read(row) (None: left as it is) in parallel processes; returns the other values, in order."""
    def work(rows):
        found = []
        for row in rows:
            pixels, *rest = read(row)
            if pixels is not None:
                images[row] = pixels
            found.append(rest)
            tick()
        return found

    chunks = [range(first, min(first + CHUNK, len(images))) for first in range(0, len(images), CHUNK)]
    return [rest for found in over_seeds(work, chunks, CHUNK, label) for rest in found]
