"""Bad values are refused before anything runs, all at once, each with key, value, what is allowed, and the nearest name."""
import copy

import pytest
from conftest import ROOT, call

from stages.lib.stage import Refused
from stages.lib.tables import read_params
from stages.plan import merge, plan_all

DEFAULTS = read_params(ROOT / "params.yaml")


def refusal(*changes):
    """The message for the default parameters with (dotted key, value) changes; value `...` deletes the key."""
    params = copy.deepcopy(DEFAULTS)
    for key, value in changes:
        *path, last = key.split(".")
        node = params
        for part in path:
            node = node[part]
        if value is ...:
            del node[last]
        else:
            node[last] = value
    with pytest.raises(Refused) as refused:
        plan_all(params)
    return str(refused.value)


@pytest.mark.parametrize("key, value, allowed", [
    ("temperature", 0, "a number from 0.001 to 10000"),
    ("temperature", -1, "a number from 0.001 to 10000"),
    ("temperature", float("nan"), "a number from 0.001 to 10000"),
    ("temperature", "abc", "a number from 0.001 to 10000"),
    ("temperature", True, "a number from 0.001 to 10000"),
    ("temperature", 1e-05, "a number from 0.001 to 10000"),
    ("temperature", None, "a number from 0.001 to 10000"),
    ("replicates", 0, "a whole number from 1 to 1000"),
    ("replicates", 2.5, "a whole number from 1 to 1000"),
    ("device", "gpu", "one of cpu, cuda"),
    ("views.swap_color.swap", 1.5, "a number from 0 to 1"),
    ("views.swap_color.zoom", [1.2, 0.8], "in rising order"),
    ("pretrain.batch_size", 1, "a whole number from 2"),
    ("datasets.shapes.images.colors.red", [2, 0, 0], "[red, green, blue]"),
    ("datasets.shapes.raw", "data/raw/../../etc", "a path under data/raw/"),
    ("probe.C", [1, 0.1], "in rising order"),
    ("encoder.norm", "layer", "one of none, group, batch"),
    ("runs", {}, "at least one entry"),
    ("pretrain", 3, "a mapping"),
    ("dataset", "nope", "one of shapes"),
    ("claims.keep_keeps_color.right", "much", "chance"),
])
def test_a_bad_value_is_told_with_key_value_and_what_is_allowed(key, value, allowed):
    message = refusal((key, value))
    assert f"  {key}: " in message and allowed in message and len(message.splitlines()) == 2


def test_all_faults_are_told_at_once():
    message = refusal(("temperature", 0), ("replicates", 0), ("probe.k", "five"), ("runs.simclr_swap.views", "swap_colour"))
    for line in ("temperature: 0 ", "replicates: 0 ", 'probe.k: "five" ', "did you mean swap_color?"):
        assert line in message
    assert "4 faults" in message


def test_a_misspelt_key_is_told_with_the_nearest_name_and_a_missing_key_as_missing():
    message = refusal(("temperatur", 0.2), ("temperature", ...))
    assert "temperatur: unknown key; did you mean temperature?" in message and "temperature: missing" in message


def test_a_batch_larger_than_the_train_set_is_refused_naming_both():
    assert "601 is larger than the 600 train images of shapes" in refusal(("pretrain.batch_size", 601))
    assert "1198 is larger than the 1197 train images of digits" in refusal(("pretrain.batch_size", 1198), ("dataset", "digits"))


def test_a_run_may_not_set_what_its_objective_does_not_read():
    assert "runs.untrained.temperature: not read by untrained" in refusal(("runs.untrained.temperature", 0.1))
    assert "runs.simclr_swap.pretrain.epoch: unknown key; did you mean epochs?" in refusal(("runs.simclr_swap.pretrain", {"epoch": 3}))


def test_counts_of_a_split_must_sum_to_the_images():
    assert "allowed: counts that sum to the 960 there are" in refusal(("datasets.shapes.split.train", 601))


def test_a_run_of_its_own_values_over_the_shared_ones():
    assert merge({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"c": 5}}) == {"a": 1, "b": {"c": 5, "d": 3}}


def test_a_plan_holds_just_what_its_run_reads():
    recipes = plan_all(DEFAULTS)
    assert "temperature" not in recipes["untrained"] and "views" not in recipes["untrained"]
    assert recipes["simclr_swap"]["views"] == DEFAULTS["views"]["swap_color"]


def test_a_number_as_dvc_writes_it_is_a_number(tmp_path):
    (tmp_path / "params.yaml").write_text("lr: 1e-05\n")
    assert read_params(tmp_path / "params.yaml", "lr") == 0.00001


@pytest.mark.parametrize("text, word", [("a: 1\na: 2\n", "duplicate"), ("a: [1\n", "line 2"), ("a: !!python/object/apply:os.system [ls]\n", "constructor")])
def test_yaml_that_is_broken_doubled_or_unsafe_is_one_line(tmp_path, text, word):
    (tmp_path / "params.yaml").write_text(text)
    with pytest.raises(Refused) as refused:
        read_params(tmp_path / "params.yaml")
    assert word in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize("override, told", [
    ("temperature=abc", 'temperature: "abc" is not allowed'),
    ("temperature=1e-5", "temperature: 1e-05 is not allowed"),
    ("pretrain.batch_size=50", "50 is larger than the 42 train images of shapes"),
    ("+typo=3", "typo: unknown key"),
])
def test_dvc_exp_run_with_a_bad_value_ends_in_lines_and_leaves_the_results(clone, override, told):
    before = (clone / "metrics/ledger.csv").read_bytes(), sorted(path.name for path in (clone / "models/simclr_swap").iterdir())
    done = call("dvc", "exp", "run", "-S", override, cwd=clone, check=False)
    said = done.stdout + done.stderr
    assert done.returncode != 0 and told in said and "Traceback" not in said
    assert before == ((clone / "metrics/ledger.csv").read_bytes(), sorted(path.name for path in (clone / "models/simclr_swap").iterdir()))
