"""The page as text: its numbers, that what a person named stays text, that nothing comes from outside."""
import base64
import io
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from page_inputs import block, tidy, write_inputs, write_page
from PIL import Image

from stages.lib.pictures import COLUMNS, TILE, Sheet
from stages.lib.tables import read_json, write_json, write_table
from stages.report import PANELS, Words, main, read_given, render, show_panels

HOSTILE = "</script><img src=x onerror=alert(1)>&\"'{{7*7}}<!--"


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch):
    monkeypatch.chdir(ROOT)


def test_the_levels_of_the_judge_stand_in_the_legend(tmp_path):
    _, text = write_page(tmp_path)
    parts = {part.split('"')[0]: re.sub("<[^>]+>", "", part) for part in text.split('<section id="')}
    for said, panels in (("in percent of what it was before training. Where the whole 90\u00a0% interval", ["answer", "ledger"]),
                         ("between 15 and 75\u00a0%", ["answer", "ledger"]), ("below 75\u00a0%; perhaps below 15\u00a0%", ["answer", "ledger"]),
                         ("above 120\u00a0%", ["answer", "ledger"]), ("spread below 0.02", ["answer", "ledger", "collapse"]),
                         ("effective rank below 1.6", ["answer", "ledger", "collapse"]), ("fewer than 30\u00a0% of the dimensions", ["collapse"])):
        assert [panel for panel, words in parts.items() if said in words] == panels, said


def test_runs_that_share_views_stand_side_by_side_in_short(tmp_path):
    paths = write_inputs(tmp_path)
    inputs = {key: paths[key] for key in ("ledger", "plans", "preview", "images", "collapse")}
    given = read_given(paths["params"], inputs)
    for table in (given["runs"], given["plans"]):
        table["other"] = table["swap"]
    for table in (given["ledger"], given["collapse"]):
        table += [{**row, "run": "other", **({"mean": "0.6"} if "mean" in row else {})} for row in table if row["run"] == "swap"]
    assert "90 → 70, 60\u00a0%" in render(paths["page"], given, show_panels(given, inputs)).replace(" %", "\u00a0%")


def test_a_small_image_is_its_own_tile_pixel_by_pixel_and_a_large_one_is_shrunk():
    images = np.random.default_rng(1).integers(0, 256, (30, 3, 16, 16), dtype=np.uint8)
    sheet = Sheet(16)
    assert [sheet.add(image, row) for row, image in enumerate(images)] == list(range(30)) and sheet.add(images[3], 3) == 3
    pixels = decode(sheet.uri())
    top, left = 27 // COLUMNS * 16, 27 % COLUMNS * 16
    assert np.array_equal(pixels[top : top + 16, left : left + 16], images[27].transpose(1, 2, 0))
    large = Sheet(200)
    large.add(np.full((3, 200, 200), 128, np.uint8), 0)
    assert decode(large.uri()).shape == (TILE, COLUMNS * TILE, 3) and abs(int(decode(large.uri())[5, 5, 0]) - 128) < 3


def decode(uri):
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.split(",")[1]))))


def test_the_page_shows_the_numbers_of_its_tables(tmp_path):
    _, text = write_page(tmp_path)
    card = re.search(r'class="fate loses".*?</div>\s*</div>', text, re.S).group(0)
    assert "loses <bdi>color</bdi>" in card
    assert re.search(r"90 → <b>70</b> %", card)
    assert text.index('class="short"') < text.index('<nav') and "90 → 70 %" in text[: text.index("<nav")]
    assert re.findall(r'<section id="(\w+)"', text) == ["answer", "ledger", "claims", "views", "neighbors", "map", "curves", "ranks", "collapse",
                                                        "staleness", "relations", "recipes", "explain"]
    data = block(text, "map-data")
    assert data["places"]["swap"]["h"]["pca"] == [0, 0, 1000, 0, 0, 750, 1000, 750]
    assert data["factors"]["shape"]["of"] == [1, 0, 1, 0] and data["labels"][0] == "round, red (4)"


