"""Tables and templates for `dvc plots`."""
import json

import numpy as np
import pytest
from conftest import call

from stages.plot import confusion, mean_curves


def test_a_curve_is_the_mean_of_the_seeds_without_the_untrained_start():
    rows = [{"epoch": "0", "loss": "", "reference": ""}, {"epoch": "1", "loss": "2", "reference": "3"}, {"epoch": "1", "loss": "4", "reference": "3"}]
    assert mean_curves({"a": rows, "untrained": rows[:1]}) == [{"run": "a", "epoch": "1", "loss": 3.0, "reference": 3.0}]


def test_two_of_three_neighbors_decide_a_prediction():
    space = {"neighbors": np.array([[0, 1, 2], [1, 2, 3]]), "similarity": np.array([[0.9, 0.5, 0.4], [0.9, 0.8, 0.7]], np.float32)}
    places = {"a": {"ids": np.array([4, 5]), **{f"{name}/{key}": values for name in ("h", "z") for key, values in space.items()}}}
    rows = confusion(places, ["square", "round", "round", "square", "round", "square"])
    assert [(row["actual"], row["predicted"]) for row in rows if row["space"] == "h"] == [("round", "round"), ("square", "round")]
    assert len(rows) == 4


@pytest.mark.parametrize("plot", ["ledger", "curves", "confusion"])
def test_dvc_fills_each_template_with_the_rows_of_its_table(toy, plot):
    shown = json.loads(call("dvc", "plots", "show", plot, "--show-vega", cwd=toy).stdout)
    assert "<DVC_METRIC" not in json.dumps(shown)
    assert {"workspace"} == {row["rev"] for row in shown["data"]["values"]}
