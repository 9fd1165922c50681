"""Entries of data sets, encoders and splits in params.yaml: what is refused before anything runs, and what a plan holds."""
import pytest
from conftest import ROOT, load_yaml

from stages.lib.loop import learning_rate
from stages.lib.stage import Refused
from stages.plan import plan_all

SPLIT = {"train": 0.6, "val": 0.2, "test": 0.2, "seed": 1, "hold_out": []}


def params(**encoder):
    value = load_yaml(ROOT / "params.yaml")
    value["encoder"] |= encoder
    return value


def test_the_plan_of_a_resnet_holds_no_setting_of_the_small_encoder():
    encoder = plan_all(params(name="resnet18", norm="group"))["simclr_keep"]["encoder"]
    assert encoder == {"name": "resnet18", "norm": "group", "head": "mlp", "hidden": 48, "z": 24}


def test_a_resnet_of_one_run_leaves_the_plans_of_others_alone():
    value = params()
    before = plan_all(value)
    value["runs"]["simclr_keep"]["encoder"] = {"name": "resnet50", "norm": "batch"}
    after = plan_all(value)
    assert after["simclr_keep"]["encoder"]["name"] == "resnet50" and all(after[name] == before[name] for name in before if name != "simclr_keep")


@pytest.mark.parametrize("change, said", [
    (lambda p: p["encoder"].update(name="resnet18", norm="none"), "encoder.norm: none is not allowed for resnet18; allowed: group, batch"),
    (lambda p: p["encoder"].update(name="resnet34"), 'encoder.name: "resnet34" is not allowed; allowed: one of small, resnet18, resnet50'),
    (lambda p: p["encoder"].pop("layers"), "encoder.layers: missing"),
    (lambda p: p["runs"]["simclr_keep"].update(encoder={"name": "resnet18", "norm": "group", "h": 64}), "encoder.h: not read by resnet18"),
    (lambda p: p["datasets"]["example"]["images"].update(on_bad="ignore"), 'on_bad: "ignore" is not allowed; allowed: one of stop, skip'),
    (lambda p: p["datasets"]["example"]["images"].update(max_pixels=10**9), "datasets.example.images.max_pixels: 1000000000 is not allowed"),
    (lambda p: p["datasets"]["example"]["images"]["near"].update(bits=65), "near.bits: 65 is not allowed; allowed: a whole number from 0 to 64"),
    (lambda p: p["datasets"]["example"]["images"].update(columns={"hue": "text"}), 'columns.hue: "text" is not allowed; allowed: one of class, number, none'),
    (lambda p: p["datasets"]["example"].update(raw="data/raw/it's"), "datasets.example.raw: "),
    (lambda p: p["datasets"]["example"].update(raw="data/raw/../../etc"), "datasets.example.raw: "),
    (lambda p: p["datasets"]["example"].update(source="folders"), 'datasets.example.source: "folders" is not allowed'),
    (lambda p: p["datasets"]["example"].update(
        split={"column": "part", "vall": 0, "seed": 1, "hold_out": []}), "datasets.example.split.vall: unknown key; did you mean val?"),
])
def test_a_wrong_entry_is_refused_by_its_key(change, said):
    value = params()
    change(value)
    with pytest.raises(Refused) as refused:
        plan_all(value)
    assert said in str(refused.value)


@pytest.mark.parametrize("change", [
    lambda p: p["datasets"]["example"]["images"].update(near="none"),
    lambda p: p["datasets"]["example"]["images"].update(columns={"hue": "class", "period": "none", "名字": "number"}),
    lambda p: p["datasets"]["example"].update(second_factor="none", split={**SPLIT, "group_by": "subject"}),
    lambda p: p["datasets"]["example"].update(raw="data/raw/my photos/2024"),
    lambda p: (p["datasets"]["example"].update(split={"column": "part", "val": 0.1, "seed": 1, "hold_out": []}), p.update(dataset="example")),
    lambda p: p["datasets"].update(cifar={"source": "torchvision", "raw": "data/raw/none", "main_factor": "class", "second_factor": "none",
                                          "images": {"name": "CIFAR10", "size": 32}, "split": {"column": "part", "val": 0.1, "seed": 1, "hold_out": []}}),
])
def test_a_right_entry_is_taken(change):
    value = params()
    change(value)
    assert plan_all(value)


def test_a_warm_up_shorter_than_a_step_never_lifts_the_rate_above_its_peak():
    for warmup in (0, 0.001, 0.01, 0.015, 0.1, 0.37, 0.9):
        rates = [learning_rate({"lr": 1.0, "warmup": warmup, "schedule": "cosine"}, step, 30) for step in range(30)]
        assert max(rates) <= 1 and min(rates) > 0, warmup
