"""Maps: places that can be checked by hand."""
import numpy as np
import pytest

from stages.map import HEIGHT, flat_map


def test_equally_spaced_points_on_a_line_lie_equally_spaced_across_the_map():
    rows = np.arange(5)[:, None] * np.array([3.0, -4.0, 0.0])
    places = flat_map(rows, "pca", 30, 1)
    assert np.sort(places[:, 0]) == pytest.approx([0, 0.25, 0.5, 0.75, 1], abs=1e-6)
    assert places[:, 1] == pytest.approx(HEIGHT / 2, abs=1e-6)


def test_a_square_keeps_its_shape():
    places = flat_map(np.array([[0, 0], [0, 2], [2, 0], [2, 2.0]]), "pca", 30, 1)
    sides = np.sort(np.linalg.norm(places[:, None] - places, axis=2)[0])[1:]
    assert sides[0] == pytest.approx(sides[1], rel=1e-5) and sides[2] == pytest.approx(sides[0] * 2**0.5, rel=1e-5)
    assert places.min() >= -1e-6 and places[:, 0].max() <= 1 + 1e-6 and places[:, 1].max() <= HEIGHT + 1e-6


@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_equal_rows_and_too_few_rows_lie_in_the_middle(method):
    for rows in (np.full((9, 3), 7.0), np.full((9, 3), 0.1, np.float32) + np.float32(1e-9), np.eye(3)):
        assert flat_map(rows, method, 30, 1) == pytest.approx(np.tile([0.5, HEIGHT / 2], (len(rows), 1)))


def test_two_far_groups_stay_apart_under_tsne_and_the_bytes_repeat():
    rows = np.random.default_rng(1).normal(size=(24, 5)) + np.repeat([[0.0], [40.0]], 12, axis=0)
    places = flat_map(rows, "tsne", 30, 1)
    assert places.tobytes() == flat_map(rows, "tsne", 30, 1).tobytes()
    distance = np.linalg.norm(places[:, None] - places, axis=2) + 9 * np.eye(24)
    assert (distance.argmin(axis=1) // 12 == np.arange(24) // 12).all()


def test_one_dimension_is_enough_for_every_method():
    for method in ("pca", "tsne"):
        assert np.isfinite(flat_map(np.arange(9.0)[:, None], method, 30, 1)).all()
