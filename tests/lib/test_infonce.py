"""The InfoNCE family against double loops written from the papers' equations, and against numbers that can be checked by hand."""
import itertools
import math

import pytest
import torch

from stages.lib.infonce import Temperature, cosines, guessing, info_nce, matched, multi_positive, nt_xent, partner, sup_con, unit_rows

PLAIN = {"debias": 0, "hardness": 0, "filter_above": 1}
OPTIONS = [PLAIN, {**PLAIN, "debias": 0.1}, {**PLAIN, "hardness": 1.5}, {**PLAIN, "debias": 0.2, "hardness": 0.5}, {**PLAIN, "filter_above": 0.5},
           {"debias": 0.1, "hardness": 1, "filter_above": 0.6}]
GRID = list(itertools.product([2, 3, 5, 8], [1, 2, 16], [0.05, 0.2, 1, 10]))


def draw(images, width, seed=0):
    return torch.randn(2 * images, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def apart(images):
    return torch.eye(images, dtype=torch.bool)


def loop_info_nce(similarity, positive, negative, t, debias, hardness, filter_above):
    """Mean over anchors of -log(e+ / (e+ + N g)), candidate by candidate: Chuang et al. 2020, equation 8; Robinson et al. 2021, equation 4."""
    total, negative, positive, known = 0 * similarity.sum(), negative.tolist(), positive.tolist(), similarity.tolist()
    for i, row in enumerate(similarity):
        e = torch.exp(row / t).unbind()
        others = [j for j in range(len(row)) if negative[i][j] and (filter_above >= 1 or known[i][j] <= filter_above)]
        if others:
            weights = torch.stack([torch.exp(hardness * row[j] / t) for j in others]) if hardness else torch.ones(len(others), dtype=row.dtype)
            g = torch.stack([w * e[j] for w, j in zip(weights.unbind(), others, strict=True)]).sum() / weights.sum()
            if debias:
                g = torch.maximum((g - debias * e[positive[i]]) / (1 - debias), torch.tensor(math.exp(-1 / t), dtype=row.dtype))
            total = total - torch.log(e[positive[i]] / (e[positive[i]] + len(others) * g))
    return total / len(similarity)


def loop_similarities(z, normalize):
    """Every dot product by itself, of rows divided by their length or of rows as they are."""
    rows = [row / row.norm() for row in z] if normalize else list(z)
    return torch.stack([torch.stack([torch.dot(a, b) for b in rows]) for a in rows])


def loop_nt_xent(z, same, normalize, t, debias, hardness, filter_above):
    """Chen et al. 2020, algorithm 1: row i and row i + B are the two views of an image."""
    images = len(z) // 2
    positive, same = torch.tensor([(i + images) % (2 * images) for i in range(2 * images)]), same.tolist()
    negative = torch.tensor([[not same[i % images][k % images] for k in range(2 * images)] for i in range(2 * images)])
    return loop_info_nce(loop_similarities(z, normalize), positive, negative, t, debias, hardness, filter_above)


def loop_sup_con(z, same, normalize, t):
    """Khosla et al. 2020, equation 2: the sum over positives stands outside the log."""
    similarity, images, losses, same = loop_similarities(z, normalize), len(z) // 2, [], same.tolist()
    for i in range(len(z)):
        e = torch.exp(similarity[i] / t).unbind()
        denominator = sum(e[a] for a in range(len(z)) if a != i)
        logs = [torch.log(e[p] / denominator) for p in range(len(z)) if p != i and same[i % images][p % images]]
        if logs:
            losses.append(-sum(logs) / len(logs))
    return sum(losses) / len(losses)


def value_and_gradient(loss, z):
    z = z.clone().requires_grad_()
    value = loss(z)
    value.backward()
    return value.detach(), z.grad


def assert_same(ours, theirs, z):
    for a, b in zip(value_and_gradient(ours, z), value_and_gradient(theirs, z), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("options", OPTIONS)
def test_nt_xent_and_its_gradient_equal_the_double_loop_with_every_option(options):
    for images, width, t in GRID:
        z, same = draw(images, width), apart(images)
        assert_same(lambda z: nt_xent(z, same, True, t, **options)[0], lambda z: loop_nt_xent(z, same, True, t, **options), z)


@pytest.mark.parametrize("options", OPTIONS)
def test_a_query_against_a_ring_equals_the_double_loop_with_every_option(options):
    for queries, width, t in GRID:
        rows = draw(2 * queries, width, seed=1)
        ring, negative = rows[2 * queries:], torch.rand(queries, 2 * queries, generator=torch.Generator().manual_seed(2)) < 0.7
        negative = torch.cat([torch.zeros(queries, 1, dtype=torch.bool), negative], dim=1)
        positive = torch.zeros(queries, dtype=torch.int64)

        def both(z):
            q, k = unit_rows(z).chunk(2)
            return torch.cat([(q * k).sum(dim=1, keepdim=True), q @ unit_rows(ring).T], dim=1)

        assert_same(lambda z: info_nce(both(z), positive, negative, t, **options)[0], lambda z: loop_info_nce(both(z), positive, negative, t, **options),
                    rows[: 2 * queries])


def test_images_that_count_as_the_same_are_neither_positive_nor_negative():
    for images, width, t in GRID:
        z, groups = draw(images, width), torch.arange(images) // 2
        same = groups[:, None] == groups
        assert_same(lambda z: nt_xent(z, same, True, t, **PLAIN)[0], lambda z: loop_nt_xent(z, same, True, t, **PLAIN), z)
        assert nt_xent(z, same, True, t, **PLAIN)[1].tolist() == [1 + 2 * int((group != groups).sum()) for group in groups.repeat(2)]


def test_without_normalization_similarities_are_dot_products():
    for images, width, t in GRID:
        if t < 1:  # the loop's exp overflows where the log domain does not
            continue
        z, same = draw(images, width), apart(images)
        assert_same(lambda z: nt_xent(z, same, False, t, **PLAIN)[0], lambda z: loop_nt_xent(z, same, False, t, **PLAIN), z)
        assert_same(lambda z: sup_con(z, same, False, t)[0], lambda z: loop_sup_con(z, same, False, t), z)


@pytest.mark.parametrize("groups", [lambda n: torch.arange(n), lambda n: torch.arange(n) // 2, lambda n: torch.zeros(n)])
def test_sup_con_and_its_gradient_equal_the_double_loop(groups):
    for images, width, t in GRID:
        same = groups(images)[:, None] == groups(images)
        assert_same(lambda z: sup_con(z, same, True, t)[0], lambda z: loop_sup_con(z, same, True, t), draw(images, width))


def test_sup_con_of_unique_images_is_the_loss_of_simclr():
    for images, width, t in GRID:
        z, same = draw(images, width), apart(images)
        torch.testing.assert_close(sup_con(z, same, True, t)[0], nt_xent(z, same, True, t, **PLAIN)[0], rtol=0, atol=1e-6)


def test_sup_con_leaves_out_and_counts_anchors_without_a_positive():
    similarity = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    positive = torch.tensor([[False, True, False], [True, False, False], [False, False, False]])
    loss, candidates, positives = multi_positive(similarity, positive, ~torch.eye(3, dtype=torch.bool), 1.0)
    assert loss.item() == pytest.approx(math.log(1 + math.exp(-1))) and candidates.tolist() == [2, 2] and positives.tolist() == [1, 1, 0]


def test_sup_con_has_no_hidden_base_temperature():
    """Two orthogonal pairs at t = 0.5: log(1 + 2 / e^2) = 0.2395448; times 0.5 / 0.07 it would be 1.711."""
    z = torch.tensor([[1.0, 0], [0, 1], [1, 0], [0, 1]])
    assert sup_con(z, apart(2), True, 0.5)[0].item() == pytest.approx(0.2395448, abs=1e-6)


def test_loss_of_parallel_rows_is_log_of_2n_minus_1():
    for images in (2, 3, 5, 8):
        loss, candidates = nt_xent(torch.ones(2 * images, 4), apart(images), True, 0.2, **PLAIN)
        assert loss.item() == pytest.approx(math.log(2 * images - 1), abs=1e-6) == guessing(candidates)


def test_two_orthogonal_pairs_give_log_of_1_plus_2_over_e():
    z = torch.tensor([[1.0, 0], [0, 1], [1, 0], [0, 1]])
    assert nt_xent(z, apart(2), True, 1.0, **PLAIN)[0].item() == pytest.approx(0.5514447, abs=1e-6)
    assert nt_xent(z, apart(2), True, 0.5, **PLAIN)[0].item() == pytest.approx(0.2395448, abs=1e-6)


def by_hand(similarities, t, **options):
    """(probability of each candidate, loss, dL/ds) of one anchor whose positive is the first candidate."""
    s = torch.tensor([similarities], dtype=torch.float64, requires_grad=True)
    loss, _ = info_nce(s, torch.tensor([0]), torch.tensor([[False] + [True] * (len(similarities) - 1)]), t, **{**PLAIN, **options})
    loss.backward()
    return torch.softmax(s[0] / t, dim=0).tolist(), loss.item(), s.grad[0].tolist()


def test_the_table_of_three_temperatures():
    for t, p, loss in [(1.0, (0.4506, 0.3021, 0.2473), 0.7971), (0.5, (0.5713, 0.2567, 0.1721), 0.5599), (0.1, (0.9796, 0.0179, 0.0024), 0.0206)]:
        found, value, _ = by_hand([0.8, 0.4, 0.2], t)
        assert found == pytest.approx(p, abs=5e-5) and value == pytest.approx(loss, abs=5e-5)


def test_the_gradient_of_the_positive_is_p_minus_1_over_t_and_of_a_negative_p_over_t():
    for t, size in [(0.5, 0.8575), (0.1, 0.2037)]:
        p, _, gradient = by_hand([0.8, 0.4, 0.2], t)
        assert gradient == pytest.approx([(p[0] - 1) / t, p[1] / t, p[2] / t]) and -gradient[0] == pytest.approx(size, abs=5e-5)


def test_a_lower_temperature_punishes_a_wrong_order_more():
    assert by_hand([0.3, 0.4, 0.2], 0.1)[1] > by_hand([0.3, 0.4, 0.2], 0.5)[1] > by_hand([0.3, 0.4, 0.2], 1.0)[1]


def test_a_constant_added_to_all_logits_changes_nothing():
    (_, moved, push), (_, loss, gradient) = by_hand([1.8, 1.4, 1.2], 0.5), by_hand([0.8, 0.4, 0.2], 0.5)
    assert moved == pytest.approx(loss) and push == pytest.approx(gradient)


def test_debias_subtracts_the_prior_and_stops_at_the_least_a_cosine_allows():
    """s = (0.8, 0.4, 0.2), t = 1, prior 0.1: g = ((e^0.4 + e^0.2) / 2 - 0.1 e^0.8) / 0.9 = 1.26002; prior 0.9 leaves g = e^-1."""
    g = ((math.exp(0.4) + math.exp(0.2)) / 2 - 0.1 * math.exp(0.8)) / 0.9
    assert by_hand([0.8, 0.4, 0.2], 1.0, debias=0.1)[1] == pytest.approx(math.log(1 + 2 * g / math.exp(0.8)))
    assert by_hand([0.8, 0.4, 0.2], 1.0, debias=0.9)[1] == pytest.approx(math.log(1 + 2 * math.exp(-1.8)))


def test_hardness_of_equal_negatives_changes_nothing_and_else_moves_the_push_to_the_hard_one():
    assert by_hand([0.8, 0.3, 0.3], 0.5, hardness=2)[1] == pytest.approx(by_hand([0.8, 0.3, 0.3], 0.5)[1])
    plain, hard = by_hand([0.8, 0.4, 0.2], 0.5)[2], by_hand([0.8, 0.4, 0.2], 0.5, hardness=2)[2]
    assert hard[1] > plain[1] and hard[2] < plain[2]


def test_a_filtered_negative_is_no_candidate_and_gets_no_gradient():
    p, loss, gradient = by_hand([0.3, 0.9, 0.1], 0.5, filter_above=0.5)
    assert loss == pytest.approx(math.log(1 + math.exp(-0.4))) and gradient[1] == 0


def test_an_anchor_without_negatives_has_loss_zero_and_finite_gradient():
    for options in OPTIONS:
        s = torch.tensor([[0.5, 0.9], [0.5, 0.1]], requires_grad=True)
        loss, candidates = info_nce(s, torch.tensor([0, 0]), torch.tensor([[False, False], [False, True]]), 0.2, **options)
        loss.backward()
        assert candidates.tolist() == [1, 2] and s.grad.isfinite().all() and s.grad[0].tolist() == [0, 0]


def test_options_that_are_off_leave_plain_cross_entropy_bit_by_bit():
    z = draw(8, 16).float().requires_grad_()
    loss, _ = nt_xent(z, apart(8), True, 0.2, **PLAIN)
    rows = unit_rows(z)
    logits = (rows @ rows.T / 0.2).masked_fill(torch.eye(16, dtype=torch.bool), -torch.inf)
    plain = torch.nn.functional.cross_entropy(logits, partner(16))
    assert loss.item() == plain.item()
    assert torch.equal(*(torch.autograd.grad(value, z, retain_graph=True)[0] for value in (loss, plain)))


def test_the_gradient_through_the_self_pair_is_zero():
    similarity = torch.randn(8, 8, dtype=torch.float64, requires_grad=True)
    for options in OPTIONS:
        loss, _ = info_nce(similarity, partner(8), ~apart(4).repeat(2, 2), 0.2, **options)
        assert torch.autograd.grad(loss, similarity)[0].diagonal().tolist() == [0.0] * 8
    loss, _, _ = multi_positive(similarity, apart(4).repeat(2, 2) & ~torch.eye(8, dtype=torch.bool), ~torch.eye(8, dtype=torch.bool), 0.2)
    assert torch.autograd.grad(loss, similarity)[0].diagonal().tolist() == [0.0] * 8


@pytest.mark.parametrize("options", OPTIONS)
def test_swapping_views_permuting_images_and_scaling_rows_change_nothing(options):
    z, groups = draw(5, 16), torch.tensor([0, 0, 1, 2, 3])
    same, order = groups[:, None] == groups, torch.tensor([3, 1, 4, 0, 2])
    for loss in (lambda z, same: nt_xent(z, same, True, 0.2, **options)[0], lambda z, same: sup_con(z, same, True, 0.2)[0]):
        first, second = z.chunk(2)
        value = loss(z, same).item()
        assert loss(torch.cat([second, first]), same).item() == pytest.approx(value, rel=1e-12)
        assert loss(torch.cat([first[order], second[order]]), same[order][:, order]).item() == pytest.approx(value, rel=1e-12)
        assert loss(z * torch.linspace(0.1, 1e6, 10, dtype=z.dtype)[:, None], same).item() == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_zero_rows_equal_rows_half_precision_and_a_tiny_temperature_stay_finite(options, dtype):
    equal, drawn = torch.ones(8, 16), draw(4, 16).float()
    tiny = drawn if dtype == torch.float16 else 1e-7 * drawn  # a gradient of 1 / (t |z|) has no float16
    for rows in (torch.zeros(8, 16), equal, torch.cat([torch.zeros(4, 16), equal[:4]]), drawn, tiny):
        for t in (0.001, 0.2):
            for loss in (lambda z: nt_xent(z, apart(4), True, t, **options)[0], lambda z: sup_con(z, apart(4), True, t)[0]):
                value, gradient = value_and_gradient(loss, rows.to(dtype))
                assert value.isfinite() and value.dtype == torch.float32 and gradient.isfinite().all()


def test_a_trained_temperature_is_a_logarithm_without_decay_and_stays_within_its_bounds():
    fixed, trained = Temperature(0.2, False), Temperature(0.2, [0.1, 1])
    assert fixed() == 0.2 and not list(fixed.parameters())
    assert trained().item() == pytest.approx(0.2) and trained.log.ndim == 0
    for pushed, kept in [(-50.0, 0.1), (50.0, 1.0), (math.log(0.3), 0.3)]:
        trained.log.data.fill_(pushed)
        trained.clamp()
        assert trained().item() == pytest.approx(kept)


def test_the_gradient_of_a_trained_temperature_is_that_of_the_double_loop():
    for options in OPTIONS:
        z, log = draw(3, 2), torch.tensor(math.log(0.3), dtype=torch.float64, requires_grad=True)
        ours = nt_xent(z, apart(3), True, log.exp(), **options)[0]
        step = 1e-5
        above, below = (loop_nt_xent(z, apart(3), True, math.exp(math.log(0.3) + side), **options) for side in (step, -step))
        assert torch.autograd.grad(ours, log)[0].item() == pytest.approx(((above - below) / (2 * step)).item(), rel=1e-5, abs=1e-8)


def test_guessing_is_the_mean_log_of_the_number_of_candidates():
    assert guessing(torch.full((120,), 119)) == math.log(119)
    assert guessing(torch.tensor([2, 8])) == pytest.approx(math.log(4))


def test_cosine_of_1_0_with_1_1_is_071_and_a_zero_row_has_cosine_zero():
    z = torch.tensor([[1.0, 0], [1, 1], [0, 0]])
    assert cosines(z, z).flatten().tolist() == pytest.approx([1, 0.5**0.5, 0, 0.5**0.5, 1, 0, 0, 0, 0])


def test_matched_counts_rows_whose_nearest_among_the_other_views_is_their_own():
    first = torch.eye(4)
    assert matched(torch.cat([first, first])).item() == 1
    assert matched(torch.cat([first, first[[1, 0, 2, 3]]])).item() == 0.5
