"""Small inputs of the report, written by hand: two factors, two runs, eight images; every name can be chosen."""
import json
from pathlib import Path

import numpy as np

from stages.lib.tables import TIDY, write_json, write_table
from stages.report import main

LEDGER = ["run", "space", "factor", "probe", "mean", "low", "high", "n", "seeds", "chance", "untrained", "retention", "retention_low", "retention_high",
          "verdict", "note"]
VALUES = {"untrained": {"h": (0.9, 1.0, "kept"), "z": (0.8, 1.0, "kept")}, "swap": {"h": (0.7, 0.15, "erased"), "z": (0.6, 0.05, "erased")}}
WORDS = {"main": "shape", "second": "color", "classes": ["round", "pointed"], "colors": ["red", "blue"], "claim": "Swapping hides color", "note": ""}
PLAN = {"objective": "simclr", "seed": 1, "encoder": {"name": "conv", "h": 4, "head": "mlp", "z": 3}, "temperature": 0.2, "views": {"swap": 0.5}}
CHOICE = {"similarities": [0.8, 0.4, 0.2], "temperature": 0.5, "probabilities": [0.5713, 0.2567, 0.1721], "loss": 0.5599,
          "by_similarity": [-0.8575, 0.5134, 0.3441]}
EXPLAIN = {"sweep": {"right_order": [CHOICE, {**CHOICE, "temperature": 1.0}]}, "choices": {"right_order": [CHOICE]},
           "queue": {"before": "abcdef", "added": "gh", "after": "cdefgh"}, "key_momentum": [{"momentum": 0.9, "places": [[0, 2], [0.2, 2.2]]}]}


def ledger(words):
    rows = []
    for run, spaces in VALUES.items():
        for space in spaces:
            for factor in (words["main"], words["second"]):
                mean, kept, verdict = (0.9, 1.0, "kept") if factor == words["main"] else spaces[space]
                rows.append(dict(zip(LEDGER, [run, space, factor, "knn", mean, mean - 0.05, mean + 0.05, 8, 2, 0.5, 0.9, kept, kept - 0.03, kept + 0.03,
                                              verdict, words["note"]], strict=True)))
    for factor in (words["main"], words["second"]):
        rows.append(dict(zip(LEDGER, ["pixels", "pixels", factor, "knn", 1, 0.9, 1, 8, 1, 0.5, "", "", "", "", "", "not trained"], strict=True)))
    return rows