def test_every_panel_says_what_it_shows_how_to_misread_it_and_where_it_comes_from_in_both_languages(tmp_path):
    words = json.loads((ROOT / "stages/lib/page/words.json").read_text(encoding="utf-8"))
    for panel in PANELS:
        assert {f"{panel}.title", f"{panel}.name", f"{panel}.shows", f"{panel}.misread"} <= set(words)
        assert (ROOT / f"stages/lib/page/panels/{panel}.html.j2").is_file()
    for key, (english, chinese) in words.items():
        assert set(re.findall(r"{(\w+)}", english)) == set(re.findall(r"{(\w+)}", chinese)), key
    _, text = write_page(tmp_path)
    for section in text.split("<section ")[1:]:
        assert 'class="shows"' in section and 'class="misread"' in section and re.search(r'class="files">.*<code>', section)


def test_hostile_names_are_text_everywhere(tmp_path):
    _, text = write_page(tmp_path, main=HOSTILE, second="b" + HOSTILE, classes=[HOSTILE + "1", HOSTILE + "2"], colors=["<b>", "</style>"],
                         claim=HOSTILE, note=HOSTILE)
    assert "<img" not in text
    assert text.count("<script") == 3 and text.count("</script>") == 3 and "<!--" not in text and text.count("</style>") == 1
    assert "{{7*7}}" in text and HOSTILE in block(text, "map-data")["labels"][0]


def test_the_page_asks_for_nothing_outside_itself(tmp_path):
    _, text = write_page(tmp_path)
    outside = [address for address in re.findall(r"[\w+.-]+://[^\s\"')<]*", text) if address != "http://www.w3.org/2000/svg"]
    assert outside == []
    assert not re.search(r"<(img|iframe|object|embed|video|audio|form|base)\b|@import|<script[^>]*\bsrc=", text)
    assert [address for address in re.findall(r"""(?:href|src)=["']([^"']+)""", text) if not address.startswith(("#", "data:"))] == []


def test_the_same_inputs_give_the_same_bytes_without_date_or_path(tmp_path):
    paths = write_inputs(tmp_path)
    main(**paths)
    first = Path(paths["html"]).read_bytes()
    main(**paths)
    assert Path(paths["html"]).read_bytes() == first
    assert not re.search(rb"20[0-9]{2}-[01][0-9]-", first)


def test_large_images_leave_the_page_under_five_megabytes(tmp_path):
    path, text = write_page(tmp_path, side=256)
    assert "data:image/jpeg" in text and path.stat().st_size < 5e6


def test_an_untrained_run_alone_gives_a_page_without_answer(tmp_path):
    paths = write_inputs(tmp_path)
    params = json.loads(Path(paths["params"]).read_text(encoding="utf-8"))
    del params["runs"]["swap"]
    params["claims"] = {}
    Path(paths["params"]).write_text(json.dumps(params), encoding="utf-8")
    (tmp_path / "claims.json").write_text("{}", encoding="utf-8")
    main(**paths)
    text = Path(paths["html"]).read_text(encoding="utf-8")
    assert '<section id="ledger"' in text and '<section id="answer"' not in text and "swap" not in block(text, "map-data")["places"]


def test_panels_of_further_readouts_appear_with_their_tables_and_show_their_numbers(tmp_path):
    paths = write_inputs(tmp_path)
    inputs = {key: paths[key] for key in ("ledger", "claims", "plans", "curves", "preview", "maps", "images", "collapse", "explain")}
    inputs["factor_rows"] = paths["factors"]
    given = read_given(paths["params"], inputs)
    given["ledger"] += [{**row, "factor": "rotation", "probe": "transformation", "chance": "0.25"} for row in given["ledger"] if row["factor"] == "color"]
    given["intervened"] = {"gray": {"factor": "shape"}}
    probe = [*tidy("knn", "flips", [0.11, 0.33], slice="intervention=gray"), *tidy("knn", "accuracy", [0.9, 0.7]),
             *(row for name in ("round", "square") for row in tidy("knn", "accuracy", [1, 1], slice=f"shape={name}", n="4")),
             *tidy("knn", "accuracy", [0.4, 0.6], slice="rarest"), *tidy("recall@5", "hit_rate", [0.44, 0.44]), *tidy("few_shot@10", "accuracy", [0.77, 0.77])]
    geometry = [*tidy("movement", "moved", [0.125, 0.125], slice="two views", factor=""),
                *tidy("collapse", "variance_share", [0.8], slice="dimension=1", factor=""),
                *(row for metric, value in (("mass", 0.6), ("share", 0.25), ("negatives", 7))
                  for row in tidy("pushes", metric, [value], slice="temperature=0.1"))]
    transfer = {"transfer": "away", "run": "swap", "trained_on": "toys", "dataset": "digits", "space": "h", "factor": "digit", "probe": "knn",
                "mean": "0.5", "low": "0.4", "high": "0.6", "n": "9", "seeds": "2", "chance": "0.1", "untrained": "0.375",
                "gain": "0.125", "gain_low": "0.1", "gain_high": "0.15"}
    tuned = [*tidy("finetune", "accuracy", [0.66]), *tidy("finetune", "labels", [60])]
    given |= {name: dict.fromkeys(given["runs"], table) for name, table in (("finetune", tuned), ("probe", probe), ("geometry", geometry))}
    given["transfers"] = {"away": [transfer]}
    text = render(paths["page"], given, show_panels(given, inputs))
    parts = {part.split('"')[0]: part for part in text.split('<section id="')}
    for panel, shown in {"transformations": "rotation", "interventions": "<b>22</b> <small>11–33</small>",
                         "slices": "<b>50</b> <small>40–60</small>", "budgets": "<b>66</b>", "explain": "(0, 2) → (0.2, 2.2)",
                         "transfers": "+12.5", "collapse": "dimensional collapse", "pushes": "60\u00a0% of the push on 25\u00a0%"}.items():
        assert shown in parts[panel], panel
    assert re.search(r'class="number flips changed"[^>]*>\s*<b>22</b>', parts["interventions"]) and "own-key" in parts["interventions"]
    assert '<td class="number">100</td><td class="number">50</td><td class="number">–</td>' in parts["budgets"]


