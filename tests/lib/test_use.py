import numpy as np
import pytest
from pictures import write_folder
from PIL import Image

from stages.lib.encoder import apply, save_network, start
from stages.lib.images.folder import Unreadable, read
from stages.lib.use import encode


def test_h_of_files_is_h_of_their_pixels_in_the_order_given_for_any_batch(tmp_path):
    write_folder(tmp_path, 7, 20, 30, seed=0)
    paths = sorted(path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".csv")
    network = start({"name": "small", "layers": [[4, 2]], "norm": "none", "h": 5, "head": "none", "hidden": 1, "z": 5}, 16, seed=3)
    save_network(tmp_path / "3.safetensors", network)
    pixels = np.stack([read(path, 16, [1, 1, 1], 10**6)[0] for path in paths])
    expected = apply(network.eval(), pixels, 7)[0]
    for batch_size in (1, 3, 100):
        h = encode(tmp_path / "3.safetensors", paths, [1, 1, 1], 10**6, batch_size)
        assert h.shape == (7, 5) and h.dtype == np.float32 and np.allclose(h, expected, atol=1e-6)
    assert np.allclose(encode(tmp_path / "3.safetensors", paths[::-1], [1, 1, 1], 10**6, 7), expected[::-1], atol=1e-6)


def test_a_file_that_is_no_picture_is_named_by_its_reason(tmp_path):
    save_network(tmp_path / "3.safetensors", start({"name": "small", "layers": [[4, 2]], "norm": "none", "h": 5, "head": "none", "hidden": 1, "z": 5}, 16, 3))
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    (tmp_path / "b.png").touch()
    with pytest.raises(Unreadable, match="empty file"):
        encode(tmp_path / "3.safetensors", [tmp_path / "a.png", tmp_path / "b.png"], [1, 1, 1], 10**6, 2)
