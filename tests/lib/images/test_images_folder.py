"""One file -> pixels: each kind of picture as a person sees it, and a reason for what is none."""
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from stages.lib.images.folder import Unreadable, read

WHITE = [1, 1, 1]


def pixels(path, side=32, background=WHITE):
    return read(path, side, background, 10**6)[0].astype(int)


def photo(width=64, height=48):
    y, x = np.mgrid[:height, :width]
    return Image.fromarray(np.stack([x * 255 // width, y * 255 // height, (x + y) % 64 * 4], axis=-1).astype(np.uint8))


def test_a_16_bit_ramp_equals_its_8_bit_copy_and_is_not_clipped(tmp_path):
    ramp = np.tile(np.arange(64, dtype=np.uint16) * 4, (64, 1))
    Image.fromarray(ramp.astype(np.uint8)).save(tmp_path / "8.png")
    for name in ("16.png", "16.tif"):
        Image.fromarray(ramp * 257).save(tmp_path / name)
        assert Image.open(tmp_path / name).mode == "I;16"
        assert np.abs(pixels(tmp_path / name) - pixels(tmp_path / "8.png")).max() <= 1
    (tmp_path / "16.pgm").write_bytes(b"P5 64 64 65535\n" + (ramp * 257).astype(">u2").tobytes())
    assert np.abs(pixels(tmp_path / "16.pgm") - pixels(tmp_path / "8.png")).max() <= 1
    assert pixels(tmp_path / "16.png", 64)[:, 0, -1].tolist() == [252] * 3


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("size", [(64, 48), (63, 48), (48, 65)])
def test_a_picture_stored_turned_equals_the_upright_one(tmp_path, orientation, size):
    upright = photo(*size)
    undo = {1: None, 2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM, 5: Image.Transpose.TRANSPOSE,
            6: Image.Transpose.ROTATE_90, 7: Image.Transpose.TRANSVERSE, 8: Image.Transpose.ROTATE_270}[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    upright.save(tmp_path / "upright.png")
    (upright if undo is None else upright.transpose(undo)).save(tmp_path / "turned.png", exif=exif)
    assert np.abs(pixels(tmp_path / "turned.png") - pixels(tmp_path / "upright.png")).max() <= 1


def test_half_transparent_black_over_white_is_middle_grey_in_each_mode(tmp_path):
    Image.new("RGBA", (40, 40), (0, 0, 0, 128)).save(tmp_path / "rgba.png")
    Image.new("LA", (40, 40), (0, 128)).save(tmp_path / "la.png")
    palette = Image.new("P", (40, 40), 0)
    palette.putpalette([0, 0, 0, 255, 0, 0])
    palette.save(tmp_path / "palette.png", transparency=bytes([128, 255]))
    for name in ("rgba", "la", "palette"):
        assert set(np.unique(pixels(tmp_path / f"{name}.png"))) <= {126, 127, 128}, name
    assert np.unique(pixels(tmp_path / "rgba.png", background=[0, 0, 0])).tolist() == [0]


def test_a_transparent_color_does_not_bleed_into_the_picture(tmp_path):
    """Left half opaque blue, right half transparent red: after resizing there is blue and white between them, no red."""
    array = np.zeros((64, 64, 4), np.uint8)
    array[:, :32], array[:, 32:] = (0, 0, 255, 255), (255, 0, 0, 0)
    Image.fromarray(array).save(tmp_path / "half.png")
    red, green, blue = pixels(tmp_path / "half.png", 8)
    assert (np.abs(red - green) <= 1).all() and (blue >= 254).all()


def test_palette_cmyk_and_one_bit_pictures_have_their_colors(tmp_path):
    red = Image.new("RGB", (40, 40), (255, 0, 0))
    red.quantize(4).save(tmp_path / "palette.gif")
    red.convert("CMYK").save(tmp_path / "cmyk.jpg", quality=95)
    red.convert("CMYK").save(tmp_path / "cmyk.tif")
    Image.new("1", (40, 40), 1).save(tmp_path / "bit.png")
    for name in ("palette.gif", "cmyk.jpg", "cmyk.tif"):
        assert np.abs(pixels(tmp_path / name) - np.array([255, 0, 0])[:, None, None]).max() <= 3, name
    assert np.unique(pixels(tmp_path / "bit.png")).tolist() == [255]


@pytest.mark.parametrize("suffix", ["gif", "png", "webp", "tif"])
def test_of_several_frames_the_first_is_taken_and_said(tmp_path, suffix):
    frames = [Image.new("RGB", (40, 40), color) for color in ((0, 0, 255), (255, 0, 0), (0, 255, 0))]
    frames[0].save(tmp_path / f"a.{suffix}", save_all=True, append_images=frames[1:], **({"lossless": True} if suffix == "webp" else {}))
    found, animated = read(tmp_path / f"a.{suffix}", 16, WHITE, 10**6)
    assert animated and np.abs(found.astype(int) - np.array([0, 0, 255])[:, None, None]).max() <= 1
    frames[0].save(tmp_path / f"one.{suffix}")
    assert not read(tmp_path / f"one.{suffix}", 16, WHITE, 10**6)[1]


def test_of_a_wide_picture_the_middle_is_kept(tmp_path):
    array = np.zeros((20, 60, 3), np.uint8)
    array[:, 20:40] = 200
    Image.fromarray(array).save(tmp_path / "wide.png")
    Image.fromarray(array.transpose(1, 0, 2)).save(tmp_path / "tall.png")
    for name in ("wide.png", "tall.png"):
        assert np.unique(pixels(tmp_path / name, 20)).tolist() == [200]


def test_stripes_of_one_pixel_average_out_when_made_smaller(tmp_path):
    """Antialiasing: a checkerboard of 0 and 255 at 64 pixels is grey at 8; a nearest pixel would be 0 or 255."""
    board = np.indices((64, 64)).sum(axis=0) % 2 * 255
    Image.fromarray(board.astype(np.uint8)).save(tmp_path / "board.png")
    assert np.abs(pixels(tmp_path / "board.png", 8) - 127.5).max() <= 3


def test_content_decides_and_not_the_suffix(tmp_path):
    photo().save(tmp_path / "a.png")
    (tmp_path / "a.txt").write_bytes((tmp_path / "a.png").read_bytes())
    assert (pixels(tmp_path / "a.txt") == pixels(tmp_path / "a.png")).all()


def test_what_is_no_picture_has_a_reason(tmp_path):
    generator = np.random.default_rng(0)
    noise = Image.fromarray(generator.integers(0, 256, (64, 64, 3), dtype=np.uint8))
    for suffix in ("png", "jpg", "gif", "bmp", "tif", "webp"):
        noise.save(tmp_path / f"whole.{suffix}")
        (tmp_path / f"cut.{suffix}").write_bytes((tmp_path / f"whole.{suffix}").read_bytes()[:1500])
        with pytest.raises(Unreadable, match="truncated or damaged"):
            pixels(tmp_path / f"cut.{suffix}")
    (tmp_path / "empty.png").touch()
    (tmp_path / "fake.jpg").write_text("no picture")
    (tmp_path / "page.eps").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\nshowpage\n")
    Image.fromarray(np.full((8, 8), 0.5, np.float32)).save(tmp_path / "float.tif")
    for name, reason in {"empty.png": "empty file", "fake.jpg": "not a picture of a known kind", "page.eps": "not a picture of a known kind",
                         "float.tif": "32 bits"}.items():
        with pytest.raises(Unreadable, match=reason):
            pixels(tmp_path / name)
    with pytest.raises(Unreadable, match="64 x 64 pixels, more than max_pixels \\(4095\\)"):
        read(tmp_path / "whole.png", 16, WHITE, 4095)


def test_a_decompression_bomb_is_refused_by_the_decoders_own_guard(tmp_path):
    """A PNG whose header claims 60000 x 60000 pixels, whatever max_pixels allows."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 60000, 60000, 8, 0, 0, 0, 0)
    (tmp_path / "bomb.png").write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(10**5))) + chunk(b"IEND", b""))
    assert Image.MAX_IMAGE_PIXELS == 89_478_485
    with pytest.raises(Unreadable, match="more than max_pixels"):
        read(tmp_path / "bomb.png", 16, WHITE, 10**12)