def test_a_transfer_of_params_is_read_from_its_table_and_without_any_there_is_no_panel(tmp_path):
    paths = write_inputs(tmp_path)
    main(**paths)
    assert '<section id="transfers"' not in Path(paths["html"]).read_text(encoding="utf-8")
    params = json.loads(Path(paths["params"]).read_text(encoding="utf-8"))
    params["transfers"] = {"away": {"run": "swap", "beside": "untrained", "to": "digits"}}
    Path(paths["params"]).write_text(json.dumps(params), encoding="utf-8")
    row = {"transfer": "away", "run": "swap", "trained_on": "toys", "dataset": "digits", "space": "h", "factor": "digit", "probe": "knn", "mean": 0.5,
           "low": 0.4, "high": 1.02, "n": 9, "seeds": 2, "chance": 0.1, "untrained": 0.375, "gain": 0.125, "gain_low": 0.1, "gain_high": 0.15}
    write_table(tmp_path / "transfer/away.csv", [row], list(row))
    main(**paths)
    panel = Path(paths["html"]).read_text(encoding="utf-8").split('<section id="transfers"')[1].split("</section>")[0]
    assert "+12.5" in panel and "[+10.0, +15.0]" in panel and "<b>50</b> <small>40–100</small>" in panel and f"<code>{paths['transfers']}/" in panel


def test_a_reason_that_the_judge_gives_is_said_in_both_languages_with_what_it_names(tmp_path):
    words = Words(ROOT / "stages/lib/page/words.json")
    said = words.find("reason.", "within the noise once all 13 claims are counted (Holm)")
    assert "Within the noise once all <bdi>13</bdi> claims" in said and "把 <bdi>13</bdi> 条论断" in said
    assert "<bdi>z</bdi> of <bdi>moco &amp; co</bdi> has collapsed" in words.find("reason.", "z of moco & co has collapsed")
    assert words.find("reason.", "nobody knows why") == "Nobody knows why."


@pytest.mark.parametrize("entry, said", [({"kind": "instance"}, None),
                                         ({"kind": "factor", "factor": "main"}, "all images of the same <bdi>shape</bdi>, by their labels"),
                                         ({"kind": "clusters", "run": "swap"}, "all images of one cluster, found in h of <bdi>swap</bdi>")])
def test_a_card_says_what_its_relation_takes_for_the_same_whatever_the_name_of_that(entry, said, tmp_path):
    paths = write_inputs(tmp_path)
    params = read_json(paths["params"])
    params["runs"]["swap"]["relation"], params["relations"]["alike"] = "alike", entry
    write_json(paths["params"], params)
    shutil.copy(tmp_path / "relations/instance.json", tmp_path / "relations/alike.json")
    main(**paths)
    text = Path(paths["html"]).read_text(encoding="utf-8")
    assert (said in text) if said else ("positives:" not in text)
