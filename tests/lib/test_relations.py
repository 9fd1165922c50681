"""Wrong positives and false negatives of a relation, counted by hand and by a loop over all pairs."""
import itertools

import numpy as np
import pytest

from stages.lib.relations import of_groups, of_neighbors

SHAPE = np.array([0, 0, 1, 1, 1, 2])


def shares(related):
    """Pair by pair: (wrong positives, false negatives)."""
    pairs = list(itertools.combinations(range(len(SHAPE)), 2))
    positive, negative = [p for p in pairs if related(*p)], [p for p in pairs if not related(*p)]
    alike = [SHAPE[a] == SHAPE[b] for a, b in positive], [SHAPE[a] == SHAPE[b] for a, b in negative]
    return 1 - np.mean(alike[0]), np.mean(alike[1])


def test_groups_abc_abd_are_counted_by_hand():
    """Groups {0, 1, 2} and {3, 4} and {5}: pairs 01 02 12 34, of which 02 and 12 are wrong; of the 11 others 23 and 24 have one shape."""
    found = of_groups(np.array([7, 7, 7, 4, 4, 9]), {"shape": SHAPE})
    assert found["groups"] == 3 and found["pairs"] == 4 and found["alone"] == 1 and found["sizes"] == {"least": 1, "median": 2.0, "most": 3}
    assert found["factors"]["shape"] == {"wrong_positives": 2 / 4, "false_negatives": 2 / 11}


@pytest.mark.parametrize("groups", [[0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1], [3, 3, 3, 3, 3, 1]])
def test_groups_equal_the_loop_over_pairs(groups):
    found = of_groups(np.array(groups), {"shape": SHAPE})["factors"]["shape"]
    assert (found["wrong_positives"], found["false_negatives"]) == pytest.approx(shares(lambda a, b: groups[a] == groups[b]))


def test_neighbors_equal_the_loop_over_pairs():
    neighbors = np.array([[1, 2], [0, -1], [0, 3], [2, -1], [-1, -1], [-1, -1]])
    found = of_neighbors(neighbors, {"shape": SHAPE})
    assert found["pairs"] == 3 and found["alone"] == 2 and found["groups"] is None
    assert tuple(found["factors"]["shape"].values()) == pytest.approx(shares(lambda a, b: b in neighbors[a]))


def test_a_relation_of_a_factor_has_no_error_against_it_and_instance_has_no_pair():
    assert of_groups(SHAPE, {"shape": SHAPE})["factors"]["shape"] == {"wrong_positives": 0, "false_negatives": 0}
    found = of_groups(np.arange(6), {"shape": SHAPE})["factors"]["shape"]
    assert found == {"wrong_positives": None, "false_negatives": 4 / 15, "reason": "no two images are related"}
    assert of_groups(np.zeros(6, int), {"shape": SHAPE})["factors"]["shape"]["reason"] == "all images are related"
