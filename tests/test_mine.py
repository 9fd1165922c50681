"""Mined relations: on features whose groups are known, seed by seed, fitted on train alone."""
import numpy as np
import pytest

from stages.lib.stage import Refused
from stages.lib.tables import read_json
from stages.mine import clusters, main, mutual_neighbors

DIRECTIONS = np.eye(3, dtype=np.float32)


def blobs(rows, seed=0):
    """(h, class): rows scattered narrowly about three directions, of any length."""
    generator = np.random.default_rng(seed)
    classes = np.arange(rows) % 3
    return ((DIRECTIONS[classes] + 0.05 * generator.standard_normal((rows, 3))) * generator.uniform(0.5, 5, (rows, 1))).astype(np.float32), classes


def test_clusters_of_three_directions_are_the_three_directions_for_train_and_for_the_rest():
    h, classes = blobs(30)
    found = clusters(h, np.arange(20), 3, 10, seed=1)
    assert len(set(zip(found, classes, strict=True))) == 3
    assert np.array_equal(found, clusters(h, np.arange(20), 3, 10, seed=1))


def test_rows_outside_train_do_not_move_a_cluster():
    h, _ = blobs(30)
    other = h.copy()
    other[20:] = -other[20:]
    assert np.array_equal(clusters(h, np.arange(20), 3, 5, seed=1)[:20], clusters(other, np.arange(20), 3, 5, seed=1)[:20])


def test_neighbors_are_mutual_symmetric_and_in_train_alone():
    """On a half circle at 0, 10, 21, 80 and 170 degrees, 2 nearest: 0-10, 0-21 and 10-21 are mutual; 80 and 170 choose, but are chosen by one another alone."""
    angles = np.deg2rad([0, 10, 21, 80, 170, 11])
    h = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    found = mutual_neighbors(h, np.arange(5), 2)
    pairs = {(row, int(other)) for row, others in enumerate(found) for other in others if other >= 0}
    assert pairs == {(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)} and (found[5] == -1).all()
    assert pairs == {(b, a) for a, b in pairs}


def write_inputs(folder, entry):
    for seed in (5, 6):
        (folder / f"features/{seed}").mkdir(parents=True, exist_ok=True)
        np.save(folder / f"features/{seed}/h.npy", blobs(30, seed)[0])
    (folder / "params.yaml").write_text(f"seed: 5\nreplicates: 2\nmined:\n  found: {entry}\n")
    (folder / "factors.csv").write_text("id,shape\n" + "".join(f"{row},{'abc'[row % 3]}\n" for row in range(30)))
    (folder / "split.csv").write_text("id,split\n" + "".join(f"{row},{'train' if row < 21 else 'test'}\n" for row in range(30)))
    return {"params": str(folder / "params.yaml"), "name": "found", "features": str(folder / "features"), "factors": str(folder / "factors.csv"),
            "split": str(folder / "split.csv"), "relation": str(folder / "found.npy"), "agreement": str(folder / "found.json")}


@pytest.mark.parametrize("entry, shape", [("{kind: clusters, run: x, clusters: 3, restarts: 3}", (2, 30)), ("{kind: neighbors, run: x, k: 4}", (2, 30, 4))])
def test_a_relation_is_mined_for_each_seed_and_measured_against_each_factor(entry, shape, tmp_path):
    paths = write_inputs(tmp_path, entry)
    main(**paths)
    found, report = np.load(paths["relation"]), read_json(paths["agreement"])
    assert found.shape == shape and found.dtype == np.int64 and list(report["seeds"]) == ["5", "6"]
    assert all(report["seeds"][seed]["factors"]["shape"]["wrong_positives"] == 0 for seed in ("5", "6"))
    if len(shape) == 2:
        assert all(report["seeds"][seed]["factors"]["shape"]["false_negatives"] == 0 for seed in ("5", "6"))


@pytest.mark.parametrize("entry, message", [("{kind: clusters, run: x, clusters: 22, restarts: 3}", "mined.found.clusters: 22 is too many for 21 train images"),
                                            ("{kind: neighbors, run: x, k: 21}", "mined.found.k: 21 is too many for 21 train images; allowed: up to 20")])
def test_more_clusters_or_neighbors_than_images_are_refused(entry, message, tmp_path):
    with pytest.raises(Refused, match=message):
        main(**write_inputs(tmp_path, entry))
