"""Which columns are classes, which are numbers, and what the entry says instead."""
import pytest

from stages.lib.factors import classes_of, is_numeric, kinds_of
from stages.lib.stage import Refused


def rows(**columns):
    return [{"id": str(place), **dict(zip(columns, cells, strict=True))} for place, cells in enumerate(zip(*columns.values(), strict=True))]


def test_text_and_at_most_twenty_whole_numbers_are_classes():
    assert not is_numeric(["a", "b"]) and not is_numeric([str(n % 20) for n in range(100)])
    assert is_numeric([str(n % 21) for n in range(100)]) and is_numeric(["0.5", "1"]) and is_numeric(["0.5", "", "1"])


def test_what_the_entry_says_of_a_column_overrules_the_rule():
    table = rows(age=["1", "2", "3"], code=["1.5", "2.5", "1.5"], note=["x", "y", "z"])
    assert kinds_of(table, {}) == {"age": "class", "code": "number", "note": "class"}
    assert kinds_of(table, {"age": "number", "code": "class", "note": "none"}) == {"age": "number", "code": "class", "note": "none"}
    assert {name: labels.tolist() for name, labels in classes_of(table, {"age": "number", "code": "class", "note": "none"}).items()} == {"code": [0, 1, 0]}
    with pytest.raises(Refused, match="columns.aeg .* allowed: age, code, note"):
        kinds_of(table, {"aeg": "class"})


def test_an_empty_cell_is_no_class():
    table = rows(breed=["b", "", "a", "b"], always=["x", "", "x", "x"])
    assert {name: labels.tolist() for name, labels in classes_of(table, {}).items()} == {"breed": [1, -1, 0, 1]}
