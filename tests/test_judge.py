"""Judge: verdicts on planted results: never better inside the noise, and a reason wherever nothing can be told."""
import json
from collections import defaultdict

import numpy as np
import pytest

from stages.judge import LEDGER, main
from stages.lib.tables import TIDY, read_json, read_table, write_table

SETTINGS = {"confidence": 0.95, "kept": 0.8, "erased": 0.2, "gained": 1.1, "room": 0.1, "collapse_rank": 1.5, "collapse_spread": 0.01, "collapse_share": 0.25}
PLAN = {"objective": "simclr", "encoder": {"h": 4}, "seed": 0, "replicates": 5, "temperature": 0.2, "views": {"swap": 0.5}}
HEALTHY = {"effective_rank": 3.0, "rank_me": 3.5, "used": 4, "dimensions": 4, "std": 1.0, "spread": 0.9}
IMAGES = 200


def results(accuracy, seeds=5, wobble=0.0, seed=0):
    """bool [R, T] of which the mean is `accuracy`, seeds `wobble` apart."""
    generator = np.random.default_rng(seed)
    shares = accuracy + wobble * np.linspace(-1, 1, seeds)
    return np.stack([generator.permutation(IMAGES) < round(share * IMAGES) for share in shares])


class World:
    """Made-up results of runs, and what the judge makes of them."""

    def __init__(self, folder):
        self.folder, self.right, self.plans, self.shape, self.claims = folder, defaultdict(dict), {}, {}, {}
        self.run("untrained", results(0.7, seed=1), objective="untrained")

    def run(self, name, right, space="h", factor="shape", probe="knn", geometry=None, **plan):
        self.right[name][space, factor, probe] = right
        self.plans[name] = {**PLAN, **plan, "replicates": len(right)}
        self.shape[name] = geometry or HEALTHY

    def claim(self, name, left, word, right, margin=0.0, allow=()):
        def side(value):
            return {"run": value, "space": "h", "factor": "main", "probe": "knn"} if value in self.right or value == "nobody" else value
        self.claims[name] = {"text": "about {main}", "left": side(left), "is": word, "right": side(right), "margin": margin, "allow": list(allow)}

    def judge(self):
        def path(*parts):
            (self.folder / parts[0]).mkdir(parents=True, exist_ok=True)
            return self.folder.joinpath(*parts)

        def row(name, space, factor, probe, metric, value, n=IMAGES):
            return {"run": name, "seed": 0, "space": space, "factor": factor, "probe": probe, "slice": "all", "metric": metric, "value": value,
                    "n": n, "note": ""}

        self.right["pixels"] = {("pixels", "shape", "knn"): results(0.9, seeds=1)}
        for name, found in self.right.items():
            np.savez(path("correct", f"{name}.npz"), **{"/".join(key): right for key, right in found.items()})
            rows = [row(name, *key, metric, value) for key, right in found.items() for metric, value in
                    (("r2" if key[2] == "ridge" else "accuracy", right.mean()), ("majority", 1 / 3), ("val_accuracy", 0.5))]
            write_table(path("probe", f"{name}.csv"), rows, TIDY)
            if name == "pixels":
                continue
            np.savez(path("tuned", f"{name}.npz"))
            write_table(path("finetune", f"{name}.csv"), [{**row(name, "h", "shape", "finetune", "accuracy", None), "note": "none here"}], TIDY)
            rows = [row(name, space, "", "collapse", metric, value) for space in "hz" for metric, values in self.shape[name].items()
                    for value in (values if isinstance(values, list) else [values])]
            write_table(path("geometry", f"{name}.csv"), rows, TIDY)
            curve = [{"seed": seed, "epoch": 0, "loss": None, "z_spread": 0.9} for seed in range(self.plans[name]["replicates"])]
            write_table(path("curves", f"{name}.csv"), curve, ["seed", "epoch", "loss", "z_spread"])
            path("plans", f"{name}.json").write_text(json.dumps(self.plans[name]))
        entry = {"main_factor": "shape", "second_factor": "color"}
        params = {"judge": SETTINGS, "runs": {name: {} for name in self.plans}, "claims": self.claims, "dataset": "d", "datasets": {"d": entry}}
        path("out", "params.yaml").write_text(json.dumps(params))
        folders = [str(self.folder / name) for name in ("probe", "correct", "geometry", "finetune", "tuned", "curves", "plans")]
        main(str(self.folder / "out/params.yaml"), *folders, *(str(self.folder / "out" / name) for name in
             ("headline.json", "summary.json", "ledger.csv", "collapse.csv", "claims.json")))
        rows = {(row["run"], row["space"], row["factor"], row["probe"]): row for row in read_table(self.folder / "out/ledger.csv", LEDGER)}
        collapse = {(row["run"], row["space"]): row["verdict"] for row in read_table(self.folder / "out/collapse.csv")}
        return read_json(self.folder / "out/claims.json"), rows, collapse


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_a_large_effect_is_supported_its_opposite_refuted_and_none_inside_the_noise(world):
    world.run("better", results(0.9, wobble=0.02))
    world.run("noisy", results(0.72, wobble=0.15))
    for word in ("above", "below", "not above", "not below"):
        world.claim(f"better {word}", "better", word, "untrained")
        world.claim(f"noisy {word}", "noisy", word, "untrained")
    claims, _, _ = world.judge()
    assert {name: claim["verdict"] for name, claim in claims.items()} == {
        "better above": "supported", "better below": "refuted", "better not above": "refuted", "better not below": "supported",
        "noisy above": "unclear", "noisy below": "unclear", "noisy not above": "unclear", "noisy not below": "unclear"}
    assert claims["noisy above"]["reason"] == "the interval crosses the margin" and claims["better above"]["effect"] == pytest.approx(0.2)


