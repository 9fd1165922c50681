"""Split: groups of images -> train, val or test, before any view exists; no group is in two splits.

Groups are ordered by hash(seed, pixels) within each stratum (a combination of the main and the second factor), the
strata interleaved in proportion, and the sequence is cut: every cut is stratified, and only content and seed decide.
Or a column of the factors tells the split. `group_by` names a column (a subject, a session) whose images stay together too.
"""
import hashlib
from collections import Counter, defaultdict

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from stages.lib.stage import Refused, run
from stages.lib.tables import read_params, read_table, write_table


def assign(index, strata, sizes, seed):
    """The split of each image, in order.

    index: rows of images.csv; strata: a hashable per image; sizes: split -> number of images, in sum all of them.
    A group belongs to the stratum of its image with the first hash and to one split; so a cut may be off by less than one
    group. Every split gets a group, as long as there are three.
    """
    members = defaultdict(list)
    for row, image in enumerate(index):
        members[image["group"]].append(row)
    by_stratum = defaultdict(list)
    for rows in members.values():
        code, stratum = min((index[row]["sha256"], strata[row]) for row in rows)
        by_stratum[stratum].append((hashlib.sha256(f"{seed}:{code}".encode()).hexdigest(), rows))
    sequence = []
    for groups in by_stratum.values():
        groups.sort()
        sequence += [((rank + 0.5) / len(groups), code, rows) for rank, (code, rows) in enumerate(groups)]
    sequence.sort()
    splits, names = [None] * len(index), list(sizes)
    room = sizes[names[0]]
    for place, (_, _, rows) in enumerate(sequence):
        if place and len(names) > 1 and (room <= 0 or len(sequence) - place < len(names)):  # the splits to come need a group each
            names.pop(0)
            room += sizes[names[0]]
        room -= len(rows)
        for row in rows:
            splits[row] = names[0]
    return splits


def counts(shares, total, where):
    """Images per split: whole numbers that sum to `total` are taken as they are, fractions that sum to 1 are rounded."""
    if all(isinstance(share, int) for share in shares.values()):
        if sum(shares.values()) != total:
            raise Refused(f"{where}: {' + '.join(map(str, shares.values()))} = {sum(shares.values())}, but there are {total} images; "
                          "allowed: counts that sum to all images, or fractions that sum to 1")
        return dict(shares)
    test, val = round(shares["test"] * total), round(shares["val"] * total)
    return {"test": test, "val": val, "train": total - test - val}


def joined(images, labels, column, where):
    """`images` with groups that also hold together the images of one value of a column; an empty cell joins nothing."""
    if column not in labels[0]:
        raise Refused(f"{where}.group_by: no column {column}; allowed: {', '.join(list(labels[0])[1:])}")
    rows, first = np.arange(len(images)), {}
    partner = [first.setdefault(row[column], place) if row[column] else place for place, row in enumerate(labels)]
    ends = np.append(rows, rows), np.append([int(image["group"]) for image in images], partner)
    ties = coo_array((np.ones(2 * len(rows), bool), ends), shape=(len(rows), len(rows)))
    groups = connected_components(ties, directed=False)[1].tolist()
    return [{**image, "group": group} for image, group in zip(images, groups, strict=True)]


def given(images, labels, strata, split, where):
    """(the split of each image that a column tells, number of images moved since a group spanned several splits).

    A group goes whole to the first of train, val, test that any of its images is in. Val is a share of train if the
    column tells none.
    """
    column = split["column"]
    if column not in labels[0]:
        raise Refused(f"{where}.column: no column {column}; allowed: {', '.join(list(labels[0])[1:])}")
    told = [row[column] for row in labels]
    for image, part in zip(images, told, strict=True):
        if part not in ("train", "val", "test"):
            raise Refused(f"{where}.column: {column} of {image['source']} is {part or 'empty'}; allowed: train, val, test")
    if "val" in told and split["val"]:
        raise Refused(f"{where}.val: {split['val']} is not allowed, since column {column} tells val; allowed: 0")
    place = defaultdict(lambda: "test")
    for image, part in zip(images, told, strict=True):
        place[image["group"]] = max(place[image["group"]], part, key=["test", "val", "train"].index)
    parts = [place[image["group"]] for image in images]
    moved = sum(part != other for part, other in zip(parts, told, strict=True))
    if split["val"]:
        rows = [row for row, part in enumerate(parts) if part == "train"]
        sizes = {"val": round(split["val"] * len(rows)), "train": len(rows) - round(split["val"] * len(rows))}
        for row, part in zip(rows, assign([images[row] for row in rows], [strata[row] for row in rows], sizes, split["seed"]), strict=True):
            parts[row] = part
    return parts, moved


def report(parts, labels, roles):
    """Tell which values of the main and the second factor are rare: with one image, or with none in train."""
    for role in roles:
        everywhere = Counter(row[role] for row in labels if row[role])
        train = {row[role] for row, part in zip(labels, parts, strict=True) if part == "train"}
        single, absent = ([value for value in everywhere if test(value)] for test in (lambda value: everywhere[value] == 1, lambda value: value not in train))
        if (single or absent) and len(everywhere) <= len(labels) / 2:  # else a quantity
            print(f"  {role}: {len(single)} of {len(everywhere)} values have one image, {len(absent)} have none in train")


def main(params, name, index, factors, split):
    entry, where = read_params(params, "datasets", name), f"datasets.{name}.split"
    images, labels = read_table(index, ["id", "source", "sha256", "group"]), read_table(factors, ["id"])
    if [row["id"] for row in images] != [row["id"] for row in labels]:
        raise Refused(f"{factors}: its ids are not those of {index}, in the same order")
    for role in ("main_factor", "second_factor"):
        if entry[role] not in labels[0] and (role, entry[role]) != ("second_factor", "none"):
            raise Refused(f"datasets.{name}.{role}: {factors} has no column {entry[role]}; allowed: {', '.join(list(labels[0])[1:])}")
    roles = [entry[role] for role in ("main_factor", "second_factor") if entry[role] in labels[0]]
    strata, moved = [tuple(row[role] for role in roles) for row in labels], 0
    if "group_by" in entry["split"]:
        images = joined(images, labels, entry["split"]["group_by"], where)
    if "column" in entry["split"]:
        parts, moved = given(images, labels, strata, entry["split"], where)
    else:
        shares = {part: entry["split"][part] for part in ("test", "val", "train")}
        parts = assign(images, strata, counts(shares, len(images), where), entry["split"]["seed"])
    found, groups = Counter(parts), len({image["group"] for image in images})
    for part in ("train", "val", "test"):
        if not found[part]:
            raise Refused(f"{where}: {part} is empty; {len(images)} images in {groups} groups, none of which is ever split, are too few or its share too small")
    report(parts, labels, roles)
    if moved:
        print(f"  {moved} images moved to the split of their group (the first of train, val, test that {entry['split']['column']} tells of it)")
    write_table(split, [{"id": row["id"], "split": part} for row, part in zip(images, parts, strict=True)], ["id", "split"])
    print(f"{split}: {found['train']} train, {found['val']} val, {found['test']} test, {groups} groups")


if __name__ == "__main__":
    run(main)
