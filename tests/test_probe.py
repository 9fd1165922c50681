"""Probe: known scores on planted features, choices that never look at test, and data sets with one factor or only a number."""
import json
from collections import defaultdict

import numpy as np
import pytest

from stages.lib.tables import TIDY, read_table, write_table
from stages.probe import main, read_classes, read_numbers

SETTINGS = {"k": 5, "C": [0.01, 1, 100], "max_iter": 200, "penalties": [0.1, 10], "recall": [1, 500], "shots": [1, 500], "episodes": 5,
            "slices": ["shape", "size"]}
NUMBER = 300
PARTS = {"train": np.arange(0, 180), "val": np.arange(180, 220), "test": np.arange(220, 300)}
SHAPES = np.arange(NUMBER) % 3
RANDOM = np.random.default_rng(11)
NO_SLICES = {"": {}, "shape": {}}


def values_of(rows, **wanted):
    """{(probe, metric): value} of the rows on all test images that have the wanted entries."""
    return {(row["probe"], row["metric"]): row["value"] for row in rows
            if row["slice"] == wanted.get("slice", "all") and all(row[name] == value for name, value in wanted.items())}


def test_planted_features_score_1_and_a_changed_label_flips_all():
    features = np.eye(3, dtype=np.float32)[SHAPES]
    test = features[PARTS["test"]]
    rows, right = read_classes(features, {"same": test, "rolled": test[:, [1, 2, 0]]}, PARTS, {"shape": SHAPES}, NO_SLICES, SETTINGS, 0)
    found = values_of(rows)
    for probe in ("knn", "linear"):
        assert found[probe, "accuracy"] == found[probe, "balanced_accuracy"] == found[probe, "val_accuracy"] == 1
        assert values_of(rows, slice="intervention=same", probe=probe) == {(probe, "flips"): 0, (probe, "accuracy"): 1}
        assert values_of(rows, slice="intervention=rolled", probe=probe) == {(probe, "flips"): 1, (probe, "accuracy"): 0}
        assert right["shape", probe].all()
    assert found["recall@1", "hit_rate"] == found["few_shot@1", "accuracy"] == 1


def test_constant_features_score_the_share_of_the_predicted_class():
    rows, _ = read_classes(np.ones((NUMBER, 4), np.float32), {}, PARTS, {"shape": SHAPES}, NO_SLICES, SETTINGS, 0)
    found, test = values_of(rows), SHAPES[PARTS["test"]]
    assert found["linear", "accuracy"] in [(test == one).mean() for one in range(3)]
    assert found["knn", "accuracy"] == (test == 0).mean()  # rows 0 to 4 are 0 1 2 0 1: a tie of votes and sums, the first row wins
    assert found["linear", "balanced_accuracy"] == found["knn", "balanced_accuracy"] == 1 / 3


def test_k_and_shots_beyond_what_exists_are_clamped_with_the_effective_value():
    rows, _ = read_classes(RANDOM.normal(size=(NUMBER, 4)), {}, PARTS, {"shape": SHAPES}, NO_SLICES, {**SETTINGS, "k": 10**6}, 0)
    found = values_of(rows)
    assert found["knn", "k"] == 180 and found["recall@500", "k"] == 79 and found["few_shot@500", "shots"] == 60


def test_random_test_labels_change_no_choice():
    features = np.eye(3)[SHAPES] + RANDOM.normal(scale=1.5, size=(NUMBER, 3))
    numbers = features @ [1.0, 2, 3] + RANDOM.normal(size=NUMBER)
    labels, other = SHAPES.copy(), numbers.copy()
    labels[PARTS["test"]] = RANDOM.permutation(labels[PARTS["test"]])
    other[PARTS["test"]] = RANDOM.permutation(other[PARTS["test"]])
    chosen = [{key: value for key, value in values_of([*read_classes(features, {}, PARTS, {"shape": shape}, NO_SLICES, SETTINGS, 0)[0],
                                                       *read_numbers(features, PARTS, {"size": size}, SETTINGS)[0]]).items()
               if key[1] in ("C", "k", "penalty", "val_accuracy", "val_r2", "shots", "converged")} for shape, size in ((SHAPES, numbers), (labels, other))]
    assert chosen[0] == chosen[1] and len(chosen[0]) == 11


def test_slices_have_their_own_accuracy_and_n():
    labels = np.array([0] * 240 + [1] * 60)[np.random.default_rng(1).permutation(300)]
    test = labels[PARTS["test"]]
    slices = {"": {"nobody": np.zeros(80, bool)}, "shape": {"shape=1": test == 1}}
    rows, _ = read_classes(np.ones((NUMBER, 2), np.float32), {}, PARTS, {"shape": labels}, slices, SETTINGS, 0)
    linear = {row["slice"]: row for row in rows if row["probe"] == "linear" and row["metric"] == "accuracy"}
    assert linear["rarest"]["value"] == linear["shape=1"]["value"] == 0 and linear["rarest"]["n"] == (test == 1).sum()
    assert linear["nobody"]["value"] is None and linear["nobody"]["note"] == "no test image in this slice"


