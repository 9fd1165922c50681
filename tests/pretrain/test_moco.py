"""MoCo: who is contrasted with whom, when keys enter the ring, what moves which network, and how old keys have drifted."""
import copy

import pytest
import torch
from small_data import write_inputs
from test_infonce import loop_info_nce
from test_objectives import curve, source

from stages.lib.encoder import start
from stages.lib.infonce import unit_rows
from stages.lib.tables import read_json
from stages.pretrain.moco import MoCo


def build(folder, **changes):
    paths = write_inputs(folder, "moco", **changes)
    recipe = read_json(paths["plan"])
    learner = MoCo(start(recipe["encoder"], 8, 3), recipe, source(paths))
    learner.begin()
    return learner


def step(learner, ids, lr=0.1):
    """One step of plain gradient descent, as the loop makes it; the loss."""
    loss, _, _ = learner(learner.source.views(ids, 1), ids)
    loss.backward()
    with torch.no_grad():
        for parameter in learner.network.parameters():
            parameter -= lr * parameter.grad
            parameter.grad = None
    learner.after_step(ids, 1)
    return loss.item()


def test_the_loss_and_its_gradient_are_those_of_the_loop_over_the_ring_without_the_own_image(tmp_path):
    learner, ids = build(tmp_path), torch.tensor([1, 4, 6])
    learner.double()
    learner.source.train.images = learner.source.train.images.astype("float64")
    views = learner.source.views(ids, 1).double()
    loss, _, _ = learner(views, ids)
    loss.backward()
    gradients = [parameter.grad.clone() for parameter in learner.network.parameters()]
    query = copy.deepcopy(learner.network)
    query.zero_grad()
    q = unit_rows(query(views[:3])[1])
    k = unit_rows(learner.key_network(views[3:])[1]).detach()
    similarity = torch.stack([torch.stack([q[i] @ k[i], *(q[i] @ key for key in learner.ring.keys)]) for i in range(3)])
    negative = torch.tensor([[False, *(number != image for number in learner.ring.ids)] for image in ids])
    expected = loop_info_nce(similarity, torch.zeros(3, dtype=torch.int64), negative, 0.2, 0, 0, 1)
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    for ours, theirs in zip(gradients, query.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs.grad)


def test_no_gradient_reaches_a_key(tmp_path):
    learner, ids = build(tmp_path), torch.arange(4)
    learner(learner.source.views(ids, 1), ids)[0].backward()
    assert all(parameter.grad is None for parameter in learner.key_network.parameters()) and not learner.keys.requires_grad


def test_contrast_first_and_enqueue_after_and_in_the_order_of_the_batch(tmp_path):
    learner, ids = build(tmp_path), torch.tensor([2, 5, 7])
    before = learner.ring.keys.clone()
    learner(learner.source.views(ids, 1), ids)
    assert torch.equal(learner.ring.keys, before)
    learner.after_step(ids, 1)
    newest = learner.ring.oldest_first()[-3:]
    assert learner.ring.ids[newest].tolist() == [2, 5, 7] and torch.equal(learner.ring.keys[newest], learner.keys)


def test_the_ring_starts_full_of_train_views_that_the_start_network_encodes(tmp_path):
    learner = build(tmp_path, moco={"queue": 7})
    order = learner.source.order(0)[-7:]
    assert torch.equal(learner.ring.ids[learner.ring.oldest_first()], order)
    views = learner.source.view(order, 0, 1)
    torch.testing.assert_close(learner.ring.keys[learner.ring.oldest_first()], unit_rows(learner.network(views)[1]).detach())


def test_a_ring_larger_than_the_data_holds_each_image_in_several_views_and_masks_them_all(tmp_path):
    """30 places for 12 images: each at least twice, six of them three times; a query meets 30 minus its own."""
    learner = build(tmp_path, moco={"queue": 30})
    counts = torch.bincount(learner.ring.ids, minlength=12)
    assert counts.tolist().count(3) == 6 and counts.tolist().count(2) == 6
    ids = torch.arange(12)
    assert len(set(map(tuple, learner.ring.keys.tolist()))) == 30
    assert (~learner.source.same(ids, learner.ring.ids)).sum(dim=1).tolist() == (30 - counts).tolist()
    assert any("more than the 12 train images" in note for note in MoCo.notes(learner.recipe, 12, 100))


def test_a_ring_smaller_than_a_batch_keeps_the_last_keys_and_masks_those_of_the_query(tmp_path):
    """Three places, batches of 5: after the step the ring holds the batch's last three; its own queries then meet 2 or 3 of them."""
    learner, ids = build(tmp_path, moco={"queue": 3}), torch.arange(5)
    step(learner, ids)
    assert learner.ring.ids[learner.ring.oldest_first()].tolist() == [2, 3, 4]
    assert (~learner.source.same(ids, learner.ring.ids)).sum(dim=1).tolist() == [3, 3, 2, 2, 2]


@pytest.mark.parametrize("momentum", [0.0, 0.9, 1.0])
def test_the_key_network_goes_its_share_of_the_way_after_the_step(momentum, tmp_path):
    learner = build(tmp_path, moco={"key_momentum": momentum}, encoder={"norm": "batch"})
    begun = {name: value.clone() for name, value in learner.key_network.state_dict().items()}
    step(learner, torch.arange(5))
    for name, value in learner.key_network.state_dict().items():
        if value.is_floating_point():
            torch.testing.assert_close(value, momentum * begun[name] + (1 - momentum) * learner.network.state_dict()[name])


def test_keys_of_momentum_1_never_drift_and_others_do(tmp_path):
    still, moving = build(tmp_path, moco={"key_momentum": 1.0}), build(tmp_path, moco={"key_momentum": 0.0})
    for ids in (torch.arange(5), torch.arange(5, 9), torch.arange(9, 12)):
        step(still, ids), step(moving, ids)
    assert [row["cosine"] for row in still.staleness()] == pytest.approx([1, 1], abs=1e-6)
    by_age = {row["age_steps"]: row for row in moving.staleness()}
    assert by_age[1]["n"] == 3 and by_age[2]["n"] == 4 and by_age[1]["cosine"] < 1 and by_age[2]["cosine"] < 1


def test_staleness_is_a_row_for_each_epoch_and_age(tmp_path):
    """3 batches of 4 an epoch into a ring of 7: ages 1 and 2, with 4 and 3 keys."""
    _, ages = curve(tmp_path, "moco")
    assert [(row["seed"], row["epoch"], row["age_steps"], row["n"]) for row in ages] == [
        (seed, epoch, age, n) for seed in ("3", "4") for epoch in ("1", "2") for age, n in (("1", "4"), ("2", "3"))]
    assert all(-1 <= float(row["cosine"]) <= 1.000001 for row in ages)


def test_a_half_life_of_693_steps_is_told_where_it_is_longer_than_the_run(tmp_path):
    learner = build(tmp_path, moco={"key_momentum": 0.999})
    assert "half-life of 693 steps, longer than the 150 steps" in " ".join(MoCo.notes(learner.recipe, 600, 150))
    assert not list(MoCo.notes(learner.recipe, 600, 700))
