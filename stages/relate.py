"""Relation: which images count as the same -> int64 [N], the group number of each image, and how it agrees with the factors.

`instance`: an image and its exact duplicates; `factor`: images with the same value of a factor, the only road by which
labels can reach pretraining.
"""
import numpy as np

from stages.lib.checks import load_factors, load_index, load_split
from stages.lib.factors import classes_of
from stages.lib.relations import of_groups
from stages.lib.stage import Refused, run
from stages.lib.tables import read_params, replacing, write_json


def group_numbers(values):
    """int64 [N]: equal values share the row number of their first occurrence."""
    first = {}
    return np.array([first.setdefault(value, row) for row, value in enumerate(values)], dtype=np.int64)


def main(params, name, dataset, index, factors, split, relation, agreement):
    entry = read_params(params, "relations", name)
    rows = load_index(index)
    labels, train = load_factors(factors, len(rows)), load_split(split, len(rows))["train"]
    table, column, values = index, "group", rows
    if entry["kind"] == "factor":
        main_factor = read_params(params, "datasets", dataset, "main_factor")
        table, column, values = factors, main_factor if entry["factor"] == "main" else entry["factor"], labels
    if column not in values[0]:
        raise Refused(f"relations.{name}.factor: {table} has no column {column}; allowed: main, {', '.join(list(values[0])[1:])}")
    groups = group_numbers([row[column] for row in values])
    with replacing(relation, "wb") as file:
        np.save(file, groups, allow_pickle=False)
    found = of_groups(groups[train], {factor: classes[train] for factor, classes in classes_of(labels).items()})
    write_json(agreement, {"kind": entry["kind"], "seeds": {"all": found}})
    print(f"{relation}: {len(np.unique(groups))} groups of {len(groups)} images; {agreement}")


if __name__ == "__main__":
    run(main)
