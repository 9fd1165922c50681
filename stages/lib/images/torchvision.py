"""Published data sets as torchvision's readers give them: its files -> pixels and class names."""
import numpy as np
from PIL import Image
from torchvision import datasets


def load(name, folder, part, download):
    """(uint8 [N, 3, S, S], class name of each image) of part `train` or `test` of a data set, grey ones with three equal channels.

    Raises RuntimeError if the files are not in `folder` or not those that were published (torchvision's checksums), and
    what urllib raises if they cannot be downloaded.
    """
    choice = {"split": part} if name in ("STL10", "SVHN") else {"train": part == "train"}
    found = getattr(datasets, name)(folder, download=download, **choice)
    pixels = np.asarray(found.data)
    if pixels.ndim == 3:
        pixels = np.repeat(pixels[:, None], 3, axis=1)
    elif pixels.shape[-1] == 3:
        pixels = pixels.transpose(0, 3, 1, 2)
    labels = np.asarray(found.targets if hasattr(found, "targets") else found.labels)
    names = getattr(found, "classes", None) or [str(number) for number in range(10)]
    return pixels, [names[label] for label in labels.tolist()]


def resized(pixels, side):
    """uint8 [N, 3, side, side], by a triangle filter as wide as the step (antialiased)."""
    if pixels.shape[-1] == side:
        return pixels
    resize = [np.asarray(Image.fromarray(image.transpose(1, 2, 0)).resize((side, side), Image.Resampling.BILINEAR)) for image in pixels]
    return np.stack(resize).transpose(0, 3, 1, 2)
