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
from page_inputs import block, write_inputs, write_page
from PIL import Image

from stages.lib.charts import line_chart, ticks
from stages.lib.panels import answer, looks, readouts, training
from stages.lib.pictures import COLUMNS, TILE, Sheet
from stages.lib.tables import read_json, write_json, write_table
from stages.report import PANELS, Words, main, read_given, render, show_panels

HOSTILE = "</script><img src=x onerror=alert(1)>&\"'{{7*7}}<!--"


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch):
    monkeypatch.chdir(ROOT)


def test_ticks_are_steps_of_one_two_or_five():
    assert ticks(0, 1) == [0, 0.5, 1]
    assert ticks(0.9, 4.2) == [1, 2, 3, 4]
    assert ticks(-30, 130) == [0, 50, 100]
    assert ticks(3, 3) == [3]


def test_a_line_from_corner_to_corner_ends_in_the_corners_of_the_chart_but_for_six_percent_of_its_height():
    chart = line_chart([{"points": [(0, -1), (4, 1), (9, None)], "kind": "mean"}])
    (x0, y0), (x1, y1) = chart["lines"][0]["points"]
    assert (x0, x1) == (chart["left"], chart["right"])
    high, low = 1.12, -1.12
    assert y0 == pytest.approx(chart["bottom"] - (chart["bottom"] - chart["top"]) * (-1 - low) / (high - low), abs=0.06)
    assert y1 == pytest.approx(chart["top"] + (chart["bottom"] - chart["top"]) * (high - 1) / (high - low), abs=0.06)
    assert [tick["label"] for tick in chart["x_ticks"]] == ["0", "1", "2", "3", "4"]
    assert line_chart([{"points": [(0, None)], "kind": "mean"}]) is None


def test_an_accuracy_halfway_between_guessing_and_perfect_is_half_kept():
    row = {"mean": "0.75", "chance": "0.5", "low": "0.7", "high": "0.8", "verdict": "partly", "note": "", "n": "8", "seeds": "2", "retention": "0.5",
           "retention_high": "0.6"}
    assert answer.cell_of(row, 0.8)["kept"] == 0.5
    assert answer.cell_of({**row, "mean": "0.4"}, 0.8)["kept"] == 0
    unclear = {high: answer.cell_of({**row, "verdict": "unclear", "retention_high": high}, 0.8)["verdict"] for high in ("0.6", "0.9", "1.1", "")}
    assert unclear == {"0.6": "not kept", "0.9": "weakened", "1.1": "unclear", "": "unclear"}


def fate(*ends, dead=(), **cells):
    """The fate of a factor in runs 0, 1, ... whose retention has these intervals."""
    usual = {"verdict": "unclear", "mean": "0.5", "chance": "0.5", "untrained": "1", "note": ""}
    rows = [{"run": str(place), "retention_low": low, "retention_high": high, **usual, **cells} for place, (low, high) in enumerate(ends)]
    return answer.fate(rows, "color", {"kept": 0.8, "room": 0.1, "collapse": []}, dead)


def test_a_policy_loses_a_factor_if_in_most_of_its_runs_the_whole_interval_lies_below_kept():
    assert fate(("0", "0.3"), ("0.1", "0.7"), ("0.5", "1"))["word"] == "loses"
    assert fate(("0", "0.3"), ("0", "0.3"), ("0.9", "1"))["word"] == "differs" and fate(("0.6", "0.9"), ("0.9", "1"))["word"] == "differs"
    assert fate(("0", "0.3"), ("0", "1.3"))["word"] == "unsure"
    assert fate(("0.6", "1.1"), ("0.7", "1.2"))["word"] == "unsure"
    assert fate(("0.9", "1.2"), ("0.85", "0.95"))["word"] == "keeps"
    assert fate(("", ""), ("", ""))["word"] == "unsure"


