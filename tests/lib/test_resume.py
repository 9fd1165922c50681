"""A training that is broken off ends with the bytes of one that is not; old weights never meet anything new."""
import copy
import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import torch._dynamo  # noqa: F401, which the first optimizer of a process imports: here once instead of in each worker
from conftest import ROOT
from test_dvc import imports

from stages.lib import loop
from stages.lib.resume import Saved, setting, sha256
from stages.lib.stage import Refused
from stages.lib.tables import read_json, read_params, write_json, write_table
from stages.plan import plan_all
from stages.pretrain import moco, simclr, supcon, untrained, vicreg

LEARNED = {"learn_temperature": [0.05, 0.5]}
RUNS = {"simclr_swap": (simclr, {"negatives": LEARNED}), "moco_swap": (moco, {"negatives": LEARNED, "moco": {"queue": 7}, "encoder": {"norm": "batch"}}),
        "vicreg_swap": (vicreg, {"pretrain": {"schedule": "cosine", "warmup": 0.3}}), "supcon": (supcon, {"encoder": {"norm": "group"}})}


@pytest.fixture
def inputs(tmp_path):
    """24 images of 8x8, 16 of them to train on, four images to a group."""
    images = np.random.default_rng(1).integers(0, 256, (24, 3, 8, 8), dtype=np.uint8)
    np.save(tmp_path / "images.npy", images)
    np.save(tmp_path / "relation.npy", np.arange(24) // 4 * 4)
    write_table(tmp_path / "split.csv", [{"id": row, "split": ["train", "test", "train"][row % 3]} for row in range(24)], ["id", "split"])
    return {name: str(tmp_path / f"{name}.{end}") for name, end in {"images": "npy", "relation": "npy", "split": "csv"}.items()}


def train(inputs, tmp_path, run, into, resume="resume", epochs=4, replicates=2, **resumed):
    """Pretrain `run` with weights and curves in a folder `into`; {file: bytes} of what it wrote."""
    module, changes = RUNS[run]
    params = copy.deepcopy(read_params(ROOT / "params.yaml"))
    params["replicates"] = replicates
    params["runs"][run] |= {"relation": "instance", **changes}
    params["runs"] = {name: entry for name, entry in params["runs"].items() if entry["relation"] not in params["mined"]}
    params["mined"], params["claims"], params["transfers"] = {}, {}, {}
    params["pretrain"] |= {"epochs": epochs, "batch_size": 6}
    params["encoder"] |= {"layers": [[4, 2]], "h": 6, "hidden": 6, "z": 5}
    params["resume"] = {"every": 1, "limit_mb": 100, **resumed}
    folder = tmp_path / into
    write_json(folder / "plan.json", plan_all(params)[run])
    module.main(plan=str(folder / "plan.json"), **inputs, models=str(folder / "models"), curves=str(folder / "curves.csv"),
                staleness=str(folder / "staleness.csv"), resume=str(tmp_path / resume))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "plan.json"}


@pytest.fixture
def loaded(tmp_path, monkeypatch):
    """A function: the epochs from which trainings have gone on since it was asked last, sorted; 0 for one from the start."""
    log, load = tmp_path / "loaded", Saved.load

    def logging(self, learner, optimizer):
        told = load(self, learner, optimizer)
        with open(log, "a") as file:  # workers are other processes
            file.write(f"{told['epoch'] if told else 0}\n")
        return told

    def read():
        found = sorted(map(int, log.read_text().split()))
        log.unlink()
        return found

    monkeypatch.setattr(Saved, "load", logging)
    return read


def die_after(monkeypatch, epoch, how=lambda: os.kill(os.getpid(), signal.SIGKILL)):
    save = Saved.save

    def dying(self, learner, optimizer, at, **told):
        save(self, learner, optimizer, at, **told)
        if at == epoch:
            how()

    monkeypatch.setattr(Saved, "save", dying)
    return lambda: monkeypatch.setattr(Saved, "save", save)


@pytest.mark.parametrize("run", RUNS)
def test_a_worker_killed_after_epoch_2_of_4_costs_two_epochs_and_no_byte(run, inputs, tmp_path, monkeypatch, loaded):
    whole = train(inputs, tmp_path, run, "whole", resume="none")
    assert loaded() == [0, 0] and {"curves.csv", "staleness.csv", "models/20260922.safetensors"} <= set(whole)
    alive = die_after(monkeypatch, 2)
    with pytest.raises(Refused, match="was killed"):
        train(inputs, tmp_path, run, "broken")
    assert not list((tmp_path / "broken").rglob("*.safetensors"))
    alive()
    loaded()
    again = train(inputs, tmp_path, run, "broken")
    assert 2 in loaded()
    assert again == whole
    assert train(inputs, tmp_path, run, "cached") == whole and loaded() == [4, 4]


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "gone"])
def test_of_a_damaged_newest_state_the_one_before_is_used(damage, inputs, tmp_path, loaded):
    whole = train(inputs, tmp_path, "moco_swap", "whole", replicates=1)
    loaded()
    newest = max((tmp_path / "resume").iterdir())
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    {"cut": lambda: newest.write_bytes(content[:-9]), "flipped": lambda: newest.write_bytes(content),
     "empty": lambda: newest.write_bytes(b""), "gone": newest.unlink}[damage]()
    assert train(inputs, tmp_path, "moco_swap", "again", replicates=1) == whole and loaded() == [3]


