import numpy as np

from stages.relate import group_numbers


def test_groups_are_numbered_by_their_first_image():
    assert group_numbers(["b", "a", "b", "c", "a"]).tolist() == [0, 1, 0, 3, 1]
    assert group_numbers([]).dtype == np.int64