def test_a_policy_weakens_a_factor_if_in_most_of_its_runs_the_interval_holds_kept_but_not_1():
    assert fate(("0.6", "0.9"), ("0.7", "0.95"))["word"] == "weakens"
    assert fate(("0.6", "0.9"), ("0.1", "0.7"))["word"] == "weakens"
    assert fate(("1.2", "1.9"), verdict="gained")["word"] == "lifts"
    assert fate(("", ""), untrained="0.59")["word"] == "unread" and fate(("", ""), untrained="0.61")["word"] == "unsure"


def test_a_policy_loses_a_factor_partly_only_if_the_judge_says_so_of_every_run_that_lost_it():
    assert fate(("0.3", "0.6"), ("0.3", "0.7"), verdict="partly")["word"] == "loses part"
    mixed = [{"run": run, "retention_low": low, "retention_high": high, "verdict": verdict, "mean": "0.5", "chance": "0.5", "untrained": "1", "note": ""}
             for run, low, high, verdict in (("a", "0.3", "0.6", "partly"), ("b", "-0.1", "0.1", "erased"), ("c", "0.1", "0.9", "unclear"))]
    found = answer.fate(mixed, "color", {"kept": 0.8, "room": 0.1, "collapse": []})
    assert (found["word"], found["count"], found["weakened"], found["all"]) == ("loses", 2, 1, 3)


def test_seeds_that_collapsed_are_told_where_the_run_as_a_whole_did_not():
    rows = [{"run": run, "space": space, "verdict": verdict, "collapsed_seeds": count, "seeds": "5"} for run, space, verdict, count in
            (("a", "h", "none", "1"), ("a", "z", "dimensional", "2"), ("b", "h", "complete", "5"), ("c", "h", "none", "0"), ("d", "h", "untrained", ""))]
    told = {run: answer.lost_seeds({"collapse": rows}, run, ("h", "z")) for run in "abcd"}
    assert told == {"a": [{"space": "h", "count": 1, "seeds": 5}, {"space": "z", "count": 2, "seeds": 5}], "b": [], "c": [], "d": []}
    assert answer.lost_seeds({"collapse": rows}, "a", ("h",)) == [{"space": "h", "count": 1, "seeds": 5}]


def test_what_a_claim_asks_for_is_said_in_words():
    assert answer.in_words(-0.0, float("inf"))["low"] == "0" and answer.in_words(0.03, float("inf"))["word"] == "above"
    assert answer.in_words(-float("inf"), 0.03) == {"word": "below", "low": "−inf", "high": "+0.03"}
    assert answer.in_words(-0.15, 0.15) == {"word": "between", "low": "−0.15", "high": "+0.15"}


def test_a_relation_says_what_it_takes_for_the_same():
    given = {"named_factors": ["digit"], "relation_entries": {"main": {"kind": "factor", "factor": "main"}, "alike": {"kind": "clusters", "run": "first"}}}
    assert answer.positives("main", given) == {"kind": "factor", "by": "digit"} and answer.positives("alike", given) == {"kind": "clusters", "by": "first"}


def test_what_a_collapsed_run_lost_is_shown_but_not_counted():
    found = fate(("0.9", "1.2"), ("0", "0.3"), ("0", "0.3"), dead=("1", "2"))
    assert (found["word"], found["count"], found["all"], [run["dead"] for run in found["runs"]]) == ("keeps", 1, 1, [False, True, True])
    assert [run["counted"] for run in found["runs"]] == [True, False, False]


def test_where_all_runs_collapsed_they_are_what_there_is_to_count():
    found = fate(("0", "0.3"), dead=("0",))
    assert (found["word"], found["runs"][0]["dead"], found["runs"][0]["counted"]) == ("loses", True, True)


def test_only_what_not_all_policies_do_is_a_policys_own():
    policies = {"plain": {"flip": 0.5, "zoom": [1, 2]}, "swapped": {"flip": 0.5, "zoom": [1, 3], "swap": 0.5}}
    found = answer.own_and_common(policies, policies)
    assert found["swapped"] == {"own": [("zoom", [1, 3]), ("swap", [0.5])], "common": [("flip", [0.5])]}


