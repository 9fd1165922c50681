"""Which columns are classes and which are numbers, from their cells alone."""
from stages.lib.factors import is_numeric


def test_text_and_at_most_twenty_whole_numbers_are_classes():
    assert not is_numeric(["a", "b"]) and not is_numeric([str(n % 20) for n in range(100)]) and not is_numeric(["-1", "+1", "0"])
    assert is_numeric([str(n % 21) for n in range(100)]) and is_numeric(["0.5", "1"])


def test_a_decimal_point_makes_a_number_of_a_whole_one():
    assert is_numeric(["1.0", "2.0"]) and is_numeric(["1e3", "5"]) and not is_numeric(["grade 1.0", "grade 2.0"])
