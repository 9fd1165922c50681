"""One picture of a person's folder: a file -> the pixels of a square, decided by content, never by suffix.

Whatever could only be guessed at is refused with a reason instead.
"""
import os
import warnings

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

# no EPS (it starts Ghostscript) and no format without a signature (TGA)
FORMATS = ("AVIF", "BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")


class Unreadable(Exception):
    """A file that gives no picture; its message is the reason, the same on every machine."""


def read(path, side, background, max_pixels):
    """(uint8 [3, side, side], whether more frames follow) of the picture in a file, its first frame decoded whole.

    Turned upright (EXIF); grey of 16 bits scaled by 1/257; palette, CMYK and the rest converted to RGB, embedded color
    profiles not applied; transparent parts over `background` (red, green, blue in [0, 1]). The largest centered square is
    resized by a triangle filter as wide as the step (antialiased): shorter side to `side`, then a center crop.
    Raises Unreadable for a file that is empty, no picture, damaged, or larger than `max_pixels`.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # remarks on metadata; damaged pixels raise
            if not os.path.getsize(path):
                raise Unreadable("empty file")
            with Image.open(path, formats=FORMATS) as image:
                if image.width * image.height > max_pixels:
                    raise Unreadable(f"{image.width} x {image.height} pixels, more than max_pixels ({max_pixels})")
                animated = getattr(image, "is_animated", False)
                image.load()
                picture = square(eight_bits(ImageOps.exif_transpose(image), image.format), side)
    except Image.DecompressionBombError:  # Pillow's own guard, at twice its limit, before any pixel is decoded
        raise Unreadable(f"more than max_pixels ({max_pixels})") from None
    except UnidentifiedImageError:
        raise Unreadable(f"not a picture of a known kind ({', '.join(FORMATS)})") from None
    except (Unreadable, MemoryError):
        raise
    except PermissionError:
        raise Unreadable("no permission to read it") from None
    except Exception as fault:  # decoders meet damage with exceptions of any kind
        raise Unreadable(f"truncated or damaged ({type(fault).__name__})") from None
    if picture.mode == "RGBA":
        paper = Image.new("RGBA", picture.size, tuple(round(255 * level) for level in background))
        picture = Image.alpha_composite(paper, picture).convert("RGB")
    return np.asarray(picture).transpose(2, 0, 1), animated


def eight_bits(image, kind):
    """The same picture as RGB, or as RGBA if any of it can be transparent."""
    if image.mode.startswith("I;16") or (image.mode == "I" and kind == "PPM"):  # Pillow gives 16-bit PGM as I
        return Image.fromarray(np.rint(np.asarray(image) / 257).astype(np.uint8)).convert("RGB")
    if image.mode in ("I", "F"):
        raise Unreadable("pixels of 32 bits, whose black and white levels no rule tells")
    return image.convert("RGBA" if image.has_transparency_data else "RGB")


def square(image, side):
    """The largest centered square, resized; the box may start between pixels, so that turned pictures stay equal."""
    edge = min(image.size)
    left, top = (image.width - edge) / 2, (image.height - edge) / 2
    return image.resize((side, side), Image.Resampling.BILINEAR, box=(left, top, left + edge, top + edge))
