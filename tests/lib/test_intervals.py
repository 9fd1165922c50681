"""Intervals: hand-worked p values, Holm's correction, and a judge that is calibrated on comparisons where there is nothing to find."""
from pathlib import Path

import numpy as np
import pytest

from benchmarks.calibration import false_verdicts, normal_model, real_results
from stages.lib.intervals import Estimate, estimate, holm, p_values, quantile

REAL = Path(__file__).parent / "results_by_seed.npz"


def test_p_is_5_percent_where_the_95_percent_interval_ends():
    """t(0.975, 4) = 2.776445; an effect that far above the margin, in standard errors."""
    found = Estimate(0.1 + 0.02 * 2.7764451052, None, None, [(0.02**2, 4)])
    assert p_values(found, 0.1, np.inf) == (pytest.approx(0.05), 1.0)
    assert p_values(found, -np.inf, 0.1) == (1.0, pytest.approx(0.05))


def test_near_needs_both_ends_and_is_refuted_outside_either():
    inside, outside = p_values(Estimate(0.0, None, None, [(0.01**2, 1e9)]), -0.03, 0.03)
    assert inside == pytest.approx(2 * 0.0013499, rel=1e-3) and outside == 1.0
    inside, outside = p_values(Estimate(-0.06, None, None, [(0.01**2, 1e9)]), -0.03, 0.03)
    assert outside == pytest.approx(2 * 0.0013499, rel=1e-3) and inside == 1.0
    assert min(p_values(Estimate(0.03, None, None, [(0.01**2, 1e9)]), -0.03, 0.03)) == 1.0


def test_p_agrees_with_the_interval_of_every_confidence():
    values = np.random.default_rng(0).normal(0.05, 0.3, (5, 60))
    for confidence in (0.5, 0.8, 0.95, 0.99):
        found = estimate(values, confidence, paired=True)
        assert (p_values(found, found.low, np.inf)[0]) == pytest.approx(1 - confidence)
        assert (p_values(found, -np.inf, found.high)[0]) == pytest.approx(1 - confidence)


def test_holm_by_hand_0_01_0_04_0_03_become_0_03_0_06_0_06():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == [] and holm([0.2]) == [0.2] and holm([0.9, 0.8]) == [1.0, 1.0]


def test_one_seed_gives_a_mean_and_no_interval():
    assert estimate(np.ones((1, 10)), 0.95, paired=False) == Estimate(1.0, None, None, None)


def test_five_perfect_seeds_on_240_images_still_have_a_width():
    """Pseudo-images two right, two wrong: variance (242/244)(2/244) 244/243, over 244 images."""
    found = estimate(np.ones((5, 240)), 0.95, paired=False)
    assert found.parts == [(pytest.approx(242 / 244 * 2 / 244 * 244 / 243 / 244), 239), (0, 4)]
    assert found.high - 1 == pytest.approx(1.9699 * np.sqrt(found.parts[0][0]), rel=1e-4)


def test_quantile_of_equal_parts_is_the_mean_of_their_t_and_of_one_part_its_own():
    """t(0.975, 4) = 2.776445, t(0.975, 239) = 1.969939."""
    assert quantile(0.05, [(0.3, 239), (0.3, 4)]) == pytest.approx((2.776445 + 1.969939) / 2, abs=1e-6)
    assert quantile(0.05, [(0.3, 239), (0.0, 4)]) == pytest.approx(1.969939, abs=1e-6)


@pytest.mark.parametrize("replicates", [3, 5, 10])
@pytest.mark.parametrize("source", ["normal model", "real results"])
def test_of_1000_null_comparisons_at_most_65_are_called(replicates, source):
    draw = normal_model(images=240) if source == "normal model" else real_results(REAL, "h/shape/knn")
    assert false_verdicts(draw, replicates, comparisons=1000, confidence=0.95, seed=1) <= 0.065
