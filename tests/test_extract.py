"""Extract: features do not depend on batch or order, and each set of images lands in its folder."""
import json

import numpy as np
import torch

from stages.extract import main
from stages.lib.encoder import apply, load_network, save_network, start
from stages.lib.pixels import alter
from stages.lib.tables import write_table

ENCODER = {"name": "small", "layers": [[4, 2]], "norm": "batch", "h": 6, "head": "mlp", "hidden": 5, "z": 3}
IMAGES = np.random.default_rng(0).integers(0, 256, (40, 3, 8, 8), dtype=np.uint8)


def network():
    made = start(ENCODER, 8, 5)
    made.train()(torch.from_numpy(IMAGES).float() / 255)  # so that the running statistics are not their start values
    return made.eval().requires_grad_(False)


def test_batches_of_7_and_64_and_another_order_give_the_same_features():
    order = np.random.default_rng(1).permutation(40)
    for small, large, turned in zip(apply(network(), IMAGES, 7), apply(network(), IMAGES, 64), apply(network(), IMAGES[order], 7), strict=True):
        assert np.abs(small - large).max() < 1e-6 and np.abs(large[order] - turned).max() < 1e-6


def test_each_set_of_images_has_its_folder(tmp_path):
    save_network(tmp_path / "models/3.safetensors", network())
    np.save(tmp_path / "images.npy", IMAGES)
    write_table(tmp_path / "split.csv", [{"id": row, "split": ("train", "val", "test")[row % 3]} for row in range(40)], ["id", "split"])
    (tmp_path / "interventions").mkdir()
    np.save(tmp_path / "interventions/turned.npy", IMAGES[2::3, :, ::-1])
    policy = {"flip": 0.5, "noise": 0.1}
    (tmp_path / "params.yaml").write_text(json.dumps({"extract": {"batch_size": 16, "views": policy, "transformed": 4}, "seed": 3, "replicates": 1,
                                                      "transformations": {"swap": [{"swap": 1}], "rotation": [{"rotate": 1}, {"rotate": 2}]}}))
    main(*(str(tmp_path / name) for name in ("params.yaml", "images.npy", "split.csv", "interventions", "models", "features")))
    features = tmp_path / "features/3"
    sizes = {path.relative_to(features).as_posix(): np.load(path).shape for path in features.rglob("*.npy")}
    spaces = {"": 40, "interventions/turned/": 13, "views/0/": 13, "views/1/": 13, "transformations/swap/1/": 12, "transformations/rotation/1/": 12,
              "transformations/rotation/2/": 12}
    assert sizes == {"transformations/ids.npy": (12,), **{f"{folder}{space}.npy": (rows, width) for folder, rows in spaces.items()
                                                          for space, width in (("h", 6), ("z", 3))}}
    ids = np.load(features / "transformations/ids.npy")
    assert ids.tolist() == [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]
    frozen = load_network(tmp_path / "models/3.safetensors")
    expected = apply(frozen, alter(IMAGES[ids], {"rotate": 2}, ids), 64)
    assert np.abs(np.load(features / "transformations/rotation/2/h.npy") - expected[0]).max() < 1e-6
    assert np.abs(np.load(features / "interventions/turned/z.npy") - apply(frozen, IMAGES[2::3, :, ::-1], 64)[1]).max() < 1e-6
    assert (np.load(features / "views/0/h.npy") != np.load(features / "views/1/h.npy")).any()
