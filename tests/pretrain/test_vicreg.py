"""VICReg against loops from the equations, its constants, and what happens without two of its terms."""
import itertools

import pytest
import torch
from test_infonce import GRID, assert_same, draw
from test_objectives import trained

from stages.pretrain.vicreg import vicreg


def loop_vicreg(z, invariance, variance, covariance):
    """Bardes et al. 2022, equations 1 to 5, entry by entry; variance averaged and covariance summed over the views."""
    views, (rows, width) = z.chunk(2), z.chunk(2)[0].shape
    alike = sum((views[0][i, d] - views[1][i, d]) ** 2 for i in range(rows) for d in range(width)) / (rows * width)
    spread = correlated = 0
    for view in views:
        mean = [sum(view[i, d] for i in range(rows)) / rows for d in range(width)]
        def cov(d, e, view=view, mean=mean):
            return sum((view[i, d] - mean[d]) * (view[i, e] - mean[e]) for i in range(rows)) / (rows - 1)
        spread = spread + sum(torch.relu(1 - torch.sqrt(cov(d, d) + 1e-4)) for d in range(width)) / width / 2
        correlated = correlated + sum(cov(d, e) ** 2 for d, e in itertools.permutations(range(width), 2)) / width
    return invariance * alike + variance * spread + covariance * correlated


@pytest.mark.parametrize("weights", [(25, 25, 1), (25, 0, 0), (0, 1, 0), (0, 0, 1)])
def test_vicreg_and_its_gradient_equal_the_loop(weights):
    for images, width in sorted({(images, min(width, 5)) for images, width, _ in GRID}):
        assert_same(lambda z: vicreg(z, *weights)[0], lambda z: loop_vicreg(z, *weights), draw(images, width))


def test_constant_rows_give_24_75():
    loss, terms = vicreg(torch.ones(8, 5), 25, 25, 1)
    assert loss.item() == pytest.approx(24.75, abs=1e-5) and {name: round(term.item(), 6) for name, term in terms.items()} == {
        "invariance": 0, "variance": 0.99, "covariance": 0}


def test_covariance_is_summed_over_the_views():
    """Rows (1, 1) and (-1, -1) in both views: Cov = 2 off the diagonal, so 2 * 2^2 / 2 a view, 8 in all."""
    z = torch.tensor([[1.0, 1], [-1, -1], [1, 1], [-1, -1]])
    assert vicreg(z, 25, 25, 1)[1]["covariance"].item() == pytest.approx(8)


def test_swapping_views_and_permuting_images_change_nothing_but_scaling_does():
    z, order = draw(5, 4), torch.tensor([3, 1, 4, 0, 2])
    first, second = z.chunk(2)
    value = vicreg(z, 25, 25, 1)[0].item()
    assert vicreg(torch.cat([second, first]), 25, 25, 1)[0].item() == pytest.approx(value, rel=1e-12)
    assert vicreg(torch.cat([first[order], second[order]]), 25, 25, 1)[0].item() == pytest.approx(value, rel=1e-12)
    assert vicreg(3 * z, 25, 25, 1)[0].item() != pytest.approx(value, rel=0.1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_zero_rows_and_half_precision_stay_finite(dtype):
    for rows in (torch.zeros(8, 4), torch.ones(8, 4), draw(4, 4)):
        z = rows.to(dtype).requires_grad_()
        loss, _ = vicreg(z, 25, 25, 1)
        loss.backward()
        assert loss.isfinite() and loss.dtype == torch.float32 and z.grad.isfinite().all()


def test_invariance_alone_is_seen_to_collapse_and_the_three_terms_are_not(tmp_path):
    """Spread of z (1: unit rows point everywhere alike) on the watched images after 15 epochs."""
    settings = {"pretrain": {"epochs": 15, "batch_size": 6}}
    for weights, collapses in (({"variance": 0, "covariance": 0}, True), ({}, False)):
        _, rows, _ = trained(tmp_path, "vicreg", vicreg=weights, **settings)
        assert rows[-1]["z_spread"] < 0.001 if collapses else rows[-1]["z_spread"] > 0.5
