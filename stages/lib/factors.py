"""Factors of variation: which columns of factors.csv are classes and which are numbers."""
import numpy as np

from stages.lib.stage import Refused

MOST_WHOLE_NUMBERS = 20  # whole numbers with more distinct values than this are a quantity, not names of classes


def is_numeric(values):
    """True unless the strings name classes: text, or whole numbers with at most 20 distinct values. Empty cells say nothing."""
    try:
        numbers = [float(value) for value in values if value]
    except ValueError:
        return False
    return not all(number.is_integer() for number in numbers) or len(set(numbers)) > MOST_WHOLE_NUMBERS


def kinds_of(rows, said):
    """{factor: class, number or none} for the rows of factors.csv (strings): what `said` says of a column, else the rule of is_numeric."""
    names = list(rows[0])[1:]
    for name in said:
        if name not in names:
            raise Refused(f"columns.{name} of the data set in use: factors.csv has no such column; allowed: {', '.join(names)}")
    return {name: said.get(name) or ("number" if is_numeric([row[name] for row in rows]) else "class") for name in names}


def classes_of(rows, said):
    """{factor: int [N], numbers of its sorted values, -1 for an empty cell} for each class-like column of factors.csv; `said` as above."""
    factors = {}
    for name, kind in kinds_of(rows, said).items():
        values = np.array([row[name] for row in rows])
        known = values != ""
        if kind == "class" and len(set(values[known])) > 1:  # a factor that does not vary cannot be read out
            factors[name] = np.full(len(rows), -1)
            factors[name][known] = np.unique(values[known], return_inverse=True)[1]
    return factors
