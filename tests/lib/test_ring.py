"""The ring by hand, and the key network's steps."""
from collections import deque

import pytest
import torch
from torch import nn

from stages.lib.ring import Ring, follow


def letters(ring):
    return "".join(chr(int(code)) for code in ring.ids[ring.oldest_first()])


def put(ring, text):
    codes = torch.tensor([ord(letter) for letter in text])
    ring.enqueue(codes[:, None].float(), codes, 0, 0)


def test_a_queue_of_abcdef_plus_gh_is_cdefgh():
    ring = Ring(6, 1)
    put(ring, "abcdef")
    put(ring, "gh")
    assert letters(ring) == "cdefgh" and ring.keys[ring.oldest_first()][:, 0].tolist() == [ord(letter) for letter in "cdefgh"]


def test_three_wraps_with_ragged_batches_equal_a_deque():
    ring, plain = Ring(7, 1), deque(maxlen=7)
    stream = iter("abcdefghijklmnopqrstuvwxyzABCDEFGHIJ")
    for count in (7, 3, 5, 1, 7, 2, 9, 2):  # 36 keys; 9 is more than fit
        batch = "".join(next(stream) for _ in range(count))
        put(ring, batch)
        plain.extend(batch)
        assert letters(ring) == "".join(plain)


def test_each_key_keeps_its_image_its_epoch_and_its_making():
    ring = Ring(3, 2)
    ring.enqueue(torch.ones(3, 2), torch.tensor([5, 6, 7]), torch.tensor([-1, 0, 0]), torch.tensor(0))
    ring.enqueue(2 * torch.ones(1, 2), torch.tensor([8]), 4, 9)
    order = ring.oldest_first()
    assert ring.ids[order].tolist() == [6, 7, 8] and ring.epochs[order].tolist() == [0, 0, 4] and ring.made[order].tolist() == [0, 0, 9]
    assert set(ring.state_dict()) == {"keys", "ids", "epochs", "made", "pointer"}


def network(values):
    layer = nn.Linear(2, 1, bias=False)
    layer.weight.data[:] = torch.tensor(values)
    return layer


def test_momentum_09_takes_0_2_towards_2_4_by_02_22_and_038_238():
    key, query = network([0.0, 2.0]), network([2.0, 4.0])
    follow(key, query, 0.9)
    assert key.weight.tolist()[0] == pytest.approx([0.2, 2.2])
    follow(key, query, 0.9)
    assert key.weight.tolist()[0] == pytest.approx([0.38, 2.38]) and query.weight.tolist()[0] == [2, 4]


def test_momentum_0_copies_and_1_freezes_parameters_and_buffers():
    key, query = nn.BatchNorm1d(2), nn.BatchNorm1d(2)
    query(torch.tensor([[1.0, 2.0], [3.0, 5.0]]))
    before = {name: value.clone() for name, value in key.state_dict().items() if value.is_floating_point()}
    follow(key, query, 1.0)
    assert all(torch.equal(key.state_dict()[name], value) for name, value in before.items())
    follow(key, query, 0.5)
    torch.testing.assert_close(key.running_mean, query.running_mean / 2)
    follow(key, query, 0.0)
    assert all(torch.equal(a, b) for a, b in zip(key.state_dict().values(), query.state_dict().values(), strict=True))
