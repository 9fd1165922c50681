"""Reading params.yaml, and reading and writing tables (CSV) and JSON: whole files, replaced atomically, same input, same bytes."""
import contextlib
import copy
import csv
import errno
import functools
import json
import os
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from stages.lib.stage import Refused

TIDY = ["run", "seed", "space", "factor", "probe", "slice", "metric", "value", "n", "note"]  # note: why there is no value


@functools.lru_cache(maxsize=4)
def parse(text):
    """YAML 1.2, safe. Kept, since a stage reads several keys and a parse takes longer than all else it does with them."""
    return YAML(typ="safe", pure=True).load(text)


def read_params(path, *keys):
    """The value under `keys` in the YAML 1.2 file `path` (so `1e-05`, as DVC writes it, is a number); duplicate keys are refused."""
    try:
        node = copy.deepcopy(parse(Path(path).read_text(encoding="utf-8")))
    except (YAMLError, ValueError, TypeError, RecursionError) as fault:
        where = getattr(fault, "problem_mark", None)
        what = " ".join(str(getattr(fault, "problem", None) or fault).split())
        raise Refused(f"{path}{f', line {where.line + 1}' if where else ''}: {what}") from None
    if not isinstance(node, dict):
        raise Refused(f"{path}: no mapping of keys to values")
    for key in keys:
        if not isinstance(node, dict) or key not in node:
            raise Refused(f"{path}: no key {'.'.join(keys)}")
        node = node[key]
    return node


@contextlib.contextmanager
def replacing(path, mode="w"):
    """A file that takes the place of `path` in one step when the block ends well, and leaves `path` as it was when it does not.

    Until then it is `.<name>.partial`, which git and DVC ignore; what a kill leaves of it, the next writing of `path` overwrites.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
        with open(temporary, mode, **text) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as failure:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(failure, OSError) and failure.filename in (None, str(temporary)):  # a full disk does not say which file it was
            number = failure.errno or errno.ENOSPC  # numpy says only how much it could write
            raise OSError(number, os.strerror(number), str(path)) from None
        raise


def write_table(path, rows, columns):
    """Write `rows` (dicts holding just `columns`) as CSV; floats in their shortest exact form, None as an empty cell."""
    with replacing(path) as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_table(path, columns=()):
    """The rows of a CSV as dicts of strings, in order; a missing column, a ragged row, or an `id` that does not count from 0 is refused by name."""
    return list(each_row(path, columns))


def each_row(path, columns):
    """The same one after the other: of a table with a row an image, only what is taken from it is kept."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader, number = csv.DictReader(file, strict=True), 1
        try:
            names = reader.fieldnames or []
            twice = [name for name in names if name and names.count(name) > 1]
            if twice:
                raise Refused(f"{path}: column {twice[0]} is there twice")
            missing = [name for name in columns if name not in names]
            if missing:
                raise Refused(f"{path}: column {missing[0]} is missing; found {', '.join(names) or 'nothing'}")
            for number, row in enumerate(reader, start=2):
                if None in row or None in row.values():
                    raise Refused(f"{path}, line {number}: the row does not have {len(names)} cells")
                if "id" in columns and row["id"] != str(number - 2):
                    raise Refused(f"{path}, line {number}: id {row['id']!r} where {number - 2} is due")
                yield row
        except (csv.Error, UnicodeDecodeError) as fault:
            raise Refused(f"{path}, line {reader.line_num}: {fault}") from None
    if "id" in columns and number == 1:
        raise Refused(f"{path}: holds no row")


def write_json(path, value):
    """Write strict JSON (NaN and infinity raise ValueError), keys in the order given."""
    with replacing(path) as file:
        json.dump(value, file, indent=2, ensure_ascii=False, allow_nan=False)
        file.write("\n")


def read_json(path):
    """The mapping in a file of JSON; to ask it, or one in it, for a key that it lacks is refused by name."""
    class Mapping(dict):
        def __missing__(self, key):
            raise Refused(f"{path}: no key {key}; rerun the stage that writes it")
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"), object_hook=Mapping)
        if not isinstance(value, Mapping):
            raise ValueError("no mapping")
        return value
    except (ValueError, RecursionError) as fault:
        raise Refused(f"{path}: not JSON ({fault})") from None
