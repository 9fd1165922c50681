"""A person's folder: pictures and what is in them -> images, factors, what belongs together, and what could not be used and why.

Factors come from factors.csv beside the pictures (`path` and any columns), from the first folder level (`class`), or both;
a picture of which one is unknown is not used, so every number later counts the same pictures.
Two pictures are near duplicates if their perceptual hashes (of brightness alone) differ in at most `bits` of 64, and their
mean red, green and blue in at most `levels` of 255.
"""
import math
import os
import posixpath
import stat
import unicodedata

import imagehash
import numpy as np
from PIL import Image
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from stages.lib.images.folder import Unreadable, read
from stages.lib.source import fill, scratch, write_dataset
from stages.lib.stage import Refused, run
from stages.lib.tables import read_params, read_table, write_table

TABLE = "factors.csv"
TAKEN = ("path", "id", "source", "sha256", "group", "main", "all")  # columns of images.csv, and words of the claims
SYSTEM = {"thumbs.db", "desktop.ini", "__macosx"}
BLOCK = 2**22  # pairs of hashes compared at a time


def nfc(text):
    return unicodedata.normalize("NFC", text)


def printable(path):
    """A path as UTF-8 can hold it; bytes that are no UTF-8 become \\xff."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def by_name(path):
    return nfc(path), path


def walk(root):
    """(files, first-level folders, {path: reason} of what is no file, number of hidden and system files left out), relative to `root`.

    Links are never followed, so nothing outside the folder is read and no loop is entered. Order: by normalized path.
    """
    files, folders, bad, hidden, waiting = [], [], {}, 0, [""]
    while waiting:
        place = waiting.pop()
        try:
            entries = list(os.scandir(os.path.join(root, place)))
        except OSError as failure:
            if not place:
                raise
            bad[place] = f"folder cannot be listed ({failure.strerror})"
            continue
        for entry in entries:
            path, mode = posixpath.join(place, entry.name), entry.stat(follow_symlinks=False).st_mode
            if entry.name.startswith(".") or entry.name.casefold() in SYSTEM:
                hidden += 1
            elif stat.S_ISDIR(mode):
                waiting.append(path)
                folders += [path] if not place else []
            elif not stat.S_ISREG(mode):
                bad[path] = "a symbolic link, never followed" if stat.S_ISLNK(mode) else "no regular file"
            elif path != TABLE:
                files.append(path)
    return sorted(files, key=by_name), folders, bad, hidden


def read_labels(path, files):
    """({file: {column: cell}}, {path: reason}, number of repeated rows): the rows of factors.csv, and the files and rows that go without each other.

    A row belongs to the file of just its path, or else to the files whose normalized path is its own. Cells and headers
    are normalized (NFC) and stripped; columns without a name, and empty rows, which spreadsheets leave behind, are left out.
    """
    table = [row for row in read_table(path, ["path"]) if any(row.values())]
    names = {name: nfc(name).strip() for name in (table[0] if table else {}) if name != "path" and name.strip()}
    wrong = [name for name in names.values() if name in TAKEN or list(names.values()).count(name) > 1]
    if wrong:
        raise Refused(f"{path}: column {wrong[0]} is there twice, or has a name that is taken here ({', '.join(TAKEN)}); rename it")
    rows, bad, repeated = {}, {}, 0
    for row in table:
        place = posixpath.normpath(row["path"].strip().replace("\\", "/"))
        cells = {new: nfc(row[old]).strip() for old, new in names.items()}
        repeated += rows.get(place) == cells
        if rows.setdefault(place, cells) != cells:
            bad[place] = f"two rows of {TABLE} contradict each other"
    normal = {nfc(place): place for place in reversed(rows)}
    owner = {file: file if file in rows else normal.get(nfc(file)) for file in files}
    bad = {file: bad.get(place, f"no row in {TABLE}") for file, place in owner.items() if place is None or place in bad}
    bad |= dict.fromkeys(rows.keys() - set(owner.values()), f"a row of {TABLE} without a file")
    return {file: rows[place] for file, place in owner.items() if file not in bad}, bad, repeated


def number(cell):
    """The number that a cell names, None if it names none."""
    try:
        return float(cell)
    except ValueError:
        return None


def sort_columns(cells, said, where):
    """({file: factors}, {file: notes}, {file: reason}) of {file: {column: cell}}; a file of which a factor is unknown has a reason.

    `said` of a column: none makes it a note on the file, no factor; number has it written with a decimal point, class with
    the column's name before numbers. So stages/lib/factors.py tells what it is from the cells alone.
    """
    columns = list(next(iter(cells.values()), {}))
    for name in said:
        if name not in columns:
            raise Refused(f"{where}.{name}: no such column; allowed: {', '.join(columns)}")
    numeric = {name for name in columns if said.get(name) == "number" or all(number(row[name]) is not None for row in cells.values() if row[name])}
    factors, notes, bad = {}, {}, {}
    for file, row in cells.items():
        factors[file], notes[file] = {}, {}
        for name, cell in row.items():
            kind = said.get(name)
            if kind == "none":
                notes[file][name] = cell
            elif not cell or (name in numeric and (number(cell) is None or not math.isfinite(number(cell)))):
                bad[file] = f"{name} is {cell}, no number" if cell else f"no value of {name}"
            else:
                factors[file][name] = f"{name} {cell}" if kind == "class" and name in numeric else str(number(cell)) if kind == "number" else cell
    return factors, notes, bad


def fingerprint(pixels):
    """(perceptual hash uint64 of brightness [Zauner 2010, 8 x 8 lowest frequencies], mean red, green, blue) of uint8 [3, S, S]."""
    bits = imagehash.phash(Image.fromarray(pixels.transpose(1, 2, 0))).hash
    return int.from_bytes(np.packbits(bits).tobytes(), "big"), pixels.mean(axis=(1, 2)).tolist()


def near_duplicates(prints, bits, levels):
    """int [N]: for each of N fingerprints the first row of its group, groups being closed: a near b near c puts all three together.

    Every pair is compared, a block at a time, so memory does not grow with the number of pairs that are near.
    """
    hashes = np.array([code for code, _ in prints], np.uint64)
    colors = np.array([color for _, color in prints], np.float32).reshape(len(prints), 3)
    rows = np.arange(len(prints))
    first = rows.copy()
    step = max(1, BLOCK // max(1, len(prints)))
    for top in range(0, len(prints), step):
        left, right = np.nonzero(np.bitwise_count(hashes[top : top + step, None] ^ hashes[None, top:]) <= bits)
        left, right = left[left < right] + top, right[left < right] + top
        near = (np.abs(colors[left] - colors[right]) <= levels).all(axis=1)
        if near.any():
            left, right = np.append(left[near], rows), np.append(right[near], first)
            labels = connected_components(coo_array((np.ones(len(left), bool), (left, right)), shape=(len(rows), len(rows))), directed=False)[1]
            first = np.unique(labels, return_index=True)[1][labels]
    return first


def decode(raw, files, bad, settings, images):
    """(pixels uint8 [N, 3, S, S], the files they come from, their fingerprints, {file: reason}, number of those with more than one frame).

    Every file is decoded, so that the reason of one that is no picture is just that; those in `bad` are left out all the same.
    """
    def one(row):
        try:
            picture, animated = read(os.path.join(raw, files[row]), settings["size"], settings["background"], settings["max_pixels"])
        except Unreadable as fault:
            return None, str(fault), None, False
        return picture, None, fingerprint(picture), animated

    pixels = scratch(images, len(files), settings["size"])
    found = fill(pixels, one, f"decode {raw}")
    kept = [row for row, (reason, _, _) in enumerate(found) if reason is None and files[row] not in bad]
    for place, row in enumerate(kept):
        if place != row:
            pixels[place] = pixels[row]
    damaged = {file: reason for file, (reason, _, _) in zip(files, found, strict=True) if reason}
    return pixels[: len(kept)], [files[row] for row in kept], [found[row][1] for row in kept], {**bad, **damaged}, sum(found[row][2] for row in kept)


def note(count, text, names=()):
    """A line on the terminal for what was found, if anything was."""
    if count:
        print(f"  {count} {text}" + (": " if names else "") + ", ".join(names[:3]) + (", ..." if len(names) > 3 else ""))


def label(raw, files, said, where):
    """({file: factors}, {file: notes}, {path: reason}, number of repeated rows) by factors.csv and the first folder level.

    That level is the factor `class` if there is no table, or if the table has no column of that name and all its pictures
    lie in folders.
    """
    if os.path.isfile(f"{raw}/{TABLE}") and not os.path.islink(f"{raw}/{TABLE}"):
        cells, bad, repeated = read_labels(f"{raw}/{TABLE}", files)
        level = all("/" in file and "class" not in row for file, row in cells.items())
    else:
        cells, bad, repeated, level = {file: {} for file in files}, {}, 0, True
    if level:
        cells = {file: {"class": nfc(printable(file.split("/")[0])).strip() if "/" in file else "", **row} for file, row in cells.items()}
    factors, notes, unknown = sort_columns(cells, said, where)
    return factors, notes, {**bad, **unknown}, repeated


def main(params, name, raw, images, index, factors, rejected):
    settings = read_params(params, "datasets", name, "images")
    files, folders, bad, hidden = walk(raw)
    cells, notes, faults, repeated = label(raw, files, settings["columns"], f"datasets.{name}.images.columns")
    bad = {**faults, **bad}
    pixels, kept, prints, bad, animated = decode(raw, files, bad, settings, images) if files else ([], [], [], bad, 0)
    told = [{"path": printable(path), "reason": bad[path]} for path in sorted(bad, key=by_name)]
    write_table(rejected, told, ["path", "reason"])
    if bad and settings["on_bad"] == "stop":
        raise Refused(f"{raw}: {len(bad)} files or rows cannot be used, the first {told[0]['path']}: {told[0]['reason']}; all are listed in {rejected}. "
                      f"Mend them, or set datasets.{name}.images.on_bad to skip")
    if not kept:
        raise Refused(f"{raw}: no picture in it can be used; {rejected} lists {len(bad)} files with the reason")
    near = settings["near"]
    ties = None if near == "none" else near_duplicates(prints, near["bits"], near["levels"]).tolist()
    empty = sorted(printable(folder) for folder in set(folders) - {file.split("/")[0] for file in kept})
    note(hidden, "hidden or system files left out")
    note(len(empty), "folders without a picture that can be used", empty)
    note(animated, "pictures with more than one frame: the first is used")
    note(repeated, f"rows of {TABLE} repeat an earlier one")
    note(len(bad), f"files or rows cannot be used ({rejected})", [f"{row['path']} ({row['reason']})" for row in told])
    write_dataset(pixels, [printable(file) for file in kept], [cells[file] for file in kept],
                  {"images": images, "index": index, "factors": factors, "rejected": rejected}, told, ties, [notes[file] for file in kept])


if __name__ == "__main__":
    run(main)