def test_holm_makes_a_claim_unclear_that_alone_was_supported(world):
    world.run("slightly", results(0.78, wobble=0.03))
    world.claim("alone", "slightly", "above", "untrained")
    alone, _, _ = world.judge()
    assert alone["alone"]["verdict"] == "supported" and 0.0001 < alone["alone"]["p"] == alone["alone"]["p_holm"] < 0.05
    world.run("same", results(0.7, wobble=0.1, seed=5))
    for number in range(int(0.05 / alone["alone"]["p"]) + 1):
        world.claim(f"noise {number}", "same", "above", "untrained")
    many, _, _ = world.judge()
    assert many["alone"]["verdict"] == "unclear" and "claims are counted (Holm)" in many["alone"]["reason"] and many["alone"]["p_holm"] > 0.05
    assert (many["alone"]["low"], many["alone"]["high"]) == (alone["alone"]["low"], alone["alone"]["high"])


def test_claims_that_cannot_be_tested_are_not_counted_by_holm(world):
    world.run("better", results(0.9))
    world.claim("a", "better", "above", "untrained")
    for number in range(5):
        world.claim(f"missing {number}", "nobody", "above", "untrained")
    claims, _, _ = world.judge()
    assert claims["a"]["p"] == claims["a"]["p_holm"] and claims["missing 0"]["verdict"] == "not applicable"
    assert claims["missing 0"]["reason"] == "there is no readout nobody.h.shape.knn here"


def test_with_one_replicate_everything_is_unclear_and_the_reason_is_said(world):
    world.right.clear()
    world.run("untrained", results(0.7, seeds=1), objective="untrained")
    world.run("better", results(0.99, seeds=1))
    world.claim("a", "better", "above", "untrained")
    world.claim("b", "better", "above", 0.5)
    claims, ledger, _ = world.judge()
    assert {(claim["verdict"], claim["reason"]) for claim in claims.values()} == {("unclear", "one replicate: no interval over seeds")}
    assert ledger["better", "h", "shape", "knn"]["verdict"] == "unclear" and "one replicate" in ledger["better", "h", "shape", "knn"]["note"]


def test_two_sides_at_the_ceiling_are_not_testable(world):
    world.run("untrained", results(0.995), objective="untrained")
    world.run("trained", results(1.0))
    world.claim("a", "trained", "above", "untrained")
    claims, _, _ = world.judge()
    assert claims["a"]["verdict"] == "not testable" and claims["a"]["reason"] == "both sides are at the ceiling of 1" and claims["a"]["p"] is None


