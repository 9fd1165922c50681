"""The hand-worked numbers of the source documents as explain writes them, and a traced step that adds up."""
import json

import numpy as np
import pytest

from stages.explain import main, numbers
from stages.lib.tables import read_params
from stages.plan import plan_all

TOLD = numbers([0.1, 1.0], [0.0, 0.9, 1.0], 2)


def choices(name):
    return {choice["temperature"]: choice for choice in TOLD["choices"][name]}


def test_probabilities_and_losses_of_the_documents():
    table = choices("right_order")
    for t, p, loss in [(1.0, [0.4506, 0.3021, 0.2473], 0.7971), (0.5, [0.5713, 0.2567, 0.1721], 0.5599), (0.1, [0.9796, 0.0179, 0.0024], 0.0206)]:
        assert table[t]["probabilities"] == pytest.approx(p, abs=5e-5) and table[t]["loss"] == pytest.approx(loss, abs=5e-5)
    assert -table[0.5]["by_similarity"][0] == pytest.approx(0.8575, abs=5e-5) and -table[0.1]["by_similarity"][0] == pytest.approx(0.2037, abs=5e-5)
    three = choices("logits_2_1_0")[0.5]
    assert three["probabilities"] == pytest.approx([0.6652409558, 0.2447284711, 0.0900305732], abs=1e-9)
    assert three["loss"] == pytest.approx(0.4076059644, abs=1e-9)
    shoes = choices("two_shoes_and_a_car")[0.2]
    assert [round(shoes["probabilities"][0], 3), round(shoes["loss"], 3)] == [0.715, 0.335]
    assert [round(value, 3) for value in shoes["by_logit"][1:]] == [0.263, 0.022]
    views = choices("four_views")
    assert [round(views[0.1]["probabilities"][0], 5), round(views[0.1]["loss"], 5)] == [0.99875, 0.00125]
    assert [round(views[1.0]["probabilities"][0], 4), round(views[1.0]["loss"], 4)] == [0.5139, 0.6657]
    wrong = choices("wrong_order")
    assert wrong[0.1]["loss"] > wrong[0.5]["loss"] > wrong[1.0]["loss"]
    assert TOLD["constant_added"][0] == pytest.approx(TOLD["constant_added"][1])


def test_closed_forms_queue_and_key_momentum_of_the_documents():
    forms = TOLD["closed_forms"]
    assert forms["two_orthogonal_pairs_at_1"] == pytest.approx(0.5514447, abs=1e-7)
    assert forms["two_orthogonal_pairs_at_0.5"] == pytest.approx(0.2395448, abs=1e-7)
    assert forms["parallel_rows_of_4_images"] == pytest.approx(forms["log_7"]) and forms["moco_collapsed_with_120_keys"] == pytest.approx(forms["log_121"])
    assert round(forms["cosine_of_1_0_and_1_1"], 2) == 0.71 and forms["effective_rank_of_5_identity_rows"] == pytest.approx(4)
    assert forms["effective_rank_of_equal_rows"] == 0
    assert TOLD["queue"] == {"before": "abcdef", "added": "gh", "after": "cdefgh"}
    copied, slow, frozen = TOLD["key_momentum"]
    assert np.allclose(slow["places"], [[0, 2], [0.2, 2.2], [0.38, 2.38]])
    assert copied["places"][1] == [2, 4] and frozen["places"][2] == [0, 2]


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("explain")
    recipes = plan_all(read_params("params.yaml"))
    for objective in ("simclr", "moco"):
        (folder / f"{objective}.json").write_text(json.dumps(recipes[f"{objective}_swap"]))
    (folder / "params.yaml").write_text("explain: {images: 3, queue: 5, step: 4, temperatures: [1], momenta: [0.9], steps_of_key: 1}\n")
    np.save(folder / "images.npy", np.random.default_rng(0).integers(0, 256, (20, 3, 16, 16), dtype=np.uint8))
    (folder / "split.csv").write_text("id,split\n" + "".join(f"{row},{'train' if row < 16 else 'test'}\n" for row in range(20)))
    main(*(str(folder / name) for name in ("params.yaml", "simclr.json", "moco.json", "images.npy", "split.csv", "explain.json", "simclr.npz", "moco.npz")))
    return {name: dict(np.load(folder / f"{name}.npz")) for name in ("simclr", "moco")}


@pytest.mark.parametrize("name", ["simclr", "moco"])
def test_the_traced_loss_is_the_mean_of_minus_log_of_the_positives_probability(name, traces):
    trace = traces[name]
    positive = trace["positive"] if name == "simclr" else np.zeros(3, int)
    logits = np.where(trace["candidate"], trace["similarity"].astype(float) / trace["temperature"], -np.inf)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert trace["loss"] == pytest.approx(-np.log(p[np.arange(len(p)), positive]).mean(), abs=1e-5)
    assert np.allclose(trace["probability"], p, atol=1e-6) and np.allclose(trace["losses"].mean(), trace["loss"], atol=1e-5)
    assert (trace["moved"] > 0).all() and (trace["gradient"] > 0).all()


def test_the_traced_ring_loses_its_oldest_and_gains_the_batch_in_order(traces):
    trace = traces["moco"]
    assert trace["ring_ids_after"].tolist() == [*trace["ring_ids"][3:], *trace["ids"]] and (np.diff(trace["ring_age"]) <= 0).all()
    assert (trace["candidate"][:, 1:] == (trace["ids"][:, None] != trace["ring_ids"])).all()
    assert (trace["key_moved"] < trace["moved"]).all()
