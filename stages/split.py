"""Split: groups of images -> train, val or test, before any view exists; no group is in two splits.

Groups are ordered by hash(seed, pixels) within each stratum (a combination of the main and the second factor), the
strata interleaved in proportion, and the sequence is cut: every cut is stratified, and only content and seed decide.
Groups with an image that matches an entry of `hold_out` come first, and the first cut is test: they occur in test alone.
Or a column tells the split. `group_by` names a column (a subject, a session) whose images stay together too.
"""
import hashlib
from collections import Counter, defaultdict

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from stages.lib.checks import load_factors, load_index
from stages.lib.factors import holds
from stages.lib.stage import Refused, run
from stages.lib.tables import read_params, write_table


def assign(index, strata, held, sizes, seed):
    """The split of each image, in order.

    index: rows of images.csv; strata: a hashable per image; held: bool per image, True for test alone;
    sizes: split -> number of images, test first, in sum all of them.
    A group belongs to the stratum of its image with the first hash and to one split; so a cut may be off by less than one
    group. Every split gets a group, as long as there are three.
    """
    members = defaultdict(list)
    for row, image in enumerate(index):
        members[image["group"]].append(row)
    by_stratum = defaultdict(list)
    for rows in members.values():
        code, stratum = min((index[row]["sha256"], strata[row]) for row in rows)
        by_stratum[not any(held[row] for row in rows), stratum].append((hashlib.sha256(f"{seed}:{code}".encode()).hexdigest(), rows))
    sequence = []
    for (free, _), groups in by_stratum.items():
        groups.sort()
        sequence += [(free, (rank + 0.5) / len(groups), code, rows) for rank, (code, rows) in enumerate(groups)]
    sequence.sort()
    sequence.sort(key=lambda item: item[0] and 2 * len(item[-1]) > len(index))  # more than half of all images can only be train
    splits, names = [None] * len(index), list(sizes)
    room = sizes[names[0]]
    for place, (*_, rows) in enumerate(sequence):
        if place and len(names) > 1 and (room <= 0 or len(sequence) - place < len(names)):  # the splits to come need a group each
            names.pop(0)
            room += sizes[names[0]]
        room -= len(rows)
        for row in rows:
            splits[row] = names[0]
    return splits


def leaks(index, splits):
    """The sha256 of images (equal pixels) that occur in more than one split."""
    seen = defaultdict(set)
    for image, part in zip(index, splits, strict=True):
        seen[image["sha256"]].add(part)
    return [code for code, parts in seen.items() if len(parts) > 1]


def counts(shares, total, where):
    """Images per split: whole numbers that sum to `total` are taken as they are, fractions that sum to 1 are rounded."""
    if all(isinstance(share, int) for share in shares.values()):
        if sum(shares.values()) != total:
            raise Refused(f"{where}: {' + '.join(map(str, shares.values()))} = {sum(shares.values())}, but there are {total} images; "
                          "allowed: counts that sum to all images, or fractions that sum to 1")
        return dict(shares)
    test, val = round(shares["test"] * total), round(shares["val"] * total)
    return {"test": test, "val": val, "train": total - test - val}


def column_of(images, labels, column, where):
    """The cells of a column of images.csv (what is said of a file) or of factors.csv."""
    rows = images if column in images[0] else labels
    if column not in rows[0]:
        raise Refused(f"{where}: no column {column}; allowed: {', '.join([*list(images[0])[4:], *list(labels[0])[1:]])}")
    return [row[column] for row in rows]


def joined(images, values):
    """`images` with groups that also hold together the images of one value; an empty one joins nothing."""
    rows, first = np.arange(len(images)), {}
    partner = [first.setdefault(value, place) if value else place for place, value in enumerate(values)]
    ends = np.append(rows, rows), np.append([int(image["group"]) for image in images], partner)
    groups = connected_components(coo_array((np.ones(2 * len(rows), bool), ends), shape=(len(rows), len(rows))), directed=False)[1]
    return [{**image, "group": group} for image, group in zip(images, groups.tolist(), strict=True)]


