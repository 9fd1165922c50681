import torch
from scipy import stats

from stages.lib.draws import Draws


def test_a_draw_of_an_image_is_the_same_in_any_batch_and_order():
    alone = Draws((7, 3, 0), torch.tensor([42])).normal(3, 4, 4)
    together = Draws((7, 3, 0), torch.tensor([5, 42, 1000])).normal(3, 4, 4)
    assert torch.equal(alone[0], together[1])


def test_seed_epoch_view_image_and_call_each_give_other_numbers():
    base = Draws((7, 3, 0), torch.tensor([42]))
    first, second = base.uniform(), base.uniform()
    others = [Draws(key, torch.tensor([image])).uniform() for key, image in
              [((8, 3, 0), 42), ((7, 4, 0), 42), ((7, 3, 1), 42), ((7, 3, 0), 43), ((7, 3, 0), 42 + 2**32)]]
    assert len({float(x) for x in [first, second, *others]}) == 7


def test_numbers_are_uniform_and_independent_of_neighbors():
    left, right = (Draws((1, 2, view), torch.arange(50_000)).uniform(2) for view in (0, 1))
    assert stats.kstest(left.flatten().numpy(), "uniform").pvalue > 0.001
    columns = torch.stack([left[:-1, 0], left[1:, 0], left[:-1, 1], right[:-1, 0]])  # an image, the next, the next number, the other view
    off_diagonal = torch.corrcoef(columns) - torch.eye(4)
    assert off_diagonal.abs().max() < 5 / 50_000**0.5


def test_normal_numbers_have_the_moments_of_a_standard_normal():
    x = Draws((1, 2, 0), torch.arange(4000)).normal(5, 5).double().flatten()
    assert abs(x.mean()) < 0.01 and abs(x.var() - 1) < 0.02 and abs((x**4).mean() - 3) < 0.1
    assert stats.kstest(x.numpy(), "norm").pvalue > 0.001


def test_chance_of_0_never_and_of_1_always_happens():
    draws = Draws((1, 2, 0), torch.arange(10_000))
    assert not draws.chance(0.0).any() and draws.chance(1.0).all()
