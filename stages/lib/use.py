"""A trained encoder used elsewhere: pictures in files -> h."""
import numpy as np

from stages.lib.encoder import apply, load_network
from stages.lib.images.folder import read


def encode(weights, paths, background, max_pixels, batch_size):
    """h, float32 [N, H], of the pictures in N files, by the frozen encoder in `weights` (models/<run>/<seed>.safetensors).

    Each picture is read as a data set of source `folder` reads it, at the size that the encoder was trained on, a batch at a
    time; background and max_pixels as there. Raises stages.lib.images.folder.Unreadable for a file that gives no picture.
    """
    network = load_network(weights)
    h = []
    for first in range(0, len(paths), batch_size):
        pictures = [read(path, network.side, background, max_pixels)[0] for path in paths[first : first + batch_size]]
        h.append(apply(network, np.stack(pictures), batch_size)[0])
    return np.concatenate(h)
