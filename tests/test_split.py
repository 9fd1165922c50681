"""Splits: exact counts, balanced strata, groups together, and independent of the order of images."""
from collections import Counter

import pytest

from stages.lib.factors import holds
from stages.lib.stage import Refused
from stages.lib.tables import read_table, write_table
from stages.split import assign, counts, leaks, main


def images(number, group=None):
    return [{"id": str(row), "sha256": f"{row:064x}", "group": str(row if group is None else group(row))} for row in range(number)]


def test_counts_are_exact_and_each_stratum_is_split_in_proportion():
    strata = [row % 6 for row in range(960)]
    parts = assign(images(960), strata, [False] * 960, {"test": 240, "val": 120, "train": 600}, seed=1)
    assert Counter(parts) == {"train": 600, "test": 240, "val": 120}
    assert Counter(zip(parts, strata, strict=True)) == {(part, s): n for part, n in (("train", 100), ("test", 40), ("val", 20)) for s in range(6)}


def test_no_group_is_in_two_splits():
    index = images(300, group=lambda row: row // 3)
    parts = assign(index, [0] * 300, [False] * 300, {"test": 75, "val": 45, "train": 180}, seed=1)
    assert all(len({part for image, part in zip(index, parts, strict=True) if image["group"] == str(group)}) == 1 for group in range(100))
    assert Counter(parts) == {"train": 180, "test": 75, "val": 45}


def test_content_and_seed_decide_not_the_order():
    index, strata = images(60), [row % 2 for row in range(60)]
    first = dict(zip([image["sha256"] for image in index], assign(index, strata, [False] * 60, {"test": 20, "val": 10, "train": 30}, 1), strict=True))
    turned = list(reversed(index))
    second = dict(zip([image["sha256"] for image in turned], assign(turned, strata[::-1], [False] * 60, {"test": 20, "val": 10, "train": 30}, 1), strict=True))
    other = dict(zip([image["sha256"] for image in index], assign(index, strata, [False] * 60, {"test": 20, "val": 10, "train": 30}, 2), strict=True))
    assert first == second and first != other


def test_fractions_are_rounded_and_counts_must_sum():
    assert counts({"test": 0.2, "val": 0.1, "train": 0.7}, 24, "here") == {"test": 5, "val": 2, "train": 17}
    with pytest.raises(Refused, match="10 \\+ 5 \\+ 20 = 35, but there are 36 images"):
        counts({"test": 10, "val": 5, "train": 20}, 36, "here")


def test_held_out_combinations_occur_in_test_alone_and_the_counts_stay():
    rows = [{"id": str(row), "shape": "ab"[row % 2], "color": "rgb"[row % 3]} for row in range(60)]
    held = holds(rows, [{"shape": "a", "color": "r"}])
    assert held.sum() == 10
    parts = assign(images(60), [row["shape"] for row in rows], held, {"test": 20, "val": 10, "train": 30}, 1)
    assert {part for part, is_held in zip(parts, held, strict=True) if is_held} == {"test"}
    assert Counter(parts) == {"train": 30, "test": 20, "val": 10}


def test_a_copy_of_a_held_out_image_is_held_out_with_it():
    parts = assign(images(40, group=lambda row: row // 2), [0] * 40, [row % 8 == 1 for row in range(40)], {"test": 16, "val": 4, "train": 20}, 1)
    assert all(parts[row] == parts[row + 1] == "test" for row in range(0, 40, 8))


def test_train_images_copied_into_test_are_found_as_leaks():
    index, parts = images(20), ["train"] * 12 + ["test"] * 8
    assert leaks(index, parts) == []
    planted = index + [dict(image) for image in index[:12]]
    assert leaks(planted, parts + ["test"] * 12) == [image["sha256"] for image in index[:12]]


def write(folder, number, group, **split):
    write_table(folder / "images.csv", [{**image, "source": "x"} for image in images(number, group)], ["id", "source", "sha256", "group"])
    write_table(folder / "factors.csv", [{"id": row, "shape": "ab"[row % 2]} for row in range(number)], ["id", "shape"])
    settings = {"train": 10, "val": 4, "test": 6, "seed": 1, "hold_out": [], **split}
    (folder / "params.yaml").write_text(f"datasets: {{d: {{main_factor: shape, second_factor: none, split: {settings}}}}}".replace("'", '"'))
    return [str(folder / name) for name in ("params.yaml", "images.csv", "factors.csv", "split.csv")]


def test_copies_that_share_a_group_stay_together_and_copies_in_groups_of_their_own_are_refused(tmp_path):
    params, index, factors, split = write(tmp_path, 20, lambda row: row % 10)
    rows = read_table(index)
    copied = [{**row, "sha256": rows[int(row["id"]) % 10]["sha256"]} for row in rows]
    write_table(index, copied, list(copied[0]))
    main(params, "d", index, factors, split)
    parts = [row["split"] for row in read_table(split)]
    assert parts[:10] == parts[10:]
    write_table(index, [{**row, "group": row["id"]} for row in copied], list(copied[0]))
    with pytest.raises(Refused, match="equal images have different groups"):
        main(params, "d", index, factors, split)


@pytest.mark.parametrize(("hold_out", "told"), [([{"shape": "a"}], "10 images match, more than the 6 of test"), ([{"size": 1}], "size is no factor")])
def test_combinations_that_cannot_be_held_out_are_refused(tmp_path, hold_out, told):
    params, index, factors, split = write(tmp_path, 20, None, hold_out=hold_out)
    with pytest.raises(Refused, match=told):
        main(params, "d", index, factors, split)
