"""Split: groups of images -> train, val or test, before any view exists; no group is in two splits.

Groups are ordered by hash(seed, pixels) within each stratum (a combination of the main and the second factor), the
strata interleaved in proportion, and the sequence is cut: every cut is stratified, and only content and seed decide.
"""
import hashlib
from collections import Counter, defaultdict

from stages.lib.checks import load_factors, load_index
from stages.lib.stage import Refused, run
from stages.lib.tables import read_params, write_table


def assign(index, strata, sizes, seed):
    """The split of each image, in order.

    index: rows of images.csv; strata: a hashable per image; sizes: split -> number of images, in sum all of them.
    A group belongs to its first image's stratum and to one split; so a cut may be off by less than one group.
    """
    members = defaultdict(list)
    for row, image in enumerate(index):
        members[image["group"]].append(row)
    by_stratum = defaultdict(list)
    for rows in members.values():
        code = min(index[row]["sha256"] for row in rows)
        by_stratum[strata[rows[0]]].append((hashlib.sha256(f"{seed}:{code}".encode()).hexdigest(), rows))
    sequence = []
    for groups in by_stratum.values():
        groups.sort()
        sequence += [((rank + 0.5) / len(groups), code, rows) for rank, (code, rows) in enumerate(groups)]
    sequence.sort()
    splits, names = [None] * len(index), iter(sizes.items())
    name, room = next(names)
    for _, _, rows in sequence:
        while room <= 0:
            name, more = next(names)
            room += more
        room -= len(rows)
        for row in rows:
            splits[row] = name
    return splits


def counts(shares, total, where):
    """Images per split: whole numbers that sum to `total` are taken as they are, fractions that sum to 1 are rounded."""
    if all(isinstance(share, int) for share in shares.values()):
        if sum(shares.values()) != total:
            raise Refused(f"{where}: {' + '.join(map(str, shares.values()))} = {sum(shares.values())}, but there are {total} images; "
                          "allowed: counts that sum to all images, or fractions that sum to 1")
        return dict(shares)
    test, val = round(shares["test"] * total), round(shares["val"] * total)
    return {"train": total - test - val, "val": val, "test": test}


def main(params, name, index, factors, split):
    entry = read_params(params, "datasets", name)
    images = load_index(index)
    labels = load_factors(factors, len(images))
    strata = [tuple(row.get(entry[role], "") for role in ("main_factor", "second_factor")) for row in labels]
    shares = {part: entry["split"][part] for part in ("test", "val", "train")}
    parts = assign(images, strata, counts(shares, len(images), f"datasets.{name}.split"), entry["split"]["seed"])
    write_table(split, [{"id": row["id"], "split": part} for row, part in zip(images, parts, strict=True)], ["id", "split"])
    found = Counter(parts)
    print(f"{split}: {found['train']} train, {found['val']} val, {found['test']} test")


if __name__ == "__main__":
    run(main)
