"""Reading what another stage wrote: each file is what the contract says (kind, shape, ids in order, finite, equal counts), or it is refused by name."""
import math
from collections import defaultdict

import numpy as np

from stages.lib.stage import Refused
from stages.lib.tables import each_row, read_table

SPLITS = ("train", "val", "test")


def refuse(path, what):
    raise Refused(f"{path}: {what}; `dvc repro` writes it anew, or remove it first if it was changed by hand")


def load_array(path, kind, dimensions):
    """A memory-mapped array of dtype `kind`, never a pickle; dimensions: the numbers of dimensions that are allowed.

    Mapped, so that a header that promises more than the file holds allocates nothing; and the file ends where the array does.
    """
    try:
        array = np.lib.format.open_memmap(path, mode="r")
        with open(path, "rb") as file:
            size = file.seek(0, 2)
    except OSError:
        raise
    except Exception as fault:  # a damaged header fails in many ways: in its numbers, its text, its Python
        refuse(path, f"not a whole .npy file of numbers ({' '.join(str(fault).split())[:120]})")
    if array.dtype != np.dtype(kind) or array.ndim not in dimensions or not array.size:
        refuse(path, f"holds {array.dtype} {list(array.shape)}, not {np.dtype(kind)} of {' or '.join(map(str, dimensions))} dimensions")
    if array.offset + array.nbytes != size or not array.flags.c_contiguous:
        refuse(path, f"is {size} bytes long, its header says {array.offset + array.nbytes}")
    return array


def load_archive(path):
    """{name: array} of a .npz file, never a pickle; each array is checked against the archive's checksum."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except OSError:
        raise
    except Exception as fault:
        refuse(path, f"not a whole .npz file ({' '.join(str(fault).split())[:120]})")


def load_images(path):
    """uint8 [N, 3, S, S], memory-mapped."""
    images = load_array(path, np.uint8, [4])
    if images.shape[1] != 3 or images.shape[2] != images.shape[3]:
        refuse(path, f"holds {list(images.shape)}, not [images, 3, side, side]")
    return images


def load_features(path, count):
    """float32 [N, D], finite, a row for each of `count` images."""
    features = np.array(load_array(path, np.float32, [2]))
    same_number(path, len(features), count)
    if not np.isfinite(features).all():
        refuse(path, f"row {np.flatnonzero(~np.isfinite(features).all(axis=1))[0]} is not finite")
    return features


def load_relation(path, count):
    """int64 [N] or [R, N] groups, or [R, N, k] neighbors, who are ids or -1; N = `count` images."""
    relation = np.array(load_array(path, np.int64, [1, 2, 3]))
    same_number(path, relation.shape[min(1, relation.ndim - 1)], count)
    if relation.min() < (-1 if relation.ndim == 3 else 0) or relation.max() >= count:
        refuse(path, f"holds numbers from {relation.min()} to {relation.max()}; there are {count} images")
    return relation


def load_numbers(path, columns, numbers):
    """The rows of a CSV that has some; its cells in the columns `numbers` are finite, or empty for none."""
    rows = read_table(path, [*columns, *numbers])
    if not rows:
        refuse(path, "holds no row")
    for line, row in enumerate(rows, start=2):
        for column in numbers:
            if row[column] and not is_finite(row[column]):
                refuse(path, f"line {line}: {column} {row[column]!r} is not a finite number")
    return rows


def load_factors(path, count):
    """The rows of factors.csv, one for each of `count` images."""
    rows = read_table(path, ["id"])
    same_number(path, len(rows), count)
    return rows


def load_index(path):
    """The rows of images.csv; a group is the id of its first image."""
    rows = read_table(path, ["id", "source", "sha256", "group"])
    for place, row in enumerate(rows):
        if not row["group"].isdecimal() or int(row["group"]) > place or rows[int(row["group"])]["group"] != row["group"]:
            refuse(path, f"line {place + 2}: group {row['group']!r} is not the id of its first image")
    return rows


def load_split(path, count):
    """{train, val, test: int64 ids in order} of `count` images (of however many there are, if None)."""
    found = defaultdict(list)
    for place, row in enumerate(each_row(path, ["id", "split"])):
        found[row["split"]].append(place)
    rows = sum(map(len, found.values()))
    same_number(path, rows, rows if count is None else count)
    if set(found) - set(SPLITS) or "train" not in found:
        refuse(path, f"its splits are {', '.join(sorted(found))}; allowed: train, with at least one image, val, test")
    return {part: np.array(found[part], dtype=np.int64) for part in SPLITS}


def same_number(path, found, due):
    if found != due:
        refuse(path, f"is for {found} images, but there are {due}")


def is_finite(text):
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
