"""A stage refuses an input that is damaged, hand-edited or of another run, in one line with the file's name, and writes nothing."""
import importlib
import json
import pickle
import re
import shlex
import shutil
import zipfile

import numpy as np
import pytest
from test_dvc import files, script, stages

from stages.lib.checks import load_images
from stages.lib.stage import Refused, told


@pytest.fixture(scope="module")
def copied(toy, tmp_path_factory):
    """(a copy of the toy project's files, {name of a stage: its main, its arguments})."""
    folder = tmp_path_factory.mktemp("inputs") / "copy"
    shutil.copytree(toy, folder, symlinks=True, ignore=shutil.ignore_patterns(".git", ".dvc", ".resume"))
    calls = {}
    for stage in stages(toy).values():
        words = shlex.split(stage.cmd)[3:]
        module = importlib.import_module(script(stage).removesuffix(".py").replace("/", "."))
        calls[stage.name] = module.main, {key[2:].replace("-", "_"): value for key, value in zip(words[::2], words[1::2], strict=True)}
    return folder, calls


class Runs:
    """Unpickling this writes a file."""

    def __reduce__(self):
        return (open, ("ran", "w"))


# what is done to a .npy: path -> None
def array(change):
    def damage(path):
        np.save(path, change(np.load(path)))
    return damage


def content(change):
    def damage(path):
        path.write_bytes(change(path.read_bytes()))
    return damage


def text(change):
    return content(lambda data: change(data.decode()).encode())


def rows(change):
    """Of a table: change(list of lines after the header) -> lines."""
    return text(lambda table: "\n".join([table.splitlines()[0], *change(table.splitlines()[1:])]) + "\n")


def cell(column, value, line=1):
    def change(table):
        lines = [row.split(",") for row in table.splitlines()]
        lines[line][lines[0].index(column)] = value
        return "\n".join(map(",".join, lines)) + "\n"
    return text(change)


def other(name, instead):
    """The same file of another run or seed."""
    def damage(path):
        shutil.copyfile(str(path).replace(name, instead), path)
    return damage


def strange_object(path):
    path.write_bytes(pickle.dumps(Runs()))


def object_array(path):
    np.save(path, np.array([Runs()]), allow_pickle=True)


def object_archive(path):
    np.savez(path, allow_pickle=True, **{"h/shape/knn": np.array([Runs()])})


def without_row(values):
    return values[:-1]


ARRAY = {"cut": content(lambda data: data[:-7]), "cut in the header": content(lambda data: data[:50]), "empty": content(lambda data: b""),
         "longer": content(lambda data: data + b"x"), "text": content(lambda data: b"id,split\n"), "a pickle": strange_object, "objects": object_array,
         "a row less": array(without_row), "float16": array(lambda a: a.astype(np.float16)), "flat": array(np.ravel),
         "one dimension more": array(lambda a: a[None, None])}
FEATURES = {**ARRAY, "a row of nan": array(lambda a: np.where(np.arange(len(a))[:, None] == 3, np.nan, a)),
            "infinite": array(lambda a: np.where(a == a.max(), np.inf, a)), "big-endian": array(lambda a: a.astype(">f4")),
            "by columns": array(np.asfortranarray)}
TABLE = {"empty": content(lambda data: b""), "header only": rows(lambda lines: []), "a row less": rows(without_row),
         "two rows swapped": rows(lambda r: [r[1], r[0], *r[2:]]),
         "an id twice": rows(lambda r: [r[0], *r]), "a cell less": rows(lambda r: [r[0].rsplit(",", 1)[0], *r[1:]]),
         "not UTF-8": content(lambda data: data + b"\xff\xfe\n"),
         "no id": text(lambda table: table.replace("id,", "key,", 1))}
JSON = {"empty": content(lambda data: b""), "cut": content(lambda data: data[:-9]), "a list": content(lambda data: b"[1]"),
        "nothing in it": content(lambda data: b"{}")}
READOUT = {"cut": content(lambda data: data[:-7]), "empty": content(lambda data: b""), "text": content(lambda data: b"id,split\n"),
           "objects": object_archive,
           "of another run": other("simclr_swap", "simclr_keep"),
           "a flipped byte": content(lambda data: data[:200] + bytes([data[200] ^ 255]) + data[201:])}

