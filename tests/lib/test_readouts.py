"""Readouts: scores known in advance on perfect, useless and degenerate features; scikit-learn and hand-worked values as oracles."""
import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import balanced_accuracy_score, r2_score
from sklearn.preprocessing import StandardScaler

from stages.lib.neighbors import nearest, vote
from stages.lib.readouts import balanced_accuracy, few_shot, linear, r2, r2_by_image, recall_at, ridge, standardizer

RANDOM = np.random.default_rng(7)
LABELS = np.arange(60) % 3
PERFECT = np.eye(3, dtype=np.float32)[LABELS]
GRID = [0.01, 1, 100]


def test_perfect_features_give_1_in_every_readout():
    predict, metrics = linear(PERFECT, LABELS, PERFECT, LABELS, GRID, 100)
    assert (predict(PERFECT) == LABELS).all() and metrics == {"C": 0.01, "val_accuracy": 1.0, "converged": 1}
    assert recall_at(PERFECT, LABELS, 1) == ({"hit_rate": 1.0, "k": 1, "singletons": 0}, 60)
    assert few_shot(PERFECT, LABELS, PERFECT, LABELS, 1, 5, 0) == {"accuracy": 1.0, "low": 1.0, "high": 1.0, "shots": 1}
    assert balanced_accuracy(LABELS, LABELS) == 1.0


def test_constant_features_give_the_majority_of_train_to_linear_and_the_first_class_to_few_shot():
    labels = np.array([0] * 10 + [1] * 25 + [2] * 25)
    constant = np.full((60, 4), 3.7, np.float32)
    train = np.array([1] * 30 + [0] * 15 + [2] * 15)
    predict, _ = linear(standardizer(constant)(constant), train, constant * 0, train, GRID, 100)
    assert (predict(standardizer(constant)(constant)) == 1).all()
    assert few_shot(constant, train, constant, labels, 5, 4, 0)["accuracy"] == 10 / 60


def test_one_class_in_train_is_predicted_for_all():
    predict, metrics = linear(PERFECT, LABELS * 0 + 2, PERFECT, LABELS, GRID, 100)
    assert (predict(PERFECT) == 2).all() and metrics == {"C": None, "val_accuracy": 1 / 3, "converged": 1}


def test_of_equally_good_strengths_the_smallest_is_chosen_and_a_short_fit_is_told():
    noise = RANDOM.normal(size=(60, 5)).astype(np.float32)
    _, metrics = linear(noise, LABELS, PERFECT[:, [0, 0, 0, 0, 0]] * 0, LABELS, [0.5, 5], 1)
    assert metrics["C"] == 0.5 and metrics["converged"] == 0


def test_duplicated_columns_change_no_neighbor_and_no_linear_prediction_on_separable_rows():
    rows = RANDOM.normal(size=(80, 6)).astype(np.float32)
    doubled = np.hstack([rows, rows])
    assert (nearest(rows[:20], rows[20:], 5)[0] == nearest(doubled[:20], doubled[20:], 5)[0]).all()
    predict, _ = linear(np.hstack([PERFECT, PERFECT]), LABELS, np.hstack([PERFECT, PERFECT]), LABELS, GRID, 100)
    assert (predict(np.hstack([PERFECT, PERFECT])) == LABELS).all()


def test_one_row_repeated_ties_everywhere_and_the_first_train_rows_win_the_vote():
    row = np.ones((12, 3), np.float32)
    neighbors, similarity = nearest(row, row, 3)
    assert (neighbors == [0, 1, 2]).all()
    assert (vote(neighbors, similarity, np.array([1, 0, 0, *[2] * 9]), 3) == 0).all()


@pytest.mark.parametrize("k", [1, 7, 40, 90])
def test_neighbors_found_tile_by_tile_equal_a_brute_force_search_ties_in_order_of_rows(monkeypatch, k):
    for name, value in (("ROWS", 10), ("COLUMNS", 16), ("FOLDS", 4)):
        monkeypatch.setattr(f"stages.lib.neighbors.{name}", value)
    corners = np.array([[1, 1, 1, 1], [1, 1, 1, -1], [1, -1, 1, -1], [0, 0, 0, 0]], np.float32)  # cosines 1, 1/2, 0, -1/2, -1 without rounding
    queries, support = (sign * corners[RANDOM.integers(0, 4, size=(count, 1))][:, 0] for count, sign in ((33, 1), (90, RANDOM.choice([-1, 1], (90, 1)))))
    excluded = np.where(np.arange(33) % 3, RANDOM.integers(0, 90, 33), -1)
    similarity = (queries @ support.T).astype(np.float32) / 4
    for exclude in (None, excluded):
        if exclude is not None:
            similarity[np.flatnonzero(exclude >= 0), exclude[exclude >= 0]] = -np.inf
        wanted = np.argsort(-similarity, axis=1, kind="stable")[:, :k]
        found, values = nearest(queries, support, k, exclude)
        assert (found == wanted).all() and (values == np.take_along_axis(similarity, wanted, axis=1)).all()


def test_equal_rows_in_several_tiles_are_found_in_order():
    row = RANDOM.normal(size=(1, 48)).astype(np.float32)
    assert (nearest(row, row.repeat(4097, axis=0), 3)[0] == [0, 1, 2]).all()  # of 4097 columns the last would be rounded otherwise alone


def test_standardizer_equals_scikit_learn_and_turns_a_constant_column_into_zeros():
    rows = np.hstack([RANDOM.normal(3, 5, (50, 4)), np.full((50, 1), 0.1)]).astype(np.float32)
    scaled = standardizer(rows)(rows)
    assert np.allclose(scaled[:, :4], StandardScaler().fit_transform(rows[:, :4].astype(np.float64)), atol=1e-5)
    assert (scaled[:, 4] == 0).all()