def test_from_two_to_three_replicates_trains_one(inputs, tmp_path, loaded):
    two = train(inputs, tmp_path, "simclr_swap", "two")
    loaded()
    three = train(inputs, tmp_path, "simclr_swap", "three", replicates=3)
    assert loaded() == [0, 4, 4]
    assert all(three[name] == content for name, content in two.items() if name.startswith("models/"))


def test_states_are_within_the_limit_two_a_training_and_a_folder_without_room_changes_no_byte(inputs, tmp_path, loaded):
    first = train(inputs, tmp_path, "simclr_swap", "first")
    files = list((tmp_path / "resume").iterdir())
    assert len(files) == 4  # two seeds, two states each
    saved = Saved(tmp_path / "resume", setting(read_json(tmp_path / "first/plan.json"), inputs["images"]), 1, np.arange(2), np.arange(2), 1)
    oldest = min(files, key=lambda path: path.stat().st_mtime_ns)
    saved.limit = sum(path.stat().st_size for path in files) - 1
    saved.make_room()
    assert set(files) - set((tmp_path / "resume").iterdir()) == {oldest}
    saved.limit = 10
    saved.save(torch.nn.Linear(2, 2), torch.optim.AdamW([torch.zeros(1, requires_grad=True)]), 1)
    assert not [path for path in (tmp_path / "resume").iterdir() if path.name.startswith(saved.key)]
    saved.make_room()
    assert not list((tmp_path / "resume").iterdir())
    assert train(inputs, tmp_path, "simclr_swap", "after") == first


def key(inputs, recipe, seed=1):
    data = loop.TrainImages(inputs["images"], inputs["split"], inputs["relation"])
    return Saved("nowhere", setting(recipe, inputs["images"]), seed, data.ids, data.relation_of(seed, recipe), 1).key


def test_another_parameter_image_split_relation_seed_or_line_of_code_is_another_training(inputs, tmp_path, monkeypatch):
    recipe = plan_all(read_params(ROOT / "params.yaml"))["moco_swap"]
    keys = [key(inputs, recipe), key(inputs, recipe, seed=2)]
    for path in (("temperature",), ("pretrain", "lr"), ("moco", "key_momentum"), ("encoder", "h"), ("views", "swap"), ("pretrain", "epochs")):
        other = copy.deepcopy(recipe)
        node = other
        for part in path[:-1]:
            node = node[part]
        node[path[-1]] *= 0.5
        keys.append(key(inputs, other))
    for name in ("images", "relation"):
        values = np.load(inputs[name])
        values.flat[-1] ^= 1
        np.save(inputs[name], values)
        keys.append(key(inputs, recipe))
    table = Path(inputs["split"]).read_text()
    Path(inputs["split"]).write_text(table.replace("1,test", "1,train"))
    keys.append(key(inputs, recipe))
    code = tmp_path / "stages/lib/resume.py"
    code.parent.mkdir(parents=True)
    code.write_text("a line")
    monkeypatch.setattr("stages.lib.resume.__file__", str(code))
    keys.append(key(inputs, recipe))
    code.write_text("another")
    keys.append(key(inputs, recipe))
    assert len(set(keys)) == len(keys) == 13


def test_replicates_and_how_often_it_is_saved_are_the_same_training(inputs):
    recipe = plan_all(read_params(ROOT / "params.yaml"))["moco_swap"]
    other = {**recipe, "replicates": 9, "resume": {"every": 3, "limit_mb": 7}}
    assert key(inputs, recipe) == key(inputs, other)


@pytest.mark.parametrize("module", [simclr, moco, vicreg, supcon, untrained])
def test_the_code_of_a_training_holds_all_that_its_stage_imports(module):
    name = module.__name__.replace(".", "/") + ".py"
    code = setting({"device": "cpu"}, __file__)["code"]
    assert {file.removeprefix("stages/") for file in imports(name)} <= set(code)
    assert all(code[file] == sha256(ROOT / "stages" / file) for file in code)


def test_a_state_is_tensors_and_json_and_nothing_that_could_run(inputs, tmp_path):
    train(inputs, tmp_path, "moco_swap", "some", replicates=1)
    content = max((tmp_path / "resume").iterdir()).read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    told = json.loads(header.pop("__metadata__")["told"])
    assert told["epoch"] == 4 and len(told["curve"]) == 5 and told["ages"]
    assert {"l.ring.keys", "l.ring.ids", "l.ring.pointer", "l.temperature.log", "l.key_network.encoder.0.weight", "o.0.exp_avg", "o.0.step"} <= set(header)
    assert "pickle" not in sys.modules["stages.lib.resume"].__dict__
