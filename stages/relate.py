"""Relation: which images count as the same -> int64 [N], the group number of each image.

`instance`: an image and its exact duplicates; `factor`: images with the same value of a factor, the only road by which
labels can reach pretraining.
"""
import numpy as np

from stages.lib.stage import Refused, run
from stages.lib.tables import read_params, read_table, replacing


def group_numbers(values):
    """int64 [N]: equal values share the row number of their first occurrence."""
    first = {}
    return np.array([first.setdefault(value, row) for row, value in enumerate(values)], dtype=np.int64)


def main(params, name, dataset, index, factors, relation):
    entry = read_params(params, "relations", name)
    table, column = index, "group"
    if entry["kind"] == "factor":
        main_factor = read_params(params, "datasets", dataset, "main_factor")
        table, column = factors, main_factor if entry["factor"] == "main" else entry["factor"]
    rows = read_table(table)
    if column not in rows[0]:
        raise Refused(f"relations.{name}.factor: {table} has no column {column}; allowed: main, {', '.join(list(rows[0])[1:])}")
    groups = group_numbers([row[column] for row in rows])
    with replacing(relation, "wb") as file:
        np.save(file, groups, allow_pickle=False)
    print(f"{relation}: {len(np.unique(groups))} groups of {len(groups)} images")


if __name__ == "__main__":
    run(main)
