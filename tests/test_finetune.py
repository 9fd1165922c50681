"""Finetune: a fixed budget, the same for every run, and choices that never look at test."""
import json
from collections import Counter

import numpy as np

from stages.finetune import batch_of, labeled, main
from stages.lib.encoder import fingerprint, load_network, save_network, start
from stages.lib.tables import TIDY, read_table, write_table

ENCODER = {"name": "small", "layers": [[4, 2]], "norm": "none", "h": 6, "head": "none", "hidden": 5, "z": 6}
LABELS = np.arange(120) % 2
IMAGES = np.where(LABELS[:, None, None, None] == 1, 220, 30).astype(np.uint8) * np.ones((1, 3, 8, 8), np.uint8)
PARTS = ["train"] * 60 + ["val"] * 20 + ["test"] * 40


def write(folder, labels=LABELS, images=IMAGES, budget=10, **settings):
    save_network(folder / "models/0.safetensors", start(ENCODER, 8, 0))
    np.save(folder / "images.npy", images)
    write_table(folder / "factors.csv", [{"id": row, "class": f"c{label}"} for row, label in enumerate(labels)], ["id", "class"])
    write_table(folder / "split.csv", [{"id": row, "split": part} for row, part in enumerate(PARTS)], ["id", "split"])
    params = {"finetune": {"labels": budget, "steps": 40, "batch_size": 6, "lr": [0.001, 0.03], **settings}, "device": "cpu", "seed": 0, "replicates": 1,
              "datasets": {"d": {"main_factor": "class"}}}
    (folder / "params.yaml").write_text(json.dumps(params))
    main(str(folder / "params.yaml"), "d", *(str(folder / name) for name in ("images.npy", "factors.csv", "split.csv")), "run",
         *(str(folder / name) for name in ("models", "table.csv", "correct.npz")))
    return {row["metric"]: float(row["value"]) for row in read_table(folder / "table.csv", TIDY) if row["value"]}


def test_images_that_differ_in_brightness_are_told_apart_with_10_labels(tmp_path):
    found = write(tmp_path)
    assert found["accuracy"] == found["val_accuracy"] == 1 and found["majority"] == 0.5 and found["labels"] == 10 and found["steps"] == 40
    with np.load(tmp_path / "correct.npz") as file:
        assert file["h/class/finetune"].shape == (1, 40) and file["h/class/finetune"].all()


def test_identical_images_give_chance(tmp_path):
    assert write(tmp_path, images=IMAGES * 0 + 100)["accuracy"] == 0.5


def test_random_labels_give_chance(tmp_path):
    draws = np.random.default_rng(2)
    found = write(tmp_path, labels=draws.integers(0, 2, 120), images=draws.integers(0, 256, IMAGES.shape).astype(np.uint8))
    assert abs(found["accuracy"] - 0.5) < 4 * 0.5 / np.sqrt(40)


def test_random_test_labels_change_neither_the_lr_nor_the_val_accuracy(tmp_path):
    labels = LABELS.copy()
    labels[80:] = np.random.default_rng(0).permutation(labels[80:])
    noisy = np.clip(IMAGES / 8 + np.random.default_rng(1).normal(100, 40, IMAGES.shape), 0, 255).astype(np.uint8)
    first, second = write(tmp_path, images=noisy), write(tmp_path, labels=labels, images=noisy)
    assert (first["lr"], first["val_accuracy"]) == (second["lr"], second["val_accuracy"]) and first["accuracy"] != second["accuracy"]


def test_more_labels_than_there_are_become_all_of_train(tmp_path):
    assert write(tmp_path, labels=LABELS, budget=1000, steps=1)["labels"] == 60


def test_the_files_of_the_encoder_stay_as_they_were(tmp_path):
    save_network(tmp_path / "models/0.safetensors", start(ENCODER, 8, 0))
    before = fingerprint(load_network(tmp_path / "models/0.safetensors"))
    write(tmp_path)
    assert fingerprint(load_network(tmp_path / "models/0.safetensors")) == before


def test_labels_are_balanced_as_long_as_classes_last_and_depend_on_the_seed_alone():
    labels = np.array([0] * 50 + [1] * 3 + [2] * 50)
    rows = labeled(np.arange(103), labels, 21, 4)
    assert Counter(labels[rows].tolist()) == {0: 9, 1: 3, 2: 9} and len(set(rows)) == 21
    assert (labeled(np.arange(103), labels, 21, 4) == rows).all() and (labeled(np.arange(103), labels, 21, 5) != rows).any()


def test_a_batch_has_no_image_twice_and_at_most_all():
    assert len(set(batch_of(np.arange(30), 12, 0, 1))) == 12 and sorted(batch_of(np.arange(5), 12, 0, 1)) == [0, 1, 2, 3, 4]


def test_a_main_factor_that_is_no_class_gives_a_reason(tmp_path):
    write(tmp_path, labels=LABELS * 0)
    row, = read_table(tmp_path / "table.csv")
    assert row["value"] == "" and row["note"] == "the main factor is no class that varies"