def write(folder, factors, features, seeds=1, hold_out=(), **settings):
    """A run's folder of features, all the same in h and z; returns the arguments of main."""
    number = len(features)
    for seed in range(seeds):
        for space in ("h", "z"):
            for name, rows in {".": features, "interventions/nothing": features[220:], "transformations/nothing/1": features,
                               "transformations/shift/1": features + 9}.items():
                path = folder / "run" / str(seed) / name / f"{space}.npy"
                path.parent.mkdir(parents=True, exist_ok=True)
                np.save(path, rows.astype(np.float32))
        np.save(folder / "run" / str(seed) / "transformations/ids.npy", np.arange(number))
    write_table(folder / "factors.csv", [{"id": row, **{name: column[row] for name, column in factors.items()}} for row in range(number)], ["id", *factors])
    write_table(folder / "split.csv", [{"id": row, "split": part} for part, rows in PARTS.items() for row in rows], ["id", "split"])
    params = {"probe": {**SETTINGS, **settings}, "seed": 0, "replicates": seeds, "datasets": {"d": {"split": {"hold_out": list(hold_out)}}}}
    (folder / "params.yaml").write_text(json.dumps(params))
    names = {"params": "params.yaml", "features": "run", "factors": "factors.csv", "split": "split.csv", "table": "table.csv", "correct": "correct.npz"}
    return {"run_name": "run", "dataset": "d", **{name: str(folder / file) for name, file in names.items()}}


def read(folder):
    """{(space, factor, probe, slice, metric): [values by seed]}"""
    found = defaultdict(list)
    for row in read_table(folder / "table.csv", TIDY):
        found[row["space"], row["factor"], row["probe"], row["slice"], row["metric"]].append(float(row["value"]) if row["value"] else None)
    return found


def test_random_labels_and_features_give_chance_in_every_readout(tmp_path):
    draws = np.random.default_rng(4)
    seeds, spaces = 1, ("h",)
    main(**write(tmp_path, {"shape": draws.integers(0, 3, NUMBER), "size": draws.normal(size=NUMBER).round(4)}, draws.normal(size=(NUMBER, 6)), seeds))
    found = read(tmp_path)
    within = 4 * np.sqrt(2 / 9 / 80)  # four standard deviations of a share of 80 images at chance 1/3
    for space in spaces:
        for probe, metric in (("knn", "accuracy"), ("linear", "accuracy"), ("recall@1", "hit_rate"), ("few_shot@1", "accuracy"), ("few_shot@500", "accuracy")):
            assert found[space, "shape", probe, "all", metric][0] == pytest.approx(1 / 3, abs=within), probe
        assert found[space, "size", "ridge", "all", "r2"][0] < 0.1
        assert found[space, "nothing", "transformation", "all", "accuracy"][0] == pytest.approx(1 / 2, abs=4 * 0.5 / np.sqrt(80))
        assert found[space, "shift", "transformation", "all", "accuracy"][0] == 1
        assert found[space, "shape", "knn", "intervention=nothing", "flips"][0] == 0


@pytest.mark.parametrize(("factors", "probes"), [
    ({"shape": np.array(["a", "b", "c"])[SHAPES]}, {"knn", "linear", "recall@1", "recall@500", "few_shot@1", "few_shot@500", "transformation"}),
    ({"size": np.arange(NUMBER) / 7}, {"ridge", "transformation"}),
    ({"same": ["a"] * NUMBER}, {"transformation"}),
    ({"tie": ["a"] * 220 + ["b"] * 80}, {"transformation"}),
])
def test_all_readouts_run_with_one_factor_only_a_number_or_none_that_varies_in_train(tmp_path, factors, probes):
    main(**write(tmp_path, factors, RANDOM.normal(size=(NUMBER, 3)), seeds=2))
    assert {key[2] for key in read(tmp_path)} == probes
    with np.load(tmp_path / "correct.npz") as file:
        assert all(file[name].shape == (2, 80) for name in file.files)


def test_numbers_are_sliced_in_thirds_and_held_out_combinations_apart(tmp_path):
    factors = {"shape": np.array(["a", "b", "c"])[SHAPES], "size": np.arange(NUMBER) / 7}
    main(**write(tmp_path, factors, np.eye(3)[SHAPES], hold_out=[{"shape": "b"}]))
    counts = {row["slice"]: int(row["n"]) for row in read_table(tmp_path / "table.csv")
              if (row["space"], row["probe"], row["metric"], row["factor"]) == ("h", "knn", "accuracy", "shape")}
    assert counts == {"all": 80, "shape=a": 26, "shape=b": 27, "shape=c": 27, "size=low": 0, "size=middle": 0, "size=high": 80,
                      "held_out": 27, "not_held_out": 53, "rarest": 26, "intervention=nothing": 80}


def test_numeric_factor_read_from_its_own_column_has_r2_1(tmp_path):
    size = RANDOM.normal(size=NUMBER).round(4)
    main(**write(tmp_path, {"size": size}, np.stack([size, -size], axis=1), penalties=[1e-6]))
    assert read(tmp_path)["z", "size", "ridge", "all", "r2"][0] == pytest.approx(1, abs=1e-6)
