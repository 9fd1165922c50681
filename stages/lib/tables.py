"""Reading params.yaml, and reading and writing tables (CSV) and JSON: whole files, replaced atomically, same input, same bytes."""
import contextlib
import csv
import json
import os
import tempfile
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError

from stages.lib.stage import Refused

TIDY = ["run", "seed", "space", "factor", "probe", "slice", "metric", "value", "n", "note"]  # note: why there is no value


def read_params(path, *keys):
    """The value under `keys` in the YAML 1.2 file `path` (so `1e-05`, as DVC writes it, is a number); duplicate keys are refused."""
    try:
        node = YAML(typ="safe", pure=True).load(Path(path).read_text(encoding="utf-8"))
    except (MarkedYAMLError, UnicodeDecodeError) as fault:
        where = getattr(fault, "problem_mark", None)
        raise Refused(f"{path}{f', line {where.line + 1}' if where else ''}: {getattr(fault, 'problem', fault)}") from None
    for key in keys:
        if not isinstance(node, dict) or key not in node:
            raise Refused(f"{path}: no key {'.'.join(keys)}")
        node = node[key]
    return node


@contextlib.contextmanager
def replacing(path, mode="w"):
    """A file that takes the place of `path` in one step when the block ends well, and leaves `path` as it was when it does not."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        text = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
        with os.fdopen(handle, mode, **text) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def write_table(path, rows, columns):
    """Write `rows` (dicts holding just `columns`) as CSV; floats in their shortest exact form, None as an empty cell."""
    with replacing(path) as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_table(path, columns=()):
    """The rows of a CSV as dicts of strings, in order; a missing column or a ragged row is refused by name."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        try:
            rows = list(reader)
        except (csv.Error, UnicodeDecodeError) as fault:
            raise Refused(f"{path}, line {reader.line_num}: {fault}") from None
        twice = [name for name in reader.fieldnames or [] if name and reader.fieldnames.count(name) > 1]
    if twice:
        raise Refused(f"{path}: column {twice[0]} is there twice")
    missing = [name for name in columns if name not in (reader.fieldnames or [])]
    if missing:
        raise Refused(f"{path}: column {missing[0]} is missing; found {', '.join(reader.fieldnames or ['nothing'])}")
    for number, row in enumerate(rows, start=2):
        if None in row or None in row.values():
            raise Refused(f"{path}, line {number}: the row does not have {len(reader.fieldnames)} cells")
    return rows


def write_json(path, value):
    """Write strict JSON (NaN and infinity raise ValueError), keys in the order given."""
    with replacing(path) as file:
        json.dump(value, file, indent=2, ensure_ascii=False, allow_nan=False)
        file.write("\n")


def read_json(path):
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as fault:
        raise Refused(f"{path}: not JSON ({fault})") from None
