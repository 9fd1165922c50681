"""All objectives through the pipeline: their reference line, their relation, their state."""
import math

import numpy as np
import pytest
import torch
from small_data import TRAIN, write_inputs

from stages.lib import loop
from stages.lib.encoder import fingerprint, start
from stages.lib.loop import Source, TrainImages, train_one
from stages.lib.stage import Refused
from stages.lib.tables import read_json, read_table
from stages.pretrain import moco, simclr, supcon, vicreg

CLASSES = {"simclr": simclr.SimCLR, "moco": moco.MoCo, "supcon": supcon.SupCon, "vicreg": vicreg.VICReg}
STAGES = {"simclr": simclr, "moco": moco, "supcon": supcon, "vicreg": vicreg}


def curve(folder, objective, **changes):
    """Tables of curve and staleness, as the stage writes them."""
    paths = write_inputs(folder, objective, **changes)
    STAGES[objective].main(**paths)
    return read_table(paths["curves"]), read_table(paths["staleness"])


def trained(folder, objective, **changes):
    """(network, curve, ages) of one seed, in this process."""
    paths = write_inputs(folder, objective, **changes)
    return train_one(CLASSES[objective], read_json(paths["plan"]), TrainImages(paths["images"], paths["split"], paths["relation"]), 3, None)


def source(paths, seed=3):
    return Source(TrainImages(paths["images"], paths["split"], paths["relation"]), read_json(paths["plan"]), seed, torch.device("cpu"))


@pytest.mark.parametrize("objective", ["simclr", "moco", "supcon"])
def test_at_temperature_1000_the_loss_is_the_log_of_the_candidates_really_used(objective, tmp_path):
    rows, _ = curve(tmp_path, objective, temperature=1000.0)
    for row in rows:
        if row["loss"]:
            assert abs(float(row["loss"]) - float(row["reference"])) < 0.01


def test_the_reference_of_simclr_is_log_of_2b_minus_1_and_of_moco_less_its_masked_entries(tmp_path):
    """12 images in 3 batches of 4: log 7. A ring of 12 holds every image once at the start, so each query of step 1 meets 11 and its positive."""
    _, rows, _ = trained(tmp_path, "simclr")
    assert rows[1]["reference"] == math.log(7)
    _, rows, _ = trained(tmp_path, "moco", moco={"queue": TRAIN})
    assert math.log(11) < rows[1]["reference"] < math.log(13)


def test_the_reference_of_vicreg_is_the_loss_of_equal_rows(tmp_path):
    _, rows, ages = trained(tmp_path, "vicreg")
    assert rows[1]["reference"] == 24.75 and ages == []
    assert rows[1]["loss"] == pytest.approx(25 * rows[1]["invariance"] + 25 * rows[1]["variance"] + rows[1]["covariance"])


def test_images_of_one_group_are_positives_of_supcon_alone_and_negatives_of_none(tmp_path):
    """All images the same: SupCon has 2B - 1 = 7 positives; SimCLR and MoCo have no negatives left and stop."""
    groups = np.zeros(15, np.int64)
    assert {row["positives"] for row in trained(tmp_path, "supcon", relation=groups)[1][1:]} == {7}
    for objective in ("simclr", "moco"):
        with pytest.raises(Refused, match="no anchor had a negative in epoch 1"):
            trained(tmp_path, objective, relation=groups)


def test_groups_may_differ_by_seed_and_neighbors_are_the_same_both_ways(tmp_path):
    by_seed = np.stack([np.arange(15), np.zeros(15, np.int64)])
    paths = write_inputs(tmp_path, "supcon", relation=by_seed)
    ids = torch.tensor([0, 1, 2])
    assert torch.equal(source(paths, 3).same(ids, ids), torch.eye(3, dtype=torch.bool)) and source(paths, 4).same(ids, ids).all()
    neighbors = np.full((2, 15, 2), -1)
    neighbors[0, 0, 0], neighbors[0, 1, 1] = 1, 0
    paths = write_inputs(tmp_path, "supcon", relation=neighbors)
    assert source(paths, 3).same(ids, ids).tolist() == [[True, True, False], [True, True, False], [False, False, True]]


def test_a_relation_mined_for_another_number_of_seeds_is_refused(tmp_path):
    with pytest.raises(Refused, match="mined for 3 seeds, this run has 2 replicates"):
        supcon.main(**write_inputs(tmp_path, "supcon", relation=np.zeros((3, 15), np.int64)))


