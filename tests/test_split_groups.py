"""Splits of a person's folder: what belongs together stays together, and a split that the person brings is kept."""
import pytest
from conftest import ROOT, dump_yaml, load_yaml

from stages.lib.stage import Refused
from stages.lib.tables import read_table, write_table
from stages.split import assign, main


def divide(tmp_path, rows, split, groups=None, **entry):
    """The split of each image; rows: dicts of factors."""
    params = load_yaml(ROOT / "params.yaml")
    params["datasets"]["photos"] = {"main_factor": "class", "second_factor": "none", "split": split, **entry}
    dump_yaml(params, tmp_path / "params.yaml")
    write_table(tmp_path / "factors.csv", [{"id": place, **row} for place, row in enumerate(rows)], ["id", *rows[0]])
    groups = range(len(rows)) if groups is None else groups
    index = [{"id": place, "source": f"{place}.png", "sha256": f"{place:064x}", "group": group, "site": f"s{place}"} for place, group in enumerate(groups)]
    write_table(tmp_path / "images.csv", index, list(index[0]))
    main(str(tmp_path / "params.yaml"), "photos", *(str(tmp_path / name) for name in ("images.csv", "factors.csv", "split.csv")))
    return [row["split"] for row in read_table(tmp_path / "split.csv")]


SHARES = {"train": 0.6, "val": 0.2, "test": 0.2, "seed": 1, "hold_out": []}


def test_a_subject_is_in_one_split_even_through_a_duplicate(tmp_path):
    """Ten subjects of six; image 59 of the last subject duplicates image 0 of the first, so those two subjects are one group."""
    rows = [{"class": "ab"[row % 2], "subject": f"s{row // 6}"} for row in range(60)]
    parts = divide(tmp_path, rows, {**SHARES, "group_by": "subject"}, groups=[0 if row == 59 else row for row in range(60)])
    by_subject = {subject: {part for part, row in zip(parts, rows, strict=True) if row["subject"] == subject} for subject in {row["subject"] for row in rows}}
    assert all(len(spread) == 1 for spread in by_subject.values()) and by_subject["s0"] == by_subject["s9"]
    assert set(parts) == {"train", "val", "test"}


def test_an_empty_cell_joins_nothing(tmp_path):
    parts = divide(tmp_path, [{"class": "a", "subject": ""} for _ in range(10)], {**SHARES, "group_by": "subject"})
    assert sorted(parts) == ["test"] * 2 + ["train"] * 6 + ["val"] * 2


def test_one_large_group_leaves_every_split_something(tmp_path):
    """14 of 20 images are one subject: it goes to train, and no split is empty."""
    rows = [{"class": "a", "subject": "big" if row < 14 else f"s{row}"} for row in range(20)]
    for seed in range(8):
        parts = divide(tmp_path, rows, {**SHARES, "seed": seed, "group_by": "subject"})
        assert set(parts) == {"train", "val", "test"} and set(parts[:14]) == {"train"}


def test_a_split_that_the_person_brings_is_kept(tmp_path):
    told = ["train"] * 6 + ["val"] * 2 + ["test"] * 4
    rows = [{"class": "a", "part": part} for part in told]
    assert divide(tmp_path, rows, {"column": "part", "val": 0, "seed": 1, "hold_out": []}) == told


def test_a_group_that_the_persons_split_tears_apart_goes_to_train(tmp_path, capsys):
    told = ["test", "train", "test", "val", "test", "train", "val"]
    rows = [{"class": "a", "part": part} for part in told]
    parts = divide(tmp_path, rows, {"column": "part", "val": 0, "seed": 1, "hold_out": []}, groups=[0, 0, 2, 2, 4, 5, 6])
    assert parts == ["train", "train", "val", "val", "test", "train", "val"] and "2 images moved" in capsys.readouterr().out


def test_without_val_in_the_column_a_share_of_train_becomes_val(tmp_path):
    rows = [{"class": "ab"[row % 2], "part": "test" if row < 10 else "train"} for row in range(50)]
    parts = divide(tmp_path, rows, {"column": "part", "val": 0.25, "seed": 1, "hold_out": []})
    assert parts[:10] == ["test"] * 10 and parts.count("val") == 10
    assert sum(part == "val" and row["class"] == "a" for part, row in zip(parts, rows, strict=True)) == 5
    with pytest.raises(Refused, match="val is empty"):
        divide(tmp_path, rows, {"column": "part", "val": 0, "seed": 1, "hold_out": []})


@pytest.mark.parametrize("split, entry, said", [
    ({"column": "part", "val": 0, "seed": 1, "hold_out": []}, {}, "part of 1.png is dev; allowed: train, val, test"),
    ({"column": "parts", "val": 0, "seed": 1, "hold_out": []}, {}, "split.column: no column parts; allowed: site, class, part"),
    ({**SHARES, "group_by": "subject"}, {}, "split.group_by: no column subject; allowed: site, class, part"),
    (SHARES, {"main_factor": "klass"}, "main_factor: .*factors.csv has no column klass; allowed: class, part"),
    (SHARES, {"second_factor": "hue"}, "second_factor: .* has no column hue"),
    (SHARES, {}, "train is empty; 2 images in 2 groups"),
])
def test_what_cannot_be_split_is_refused(tmp_path, split, entry, said):
    with pytest.raises(Refused, match=said):
        divide(tmp_path, [{"class": "a", "part": "train"}, {"class": "a", "part": "dev"}], split, **entry)


def test_rare_values_are_told(tmp_path, capsys):
    divide(tmp_path, [{"class": "lynx" if row == 0 else "cat"} for row in range(20)], SHARES)
    assert "class: 1 of 2 values have one image" in capsys.readouterr().out


def test_the_stratum_of_a_group_does_not_depend_on_the_order_of_its_images():
    index = [{"sha256": f"{row:064x}", "group": row // 2} for row in range(40)]
    strata = [row * row % 3 for row in range(40)]  # most groups span two
    sizes = {"test": 10, "val": 10, "train": 20}
    forward = dict(zip([image["sha256"] for image in index], assign(index, strata, [False] * 40, sizes, 1), strict=True))
    back = dict(zip([image["sha256"] for image in index[::-1]], assign(index[::-1], strata[::-1], [False] * 40, sizes, 1), strict=True))
    assert forward == back
