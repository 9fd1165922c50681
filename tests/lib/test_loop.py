"""The loop: batches, learning rate, what stops it, and that labels cannot reach it."""
import json
import random

import numpy as np
import pytest
import torch
from conftest import call

from stages.lib import loop
from stages.lib.loop import Objective, batches, learning_rate, parameter_groups, pretrain, shuffled
from stages.lib.stage import Refused


@pytest.mark.parametrize("count, size", [(37, 16), (33, 32), (600, 60), (5, 2), (3, 2), (2, 2)])
def test_every_image_is_in_one_batch_none_larger_than_asked_and_none_of_one(count, size):
    slices = batches(count, size, 1)
    sizes = [part.stop - part.start for part in slices]
    assert sum(sizes) == count and slices[0].start == 0 and all(a.stop == b.start for a, b in zip(slices, slices[1:], strict=False))
    assert max(sizes) <= size and max(sizes) - min(sizes) <= 1 and len(slices) == -(-count // size)


def test_a_batch_larger_than_the_data_is_refused_naming_both():
    with pytest.raises(Refused, match="60 is larger than the 12 train images"):
        batches(12, 60, 1)


def test_learning_rate_rises_to_the_peak_and_falls_to_zero_by_half_a_cosine():
    settings = {"lr": 2.0, "warmup": 0.1, "schedule": "cosine"}
    rates = [learning_rate(settings, step, 100) for step in range(100)]
    assert rates[0] == pytest.approx(0.2) and rates[9] == rates[10] == 2.0
    assert rates[55] == pytest.approx(1.0) and 0 < rates[99] < 0.001


def test_weight_decay_skips_biases_and_norms():
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.GroupNorm(2, 4), torch.nn.Linear(4, 2))
    decayed, exempt = parameter_groups(network, 0.1)
    assert {p.ndim for p in decayed["params"]} == {2, 4} and decayed["weight_decay"] == 0.1
    assert {p.ndim for p in exempt["params"]} == {1} and len(exempt["params"]) == 4 and exempt["weight_decay"] == 0


class Breaks(Objective):
    """An objective whose loss is not finite from the third step on."""

    def __init__(self, network, recipe, source):
        super().__init__(network, recipe, source)
        self.steps = 0

    def forward(self, views, groups):
        self.steps += 1
        _, z = self.network(views)
        return z.square().mean() * (float("inf") if self.steps == 3 else 1.0), z, {"reference": 0.0}


def inputs(toy):
    return {"plan": f"{toy}/data/plans/simclr_swap.json", "images": f"{toy}/data/shapes/images.npy", "split": f"{toy}/data/shapes/split.csv",
            "relation": f"{toy}/data/shapes/relations/instance.npy"}


def outputs(folder):
    return {"models": f"{folder}/models", "curves": f"{folder}/curves.csv", "staleness": f"{folder}/staleness.csv", "resume": f"{folder}/resume"}


def test_a_loss_that_is_not_finite_stops_at_that_step_and_writes_no_weights(toy, tmp_path):
    with pytest.raises(Refused) as refused:
        pretrain(Breaks, **inputs(toy), **outputs(tmp_path))
    for word in ("inf", "seed 2026092", "epoch 1", "step 3", "lr 0.002"):
        assert word in str(refused.value)
    assert not list(tmp_path.rglob("*.safetensors")) and not (tmp_path / "curves.csv").exists()


def test_a_failing_stage_ends_the_pipeline_before_any_number_is_published(clone):
    """The objective's own file is made to lose its loss, and the real command is run."""
    ledger = (clone / "metrics/ledger.csv").read_bytes()
    code = (clone / "stages/pretrain/simclr.py").read_text()
    (clone / "stages/pretrain/simclr.py").write_text(code.replace("return loss,", 'return loss * float("nan"),'))
    done = call("dvc", "repro", cwd=clone, check=False)
    said = done.stdout + done.stderr
    assert done.returncode != 0 and "error: the loss became nan at seed 2026092" in said and "Traceback" not in said
    assert (clone / "metrics/ledger.csv").read_bytes() == ledger


def test_shuffled_labels_leave_the_weights_byte_identical(clone):
    """After the split, factors.csv is shuffled; relation and training are run again."""
    weights = (clone / "models/simclr_swap/20260922.safetensors").read_bytes()
    path = clone / "data/shapes/factors.csv"
    header, *rows = path.read_text().splitlines()
    labels = [row.split(",", 1) for row in rows]
    shuffled = random.Random(0).sample([label for _, label in labels], len(labels))
    path.unlink()
    path.write_text("\n".join([header, *(f"{number},{label}" for (number, _), label in zip(labels, shuffled, strict=True))]) + "\n")
    for stage in ("relate@instance", "pretrain@simclr_swap"):
        call("dvc", "repro", "--single-item", "--force", stage, cwd=clone)
    assert (clone / "models/simclr_swap/20260922.safetensors").read_bytes() == weights


def test_a_tiny_learning_rate_is_really_used(toy, tmp_path):
    recipe = json.loads((toy / "data/plans/simclr_swap.json").read_text())
    recipe["pretrain"]["lr"] = 1e-05
    (tmp_path / "plan.json").write_text(json.dumps(recipe))
    pretrain(type("One", (Objective,), {"forward": lambda self, v, g: (self.network(v)[1].square().mean(), self.network(v)[1], {"reference": 0.0})}),
             **{**inputs(toy), "plan": f"{tmp_path}/plan.json"}, **outputs(tmp_path))
    assert "1e-05" in (tmp_path / "curves.csv").read_text()


def test_order_of_an_epoch_depends_on_seed_and_epoch_alone():
    orders = {tuple(np.random.default_rng([seed, epoch]).permutation(50)) for seed in (1, 2) for epoch in (1, 2)}
    assert len(orders) == 4


def test_up_to_a_block_of_images_the_order_is_a_permutation():
    for count in (50, 64):
        assert shuffled(count, 64, np.random.default_rng([3, 1])).tolist() == np.random.default_rng([3, 1]).permutation(count).tolist()


@pytest.mark.parametrize("count, block", [(1000, 128), (1001, 100), (200, 199), (5, 2), (10_000, 640)])
def test_in_blocks_each_image_comes_once_an_epoch_and_in_another_order_each_epoch(count, block):
    first, second = (shuffled(count, block, np.random.default_rng([3, epoch])) for epoch in (1, 2))
    assert sorted(first) == sorted(second) == list(range(count)) and (first != second).any()


def test_the_images_of_a_block_come_from_64_stretches_and_those_of_a_batch_from_one_block():
    """10,000 images in blocks of 640: 64 stretches of 10. A batch of 60 reads only these; in a permutation it would read anywhere."""
    order = shuffled(10_000, 640, np.random.default_rng(1))
    blocks = [set(order[first : first + 640] // 10) for first in range(0, 9600, 640)]
    assert {len(block) for block in blocks} == {64} and len(set.union(*blocks)) == 64 * 15
    assert np.ptp(order[:640]) > 5000 and (np.diff(order[:640]) == 1).mean() < 0.02  # a sorted file is mixed, in the block and by it


def test_a_split_of_another_length_is_refused_naming_the_files(toy, tmp_path):
    short = tmp_path / "split.csv"
    short.write_text("\n".join((toy / "data/shapes/split.csv").read_text().splitlines()[:-1]) + "\n")
    with pytest.raises(Refused, match="split.csv: is for 71 images, but there are 72"):
        loop.TrainImages(f"{toy}/data/shapes/images.npy", str(short), f"{toy}/data/shapes/relations/instance.npy")