@pytest.mark.parametrize("objective", CLASSES)
def test_the_state_of_an_objective_is_its_state_dict(objective, tmp_path):
    """One step more from a copied state gives the same loss: nothing that matters lives elsewhere."""
    paths = write_inputs(tmp_path, objective, negatives={"learn_temperature": [0.1, 1.0]})
    recipe, train = read_json(paths["plan"]), source(paths)
    torch.manual_seed(0)
    learners = []
    for seed in (3, 4):
        learner = CLASSES[objective](start(recipe["encoder"], 8, seed), recipe, train)
        learner.begin()
        learners.append(learner)
    ids = torch.arange(5)
    learners[0](train.views(ids, 1), ids)
    learners[0].after_step(ids, 1)
    learners[1].load_state_dict(learners[0].state_dict())
    losses = [learner(train.views(ids + 3, 1), ids + 3)[0] for learner in learners]
    assert losses[0].item() == losses[1].item()


@pytest.mark.parametrize("objective", ["simclr", "moco"])
def test_each_option_of_the_negatives_changes_the_weights(objective, tmp_path):
    seen = set()
    for option in ({}, {"debias": 0.1}, {"hardness": 1.0}, {"filter_above": 0.9999}, {"learn_temperature": [0.05, 1.0]}):
        network, _, _ = trained(tmp_path, objective, negatives=option, pretrain={"epochs": 1})
        seen.add(fingerprint(network))
    assert len(seen) == 5


def test_a_trained_temperature_moves_and_is_told_in_the_curve(tmp_path):
    _, rows, _ = trained(tmp_path, "simclr", negatives={"learn_temperature": [0.19, 0.21]}, pretrain={"lr": 0.1, "batch_size": 4})
    told = [row["temperature"] for row in rows[1:]]
    assert told[-1] != 0.2 and all(0.1899 <= value <= 0.2101 for value in told)


@pytest.mark.parametrize("floats, made", [(1, [5, 4, 3]), (2 * 10 * 192, [9, 3]), (2**19, [12])])
def test_views_made_for_several_batches_at_once_are_those_of_each_batch(floats, made, tmp_path, monkeypatch):
    """Twelve images of 8 x 8 x 3 = 192 numbers in three unequal batches; the views of one, of two or of all of them fit."""
    train, calls = source(write_inputs(tmp_path, "simclr")), []
    monkeypatch.setattr(loop, "FLOATS", floats)
    make = train.views
    monkeypatch.setattr(train, "views", lambda ids, epoch: calls.append(len(ids)) or make(ids, epoch))
    pairs = list(train.batches(2, [slice(0, 5), slice(5, 9), slice(9, 12)]))
    assert calls == made and torch.cat([ids for ids, _ in pairs]).sort().values.tolist() == train.ids.tolist()
    for ids, views in pairs:
        assert torch.equal(ids, ids.sort().values) and torch.equal(views, make(ids, 2))


@pytest.mark.parametrize("objective", CLASSES)
def test_images_kept_on_the_device_and_images_read_batch_by_batch_give_the_same_weights(objective, tmp_path, monkeypatch):
    read = trained(tmp_path, objective)
    monkeypatch.setattr(loop, "fits", lambda images, device: True)
    kept = trained(tmp_path, objective)
    assert fingerprint(kept[0]) == fingerprint(read[0]) and kept[1:] == read[1:]


@pytest.mark.parametrize("objective", CLASSES)
def test_products_in_bfloat16_leave_loss_z_and_gradients_in_float32_and_near(objective, tmp_path):
    """What a GPU does, on the CPU: bfloat16 has 8 bits, so a loss of about 2 moves by hundredths."""
    paths = write_inputs(tmp_path, objective)
    recipe, train, ids = read_json(paths["plan"]), source(paths), torch.arange(5)
    losses = []
    for half in (False, True):
        network = start(recipe["encoder"], 8, 3)
        network.bfloat16 = half
        learner = CLASSES[objective](network, recipe, train)
        learner.begin()
        loss, z, _ = learner(train.views(ids, 1), ids)
        loss.backward()
        assert loss.dtype == z.dtype == torch.float32 and all(p.grad.dtype == torch.float32 for p in network.parameters())
        losses.append(loss.item())
    assert losses[0] != losses[1] == pytest.approx(losses[0], rel=0.02)


@pytest.mark.parametrize("head, width", [("none", 6), ("linear", 4), ("mlp", 4)])
def test_every_head_trains_with_and_without_normalization(head, width, tmp_path):
    for objective in CLASSES:
        for normalize in (True, False):
            network, rows, _ = trained(tmp_path, objective, encoder={"head": head}, pretrain={"normalize": normalize, "epochs": 1})
            assert network(torch.rand(2, 3, 8, 8))[1].shape == (2, width) and rows[1]["z_norm"] > 0
