"""Changes of pixels: the identity at strength 0, and known results at full strength."""
import numpy as np
import pytest

from stages.lib.pixels import CHANGES, alter

IMAGES = np.random.default_rng(2).integers(0, 256, (4, 3, 16, 16), dtype=np.uint8)
IDS = np.array([3, 8, 1, 90])


@pytest.mark.parametrize("name", CHANGES)
def test_strength_0_is_the_identity(name):
    assert (alter(IMAGES, {name: 0}, IDS) == IMAGES).all()


@pytest.mark.parametrize("name", CHANGES)
def test_a_tiny_strength_changes_no_pixel_by_more_than_a_level_and_full_strength_does(name):
    if name != "rotate":
        assert np.abs(alter(IMAGES, {name: 1e-3}, IDS).astype(int) - IMAGES).max() <= 1
    assert (alter(IMAGES, {name: 1}, IDS) != IMAGES).any()


def test_swap_and_flip_undo_themselves_and_four_quarter_turns_make_a_whole():
    for name, times in (("swap", 2), ("flip", 2), ("rotate", 4)):
        images = IMAGES
        for _ in range(times):
            images = alter(images, {name: 1}, IDS)
        assert (images == IMAGES).all()
    assert (alter(IMAGES, {"swap": 1}, IDS) == IMAGES[:, ::-1]).all()
    assert (alter(IMAGES, {"rotate": 2}, IDS) == IMAGES[:, :, ::-1, ::-1]).all()


def test_gray_has_three_equal_channels_and_keeps_a_gray_image():
    gray = alter(IMAGES, {"grayscale": 1}, IDS)
    assert (gray[:, 0] == gray[:, 1]).all() and (gray[:, 0] == gray[:, 2]).all()
    assert np.abs(alter(gray, {"grayscale": 1}, IDS).astype(int) - gray).max() <= 1


def test_watermark_paints_a_white_block_of_3_by_3_and_nothing_else():
    marked = alter(IMAGES, {"watermark": 1}, IDS)
    block = np.zeros((16, 16), bool)
    block[1:4, 1:4] = True
    assert (marked[:, :, block] == 255).all() and (marked[:, :, ~block] == IMAGES[:, :, ~block]).all()


def test_gamma_1_squares_an_intensity_and_minus_1_takes_its_root():
    half = np.full((1, 3, 8, 8), 64, np.uint8)  # 64 / 255 = 0.25098
    assert alter(half, {"gamma": 1}, IDS[:1])[0, 0, 0, 0] == round(255 * 0.25098**2) == 16
    assert alter(half, {"gamma": -1}, IDS[:1])[0, 0, 0, 0] == round(255 * 0.25098**0.5) == 128


def test_blur_keeps_a_flat_image_and_noise_has_the_asked_deviation():
    flat = np.full((50, 3, 16, 16), 128, np.uint8)
    assert (alter(flat, {"blur": 2}, np.arange(50)) == 128).all()
    assert alter(flat, {"noise": 0.1}, np.arange(50)).std() / 255 == pytest.approx(0.1, rel=0.02)


def test_noise_depends_on_the_image_alone_not_on_its_batch():
    assert (alter(IMAGES, {"noise": 0.2}, IDS)[2:] == alter(IMAGES[2:], {"noise": 0.2}, IDS[2:])).all()
