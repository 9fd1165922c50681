"""Transfer: another data set, read out on its own splits, beside the untrained encoder."""
import json

import numpy as np

from stages.lib.encoder import save_network, start
from stages.lib.tables import read_table, write_table
from stages.transfer import COLUMNS, compare, main, read_out

ENCODER = {"name": "small", "layers": [[4, 2]], "norm": "none", "h": 6, "head": "linear", "hidden": 5, "z": 3}
LABELS = np.arange(90) % 3


def write(folder, labels, images, side=8):
    for seed in (0, 1):
        save_network(folder / f"run/{seed}.safetensors", start(ENCODER, side, seed))
        save_network(folder / f"floor/{seed}.safetensors", start(ENCODER, side, seed))
    np.save(folder / "images.npy", images)
    write_table(folder / "factors.csv", [{"id": row, "class": f"c{label}"} for row, label in enumerate(labels)], ["id", "class"])
    write_table(folder / "split.csv", [{"id": row, "split": ("train", "train", "val", "test")[row // 3 % 4]} for row in range(90)], ["id", "split"])
    params = {"transfers": {"t": {"run": "r", "beside": "u", "to": "d"}}, "probe": {"k": 5, "C": [1], "max_iter": 100}, "extract": {"batch_size": 32},
              "judge": {"confidence": 0.95}, "seed": 0, "replicates": 2}
    (folder / "params.yaml").write_text(json.dumps(params))
    main(str(folder / "params.yaml"), "t", "shapes", *(str(folder / name) for name in ("images.npy", "factors.csv", "split.csv", "run", "floor", "table.csv")))
    return {(row["space"], row["factor"], row["probe"]): row for row in read_table(folder / "table.csv", COLUMNS)}


def test_the_same_weights_gain_exactly_nothing_and_random_labels_give_chance(tmp_path):
    draws = np.random.default_rng(0)
    rows = write(tmp_path, draws.integers(0, 3, 90), draws.integers(0, 256, (90, 3, 8, 8), dtype=np.uint8))
    assert set(rows) == {(space, "class", probe) for space in "hz" for probe in ("knn", "linear")}
    for row in rows.values():
        assert float(row["gain"]) == 0 and float(row["gain_low"]) < 0 < float(row["gain_high"]) and row["mean"] == row["untrained"]
        assert abs(float(row["mean"]) - 1 / 3) < 4 * np.sqrt(2 / 9 / int(row["n"]))
        assert (row["trained_on"], row["dataset"], row["seeds"]) == ("shapes", "d", "2")


def test_classes_that_pixels_show_are_read_perfectly(tmp_path):
    images = np.zeros((90, 3, 8, 8), np.uint8)
    images[np.arange(90), LABELS] = 255
    rows = write(tmp_path, LABELS, images)
    assert float(rows["h", "class", "knn"]["mean"]) == float(rows["h", "class", "linear"]["mean"]) == 1 and float(rows["h", "class", "knn"]["high"]) > 1


def test_another_size_is_not_applicable_and_told_with_both(tmp_path, capsys):
    assert write(tmp_path, LABELS, np.zeros((90, 3, 8, 8), np.uint8), side=16) == {}
    assert "not applicable, " in (said := capsys.readouterr().out) and "was trained on 16 pixels" in said and "has 8" in said


def test_planted_features_are_read_by_both_probes():
    parts = {"train": np.arange(60), "val": np.arange(60, 75), "test": np.arange(75, 90)}
    right = read_out(np.eye(3, dtype=np.float32)[LABELS], parts, {"class": LABELS}, {"k": 5, "C": [0.1, 1], "max_iter": 100})
    assert all(hits.all() for hits in right.values()) and set(right) == {("class", "knn"), ("class", "linear")}


def test_one_seed_has_no_interval():
    assert compare(np.ones((1, 5), bool), np.zeros((1, 5), bool), 0.95)["gain_low"] is None
