"""Splits: exact counts, balanced strata, groups together, and independent of the order of images."""
from collections import Counter

import pytest

from stages.lib.stage import Refused
from stages.split import assign, counts


def images(number, group=None):
    return [{"id": str(row), "sha256": f"{row:064x}", "group": str(row if group is None else group(row))} for row in range(number)]


def test_counts_are_exact_and_each_stratum_is_split_in_proportion():
    strata = [row % 6 for row in range(960)]
    parts = assign(images(960), strata, {"test": 240, "val": 120, "train": 600}, seed=1)
    assert Counter(parts) == {"train": 600, "test": 240, "val": 120}
    assert Counter(zip(parts, strata, strict=True)) == {**{("train", s): 100 for s in range(6)}, **{("test", s): 40 for s in range(6)}, **{("val", s): 20 for s in range(6)}}


def test_no_group_is_in_two_splits():
    index = images(300, group=lambda row: row // 3)
    parts = assign(index, [0] * 300, {"test": 75, "val": 45, "train": 180}, seed=1)
    assert all(len({part for image, part in zip(index, parts, strict=True) if image["group"] == str(group)}) == 1 for group in range(100))
    assert Counter(parts) == {"train": 180, "test": 75, "val": 45}


def test_content_and_seed_decide_not_the_order():
    index, strata = images(60), [row % 2 for row in range(60)]
    first = dict(zip([image["sha256"] for image in index], assign(index, strata, {"test": 20, "val": 10, "train": 30}, 1), strict=True))
    turned = list(reversed(index))
    second = dict(zip([image["sha256"] for image in turned], assign(turned, strata[::-1], {"test": 20, "val": 10, "train": 30}, 1), strict=True))
    other = dict(zip([image["sha256"] for image in index], assign(index, strata, {"test": 20, "val": 10, "train": 30}, 2), strict=True))
    assert first == second and first != other


def test_fractions_are_rounded_and_counts_must_sum():
    assert counts({"test": 0.2, "val": 0.1, "train": 0.7}, 24, "here") == {"test": 5, "val": 2, "train": 17}
    with pytest.raises(Refused, match="10 \\+ 5 \\+ 20 = 35, but there are 36 images"):
        counts({"test": 10, "val": 5, "train": 20}, 36, "here")
