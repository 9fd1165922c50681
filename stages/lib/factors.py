"""Factors of variation: which columns of factors.csv are classes and which are numbers."""
import numpy as np

MOST_WHOLE_NUMBERS = 20  # whole numbers with more distinct values than this are a quantity, not names of classes


def is_numeric(values):
    """True unless the strings name classes: text, or at most 20 different whole numbers written without a decimal point."""
    try:
        different = {float(value) for value in values}
    except ValueError:
        return False
    return len(different) > MOST_WHOLE_NUMBERS or not all(value.strip("+-").isdecimal() for value in values)


def columns_of(rows):
    """{factor: list of strings} of the columns of factors.csv that vary: one that does not cannot be read out."""
    columns = {name: [row[name] for row in rows] for name in list(rows[0])[1:]}
    return {name: values for name, values in columns.items() if len(set(values)) > 1}


def classes_of(rows):
    """{factor: int [N], numbers of its sorted values} for each class-like column of the rows of factors.csv (strings)."""
    return {name: np.unique(values, return_inverse=True)[1] for name, values in columns_of(rows).items() if not is_numeric(values)}


def numbers_of(rows):
    """{factor: float64 [N]} for each numeric column."""
    return {name: np.array(values, dtype=np.float64) for name, values in columns_of(rows).items() if is_numeric(values)}


def slices_of(rows, names):
    """{slice: bool [N]}: `name=value` for each value of a class-like column in `names`, `name=low`, `middle` and `high` for
    thirds of a numeric one."""
    found = {}
    for name, values in columns_of(rows).items():
        if name not in names:
            continue
        if is_numeric(values):
            numbers = np.array(values, dtype=np.float64)
            thirds = np.searchsorted(np.quantile(numbers, [1 / 3, 2 / 3]), numbers, side="right")
            found |= {f"{name}={part}": thirds == place for place, part in enumerate(("low", "middle", "high"))}
        else:
            found |= {f"{name}={value}": np.array([one == value for one in values]) for value in sorted(set(values))}
    return found


def holds(rows, combinations):
    """bool [N], whether a row has all the values of at least one combination {factor: value}."""
    return np.array([any(all(row[factor] == str(value) for factor, value in combination.items()) for combination in combinations) for row in rows], dtype=bool)
