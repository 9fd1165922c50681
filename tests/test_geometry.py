"""Geometry: closed forms on identity, constant and isotropic rows, slow loops as oracles."""
import numpy as np
import pytest

from stages import geometry
from stages.lib.spectrum import rank_me

RANDOM = np.random.default_rng(3)


def test_identity_rows_have_effective_rank_d_minus_1_and_rankme_d():
    found = geometry.collapse(np.eye(6), 1e-4)
    assert found["effective_rank"] == pytest.approx(5) and found["rank_me"] == pytest.approx(6) and found["used"] == 5


def test_constant_rows_have_rank_0_rankme_1_no_spread_and_finite_numbers():
    rows = np.full((20, 8), 0.3, np.float32)
    found = geometry.collapse(rows, 1e-4)
    assert found["effective_rank"] == 0 and found["used"] == 0 and found["std"] == 0 and found["spread"] == 0
    assert found["rank_me"] == pytest.approx(1, abs=1e-9)
    numbers = [*geometry.diversity(rows, 5).values(), geometry.uniformity(rows), geometry.distance_of_images(rows), geometry.overlap(rows, rows, rows, 5),
               *geometry.pushes(rows, np.arange(20) % 2, 0.1).values(), *np.concatenate(list(geometry.by_dimension(rows).values()))]
    assert np.isfinite(numbers).all()


def test_all_zero_rows_give_finite_numbers_and_rank_0():
    found = geometry.collapse(np.zeros((5, 3), np.float32), 1e-4)
    assert found["effective_rank"] == found["rank_me"] == found["spread"] == 0


def test_isotropic_unit_rows_have_std_1_over_root_d_in_each_dimension():
    rows = np.vstack([np.eye(9), -np.eye(9)])
    assert np.allclose(geometry.by_dimension(rows)["unit_std"], 1 / 3)
    assert geometry.collapse(rows, 1e-4)["spread"] == pytest.approx(1)
    assert np.allclose(geometry.by_dimension(rows)["variance_share"], 1 / 9)


def test_rankme_equals_its_formula():
    rows = RANDOM.normal(size=(30, 5))
    shares = np.linalg.svd(rows, compute_uv=False)
    shares = shares / shares.sum()
    assert rank_me(rows) == pytest.approx(np.exp(-sum(share * np.log(share) for share in shares)))


def test_duplicated_columns_change_no_rank():
    rows = RANDOM.normal(size=(30, 5))
    one, two = geometry.collapse(rows, 1e-4), geometry.collapse(np.hstack([rows, rows]), 1e-4)
    assert two["effective_rank"] == pytest.approx(one["effective_rank"]) and two["used"] == one["used"] == 5 and two["dimensions"] == 10


def test_alignment_is_0_for_equal_rows_2_for_orthogonal_and_4_for_opposite():
    rows = np.eye(4) * 3
    assert [geometry.alignment(rows, other) for other in (rows, rows[[1, 2, 3, 0]], -rows)] == [0, 2, 4]


def test_uniformity_of_two_opposite_rows_is_minus_8_and_equals_a_loop(monkeypatch):
    assert geometry.uniformity(np.array([[1.0, 0], [-1, 0]])) == pytest.approx(-8)
    rows = RANDOM.normal(size=(25, 4))
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    pairs = [np.exp(-2 * ((unit[i] - unit[j]) ** 2).sum()) for i in range(25) for j in range(i)]
    assert geometry.uniformity(rows) == pytest.approx(np.log(np.mean(pairs)), abs=1e-6)


def test_distance_of_images_is_1_for_orthogonal_rows_and_0_for_parallel_ones():
    assert geometry.distance_of_images(np.eye(5)) == pytest.approx(1)
    assert geometry.distance_of_images(np.outer(np.arange(1, 6), [1, 2, 2])) == pytest.approx(0, abs=1e-6)


def test_a_rotation_by_90_degrees_moves_by_1_and_a_scaling_by_0():
    rows = RANDOM.normal(size=(10, 2)).astype(np.float32)
    assert geometry.movement(rows, rows @ np.array([[0, 1], [-1, 0]], np.float32)) == pytest.approx(1, abs=1e-6)
    assert geometry.movement(rows, 5 * rows) == pytest.approx(0, abs=1e-6)