def test_settings_that_all_readers_share_are_no_difference_but_a_view_that_one_run_lacks_is():
    plans = {"a": {"objective": "simclr", "temperature": 0.2, "views": {"flip": 0.5}},
             "b": {"objective": "simclr", "temperature": 0.2, "views": {"flip": 0.5, "swap": 0.5}},
             "c": {"objective": "vicreg", "views": {"flip": 0.5}}}
    found = answer.recipes({"runs": dict.fromkeys(plans, {}), "plans": plans})
    assert [line["setting"] for line in found["differing"]] == ["objective", "views.swap"]
    assert [line["setting"] for line in found["shared"]] == ["temperature", "views.flip"]
    assert [cell["own"] for cell in found["differing"][0]["cells"]] == [False, False, True]
    assert [cell["own"] for cell in found["differing"][1]["cells"]] == [False, True, False]
    assert [answer.text(value) for value in (True, 0.002, [0.8, 1.2], 40)] == ["true", "0.002", "[0.8, 1.2]", "40"]


def test_neighbors_that_agree_are_counted_over_all_test_images():
    rows = [{"id": str(row), "shape": shape} for row, shape in enumerate(["a", "b", "a", "b"])]
    near = {"ids": np.array([2, 3]), "h/neighbors": np.array([[0, 1], [1, 1]]), "z/neighbors": np.array([[0, 0], [1, 0]])}
    given = {"runs": {"r": {}}, "plans": {"r": {"objective": "simclr"}}, "named_factors": ["shape"], "factor_rows": rows, "maps": {"r": near}, "queries": 1,
             "images": np.zeros((4, 3, 8, 8), np.uint8), "sheet": Sheet(8)}
    found = looks.neighbors(given)
    assert [group["agree"][0]["share"] for group in found["runs"][0]["groups"]] == [0.75, 0.75]
    assert [near["same"] for near in found["runs"][0]["groups"][0]["near"][0]] == [[True], [False]]


def test_a_number_colors_the_map_by_fifths_of_its_range():
    rows = [{"id": str(row), "size": str(value)} for row, value in enumerate([0.5, 1.5, 2.5, 3.5, 4.5, 5.5])]
    coloring = looks.colorings({"factor_rows": rows, "named_factors": []}, np.arange(6))["size"]
    assert coloring["of"] == [0, 1, 2, 3, 4, 4] and coloring["ordered"] and coloring["classes"][0] == "0.5 – 1.5"


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


def tidy(probe, metric, values, **other):
    common = {"run": "r", "space": "h", "factor": "shape", "probe": probe, "slice": "all", "metric": metric, "n": "9", "note": ""}
    return [{**common, "seed": str(seed), "value": str(value), **other}
            for seed, value in enumerate(values)]


def test_flips_movement_and_the_fall_on_held_out_images_are_means_over_seeds_with_their_range():
    given = {"runs": {"r": {}}, "plans": {"r": {"objective": "simclr"}}, "named_factors": ["shape"], "kept": 0.8,
             "ledger": [{"run": "r", "space": "h", "factor": "shape", "probe": "knn", "val": "0.95"}],
             "probe": {"r": [*tidy("knn", "flips", [0.25, 0.75], slice="intervention=gray"), *tidy("knn", "accuracy", [0.9, 0.7]),
                             *tidy("knn", "accuracy", [0.4, 0.6], slice="held_out"), *tidy("knn", "accuracy", [1, 0.8], slice="not_held_out"),
                             *tidy("recall@5", "hit_rate", [0.5, 0.5])]},
             "finetune": {"r": [*tidy("finetune", "accuracy", [0.6, 0.8]), *tidy("finetune", "labels", [60, 60])]},
             "geometry": {"r": [*tidy("movement", "moved", [0.1, 0.3], slice="intervention=gray", factor=""),
                                *tidy("movement", "moved", [0.5, 0.5], slice="two images", factor="")]}}
    (gray, views, images) = readouts.interventions(given)["runs"][0]["lines"]
    assert gray["cells"][0]["flips"] == [{"mean": 0.5, "low": 0.25, "high": 0.75}] and gray["cells"][0]["moved"]["mean"] == pytest.approx(0.2)
    assert images["yardstick"] and images["cells"][0]["moved"]["mean"] == 0.5 and views["cells"][0]["moved"] is None
    line = readouts.slices(given)["lines"][0]
    assert (line["fall"], line["from_val"]) == (pytest.approx(0.4), pytest.approx(0.15))
    few = readouts.budgets(given)
    assert few["labels"] == "60" and few["lines"][0]["cells"] == [{"mean": 0.5, "low": 0.5, "high": 0.5}, {"mean": 0.7, "low": 0.6, "high": 0.8}]


