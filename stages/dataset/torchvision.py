"""A published data set by name, from a local copy in `raw` or else downloaded: train and test as published; factor `class`, and `part` beside the index."""
import tempfile
from urllib.error import URLError

import numpy as np

from stages.lib.images.torchvision import load, resized
from stages.lib.source import write_dataset
from stages.lib.stage import Refused, run
from stages.lib.tables import read_params


def parts_of(name, raw):
    """[(part, pixels, class names)] of both parts. A download goes to a folder that is gone afterwards: images.npy keeps the pixels."""
    try:
        return [(part, *load(name, raw, part, download=False)) for part in ("train", "test")]
    except RuntimeError:
        pass  # not there
    try:
        with tempfile.TemporaryDirectory() as folder:
            return [(part, *load(name, folder, part, download=True)) for part in ("train", "test")]
    except (URLError, OSError, RuntimeError) as fault:
        reason = " ".join(str(getattr(fault, "reason", fault)).split())
        raise Refused(f"{raw}: {name} is not there, and cannot be downloaded ({reason}). Put the published files there, in the folders that "
                      "torchvision makes, or run once with network") from None


def main(params, name, raw, images, index, factors, rejected):
    settings = read_params(params, "datasets", name, "images")
    parts = parts_of(settings["name"], raw)
    pixels = np.concatenate([resized(pixels, settings["size"]) for _, pixels, _ in parts])
    sources = [f"{settings['name']}:{part}:{row}" for part, _, labels in parts for row in range(len(labels))]
    rows = [{"class": label} for _, _, labels in parts for label in labels]
    notes = [{"part": part} for part, _, labels in parts for _ in labels]
    write_dataset(pixels, sources, rows, {"images": images, "index": index, "factors": factors, "rejected": rejected}, notes=notes)


if __name__ == "__main__":
    run(main)
