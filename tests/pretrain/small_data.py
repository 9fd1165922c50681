"""Files that a pretrain stage reads, small enough for a test: 12 train images of 8 pixels, a recipe with every block."""
import json

import numpy as np
import torch

IMAGES, TRAIN = 15, 12
torch.set_num_threads(1)  # as the workers of a stage have


def write_inputs(folder, objective, relation=None, seed=3, **changes):
    """The arguments of a pretrain stage, with its input files written to `folder`; changes: blocks of the recipe that differ."""
    np.save(folder / "images.npy", np.random.default_rng(1).integers(0, 256, (IMAGES, 3, 8, 8), dtype=np.uint8))
    parts = ["train"] * TRAIN + ["val"] + ["test"] * 2
    (folder / "split.csv").write_text("id,split\n" + "".join(f"{row},{part}\n" for row, part in enumerate(parts)))
    np.save(folder / "relation.npy", np.arange(IMAGES) if relation is None else relation)
    recipe = {"objective": objective, "dataset": "small", "device": "cpu", "seed": seed, "replicates": 2, "watch": 8, "relation": "instance",
              "resume": {"every": 1, "limit_mb": 10},
              "encoder": {"name": "small", "layers": [[4, 2]], "norm": "none", "h": 6, "head": "mlp", "hidden": 5, "z": 4},
              "views": {"flip": 0.5, "noise": 0.1}, "temperature": 0.2,
              "pretrain": {"epochs": 2, "batch_size": 5, "lr": 0.01, "warmup": 0.0, "schedule": "constant", "weight_decay": 0.0, "normalize": True,
                           "processes": 1, "block": 1000},
              "negatives": {"debias": 0.0, "hardness": 0.0, "filter_above": 1.0, "learn_temperature": False},
              "moco": {"queue": 7, "key_momentum": 0.9}, "vicreg": {"invariance": 25.0, "variance": 25.0, "covariance": 1.0}}
    for block, values in changes.items():
        recipe[block] = {**recipe[block], **values} if isinstance(values, dict) else values
    (folder / "plan.json").write_text(json.dumps(recipe))
    paths = {"plan": "plan.json", "images": "images.npy", "split": "split.csv", "relation": "relation.npy",
             "models": "models", "curves": "curves.csv", "staleness": "staleness.csv", "resume": "resume"}
    return {name: str(folder / path) for name, path in paths.items()}
