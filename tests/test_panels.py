"""Panels and charts as data: what became of a factor, what is told in which words and units, where a line lies."""
import numpy as np
import pytest
from page_inputs import tidy

from stages.lib.charts import line_chart, ticks
from stages.lib.panels import answer, looks, readouts, training
from stages.lib.pictures import Sheet


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


JUDGED = {"judge": {"kept": 0.8, "room": 0.1}, "collapse": []}


def fate(*ends, dead=(), **cells):
    """The fate of a factor in runs 0, 1, ... whose retention has these intervals."""
    usual = {"verdict": "unclear", "mean": "0.5", "chance": "0.5", "untrained": "1", "note": ""}
    rows = [{"run": str(place), "retention_low": low, "retention_high": high, **usual, **cells} for place, (low, high) in enumerate(ends)]
    return answer.fate(rows, "color", JUDGED, dead)


def test_a_policy_loses_a_factor_if_in_most_of_its_runs_the_whole_interval_lies_below_kept():
    assert fate(("0", "0.1"), ("0.1", "0.15"), ("0.5", "1"), verdict="erased")["word"] == "loses"
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


def test_a_factor_is_lost_wholly_if_most_that_lost_it_erased_it_partly_if_all_keep_a_part_and_else_it_is_open():
    assert fate(("0.3", "0.6"), ("0.3", "0.7"), verdict="partly")["word"] == "loses part"
    mixed = [{"run": run, "retention_low": low, "retention_high": high, "verdict": verdict, "mean": "0.5", "chance": "0.5", "untrained": "1", "note": ""}
             for run, low, high, verdict in (("a", "0.3", "0.6", "partly"), ("b", "-0.1", "0.1", "erased"), ("c", "0.1", "0.9", "unclear"))]
    found = answer.fate(mixed, "color", JUDGED)
    assert (found["word"], found["count"], found["weakened"], found["all"], found["means"]) == ("loses open", 2, 1, 3, [0.5, 0.5, 0.5])
    mixed[0]["verdict"] = "erased"
    assert answer.fate(mixed, "color", JUDGED)["word"] == "loses" and fate(("0.1", "0.7"))["word"] == "loses open"


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
    assert answer.in_words(-0.03, 0.03, 100) == {"word": "between", "low": "−3", "high": "+3"}


def test_a_difference_of_accuracies_is_told_in_points_and_another_as_it_is():
    claim = {"text": "", "verdict": "supported", "effect": 0.0625, "low": -0.01, "high": None, "differs": "", "confounded": False}
    entry = {"is": "below", "margin": -0.03, "right": 0.5}
    probes = {"a": "knn", "b": "spread", "c": "ridge"}
    given = {"claims": dict.fromkeys(probes, claim), "named_factors": ["shape"],
             "claimed": {name: {**entry, "left": {"run": "r", "space": "z", "probe": probe}} for name, probe in probes.items()}}
    found = answer.claims(given)["claims"]
    assert [(one["points"], one["zone"]["high"]) for one in found] == [(True, "+3"), (False, "+0.03"), (False, "+0.03")]
    assert [[answer.signed(value, points) for value in (0.0625, -0.01, None)] for points in (True, False)] == [["+6.2", "−1.0", "–"], ["+0.062", "−0.010", "–"]]


def test_what_guessing_gives_follows_from_the_sizes_of_the_classes():
    """Of classes of 3, 2 and 1 test images: one of the 5 others is of the same class for (3 x 2 + 2 x 1) / 5 of the 5 that ask; who is alone does not ask."""
    rows = [row for name, n in (("a", "3"), ("b", "2"), ("c", "1")) for row in tidy("knn", "accuracy", [0.5, 0.5], slice=f"shape={name}", n=n)]
    ledger = [{"run": "r", "space": "h", "factor": "shape", "probe": "finetune", "chance": "0.25"}]
    given = {"probe": {"r": rows}, "ledger": ledger}
    found = readouts.guessing(given, "shape", ["recall@1", "recall@2", "recall@9", "few_shot@1", "finetune"])
    assert found == pytest.approx([(3 * 2 / 5 + 2 * 1 / 5) / 5, 1 - (3 * 3 / 5 * 2 / 4 + 2 * 4 / 5 * 3 / 4) / 5, 1, 1 / 3, 0.25])
    assert readouts.guessing({"probe": {"r": []}, "ledger": []}, "shape", ["recall@1", "few_shot@1", "finetune"]) == [None, None, None]


def test_a_relation_says_what_it_takes_for_the_same():
    given = {"named_factors": ["digit"], "relation_entries": {"main": {"kind": "factor", "factor": "main"}, "alike": {"kind": "clusters", "run": "first"}}}
    assert answer.positives("main", given) == {"kind": "factor", "by": "digit"} and answer.positives("alike", given) == {"kind": "clusters", "by": "first"}


def test_what_a_collapsed_run_lost_is_shown_but_not_counted():
    found = fate(("0.9", "1.2"), ("0", "0.3"), ("0", "0.3"), dead=("1", "2"))
    assert (found["word"], found["count"], found["all"], [run["dead"] for run in found["runs"]]) == ("keeps", 1, 1, [False, True, True])
    assert [run["counted"] for run in found["runs"]] == [True, False, False]


def test_where_all_runs_collapsed_they_are_what_there_is_to_count():
    found = fate(("0", "0.3"), dead=("0",))
    assert (found["word"], found["runs"][0]["dead"], found["runs"][0]["counted"]) == ("loses open", True, True)


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


def test_flips_movement_and_the_fall_on_held_out_images_are_means_over_seeds_with_their_range():
    given = {"runs": {"r": {}}, "plans": {"r": {"objective": "simclr"}}, "named_factors": ["shape"],
             "judge": {"kept": 0.8}, "intervened": {"gray": {"factor": "shape"}, "dim": {}},
             "ledger": [{"run": "r", "space": "h", "factor": "shape", "probe": "knn", "val": "0.95"}],
             "probe": {"r": [*tidy("knn", "flips", [0.25, 0.75], slice="intervention=gray"), *tidy("knn", "accuracy", [0.9, 0.7]),
                             *tidy("knn", "accuracy", [0.4, 0.6], slice="held_out"), *tidy("knn", "accuracy", [1, 0.8], slice="not_held_out"),
                             *tidy("recall@5", "hit_rate", [0.5, 0.5])]},
             "finetune": {"r": [*tidy("finetune", "accuracy", [0.6, 0.8]), *tidy("finetune", "labels", [60, 60])]},
             "geometry": {"r": [*tidy("movement", "moved", [0.1, 0.3], slice="intervention=gray", factor=""),
                                *tidy("movement", "moved", [0.5, 0.5], slice="two images", factor="")]}}
    (gray, views, images) = readouts.interventions(given)["runs"][0]["lines"]
    assert (gray["changed"], views["changed"], readouts.interventions(given)["changed"]) == ([True], [False], True)
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


def test_rows_without_a_loss_are_left_out_of_a_curve():
    rows = [{"seed": "1", "epoch": "0", "loss": ""}, {"seed": "1", "epoch": "1", "loss": "2"}, {"seed": "2", "epoch": "1", "loss": "4"}]
    assert training.by_seed(rows, "epoch", "loss") == [[(1.0, 2.0)], [(1.0, 4.0)]]
    assert training.seeds_and_mean(rows, "loss")[-1]["points"] == [(1.0, 3.0)]