def test_ridge_reads_a_linear_number_perfectly_and_equals_scikit_learn():
    rows = RANDOM.normal(size=(90, 3)).astype(np.float32)
    targets = np.stack([rows @ [1.0, 2.0, -1.0] + 5, RANDOM.normal(size=90)], axis=1)
    predict, penalties, on_val = ridge(rows[:40], targets[:40], rows[40:60], targets[40:60], [1e-6, 1.0, 1000.0])
    assert penalties[0] == 1e-6 and on_val[0] == pytest.approx(1, abs=1e-6)
    best = max([1000.0, 1.0, 1e-6], key=lambda penalty: r2_score(targets[40:60, 1], Ridge(alpha=penalty).fit(rows[:40], targets[:40, 1]).predict(rows[40:60])))
    oracle = Ridge(alpha=best).fit(rows[:40], targets[:40, 1]).predict(rows[60:])
    assert penalties[1] == best and np.allclose(predict(rows[60:])[:, 1], oracle, atol=1e-5)


def test_ridge_on_constant_features_predicts_the_train_mean_with_the_largest_penalty():
    targets = np.arange(20.0)[:, None]
    predict, penalties, _ = ridge(np.zeros((20, 2), np.float32), targets, np.zeros((20, 2), np.float32), targets, [1.0, 10.0])
    assert penalties == [10.0] and np.allclose(predict(np.zeros((4, 2), np.float32)), 9.5)


def test_r2_equals_scikit_learn_and_its_image_scores_average_to_it():
    targets, predicted = RANDOM.normal(size=200), RANDOM.normal(size=200)
    predicted = 0.7 * targets + 0.3 * predicted
    assert r2(targets[:, None], predicted[:, None])[0] == pytest.approx(r2_score(targets, predicted))
    assert r2_by_image(targets, predicted).mean() == pytest.approx(r2_score(targets, predicted))


def test_image_scores_of_r2_are_1_when_perfect_0_for_the_mean_and_none_without_variance():
    targets = np.array([1.0, 2.0, 6.0])
    assert r2_by_image(targets, targets).tolist() == [1, 1, 1]
    assert np.allclose(r2_by_image(targets, np.full(3, 3.0)), 0)
    assert r2_by_image(np.ones(4), np.zeros(4)) is None


def test_spread_of_image_scores_is_the_sampling_error_of_r2():
    draws = np.random.default_rng(1)
    targets = draws.normal(size=(4000, 100))
    predicted = 0.8 * targets + 0.5 * draws.normal(size=targets.shape)
    seen = [r2_score(*pair) for pair in zip(targets, predicted, strict=True)]
    told = [r2_by_image(*pair).std(ddof=1) / 10 for pair in zip(targets, predicted, strict=True)]
    assert np.mean(told) == pytest.approx(np.std(seen), rel=0.05)


def test_recall_equals_a_double_loop_leaves_out_the_query_and_counts_singletons():
    rows, labels = RANDOM.normal(size=(40, 3)), np.array([*RANDOM.integers(0, 6, 37), 7, 8, 9])
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for k in (1, 3):
        hits = []
        for query in range(40):
            if (labels == labels[query]).sum() > 1:
                order = [other for other in np.argsort(-(unit @ unit[query])) if other != query]
                hits.append(any(labels[other] == labels[query] for other in order[:k]))
        assert recall_at(rows, labels, k) == ({"hit_rate": np.mean(hits), "k": k, "singletons": 40 - len(hits)}, len(hits))


def test_recall_with_too_large_a_k_uses_all_others_and_without_pairs_has_no_value():
    assert recall_at(PERFECT, LABELS, 1000) == ({"hit_rate": 1.0, "k": 59, "singletons": 0}, 60)
    assert recall_at(PERFECT[:3], np.arange(3), 1) == ({"hit_rate": None, "k": 1, "singletons": 3}, 0)


def test_few_shot_tells_how_many_a_class_really_gave():
    labels = np.array([0] * 50 + [1] * 4)
    found = few_shot(np.eye(2)[labels], labels, np.eye(2)[labels], labels, 10, 3, 0)
    assert found["shots"] == 4 and found["accuracy"] == 1.0


def test_few_shot_equals_a_loop_with_the_interval_of_student_for_two_episodes():
    """t(0.975, 1) = 12.706, the standard error of two numbers is half their difference."""
    rows = RANDOM.normal(size=(60, 3)).astype(np.float32)
    unit, scores = rows / np.linalg.norm(rows, axis=1, keepdims=True), []
    for episode in range(2):
        generator = np.random.default_rng([3, 2, episode])
        means = [unit[generator.permutation(np.flatnonzero(one == LABELS))[:2]].mean(axis=0) for one in range(3)]
        nearest_mean = [np.argmax([row @ mean / np.linalg.norm(mean) for mean in means]) for row in unit]
        scores.append(np.mean(np.array(nearest_mean) == LABELS))
    found = few_shot(rows, LABELS, rows, LABELS, 2, 2, 3)
    assert found["accuracy"] == pytest.approx(np.mean(scores))
    assert found["high"] - found["accuracy"] == pytest.approx(12.7062047362 * abs(scores[0] - scores[1]) / 2)


def test_balanced_accuracy_equals_scikit_learn():
    predicted, labels = RANDOM.integers(0, 4, 90), RANDOM.choice(4, 90, p=[0.7, 0.1, 0.1, 0.1])
    assert balanced_accuracy(predicted, labels) == pytest.approx(balanced_accuracy_score(labels, predicted))
    assert balanced_accuracy(np.zeros(10, int), np.array([0] * 9 + [1])) == 0.5