def test_pushes_are_drawn_against_their_share_from_the_coldest_temperature_on():
    rows = [row for temperature, mass in (("0.1", 0.6), ("1", 0.3)) for metric, value in (("mass", mass), ("share", 0.25), ("negatives", 7))
            for row in tidy("pushes", metric, [value], space="z", slice=f"temperature={temperature}")]
    found = readouts.pushes({"runs": {"r": {}}, "plans": {"r": {"objective": "simclr"}}, "named_factors": ["shape"], "geometry": {"r": rows}})["charts"][0]
    assert (found["temperature"], found["mass"], found["share"], found["negatives"]) == (0.1, 0.6, 0.25, 7)
    assert [tick["label"] for tick in found["chart"]["x_ticks"]] == ["0.1", "0.2", "0.5", "1"]


def test_panels_of_further_readouts_appear_with_their_tables_and_show_their_numbers(tmp_path):
    paths = write_inputs(tmp_path)
    inputs = {key: paths[key] for key in ("ledger", "claims", "plans", "curves", "preview", "maps", "images", "collapse", "explain")}
    inputs["factor_rows"] = paths["factors"]
    given = read_given(paths["params"], inputs)
    given["ledger"] += [{**row, "factor": "rotation", "probe": "transformation", "chance": "0.25"} for row in given["ledger"] if row["factor"] == "color"]
    probe = [*tidy("knn", "flips", [0.11, 0.33], slice="intervention=gray"), *tidy("knn", "accuracy", [0.9, 0.7]),
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
                         "transfers": "+0.125", "collapse": "dimensional collapse", "pushes": "60\u00a0% of the push against 25\u00a0%"}.items():
        assert shown in parts[panel], panel


def test_rows_without_a_loss_are_left_out_of_a_curve():
    rows = [{"seed": "1", "epoch": "0", "loss": ""}, {"seed": "1", "epoch": "1", "loss": "2"}, {"seed": "2", "epoch": "1", "loss": "4"}]
    assert training.by_seed(rows, "epoch", "loss") == [[(1.0, 2.0)], [(1.0, 4.0)]]
    assert training.seeds_and_mean(rows, "loss")[-1]["points"] == [(1.0, 3.0)]


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
    assert "+0.125" in panel and "[+0.100, +0.150]" in panel and "<b>50</b> <small>40–100</small>" in panel and f"<code>{paths['transfers']}/" in panel


def test_a_reason_that_the_judge_gives_is_said_in_both_languages_with_what_it_names(tmp_path):
    words = Words(ROOT / "stages/lib/page/words.json")
    said = words.find("reason.", "within the noise once all 13 claims are counted (Holm)")
    assert "Within the noise once all <bdi>13</bdi> claims" in said and "把 <bdi>13</bdi> 条论断" in said
    assert "<bdi>z</bdi> of <bdi>moco &amp; co</bdi> has collapsed" in words.find("reason.", "z of moco & co has collapsed")
    assert words.find("reason.", "nobody knows why") == "Nobody knows why."


@pytest.mark.parametrize("entry, said", [({"kind": "instance"}, None), ({"kind": "factor", "factor": "main"}, "all images of the same <bdi>shape</bdi>"),
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
