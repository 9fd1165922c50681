"""Published data sets from small files in each one's own format; torchvision's checksums, of the real files, are set aside."""
import gzip
import os
import pickle
import struct

import numpy as np
import pytest
import scipy.io
from conftest import ROOT, dump_yaml, load_yaml
from torchvision.datasets import cifar, stl10, svhn

from stages.dataset import torchvision as stage
from stages.lib.stage import Refused
from stages.lib.tables import read_table

COUNT = 4


def pixels(*shape):
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def write_cifar(folder, name, monkeypatch):
    """Rows of 3072 bytes: red, green and blue planes; a pickle a batch, and one of class names."""
    data = pixels(COUNT, 3072)
    kind = getattr(cifar, name)
    labels, names = ("labels", "label_names") if name == "CIFAR10" else ("fine_labels", "fine_label_names")
    place = folder / kind.base_folder
    place.mkdir(parents=True)
    for file, _ in kind.train_list + kind.test_list:
        (place / file).write_bytes(pickle.dumps({"data": data, labels: [3, 1, 0, 2]}))
    (place / kind.meta["filename"]).write_bytes(pickle.dumps({names: ["plane", "car", "bird", "cat"]}))
    monkeypatch.setattr(cifar, "check_integrity", lambda path, md5=None: os.path.isfile(path))
    return data.reshape(-1, 3, 32, 32), ["cat", "car", "plane", "bird"], len(kind.train_list) * COUNT


def write_stl(folder, name, monkeypatch):
    """Bytes column by column, labels from 1."""
    data = pixels(COUNT, 3, 96, 96)
    place = folder / "stl10_binary"
    place.mkdir(parents=True)
    for part in ("train", "test"):
        (place / f"{part}_X.bin").write_bytes(data.tobytes())
        (place / f"{part}_y.bin").write_bytes(bytes([4, 2, 1, 3]))
    (place / "unlabeled_X.bin").touch()
    (place / "class_names.txt").write_text("plane\ncar\nbird\ncat\n")
    monkeypatch.setattr(stl10, "check_integrity", lambda path, md5=None: os.path.isfile(path))
    return data.transpose(0, 1, 3, 2), ["cat", "car", "plane", "bird"], COUNT


def write_svhn(folder, name, monkeypatch):
    """MATLAB arrays [row, column, channel, image]; 10 is the label of digit 0."""
    data = pixels(32, 32, 3, COUNT)
    folder.mkdir(parents=True)
    for part in ("train", "test"):
        scipy.io.savemat(folder / f"{part}_32x32.mat", {"X": data, "y": np.array([[10], [1], [9], [3]])})
    monkeypatch.setattr(svhn, "check_integrity", lambda path, md5=None: os.path.isfile(path))
    return data.transpose(3, 2, 0, 1), ["0", "1", "9", "3"], COUNT


def write_fashion(folder, name, monkeypatch):
    """IDX files: a magic number, sizes, bytes; grey."""
    data = pixels(COUNT, 28, 28)
    place = folder / "FashionMNIST/raw"
    place.mkdir(parents=True)
    for part in ("train", "t10k"):
        for file, content in ((f"{part}-images-idx3-ubyte", struct.pack(">IIII", 0x803, COUNT, 28, 28) + data.tobytes()),
                              (f"{part}-labels-idx1-ubyte", struct.pack(">II", 0x801, COUNT) + bytes([0, 9, 1, 0]))):
            (place / file).write_bytes(content)
            (place / f"{file}.gz").write_bytes(gzip.compress(content))
    return np.repeat(data[:, None], 3, axis=1), ["T-shirt/top", "Ankle boot", "Trouser", "T-shirt/top"], COUNT


WRITERS = {"CIFAR10": write_cifar, "CIFAR100": write_cifar, "STL10": write_stl, "SVHN": write_svhn, "FashionMNIST": write_fashion}


def make(tmp_path, name, size):
    params = load_yaml(ROOT / "params.yaml")
    params["datasets"]["known"] = {"images": {"name": name, "size": size}}
    dump_yaml(params, tmp_path / "params.yaml")
    out = {part: str(tmp_path / f"{part}.csv") for part in ("index", "factors", "rejected")}
    stage.main(str(tmp_path / "params.yaml"), "known", str(tmp_path / "raw"), str(tmp_path / "images.npy"), **out)
    return np.load(tmp_path / "images.npy"), read_table(out["index"]), read_table(out["factors"])


@pytest.mark.parametrize("name", WRITERS)
def test_pixels_and_class_names_are_those_of_the_files(tmp_path, monkeypatch, name):
    expected, labels, train = WRITERS[name](tmp_path / "raw", name, monkeypatch)
    images, index, factors = make(tmp_path, name, expected.shape[-1])
    assert len(images) == train + COUNT and images.dtype == np.uint8
    assert (images[:COUNT] == expected).all() and (images[train:] == expected).all()
    assert [row["class"] for row in factors[:COUNT]] == labels and list(factors[0]) == ["id", "class"]
    assert [row["part"] for row in index] == ["train"] * train + ["test"] * COUNT
    assert index[train]["source"] == f"{name}:test:0" and index[train]["group"] == "0"  # the test images here equal those of train


def test_another_size_is_resized_with_antialiasing(tmp_path, monkeypatch):
    expected, *_ = write_stl(tmp_path / "raw", "STL10", monkeypatch)
    images, *_ = make(tmp_path, "STL10", 8)
    assert images.shape[1:] == (3, 8, 8) and np.abs(images[:COUNT].mean() - expected.mean()) < 1


def test_without_files_and_without_network_one_line_says_so(tmp_path, monkeypatch):
    def no_network(*_, **__):
        raise OSError("Network is unreachable")
    monkeypatch.setattr("urllib.request.urlopen", no_network)
    for name in WRITERS:
        with pytest.raises(Refused, match=f"{name} is not there, and cannot be downloaded \\(") as refused:
            make(tmp_path, name, 32)
        assert "\n" not in str(refused.value)
