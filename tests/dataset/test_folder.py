"""A dirty folder through the real stages: nothing lost, nothing misread, nothing read outside, the same bytes in any order."""
import csv
import os
import shutil
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, dump_yaml, load_yaml
from pictures import SUFFIXES, write_folder
from PIL import Image

from stages.dataset import folder as stage
from stages.dataset.folder import near_duplicates
from stages.lib.factors import is_numeric
from stages.lib.stage import Refused
from stages.lib.tables import read_table
from stages.probe import main as probe
from stages.split import main as split

NFC, NFD = unicodedata.normalize("NFC", "café"), unicodedata.normalize("NFD", "café")
LONG = "n" * 76 + ".png"
HOSTILE = ["猫 咪.png", "it's \"quoted\".png", "<b>bold<b>.png", "$x_1$.png", "_first.png", LONG, "a,b.png", "line\nbreak.png", "=1+1.png"]


def noise(seed, side=40):
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8))


def write_table(path, header, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def entry(**changes):
    images = {"size": 16, "background": [1, 1, 1], "max_pixels": 10**6, "on_bad": "skip", "columns": {}, "near": {"bits": 10, "levels": 4}}
    images |= changes.pop("images", {})
    return {"source": "folder", "raw": "data/raw/photos", "main_factor": "class", "second_factor": "none", "images": images,
            "split": {"train": 0.6, "val": 0.2, "test": 0.2, "seed": 1, "hold_out": []}, **changes}


def parameters(tmp_path, **changes):
    """A params.yaml with a folder entry `photos`, in use."""
    params = load_yaml(ROOT / "params.yaml")
    params["datasets"]["photos"], params["dataset"] = entry(**changes), "photos"
    dump_yaml(params, tmp_path / "params.yaml")
    return str(tmp_path / "params.yaml")


def make(raw, out, params):
    """Run the stage; {images, index, factors, rejected} as read back."""
    paths = {"images": f"{out}/images.npy", "index": f"{out}/images.csv", "factors": f"{out}/factors.csv", "rejected": f"{out}/rejected.csv"}
    stage.main(params, "photos", str(raw), **paths)
    return {"images": np.load(paths["images"], mmap_mode="r"), **{name: read_table(paths[name]) for name in ("index", "factors", "rejected")}}


def divide(out, params):
    split(params, "photos", f"{out}/images.csv", f"{out}/factors.csv", f"{out}/split.csv")
    return [row["split"] for row in read_table(f"{out}/split.csv")]


def read_out(out, params):
    probe(params, "pixels", "photos", f"{out}/images.npy", f"{out}/factors.csv", f"{out}/split.csv", f"{out}/probe.csv", f"{out}/right.npz")


@pytest.fixture(scope="module")
def dirty(tmp_path_factory):
    """(folder, output, what was printed): two classes by folder and every fault that a folder can have."""
    base = tmp_path_factory.mktemp("dirty")
    raw, secret = base / "photos", base / "outside"
    for place in ("birds", "cats/deep", "empty", "lonely", "misc", NFC, NFD, ".ipynb_checkpoints"):
        (raw / place).mkdir(parents=True, exist_ok=True)
    secret.mkdir()
    noise(999).save(secret / "secret.png")
    for number, name in enumerate(HOSTILE):
        noise(number).save(raw / "birds" / name)
    noise(19).save(raw / "lonely/one.png")
    noise(20).save(raw / NFC / "one.png")
    noise(21).save(raw / NFD / "two.png")
    noise(22).save(raw / "cats" / f"{NFC}.png")  # twins: two files, one name once normalized
    noise(23).save(raw / "cats" / f"{NFD}.png")
    noise(24).save(raw / "cats/deep/same.png")
    noise(24).save(raw / "birds/same.bmp")  # a picture under two labels
    for name in ("near.png", "near.webp", "torn.png"):
        noise(25, 200).save(raw / "cats" / name, **SUFFIXES.get(name[5:], {}))
    noise(26).save(raw / "cats/moving.gif", save_all=True, append_images=[noise(27)])
    for number, name in enumerate(("rowless.png", "blank.png", "nan.png", "good.png")):
        noise(30 + number).save(raw / "misc" / name)
    good = (raw / "misc/good.png").read_bytes()
    (raw / "misc" / os.fsdecode(b"bytes\xff.png")).write_bytes(good)
    for name in (".DS_Store", "Thumbs.db", "._top.png", ".ipynb_checkpoints/top.png"):
        (raw / name).write_bytes(good)
    (raw / "cats/cut.png").write_bytes(good[:500])
    (raw / "cats/empty.png").touch()
    (raw / "cats/fake.jpg").write_text("not a picture")
    Image.new("L", (2000, 1000)).save(raw / "cats/large.png")
    rows = {path.relative_to(raw).as_posix(): ["0.5", "x"] for path in sorted(raw.rglob("*.*")) if path.is_file() and "\udcff" not in str(path)
            and not any(part.startswith(".") for part in path.parts) and path.name not in ("Thumbs.db", "rowless.png")}
    (raw / "loop").symlink_to(raw)
    (raw / "cats/out.png").symlink_to(secret / "secret.png")
    os.mkfifo(raw / "cats/pipe.png")
    rows |= {f"cats/{NFD}.png": ["7", NFD], f"cats/{NFC}.png": ["8", NFC], "misc/blank.png": ["1", " "], "misc/nan.png": ["nan", "y"],
             "birds/_first.png": ["5", " spaced "], f"{NFC}/two.png": rows.pop(f"{NFD}/two.png"), "cats/gone.png": ["1", "x"],
             "../outside/secret.png": ["9", "x"], str(secret / "secret.png"): ["9", "x"], "./birds\\猫 咪.png": ["4", "猫"]}
    del rows["birds/猫 咪.png"]
    again = [["birds/_first.png", "5", "spaced"], ["cats/torn.png", "2", "z"]]
    write_table(raw / "factors.csv", ["path", "age ", "note/$x_1$", "", ""], [*([path, *cells, "", ""] for path, cells in rows.items()),
                                                                             *([*row, "", ""] for row in again), [""] * 5])
    with pytest.MonkeyPatch.context() as patch:
        told = []
        patch.setattr("builtins.print", lambda *words, **_: told.append(" ".join(words)))
        found = make(raw, base / "out", parameters(base))
    return raw, base, found, "\n".join(told)


def test_every_file_is_in_the_manifest_once_or_rejected_with_its_reason(dirty):
    _, _, found, _ = dirty
    sources = [row["source"] for row in found["index"]]
    expected = [*(f"birds/{name}" for name in HOSTILE), "birds/same.bmp", "lonely/one.png", f"{NFC}/one.png", f"{NFD}/two.png", f"cats/{NFC}.png",
                f"cats/{NFD}.png", "cats/deep/same.png", "cats/near.png", "cats/near.webp", "cats/moving.gif", "misc/good.png"]
    assert sorted(sources) == sorted(expected) and [row["id"] for row in found["index"]] == [str(number) for number in range(len(expected))]
    reasons = {row["path"]: row["reason"] for row in found["rejected"]}
    for path, reason in {"cats/cut.png": "truncated or damaged", "cats/empty.png": "empty file", "cats/fake.jpg": "not a picture", "loop": "symbolic link",
                         "cats/out.png": "symbolic link", "cats/large.png": "2000 x 1000 pixels, more than max_pixels", "cats/pipe.png": "no regular file",
                         "cats/torn.png": "two rows of factors.csv contradict each other", "cats/gone.png": "a row of factors.csv without a file",
                         "misc/rowless.png": "no row in factors.csv", "misc/bytes\\xff.png": "no row in factors.csv",
                         "misc/blank.png": "no value of note/$x_1$",
                         "misc/nan.png": "age is nan, no number", "../outside/secret.png": "without a file"}.items():
        assert reason in reasons.pop(path), path
    assert len(reasons) == 1 and list(reasons)[0].endswith("outside/secret.png")


def test_the_counts_are_told(dirty):
    *_, told = dirty
    for line in ("4 hidden or system files left out", "1 folders without a picture that can be used: empty", "1 pictures with more than one frame",
                 "1 rows of factors.csv repeat an earlier one", "15 files or rows cannot be used", "1 images are there under several labels",
                 "20 images of 16 pixels, 1 exact and 1 near duplicates, 15 files rejected"):
        assert line in told, told


def test_pixels_are_those_of_the_file(dirty):
    raw, _, found, _ = dirty
    for row, image in zip(found["index"], found["images"], strict=True):
        if row["source"].startswith("birds") and row["source"].endswith(".png"):
            picture = np.asarray(Image.open(raw / row["source"]).resize((16, 16), Image.Resampling.BILINEAR))
            assert (image == picture.transpose(2, 0, 1)).all()
    secret = np.asarray(noise(999).resize((16, 16), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    assert not (found["images"] == secret).all(axis=(1, 2, 3)).any()


def test_factors_are_normalized_and_belong_to_their_own_file(dirty):
    _, _, found, _ = dirty
    cells = {row["source"]: list(values.values())[1:] for row, values in zip(found["index"], found["factors"], strict=True)}
    assert list(found["factors"][0]) == ["id", "class", "age", "note/$x_1$"]
    assert cells[f"{NFC}/one.png"] == cells[f"{NFD}/two.png"] == [NFC, "0.5", "x"]
    assert cells[f"cats/{NFC}.png"] == ["cats", "8", NFC] and cells[f"cats/{NFD}.png"] == ["cats", "7", NFC]
    assert cells["birds/猫 咪.png"] == ["birds", "4", "猫"] and cells["birds/_first.png"] == ["birds", "5", "spaced"]


def test_the_later_stages_take_it(dirty, capsys):
    """Split and probe: a class has one image, a factor's name holds a slash and a formula."""
    _, base, found, _ = dirty
    params = parameters(base)
    parts = divide(base / "out", params)
    assert "class: 2 of 5 values have one image" in capsys.readouterr().out
    groups = {}
    for row, part in zip(found["index"], parts, strict=True):
        groups.setdefault(row["group"], set()).add(part)
    assert all(len(spread) == 1 for spread in groups.values()) and len(groups) == 18 and set(parts) == {"train", "val", "test"}
    read_out(base / "out", params)
    assert {row["factor"] for row in read_table(f"{base}/out/probe.csv")} >= {"class", "age", "note/$x_1$"}


@pytest.mark.parametrize("column, kind, cells, written", [
    ("grade", "number", ["1", "2", "10"], ["1.0", "2.0", "10.0"]), ("grade", "class", ["1.5", "2", "1.5"], ["grade 1.5", "grade 2", "grade 1.5"]),
    ("grade", "class", ["a", "2", "a"], ["a", "2", "a"]), ("grade", "none", ["1", "", "2"], None)])
def test_what_the_entry_says_of_a_column_is_written_so_that_the_rule_of_factors_sees_it(tmp_path, column, kind, cells, written):
    for number in range(3):
        (tmp_path / "photos/a").mkdir(parents=True, exist_ok=True)
        noise(number).save(tmp_path / f"photos/a/{number}.png")
    write_table(tmp_path / "photos/factors.csv", ["path", column], [[f"a/{number}.png", cell] for number, cell in enumerate(cells)])
    found = make(tmp_path / "photos", tmp_path / "out", parameters(tmp_path, images={"columns": {column: kind}}))
    if written:
        assert [row[column] for row in found["factors"]] == written and is_numeric(written) == (kind == "number")
    else:
        assert column not in found["factors"][0] and [row[column] for row in found["index"]] == cells
    with pytest.raises(Refused, match="datasets.photos.images.columns.weight: no such column; allowed: class, grade"):
        make(tmp_path / "photos", tmp_path / "out", parameters(tmp_path, images={"columns": {"weight": "none"}}))


def test_beside_a_table_the_folder_is_a_class_only_if_every_picture_lies_in_one(tmp_path):
    (tmp_path / "photos/a").mkdir(parents=True)
    for number, name in enumerate(("a/1.png", "a/2.png", "3.png")):
        noise(number).save(tmp_path / "photos" / name)
    params = parameters(tmp_path)
    found = make(tmp_path / "photos", tmp_path / "out", params)
    assert [row["class"] for row in found["factors"]] == ["a", "a"] and [row["path"] for row in found["rejected"]] == ["3.png"]
    write_table(tmp_path / "photos/factors.csv", ["path", "age"], [["a/1.png", "0.5"], ["a/2.png", "1.5"], ["3.png", "2.5"]])
    found = make(tmp_path / "photos", tmp_path / "out", params)
    assert list(found["factors"][0]) == ["id", "age"] and not found["rejected"]


def test_the_same_folder_filled_in_another_order_gives_the_same_bytes(tmp_path):
    write_folder(tmp_path / "a", 24, 20, 30, seed=3)
    files = sorted(path for path in (tmp_path / "a").rglob("*") if path.is_file())
    for path in reversed(files):
        target = tmp_path / "b" / path.relative_to(tmp_path / "a")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    header, *rows = (tmp_path / "b/factors.csv").read_text().splitlines()
    (tmp_path / "b/factors.csv").write_text("\n".join([header, *reversed(rows)]) + "\n")
    params = parameters(tmp_path)
    for name in ("a", "b"):
        make(tmp_path / name, tmp_path / f"out_{name}", params)
        divide(tmp_path / f"out_{name}", params)
    for name in ("images.npy", "images.csv", "factors.csv", "rejected.csv", "split.csv"):
        assert (tmp_path / "out_a" / name).read_bytes() == (tmp_path / "out_b" / name).read_bytes(), name


def test_sixty_pictures_of_noise_saved_twice_stay_paired_and_are_read_out_at_chance(tmp_path):
    """Labels are random: were a pair torn apart, its twin in train would give them away. 24 of 60 right is 3.4 standard errors above one half."""
    generator, rows = np.random.default_rng(5), []
    suffixes = list(SUFFIXES)
    for number in range(60):
        picture, label = noise(100 + number, 32), "ab"[generator.integers(2)]
        for copy in range(2):
            suffix = suffixes[(number + 1 + 2 * copy) % 6] if copy else suffixes[number % 6]
            name = f"{generator.integers(10**9):09}.{suffix}"
            (tmp_path / "photos").mkdir(exist_ok=True)
            picture.save(tmp_path / "photos" / name, **SUFFIXES[suffix])
            rows.append([name, label])
    write_table(tmp_path / "photos/factors.csv", ["path", "class"], rows)
    params = parameters(tmp_path, split={"train": 0.4, "val": 0.1, "test": 0.5, "seed": 1, "hold_out": []})
    found = make(tmp_path / "photos", tmp_path / "out", params)
    parts = divide(tmp_path / "out", params)
    groups = {}
    for row, part in zip(found["index"], parts, strict=True):
        groups.setdefault(row["group"], []).append(part)
    assert len(groups) == 60 and all(len(pair) == 2 and len(set(pair)) == 1 for pair in groups.values())
    out = tmp_path / "out"
    read_out(out, params)
    accuracy = [float(row["value"]) for row in read_table(f"{out}/probe.csv") if row["metric"] == "accuracy" and row["slice"] == "all"
                and row["probe"] in ("knn", "linear")]
    assert len(accuracy) == 2 and all(0.2 < value < 0.8 for value in accuracy), accuracy


def test_stop_refuses_a_folder_with_one_bad_file_and_says_which(tmp_path):
    write_folder(tmp_path / "photos", 8, 20, 30, seed=3)
    (tmp_path / "photos/notes.txt").write_text("bought in May")
    params = parameters(tmp_path, images={"on_bad": "stop"})
    with pytest.raises(Refused, match="1 files or rows cannot be used, the first notes.txt: not a picture of a known kind"):
        make(tmp_path / "photos", tmp_path / "out", params)
    assert read_table(tmp_path / "out/rejected.csv")[0]["path"] == "notes.txt" and not (tmp_path / "out/images.npy").exists()


@pytest.mark.parametrize("header, said", [
    (["path", "id"], "column id"), (["path", "age", "age "], "column age"), (["path", "age", "age"], "column age"),
    (["file", "age"], "column path is missing")])
def test_a_table_that_cannot_be_understood_is_refused(tmp_path, header, said):
    (tmp_path / "photos").mkdir()
    write_table(tmp_path / "photos/factors.csv", header, [["a.png", *["1"] * (len(header) - 1)]])
    with pytest.raises(Refused, match=said):
        make(tmp_path / "photos", tmp_path / "out", parameters(tmp_path))


def test_a_folder_without_pictures_is_refused(tmp_path):
    (tmp_path / "photos").mkdir()
    with pytest.raises(Refused, match="no picture in it can be used"):
        make(tmp_path / "photos", tmp_path / "out", parameters(tmp_path))


def test_near_duplicates_are_closed_and_equal_a_slow_loop():
    """Chains of single bits: a near b near c share a group though a and c differ in more bits than allowed; color must be near too."""
    prints = [(0b0, [9, 9, 9]), (0b11, [9, 9, 9]), (0b1111, [9, 9, 9]), (0b1111, [90, 9, 9]), (2**63, [9, 9, 9]), (2**63 + 1, [9, 12, 9])]
    assert near_duplicates(prints, 2, 5).tolist() == [0, 0, 0, 3, 0, 0]
    assert near_duplicates(prints, 1, 5).tolist() == [0, 1, 2, 3, 0, 0]
    assert near_duplicates(prints, 1, 2).tolist() == [0, 1, 2, 3, 0, 5]
    generator = np.random.default_rng(0)
    codes = [int(code) for code in generator.integers(0, 2**12, 300)]
    prints = [(code, [level, 0, 0]) for code, level in zip(codes, generator.integers(0, 4, 300).tolist(), strict=True)]
    slow = list(range(300))
    for a in range(300):
        for b in range(a):
            if (prints[a][0] ^ prints[b][0]).bit_count() <= 1 and prints[a][1] == prints[b][1]:
                low, high = sorted((slow[a], slow[b]))
                slow = [low if root == high else root for root in slow]
    assert near_duplicates(prints, 1, 0).tolist() == slow and len(set(slow)) > 3


def test_a_block_at_a_time_gives_the_same_groups(monkeypatch):
    prints = [(row % 7, [0, 0, 0]) for row in range(200)]
    whole = near_duplicates(prints, 0, 0).tolist()
    monkeypatch.setattr(stage, "BLOCK", 1)
    assert near_duplicates(prints, 0, 0).tolist() == whole == [row % 7 for row in range(200)]


def test_a_copy_in_other_colors_is_no_near_duplicate_and_a_compressed_one_is(tmp_path):
    """The perceptual hash sees brightness alone: red and green squares of equal luma would be one picture to it."""
    (tmp_path / "photos/a").mkdir(parents=True)
    array = np.full((64, 64, 3), 30, np.uint8)
    array[20:50, 10:30] = (200, 30, 30)
    Image.fromarray(array).save(tmp_path / "photos/a/red.png")
    Image.fromarray(array).save(tmp_path / "photos/a/red.jpg", quality=60)
    Image.fromarray(array[:, :, [1, 2, 0]]).save(tmp_path / "photos/a/blue.png")
    found = make(tmp_path / "photos", tmp_path / "out", parameters(tmp_path))
    assert [(row["source"], row["group"]) for row in found["index"]] == [("a/blue.png", "0"), ("a/red.jpg", "1"), ("a/red.png", "1")]


def test_the_example_is_what_the_script_makes(tmp_path):
    """The same names and factors; pixels within what another version of a codec may change."""
    write_folder(tmp_path / "again", count=96, least=16, most=22, seed=1)
    example = ROOT / "data/raw/example"
    assert (tmp_path / "again/factors.csv").read_bytes() == (example / "factors.csv").read_bytes()
    names = [sorted(path.relative_to(folder).as_posix() for folder in [place] for path in place.rglob("*.*")) for place in (tmp_path / "again", example)]
    assert names[0] == names[1] and sum(path.stat().st_size for path in Path(example).rglob("*.*")) < 100_000
    assert (np.asarray(Image.open(example / "rings/001.png")) == np.asarray(Image.open(tmp_path / "again/rings/001.png"))).all()
