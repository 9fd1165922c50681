"""The sweeps of docs/sweeps.py: each experiment has a sound plan and changes what it says, and a figure's words follow from its numbers."""
import shutil

import pytest
from conftest import ROOT, load_yaml
from dvc.utils.hydra import apply_overrides
from ruamel.yaml import YAML

from docs.sweeps import SWEEPS, draw, finding, headline
from stages.plan import plan_all

DEFAULT = plan_all(load_yaml(ROOT / "params.yaml"))


@pytest.mark.parametrize("name", SWEEPS)
def test_every_point_of_a_sweep_is_another_plan_of_its_runs_and_one_at_most_is_the_default(name, tmp_path):
    sweep, plans = SWEEPS[name], []
    for settings in sweep.points.values():
        shutil.copy2(ROOT / "params.yaml", tmp_path)
        apply_overrides(tmp_path / "params.yaml", settings)
        plans.append(plan_all(YAML(typ="safe").load(tmp_path / "params.yaml")))
    for run in sweep.runs:
        mine = [plan[run] for plan in plans]
        assert all(mine.count(plan) == 1 for plan in mine)
        assert mine.count(DEFAULT[run]) <= 1
    assert all(plan["untrained"] == DEFAULT["untrained"] for plan in plans) or name == "head"


def test_the_queue_holds_as_many_negatives_as_the_batch_and_both_take_about_400_steps():
    images = load_yaml(ROOT / "params.yaml")["datasets"]["shapes"]["split"]["train"]
    for negatives, settings in SWEEPS["queue"].points.items():
        queue, batch, epochs = (int(setting.split("=")[1]) for setting in settings)
        assert queue == int(negatives) == 2 * batch - 2
        assert images % batch == 0 and abs(images // batch * epochs - 400) <= 1


def rows(means, half=0.05, run="simclr_keep"):
    return [{"point": f"{place}", "run": run, "space": space, "factor": "shape", "probe": "knn", "mean": mean, "low": mean - half, "high": mean + half,
             "untrained": 0.7, "chance": 1 / 3, "n": 240, "seeds": 5} for place, mean in means.items() for space in ("h", "z")]


def test_a_change_is_told_only_where_the_intervals_of_the_extremes_lie_apart():
    assert finding(rows({0: 0.9, 0.5: 0.75, 1: 0.7})[::2]) == (pytest.approx(0.2), "0.90 at 0, 0.70 at 1")
    assert finding(rows({0: 0.9, 0.5: 0.75, 1: 0.81})[::2])[1] == "0.90 at 0, 0.75 at 0.5"
    assert finding(rows({0: 0.9, 1: 0.81})[::2]) == (0.0, "no clear change")
    alone = [{**row, "low": None, "high": None} for row in rows({0: 0.9, 1: 0.1})[::2]]
    assert finding(alone) == (0.0, "no clear change")


def test_the_title_names_the_largest_change_in_h_or_says_that_there_is_none():
    sweep = SWEEPS["grayscale"]
    assert headline(rows({0: 0.9, 1: 0.6}), sweep) == "Probability of a gray view changes shape in h of simclr_keep most: 0.90 at 0, 0.60 at 1"
    assert headline(rows({0: 0.9, 1: 0.85}), sweep) == "Probability of a gray view makes no difference in h that is clear of its intervals"


def test_chance_untrained_and_every_interval_are_drawn_where_the_numbers_say():
    figure = draw(rows({0: 0.9, 0.2: 0.8, 0.5: 0.7, 0.8: 0.6, 1: 0.5}), SWEEPS["grayscale"])
    ax = figure.axes[0]
    lines = [list(line.get_ydata()) for line in ax.lines]
    assert [0.7] * 5 in lines and [1 / 3] * 2 in lines and [0.9, 0.8, 0.7, 0.6, 0.5] in lines
    drawn = sorted(tuple(round(y, 6) for _, y in segment) for group in ax.collections for segment in group.get_segments())
    assert drawn == sorted((round(mean - 0.05, 6), round(mean + 0.05, 6)) for mean in (0.9, 0.8, 0.7, 0.6, 0.5) for _ in "hz")