CASES = [
    *[("data/shapes/images.npy", stage, ARRAY) for stage in ("preview", "probe_pixels")],
    ("data/shapes/images.npy", "extract@simclr_swap", {name: damage for name, damage in ARRAY.items() if name != "a row less"}),  # which only the split tells
    ("data/shapes/images.npy", "pretrain@simclr_swap", {**ARRAY, "two channels": array(lambda a: a[:, :2])}),
    ("data/shapes/relations/instance.npy", "pretrain@simclr_swap", {
        **{name: damage for name, damage in ARRAY.items() if name != "flat"},
        "a number below 0": array(lambda a: a - 1), "a number too high": array(lambda a: a + 9)}),
    ("data/shapes/relations/clusters.npy", "pretrain@supcon_clusters", {"an image less": array(lambda a: a[:, :-1]), "a seed less": array(without_row)}),
    ("data/features/simclr_swap/20260922/h.npy", "probe@simclr_swap", FEATURES),
    ("data/features/simclr_swap/20260923/h.npy", "mine@clusters", FEATURES),
    ("data/shapes/images.csv", "split@shapes", {**TABLE, "a group of nobody": cell("group", "71"), "a group in words": cell("group", "first")}),
    ("data/shapes/images.csv", "relate@instance", TABLE),
    *[("data/shapes/factors.csv", stage, TABLE) for stage in ("split@shapes", "relate@main", "mine@clusters", "probe@simclr_swap")],
    *[("data/shapes/split.csv", stage, {**TABLE, "an unknown split": cell("split", "trial"), "no train": text(lambda table: table.replace("train", "val"))})
      for stage in ("relate@main", "preview", "pretrain@simclr_swap")],
    ("models/simclr_swap/20260922.safetensors", "extract@simclr_swap", {
        "cut": content(lambda data: data[:-7]), "empty": content(lambda data: b""), "a flipped byte": content(lambda data: data[:3] + b"\x7f" + data[4:]),
        "a pickle": strange_object, "of another run": other("simclr_swap", "simclr_keep"), "of another seed": other("20260922", "20260923")}),
    ("data/plans/simclr_swap.json", "pretrain@simclr_swap", {**JSON, "of another objective": other("simclr_swap", "vicreg_swap")}),
    ("data/plans/simclr_swap.json", "judge", JSON),
    ("data/correct/simclr_swap.npz", "judge", READOUT),
    ("data/preview.npz", "plot", {name: damage for name, damage in READOUT.items() if name != "of another run"}),
    ("metrics/probe/simclr_swap.csv", "judge", {
        **{name: TABLE[name] for name in ("empty", "header only", "a cell less", "not UTF-8")}, "in words": cell("value", "good"), "nan": cell("value", "nan"),
        "a better number": cell("value", "0.999"), "of another run": other("simclr_swap", "simclr_keep"), "other rows": rows(lambda r: r[5:])}),
    ("metrics/curves/simclr_swap.csv", "judge", {
        **{name: TABLE[name] for name in ("empty", "header only", "a row less", "a cell less", "two rows swapped")}, "in words": cell("loss", "low"),
        "of another seed": text(lambda table: table.replace("20260923", "20260924"))}),
    ("metrics/curves/simclr_swap.csv", "plot", {"in words": cell("loss", "low"), "empty": TABLE["empty"]}),
    ("metrics/ledger.csv", "plot", {"in words": cell("mean", "high"), "empty": TABLE["empty"], "header only": TABLE["header only"]}),
]
ALL = [(path, stage, name, damage) for path, stage, damages in CASES for name, damage in damages.items()]


def test_there_are_at_least_a_hundred_damaged_inputs():
    assert len(ALL) >= 100


@pytest.mark.parametrize("path, stage, name, damage", ALL, ids=[f"{stage}-{path.rsplit('/', 1)[1]}-{name}".replace(" ", "_") for path, stage, name, _ in ALL])
def test_a_damaged_input_is_refused_by_name_and_nothing_is_written(path, stage, name, damage, copied, monkeypatch):
    folder, calls = copied
    monkeypatch.chdir(folder)
    sound = (folder / path).read_bytes()
    try:
        damage(folder / path)
        before = files(folder)
        said = told(*calls[stage])
        assert files(folder) == before  # also: nothing that the file holds was run
    finally:
        (folder / path).write_bytes(sound)
    assert said is not None and said.startswith("error: ") and "\n" not in said
    counts = name == "a row less" and re.search(r"is for (71|72) images, but there are (71|72)", said)  # then the other file may be the one named
    assert path in said or counts, said


def test_whatever_byte_of_the_header_flips_the_array_is_refused_or_the_same(copied, tmp_path):
    sound = (copied[0] / "data/shapes/images.npy").read_bytes()
    images = np.load(copied[0] / "data/shapes/images.npy")
    refused = 0
    for place in range(128):
        for mask in (1, 4, 32, 255):
            (tmp_path / "images.npy").write_bytes(sound[:place] + bytes([sound[place] ^ mask]) + sound[place + 1 :])
            try:
                assert np.array_equal(load_images(tmp_path / "images.npy"), images)
            except Refused as refusal:
                refused += str(tmp_path / "images.npy") in str(refusal)
    assert refused > 256


def test_a_header_that_promises_a_terabyte_allocates_nothing(copied, tmp_path):
    with open(tmp_path / "images.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (10**9, 3, 16, 16)})
    with pytest.raises(Refused, match="images.npy"):
        load_images(tmp_path / "images.npy")


def test_archives_and_plans_of_the_toy_are_what_the_cases_take_them_for(copied):
    assert zipfile.is_zipfile(copied[0] / "data/correct/simclr_swap.npz")
    assert json.loads((copied[0] / "data/plans/simclr_swap.json").read_text())["objective"] == "simclr"
