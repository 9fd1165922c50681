"""What plan refuses of objectives, mined relations and negatives, and what a recipe holds."""
import copy

import pytest

from stages.judge import differences
from stages.lib.stage import Refused
from stages.lib.tables import read_params
from stages.plan import plan_all

DEFAULTS = read_params("params.yaml")
MINED = {"kind": "clusters", "run": "supcon_clusters", "clusters": 3, "restarts": 1}


def changed(**leaves):
    """The default parameters with some leaves, a__b__c for a.b.c, replaced."""
    params = copy.deepcopy(DEFAULTS)
    for path, value in leaves.items():
        *keys, last = path.split("__")
        node = params
        for key in keys:
            node = node[key]
        node[last] = value
    return params


@pytest.mark.parametrize("leaves, message", [
    ({"mined__clusters": MINED}, "mined.clusters.run: supcon_clusters learns from clusters itself (clusters from supcon_clusters from clusters)"),
    ({"mined__main": {**MINED, "run": "simclr_swap"}}, "mined.main: there is a relation of this name too"),
    ({"mined__clusters__run": "simclr_swop"}, 'mined.clusters.run: "simclr_swop" is not allowed; allowed: one of untrained'),
    ({"mined__clusters__k": 3}, "mined.clusters.k: not read by kind clusters"),
    ({"mined__clusters__kind": "neighbors"}, "mined.clusters.k: missing"),
    ({"runs__supcon__relation": "clutsers"}, "did you mean clusters?"),
    ({"runs__vicreg_swap__pretrain": {"normalize": False}}, "runs.vicreg_swap.pretrain.normalize: unknown key"),
    ({"runs__vicreg_swap__negatives": {"debias": 0.1}}, "runs.vicreg_swap.negatives: not read by vicreg"),
    ({"negatives__debias": 0.1, "pretrain__normalize": False}, "negatives.debias: 0.1 needs cosines, but pretrain.normalize is false"),
    ({"negatives__filter_above": 0.9, "pretrain__normalize": False}, "negatives.filter_above: 0.9 needs cosines"),
    ({"negatives__learn_temperature": [0.3, 1]}, "negatives.learn_temperature: [0.3, 1] does not hold the temperature 0.2"),
    ({"negatives__learn_temperature": True}, "negatives.learn_temperature: true is not allowed; allowed: false, or [low, high]"),
    ({"moco__key_momentum": 1.1}, "moco.key_momentum: 1.1 is not allowed; allowed: a number from 0 to 1"),
    ({"pretrain__normalize": "no"}, 'pretrain.normalize: "no" is not allowed; allowed: true or false'),
    ({"pretrain__processes": 0}, "pretrain.processes: 0 is not allowed; allowed: a whole number from 1 to 10000"),
    ({"pretrain__block": 1}, "pretrain.block: 1 is not allowed; allowed: a whole number from 2"),
    ({"pretrain__processes": 61}, "pretrain.processes: 61 cannot share a batch of 60 images (run simclr_keep); allowed: up to pretrain.batch_size"),
    ({"runs__supcon__pretrain": {"processes": 2}, "encoder__norm": "batch"},
     "runs.supcon.pretrain.processes: 2 with encoder.norm batch on device cpu (run supcon): PyTorch synchronizes batch statistics on GPUs alone"),
    ({"explain__moco": "simclr_swap"}, "explain.moco: \"simclr_swap\" is not allowed; allowed: a run of objective moco: moco_keep, moco_swap"),
    ({"claims__simclr_does_not_collapse__left__factor": "main"}, "claims.simclr_does_not_collapse.left.factor: not read by probe spread"),
    ({"claims__simclr_does_not_collapse__right": "chance"}, "spread is not allowed; allowed: spread of space z on the left of a number"),
])
def test_plan_refuses(leaves, message):
    with pytest.raises(Refused) as refused:
        plan_all(changed(**leaves))
    assert message in str(refused.value)


def test_a_longer_cycle_of_mined_relations_is_refused_for_each_of_them():
    params = changed(mined__again={**MINED, "run": "supcon_clusters"})
    params["runs"]["simclr_swap"]["relation"] = "again"
    with pytest.raises(Refused) as refused:
        plan_all(params)
    assert "mined.clusters.run: simclr_swap learns from clusters itself" in str(refused.value) and "mined.again.run" in str(refused.value)


def test_mining_from_a_run_that_learned_from_another_mined_relation_is_allowed():
    assert plan_all(changed(mined__again={**MINED, "run": "supcon_clusters"}))


def test_a_recipe_holds_what_its_objective_reads_and_nothing_else():
    recipes = plan_all(DEFAULTS)
    assert "normalize" not in recipes["vicreg_swap"]["pretrain"] and recipes["simclr_swap"]["pretrain"]["normalize"] is True
    assert not {"temperature", "negatives", "moco"} & recipes["vicreg_swap"].keys() and "vicreg" not in recipes["moco_keep"]
    assert recipes["moco_keep"]["pretrain"]["epochs"] == 15 and "negatives" not in recipes["supcon"]
    assert recipes["invariance_alone"]["vicreg"] == {"invariance": 25, "variance": 0, "covariance": 0}


def test_the_judge_sees_that_moco_and_simclr_differ_in_epochs_too():
    recipes = plan_all(DEFAULTS)
    assert differences(recipes["moco_keep"], recipes["simclr_keep"]) == ["objective", "pretrain.epochs"]
    assert differences(recipes["moco_swap"], recipes["simclr_swap"]) == ["objective"]
    assert differences(recipes["supcon"], recipes["supcon_clusters"]) == ["relation"]
