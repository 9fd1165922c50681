"""Images -> one sheet of small tiles, a data URI, so that a page carries each image once."""
import base64
import io

import numpy as np
from PIL import Image

COLUMNS = 24
EXACT = 32  # up to this side, pixels are kept as they are; larger images are shrunk to TILE and compressed
TILE = 64  # a multiple of JPEG's blocks of 8, so that no tile bleeds into the next


class Sheet:
    """Collects tiles; `add` gives a tile's number, its column and row are number % COLUMNS and number // COLUMNS."""

    def __init__(self, side):
        self.side = side if side <= EXACT else TILE
        self.exact = side <= EXACT
        self.tiles, self.numbers = [], {}

    def add(self, image, key):
        """The number of an image, uint8 [3, S, S]; the same key is the same tile."""
        if key not in self.numbers:
            self.numbers[key] = len(self.tiles)
            pixels = np.asarray(image).transpose(1, 2, 0)
            self.tiles.append(pixels if self.exact else np.asarray(Image.fromarray(pixels).resize((TILE, TILE), Image.Resampling.LANCZOS)))
        return self.numbers[key]

    def uri(self):
        """The sheet as `data:image/...;base64,...`."""
        rows = max(1, -(-len(self.tiles) // COLUMNS))
        sheet = np.zeros((rows * self.side, COLUMNS * self.side, 3), np.uint8)
        for number, tile in enumerate(self.tiles):
            top, left = number // COLUMNS * self.side, number % COLUMNS * self.side
            sheet[top : top + self.side, left : left + self.side] = tile
        file = io.BytesIO()
        if self.exact:
            Image.fromarray(sheet).save(file, "PNG", optimize=True)
        else:
            Image.fromarray(sheet).save(file, "JPEG", quality=85, subsampling=0)
        return f"data:image/{'png' if self.exact else 'jpeg'};base64,{base64.b64encode(file.getvalue()).decode()}"
