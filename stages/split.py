"""Split: groups of images -> train, val or test, before any view exists; no group is in two splits.

Groups are ordered by hash(seed, pixels) within each stratum (a combination of the main and the second factor), the
strata interleaved in proportion, and the sequence is cut: every cut is stratified, and only content and seed decide.
Groups with an image that matches an entry of `hold_out` come first, and the first cut is test: they occur in test alone.
"""
import hashlib
from collections import Counter, defaultdict

from stages.lib.factors import holds
from stages.lib.stage import Refused, run
from stages.lib.tables import read_params, read_table, write_table


def assign(index, strata, held, sizes, seed):
    """The split of each image, in order.

    index: rows of images.csv; strata: a hashable per image; held: bool per image, True for test alone;
    sizes: split -> number of images, test first, in sum all of them.
    A group belongs to its first image's stratum and to one split; so a cut may be off by less than one group.
    """
    members = defaultdict(list)
    for row, image in enumerate(index):
        members[image["group"]].append(row)
    by_stratum = defaultdict(list)
    for rows in members.values():
        code = min(index[row]["sha256"] for row in rows)
        by_stratum[not any(held[row] for row in rows), strata[rows[0]]].append((hashlib.sha256(f"{seed}:{code}".encode()).hexdigest(), rows))
    sequence = []
    for (free, _), groups in by_stratum.items():
        groups.sort()
        sequence += [(free, (rank + 0.5) / len(groups), code, rows) for rank, (code, rows) in enumerate(groups)]
    sequence.sort()
    splits, names = [None] * len(index), iter(sizes.items())
    name, room = next(names)
    for *_, rows in sequence:
        while room <= 0:
            name, more = next(names)
            room += more
        room -= len(rows)
        for row in rows:
            splits[row] = name
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
    return {"train": total - test - val, "val": val, "test": test}


def main(params, name, index, factors, split):
    entry = read_params(params, "datasets", name)
    images, labels = read_table(index, ["id", "sha256", "group"]), read_table(factors, ["id"])
    if [row["id"] for row in images] != [row["id"] for row in labels]:
        raise Refused(f"{factors}: its ids are not those of {index}, in the same order")
    strata = [tuple(row.get(entry[role], "") for role in ("main_factor", "second_factor")) for row in labels]
    shares = {part: entry["split"][part] for part in ("test", "val", "train")}
    sizes = counts(shares, len(images), f"datasets.{name}.split")
    combinations = entry["split"]["hold_out"]
    for factor in {factor for combination in combinations for factor in combination}:
        if factor not in labels[0]:
            raise Refused(f"datasets.{name}.split.hold_out: {factor} is no factor of {factors}; allowed: {', '.join(list(labels[0])[1:])}")
    held = holds(labels, combinations)
    if held.sum() > sizes["test"]:
        raise Refused(f"datasets.{name}.split.hold_out: {held.sum()} images match, more than the {sizes['test']} of test; "
                      "allowed: combinations that fit into test")
    parts = assign(images, strata, held, sizes, entry["split"]["seed"])
    if leaks(images, parts):
        raise Refused(f"{index}: equal images have different groups, e.g. sha256 {leaks(images, parts)[0]}; rerun the stage that wrote it")
    write_table(split, [{"id": row["id"], "split": part} for row, part in zip(images, parts, strict=True)], ["id", "split"])
    found = Counter(parts)
    print(f"{split}: {found['train']} train, {found['val']} val, {found['test']} test" + (f", {held.sum()} of them held out" if combinations else ""))


if __name__ == "__main__":
    run(main)
