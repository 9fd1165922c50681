"""Factors of variation: which columns of factors.csv are classes and which are numbers."""
import numpy as np

MOST_WHOLE_NUMBERS = 20  # whole numbers with more distinct values than this are a quantity, not names of classes


def is_numeric(values):
    """True unless the strings name classes: text, or whole numbers with at most 20 distinct values."""
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        return False
    return not all(number.is_integer() for number in numbers) or len(set(numbers)) > MOST_WHOLE_NUMBERS


def classes_of(rows):
    """{factor: int [N], numbers of its sorted values} for each class-like column of the rows of factors.csv (strings)."""
    factors = {}
    for name in list(rows[0])[1:]:
        values = [row[name] for row in rows]
        if len(set(values)) > 1 and not is_numeric(values):  # a factor that does not vary cannot be read out
            factors[name] = np.unique(values, return_inverse=True)[1]
    return factors