def test_on_a_ring_every_row_is_a_neighbor_twice_and_nothing_is_a_hub():
    angle = np.arange(12) * 2 * np.pi / 12
    found = geometry.diversity(np.stack([np.cos(angle), np.sin(angle)], axis=1), 2)
    assert found["distinct"] == 1 and found["hubness"] == pytest.approx(0, abs=1e-9)


def test_equal_rows_share_one_neighbor_so_two_of_n_are_distinct():
    assert geometry.diversity(np.ones((10, 3)), 1)["distinct"] == 2 / 10


def test_too_large_a_k_is_clamped_to_all_others():
    assert geometry.diversity(np.eye(4), 100)["k"] == 3 and geometry.overlap(np.eye(4), -np.eye(4), np.eye(4), 100) == 1


def test_overlap_of_unchanged_rows_is_1_and_of_swapped_clusters_0():
    train = np.vstack([np.tile([1.0, 0], (5, 1)), np.tile([0, 1.0], (5, 1))])
    rows = np.array([[1.0, 0.1], [0.1, 1]])
    assert geometry.overlap(rows, rows, train, 5) == 1 and geometry.overlap(rows, rows[::-1], train, 5) == 0


def test_pushes_on_two_orthogonal_classes_have_a_closed_form():
    """m rows a class, t: mass on the own class (m - 1) e^(1/t) / ((m - 1) e^(1/t) + m), share (m - 1) / (2m - 1)."""
    labels, m = np.repeat([0, 1], 6), 6
    for t in (0.1, 0.5, 2.0):
        found = geometry.pushes(np.eye(2)[labels] * 7, labels, t)
        own = (m - 1) * np.exp(1 / t) / ((m - 1) * np.exp(1 / t) + m)
        entropy = -own * np.log(own / (m - 1)) - (1 - own) * np.log((1 - own) / m)
        assert found["mass"] == pytest.approx(own) and found["share"] == pytest.approx(5 / 11) and found["negatives"] == pytest.approx(np.exp(entropy))


def test_pushes_equal_a_double_loop():
    rows, labels, t = RANDOM.normal(size=(15, 3)), RANDOM.integers(0, 3, 15), 0.2
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    mass, negatives = [], []
    for i in range(15):
        weights = {j: np.exp(unit[i] @ unit[j] / t) for j in range(15) if j != i}
        total = sum(weights.values())
        mass.append(sum(weight for j, weight in weights.items() if labels[j] == labels[i]) / total)
        negatives.append(np.exp(-sum(weight / total * np.log(weight / total) for weight in weights.values())))
    found = geometry.pushes(rows, labels, t)
    assert found["mass"] == pytest.approx(np.mean(mass), rel=1e-5) and found["negatives"] == pytest.approx(np.mean(negatives), rel=1e-5)


def test_at_a_high_temperature_all_negatives_push_alike():
    found = geometry.pushes(RANDOM.normal(size=(30, 4)), np.arange(30) % 3, 1e6)
    assert found["mass"] == pytest.approx(found["share"], abs=1e-5) and found["negatives"] == pytest.approx(29, abs=1e-4)


def test_random_labels_get_the_mass_of_their_share():
    rows = np.random.default_rng(5).normal(size=(600, 8))
    excess = []
    for seed in range(40):
        found = geometry.pushes(rows, np.random.default_rng(seed).integers(0, 2, 600), 0.2)
        excess.append(found["mass"] - found["share"])
    assert abs(np.mean(excess)) < 3 * np.std(excess) / np.sqrt(40)


def test_a_single_image_has_no_pairs_and_few_images_are_no_dimensional_collapse():
    one = np.ones((1, 3))
    assert geometry.uniformity(one) is None and geometry.distance_of_images(one) is None and geometry.diversity(one, 5)["hubness"] is None
    found = geometry.collapse(RANDOM.normal(size=(10, 50)), 1e-4)
    assert found["used"] == found["dimensions"] == 9
