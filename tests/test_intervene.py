"""Interventions: a pair differs in exactly one factor."""
import numpy as np
import pytest
from conftest import ROOT

from stages.dataset.digits import draw_factors as draw_digits
from stages.dataset.shapes import draw_factors as draw_shapes
from stages.intervene import draw, others, redrawn
from stages.lib.images import digits, shapes
from stages.lib.tables import read_params

SETTINGS = {name: read_params(ROOT / "params.yaml", "datasets", name, "images") for name in ("shapes", "shapes_marked", "shapes_rich", "digits")}
for entry in SETTINGS.values():
    entry.update({"size": 16}, **({"per_kind": 4} if "per_kind" in entry else {}))
ENTRIES = {name: entry for name, entry in read_params(ROOT / "params.yaml", "interventions").items() if "factor" in entry}


def rows_of(dataset):
    """Rows of factors as they are read back from factors.csv."""
    settings = SETTINGS[dataset]
    rows = draw_digits(np.arange(30) % 10, settings) if dataset == "digits" else draw_shapes(settings)
    return [{"id": str(row), **{name: str(value) for name, value in values.items()}} for row, values in enumerate(rows)]


@pytest.mark.parametrize("dataset", SETTINGS)
@pytest.mark.parametrize("name", ENTRIES)
def test_an_intervention_changes_exactly_one_factor_of_every_image(dataset, name):
    renderer, factor, rows = digits if dataset == "digits" else shapes, ENTRIES[name]["factor"], rows_of(dataset)
    changed, reason = redrawn(ENTRIES[name], rows, range(len(rows)), "digits" if dataset == "digits" else "shapes", SETTINGS[dataset])
    if changed is None:
        assert factor not in rows[0] and reason == f"there is no factor {factor}"
        return
    values = others([row[factor] for row in rows], ENTRIES[name]["to"])
    for row, value in zip(rows, values, strict=True):
        after = renderer.change(row, factor, value, SETTINGS[dataset]["colors"])
        different = {column for column in row if str(after[column]) != row[column]}
        assert different == {factor} | ({"hue"} if factor == "color" and "hue" in row else set())
    assert (changed != draw(renderer, rows, SETTINGS[dataset])).any(axis=(1, 2, 3)).all()


def test_changing_color_keeps_noise_and_every_pixel_that_the_fill_does_not_touch():
    rows = rows_of("shapes")
    before = draw(shapes, rows, SETTINGS["shapes"]).astype(int)
    after, _ = redrawn({"factor": "color", "to": "other"}, rows, range(len(rows)), "shapes", SETTINGS["shapes"])
    bare = draw(shapes, [{**row, "brightness": "0"} for row in rows], SETTINGS["shapes"])
    touched = draw(shapes, [{**row, "background": "1", "tint": "0"} for row in rows], {**SETTINGS["shapes"], "noise": 0}) < 255
    assert (after[~touched] == before[~touched]).all() and (bare[~touched] == before[~touched]).all()
    assert (after[:, 1] == before[:, 1]).all()  # red and blue have the same green


def test_changing_the_watermark_changes_nothing_outside_its_corner():
    rows = rows_of("shapes_marked")
    before = draw(shapes, rows, SETTINGS["shapes_marked"])
    after, _ = redrawn({"factor": "watermark", "to": "other"}, rows, range(len(rows)), "shapes", SETTINGS["shapes_marked"])
    corner = np.zeros((16, 16), bool)
    corner[1:4, 1:4] = True
    assert (after[:, :, ~corner] == before[:, :, ~corner]).all() and (after[:, :, corner] != before[:, :, corner]).any(axis=(1, 2)).all()


def test_hue_moves_with_the_color_and_keeps_its_distance():
    colors = {"a": [1, 0, 0], "b": [0, 1, 0]}  # hues 0 and 1/3
    assert shapes.change({"color": "a", "hue": "0.02"}, "color", "b", colors)["hue"] == round(0.02 + 1 / 3, 4)


def test_other_is_the_next_class_or_half_way_round_the_range():
    assert others(["b", "a", "c"], "other") == ["c", "b", "a"]
    assert others(["0.0", "1.0", "2.5", "4.0"], "other") == [2.0, 3.0, 0.5, 2.0]
    assert others(["5", "5"], "other") is None and others(["0.3", "0.3"], 0.3) is None and others(["0.1", "0.3"], 0.3) == [0.3, 0.3]


def test_what_cannot_be_drawn_again_is_left_out_with_a_reason():
    rows = rows_of("shapes")
    assert redrawn({"factor": "color", "to": "other"}, rows, [0], "folder", {}) == (None, "images from folder cannot be drawn again")
    assert redrawn({"factor": "texture", "to": "other"}, rows, [0], "shapes", {}) == (None, "there is no factor texture")
    same = [{**row, "brightness": "1"} for row in rows]
    assert redrawn({"factor": "brightness", "to": "other"}, same, [0], "shapes", {}) == (None, "brightness has no other value")