def given(images, told, strata, split, where):
    """The split of each image as a column tells it (`told`), but a group that it tears apart goes whole to the first of train, val, test.

    Val is a share of train if the column tells none.
    """
    for image, part in zip(images, told, strict=True):
        if part not in ("train", "val", "test"):
            raise Refused(f"{where}.column: {split['column']} of {image['source']} is {part or 'empty'}; allowed: train, val, test")
    if "val" in told and split["val"]:
        raise Refused(f"{where}.val: {split['val']} is not allowed, since column {split['column']} tells val; allowed: 0")
    place = defaultdict(lambda: "test")
    for image, part in zip(images, told, strict=True):
        place[image["group"]] = max(place[image["group"]], part, key=["test", "val", "train"].index)
    parts = [place[image["group"]] for image in images]
    if moved := sum(part != other for part, other in zip(parts, told, strict=True)):
        print(f"  {moved} images moved to the split of others in their group (the first of train, val, test that column {split['column']} tells of it)")
    if split["val"]:
        rows = [row for row, part in enumerate(parts) if part == "train"]
        val = round(split["val"] * len(rows))
        drawn = assign([images[row] for row in rows], [strata[row] for row in rows], [False] * len(rows), {"val": val, "train": len(rows) - val}, split["seed"])
        for row, part in zip(rows, drawn, strict=True):
            parts[row] = part
    return parts


def drawn(images, labels, strata, split, where):
    """The split of each image by shares, held-out combinations in test."""
    sizes = counts({part: split[part] for part in ("test", "val", "train")}, len(images), where)
    for factor in {factor for combination in split["hold_out"] for factor in combination}:
        if factor not in labels[0]:
            raise Refused(f"{where}.hold_out: {factor} is no factor of this data set; allowed: {', '.join(list(labels[0])[1:])}")
    held = holds(labels, split["hold_out"])
    if held.sum() > sizes["test"]:
        raise Refused(f"{where}.hold_out: {held.sum()} images match, more than the {sizes['test']} of test; allowed: combinations that fit into test")
    if held.any():
        print(f"  {held.sum()} images held out for test")
    return assign(images, strata, held, sizes, split["seed"])


def tell_rare(parts, labels, roles):
    """Tell how many values of the main and the second factor have one image, or none in train."""
    for role in roles:
        everywhere = Counter(row[role] for row in labels)
        absent = everywhere.keys() - {row[role] for row, part in zip(labels, parts, strict=True) if part == "train"}
        single = sum(count == 1 for count in everywhere.values())
        if (single or absent) and len(everywhere) <= len(labels) / 2:  # else a quantity
            print(f"  {role}: {single} of {len(everywhere)} values have one image, {len(absent)} have none in train")


def main(params, name, index, factors, split):
    entry, where = read_params(params, "datasets", name), f"datasets.{name}.split"
    images = load_index(index)
    labels = load_factors(factors, len(images))
    roles = [role for role in ("main_factor", "second_factor") if (role, entry[role]) != ("second_factor", "none")]
    for role in roles:
        if entry[role] not in labels[0]:
            raise Refused(f"datasets.{name}.{role}: {factors} has no column {entry[role]}; allowed: {', '.join(list(labels[0])[1:])}")
    strata = [tuple(row[entry[role]] for role in roles) for row in labels]
    if "group_by" in entry["split"]:
        images = joined(images, column_of(images, labels, entry["split"]["group_by"], f"{where}.group_by"))
    if "column" in entry["split"]:
        parts = given(images, column_of(images, labels, entry["split"]["column"], f"{where}.column"), strata, entry["split"], where)
    else:
        parts = drawn(images, labels, strata, entry["split"], where)
    if leaks(images, parts):
        raise Refused(f"{index}: equal images have different groups, e.g. sha256 {leaks(images, parts)[0]}; rerun the stage that wrote it")
    found, groups = Counter(parts), Counter(image["group"] for image in images)
    for part in ("train", "val", "test"):
        if not found[part]:
            raise Refused(f"{where}: {part} is empty; {len(images)} images in {len(groups)} groups, none of which is ever split, are too few, "
                          "or its share too small")
    tell_rare(parts, labels, [entry[role] for role in roles])
    write_table(split, [{"id": row["id"], "split": part} for row, part in zip(images, parts, strict=True)], ["id", "split"])
    print(f"{split}: {found['train']} train, {found['val']} val, {found['test']} test; {len(groups)} groups, the largest of {max(groups.values())}")


if __name__ == "__main__":
    run(main)
