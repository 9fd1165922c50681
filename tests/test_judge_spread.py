"""Claims on the spread of z: the interval of one number a seed, and what a claim makes of it."""
from types import SimpleNamespace

import pytest

from stages.judge import judge_claims
from stages.lib.intervals import of_seeds

SETTINGS = {"confidence": 0.95}


def claim(word, right):
    return {"left": {"run": "a", "space": "z", "probe": "spread"}, "is": word, "right": right, "margin": 0, "allow": []}


def judged(spreads, word, right):
    return judge_claims({"c": claim(word, right)}, SimpleNamespace(spread={"a": spreads} if spreads else {}), SETTINGS, "shape")["c"]


def test_the_interval_of_1_2_3_is_2_plus_or_minus_4_303_standard_errors():
    found = of_seeds([1, 2, 3], 0.95)
    assert found.mean == 2 and found.high - 2 == pytest.approx(4.302653 / 3**0.5, rel=1e-6) == 2 - found.low


def test_a_spread_is_above_below_or_unclear_by_its_interval():
    assert judged([0.5, 0.6, 0.7], "above", 0.1)["verdict"] == "supported"
    assert judged([0.5, 0.6, 0.7], "below", 0.1)["verdict"] == "refuted"
    assert judged([0.0, 0.6, 0.1], "above", 0.1)["verdict"] == "unclear"
    assert judged([0.0, 0.0, 0.0], "below", 0.01)["verdict"] == "supported"
    assert judged([0.5], "above", 0.1)["verdict"] == "unclear" and judged([], "above", 0.1)["verdict"] == "not applicable"