@pytest.mark.parametrize(("change", "verdict"), [({}, "none"), ({"effective_rank": 1.4}, "complete"), ({"spread": 0.0, "effective_rank": 3}, "complete"),
                                                 ({"effective_rank": 0.0, "rank_me": 1.0, "used": 0, "std": 0.0, "spread": 0.0}, "complete"),
                                                 ({"used": 1, "dimensions": 5}, "dimensional")])
def test_collapse_has_one_verdict_and_after_a_complete_one_nothing_is_testable(world, change, verdict):
    world.run("trained", results(0.9), geometry={**HEALTHY, **change})
    world.claim("a", "trained", "above", "untrained")
    claims, ledger, collapse = world.judge()
    assert collapse["trained", "h"] == verdict and collapse["untrained", "z"] == "untrained"
    assert claims["a"]["verdict"] == ("not testable" if verdict == "complete" else "supported")
    assert ("collapsed" in ledger["trained", "h", "shape", "knn"]["note"]) == (verdict == "complete")


def test_a_seed_that_collapsed_is_counted_though_the_mean_hides_it(world):
    """Of four seeds one has a spread below 0.01 and another a rank below 1.5."""
    world.run("trained", results(0.9), geometry={**HEALTHY, "spread": [0.9, 0.9, 0.001, 0.9], "effective_rank": [3, 3, 3, 1.2]})
    _, _, collapse = world.judge()
    table = {(row["run"], row["space"]): row for row in read_table(world.folder / "out/collapse.csv")}
    assert collapse["trained", "h"] == "none" and table["trained", "h"]["collapsed_seeds"] == "2" and table["untrained", "h"]["collapsed_seeds"] == ""


def test_the_little_spread_of_random_weights_is_no_collapse_and_their_readout_is_a_rival_like_any(world):
    world.run("untrained", results(0.7), geometry={**HEALTHY, "spread": 0.008}, objective="untrained")
    world.run("trained", results(0.9))
    world.claim("a", "trained", "above", "untrained")
    claims, ledger, collapse = world.judge()
    assert collapse["untrained", "h"] == "untrained" and ledger["untrained", "h", "shape", "knn"]["note"] == ""
    assert claims["a"]["verdict"] == "supported"


def test_a_comparison_in_two_settings_is_confounded_unless_the_claim_allows_one(world):
    world.run("one", results(0.9), temperature=0.1)
    world.run("two", results(0.9), temperature=0.1, views={"swap": 0.1})
    world.run("base", results(0.7))
    world.claim("one", "one", "above", "base")
    world.claim("two", "two", "above", "base")
    world.claim("allowed", "two", "above", "base", allow=["views.swap"])
    claims, _, _ = world.judge()
    assert {name: (claim["confounded"], claim["differs"]) for name, claim in claims.items()} == {
        "one": (False, "temperature"), "two": (True, "temperature, views.swap"), "allowed": (False, "temperature, views.swap")}


def test_r2_enters_the_ledger_with_chance_0_and_may_be_negative(world):
    generator = np.random.default_rng(0)
    scores = generator.normal(size=(5, IMAGES)) * 0.1
    world.right["untrained"]["h", "size", "ridge"] = scores - scores.mean() + 0.8
    world.run("trained", results(0.9))
    world.right["trained"]["h", "size", "ridge"] = scores - scores.mean() - 0.05
    _, ledger, _ = world.judge()
    row = ledger["trained", "h", "size", "ridge"]
    assert float(row["mean"]) == pytest.approx(-0.05) and float(row["low"]) < -0.05 < float(row["high"]) and float(row["chance"]) == 0
    assert float(row["retention"]) == pytest.approx(-0.0625) and row["verdict"] == "erased"


def test_slices_stay_out_of_the_summary_and_a_factor_may_hold_a_slash(world):
    world.run("trained", results(0.9), factor="a/b")
    claims, ledger, _ = world.judge()
    assert claims == {} and ledger["trained", "h", "a/b", "knn"]["mean"] == "0.9"
    assert float(ledger["trained", "h", "a/b", "knn"]["val"]) == 0.5
