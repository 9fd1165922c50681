"""Shapes: balance, and a mark that tells the shape except where it is free."""
from collections import Counter

import numpy as np
import pytest
from conftest import ROOT

from stages.dataset.shapes import draw_factors
from stages.lib.images.shapes import MARKS, SHAPES, TEXTURES, hue_of, render
from stages.lib.tables import read_params

MARKED, RICH = (read_params(ROOT / "params.yaml", "datasets", name, "images") for name in ("shapes_marked", "shapes_rich"))


def test_the_share_watermark_free_of_each_kind_is_free_and_fills_test():
    rows = draw_factors(MARKED)
    free = Counter((row["shape"], row["color"]) for row in rows if row["tie"] == "free")
    assert set(free.values()) == {40} and len(free) == 6


@pytest.mark.parametrize(("correlation", "share"), [(1, 1), (0.7, 0.8), (0, 1 / 3)])
def test_a_tied_mark_is_the_shapes_own_with_probability_c_plus_a_third_of_the_rest_and_a_free_one_in_a_third(correlation, share):
    rows = draw_factors({**MARKED, "watermark_correlation": correlation, "per_kind": 2000})
    own = dict(zip(MARKED["shapes"], MARKS, strict=False))
    for tie, expected in (("tied", share), ("free", 1 / 3)):
        hits = [row["watermark"] == own[row["shape"]] for row in rows if row["tie"] == tie]
        assert np.mean(hits) == pytest.approx(expected, abs=4 * 0.5 / len(hits) ** 0.5)


def test_rich_shapes_have_48_kinds_in_equal_numbers_three_textures_and_hues_within_their_range():
    rows = draw_factors(RICH)
    assert set(Counter((row["shape"], row["color"]) for row in rows).values()) == {20} and len(rows) == 960
    assert Counter(row["texture"] for row in rows) == dict.fromkeys(RICH["textures"], 320)
    turns = [(row["hue"] - hue_of(RICH["colors"][row["color"]]) + 0.5) % 1 - 0.5 for row in rows]
    assert max(map(abs, turns)) < 0.0502


def test_names_in_params_are_those_that_can_be_drawn():
    assert RICH["shapes"] == list(SHAPES) and RICH["textures"] == list(TEXTURES)


def test_no_mark_looks_like_another_nor_like_its_mirror_image():
    marks = [np.array([list(line) for line in mark]) for mark in MARKS.values()]
    assert all((mark == mark[:, ::-1]).all() for mark in marks)
    assert all((a != b).any() for i, a in enumerate(marks) for b in marks[:i])


def test_every_shape_and_texture_draws_another_image():
    row = {"id": 0, "color": "a", "x": 0, "y": 0, "scale": 5, "brightness": 1, "background": 0}
    rows = [{**row, "shape": shape, "texture": texture} for shape in SHAPES for texture in TEXTURES]
    images = render(rows, 16, {"a": [1, 1, 1]}, 0, 0)
    assert len({image.tobytes() for image in images}) == 18