def write_inputs(folder, side=8, **chosen):
    """Write all inputs under `folder` and return the command line of the report as a dict."""
    words, folder = {**WORDS, **chosen}, Path(folder)
    generator = np.random.default_rng(5)
    rows = [{"id": row, words["main"]: words["classes"][row % 2], words["second"]: words["colors"][row // 2 % 2], "size": row / 2 + 0.25}
            for row in range(8)]
    params = {"runs": {"untrained": {"objective": "untrained", "relation": "instance"},
                       "swap": {"objective": "simclr", "relation": "instance", "views": "swapped"}},
              "views": {"swapped": {"swap": 0.5}}, "dataset": "toys", "datasets": {"toys": {"main_factor": words["main"], "second_factor": words["second"]}},
              "page": {"queries": 3}, "interventions": {}, "transfers": {},
              "judge": {"kept": 0.75, "erased": 0.15, "gained": 1.2, "room": 0.1, "confidence": 0.9, "collapse_rank": 1.6, "collapse_spread": 0.02,
                        "collapse_share": 0.3},
              "relations": {"instance": {"kind": "instance"}}, "mined": {},
              "claims": {"hides": {"text": words["claim"], "is": "near", "margin": 0.3, "right": "chance", "allow": [],
                                   "left": {"run": "swap", "space": "h", "factor": words["second"], "probe": "knn"}}}}
    write_json(folder / "params.yaml", params)  # JSON is YAML
    write_table(folder / "ledger.csv", ledger(words), LEDGER)
    write_json(folder / "claims.json", {"hides": {"text": words["claim"], "verdict": "supported", "effect": 0.2, "low": 0.15, "high": 0.25, "seeds": 2,
                                                  "differs": "", "confounded": False, "reason": words["note"]}})
    write_json(folder / "plans/untrained.json", {**{key: PLAN[key] for key in ("seed", "encoder")}, "objective": "untrained", "relation": "instance"})
    write_json(folder / "plans/swap.json", {**PLAN, "relation": "instance"})
    curve = ["seed", "epoch", "loss", "reference", "z_rank", "z_spread"]
    for run in params["runs"]:
        epochs = range(3) if run == "swap" else [0]
        rows_of_curve = [[seed, epoch, *((3 - epoch, 2.5) if epoch else ("", "")), 1 + epoch, 0.5] for seed in (1, 2) for epoch in epochs]
        write_table(folder / f"curves/{run}.csv", [dict(zip(curve, row, strict=True)) for row in rows_of_curve], curve)
        write_table(folder / f"curves/{run}_staleness.csv", [{"seed": 1, "epoch": 1, "age_steps": age, "cosine": 1 - age / 10, "n": 4} for age in (1, 2, 3)]
                    if run == "swap" else [], ["seed", "epoch", "age_steps", "cosine", "n"])
        space = {"neighbors": np.array([[0, 1], [2, 3], [4, 5], [6, 7]]), "tsne": generator.uniform(0, 0.7, (4, 2)).astype(np.float32),
                 "pca": np.array([[0, 0], [1, 0], [0, 0.75], [1, 0.75]], np.float32)}
        (folder / "maps").mkdir(exist_ok=True)
        np.savez(folder / f"maps/{run}.npz", ids=np.array([4, 5, 6, 7]),
                 **{f"{name}/{key}": values for name in ("h", "z") for key, values in space.items()})
    score = {"wrong_positives": None, "false_negatives": 0.25, "reason": "no two images are related"}
    write_json(folder / "relations/instance.json",
               {"kind": "instance", "seeds": {"all": {"factors": {words["main"]: score, words["second"]: score}}}})
    (folder / "transfer").mkdir(exist_ok=True)
    for name in ("probe", "geometry", "finetune"):  # their panels have a test of their own
        for run in params["runs"]:
            write_table(folder / f"{name}/{run}.csv", [], TIDY)
    columns = ["run", "space", "effective_rank", "used", "dimensions", "spread", "verdict", "collapsed_seeds", "seeds"]
    write_table(folder / "collapse.csv", [dict(zip(columns, [run, space, 2.5, 3, 4, 0.9, "dimensional", 1, 5], strict=True))
                                          for run in params["runs"] for space in ("h", "z")], columns)
    write_json(folder / "explain.json", EXPLAIN)
    images = generator.integers(0, 256, (8, 3, side, side), dtype=np.uint8)
    np.save(folder / "images.npy", images)
    np.savez(folder / "preview.npz", swapped=images[:4].reshape(2, 2, 3, side, side)[:, [0, 1, 1]])
    write_table(folder / "factors.csv", rows, list(rows[0]))
    return {"params": str(folder / "params.yaml"), "page": "stages/lib/page", "html": str(folder / "report.html"), "ledger": str(folder / "ledger.csv"),
            "claims": str(folder / "claims.json"), "images": str(folder / "images.npy"), "factors": str(folder / "factors.csv"),
            "preview": str(folder / "preview.npz"),
            **{name: str(folder / name) for name in ("plans", "curves", "maps", "relations", "probe", "geometry", "finetune")},
            "transfers": str(folder / "transfer"),
            "collapse": str(folder / "collapse.csv"), "explain": str(folder / "explain.json")}


def write_page(folder, **chosen):
    """The path and the text of a page made from these inputs."""
    paths = write_inputs(folder, **chosen)
    main(**paths)
    return Path(paths["html"]), Path(paths["html"]).read_text(encoding="utf-8")


def block(text, name):
    """The JSON of a script block of a page."""
    return json.loads(text.split(f'id="{name}">')[1].split("</script>")[0])


def tidy(probe, metric, values, **other):
    """Rows of a tidy table, one a seed."""
    common = {"run": "r", "space": "h", "factor": "shape", "probe": probe, "slice": "all", "metric": metric, "n": "9", "note": ""}
    return [{**common, "seed": str(seed), "value": str(value), **other}
            for seed, value in enumerate(values)]
