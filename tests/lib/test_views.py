"""Each operation against torchvision's functional one, at the same numbers, to 1/255; and what a policy may not do."""
import pytest
import torch
from torchvision.transforms import functional as tv

from stages.lib import views
from stages.lib.draws import Draws

LEVEL = 1 / 255
SIDE = 16


@pytest.fixture
def images():
    """Four images with structure at several scales: float32 [4, 3, 16, 16]."""
    coarse = torch.rand(4, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    fine = torch.rand(4, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(1))
    return 0.6 * torch.nn.functional.interpolate(coarse, size=SIDE, mode="bilinear") + 0.4 * fine


def each(images, operation, numbers):
    return torch.stack([operation(image, number) for image, number in zip(images, numbers, strict=True)])


def close(ours, theirs):
    assert (ours - theirs).abs().max() <= LEVEL, float((ours - theirs).abs().max())


def still(batch):
    ones = torch.ones(batch)
    return {"box": (0 * ones, 0 * ones, SIDE * ones, SIDE * ones), "mirror": ones < 0, "zoom": ones, "shift": (0 * ones, 0 * ones)}


@pytest.mark.parametrize("ours, theirs, numbers", [
    (views.adjust_brightness, tv.adjust_brightness, [0.2, 0.9, 1.0, 1.8]),
    (views.adjust_contrast, tv.adjust_contrast, [0.2, 0.9, 1.0, 1.8]),
    (views.adjust_saturation, tv.adjust_saturation, [0.0, 0.9, 1.0, 1.8]),
    (views.adjust_hue, tv.adjust_hue, [-0.5, -0.1, 0.0, 0.37]),
])
def test_color_operations_equal_torchvision(images, ours, theirs, numbers):
    close(ours(images, torch.tensor(numbers)), each(images, theirs, numbers))


def test_hue_of_black_grey_and_white_pixels_equals_torchvision():
    flat = torch.tensor([0.0, 0.5, 1.0]).repeat(3, 1)[None, :, None, :].repeat(2, 1, 3, 1)
    close(views.adjust_hue(flat, torch.tensor([0.3, -0.2])), each(flat, tv.adjust_hue, [0.3, -0.2]))


def test_grayscale_equals_torchvision(images):
    close(views.grayscale(images), tv.rgb_to_grayscale(images, num_output_channels=3))


def test_blur_equals_torchvision(images):
    sigmas = [0.1, 0.5, 1.0, 2.0]
    close(views.gaussian_blur(images, torch.tensor(sigmas), radius=6), each(images, lambda x, s: tv.gaussian_blur(x, [13, 13], [s, s]), sigmas))


def test_crop_equals_torchvision_resized_crop(images):
    boxes = [(0, 0, 16, 16), (3, 5, 8, 8), (0, 4, 11, 6), (10, 2, 1, 14)]
    box = tuple(torch.tensor([float(b[i]) for b in boxes]) for i in range(4))
    close(views.resample(images, **{**still(4), "box": box}), each(images, lambda x, b: tv.resized_crop(x, *b, [SIDE, SIDE]), boxes))


def test_flip_equals_torchvision_exactly_where_it_is_drawn(images):
    mirror = torch.tensor([True, False, True, False])
    expected = torch.where(mirror[:, None, None, None], tv.hflip(images), images)
    torch.testing.assert_close(views.resample(images, **{**still(4), "mirror": mirror}), expected, atol=1e-6, rtol=0)


def test_zoom_and_shift_equal_torchvision_affine_with_repeated_edges(images):
    zooms, shifts = [0.8, 1.0, 1.2, 0.9], [(0.5, -0.8), (0.8, 0.3), (0.0, 0.0), (-2.0, 1.5)]
    ours = views.resample(images, **{**still(4), "zoom": torch.tensor(zooms), "shift": tuple(torch.tensor(shifts).T)})

    def theirs(image, numbers):
        zoom, shift = numbers
        padded = tv.pad(image, 8, padding_mode="edge")  # torchvision fills with black; we repeat the edge
        moved = tv.affine(padded, angle=0, translate=list(shift), scale=zoom, shear=[0.0], interpolation=tv.InterpolationMode.BILINEAR)
        return tv.center_crop(moved, [SIDE, SIDE])
    close(ours, each(images, theirs, list(zip(zooms, shifts, strict=True))))


def test_swap_exchanges_red_and_blue(images):
    swapped = views.view(images, Draws((0, 0, 0), torch.arange(4)), {"swap": 1.0})
    assert torch.equal(swapped, images[:, [2, 1, 0]])


def test_noise_has_the_given_standard_deviation():
    grey = torch.full((50, 3, SIDE, SIDE), 0.5)
    noisy = views.view(grey, Draws((0, 0, 0), torch.arange(50)), {"noise": 0.1})
    assert abs(float((noisy - 0.5).std()) - 0.1) < 0.002


@pytest.mark.parametrize("policy", [
    {"crop": {"scale": [1, 1], "ratio": [1, 1]}}, {"flip": 0}, {"zoom": [1, 1]}, {"shift": 0}, {"grayscale": 0}, {"swap": 0}, {"noise": 0},
    {"blur": {"probability": 0, "sigma": [0.1, 2]}}, {"jitter": {"probability": 0, "brightness": 1, "contrast": 1, "saturation": 1, "hue": 0.5}},
    {"jitter": {"probability": 1, "brightness": 0, "contrast": 0, "saturation": 0, "hue": 0}}, {},
])
def test_strength_0_is_the_identity(images, policy):
    out = views.view(images, Draws((1, 2, 0), torch.arange(4)), policy)
    torch.testing.assert_close(out, images, atol=1e-6, rtol=0)


FULL = {"crop": {"scale": [0.3, 1], "ratio": [0.75, 1.33]}, "flip": 0.5, "zoom": [0.8, 1.2], "shift": 0.8,
        "jitter": {"probability": 0.8, "brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1},
        "grayscale": 0.2, "swap": 0.5, "blur": {"probability": 0.5, "sigma": [0.1, 2.0]}, "noise": 0.1}


def test_views_of_an_image_do_not_depend_on_its_batch():
    pixels = (torch.rand(6, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(3)) * 255).to(torch.uint8)
    ids = torch.tensor([3, 9, 4, 100, 7, 8])
    whole = views.pair_of_views(pixels, ids, FULL, seed=1, epoch=5)
    part = views.pair_of_views(pixels[[4, 1]], ids[[4, 1]], FULL, seed=1, epoch=5)
    torch.testing.assert_close(part, whole[[4, 1, 10, 7]], atol=1e-6, rtol=0)


def test_two_views_of_an_image_differ_and_stay_in_the_unit_interval():
    pixels = (torch.rand(6, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(3)) * 255).to(torch.uint8)
    first, second = views.pair_of_views(pixels, torch.arange(6), FULL, seed=1, epoch=5).chunk(2)
    assert ((first - second).abs().amax(dim=(1, 2, 3)) > 0.05).all()
    assert first.min() >= 0 and first.max() <= 1


def test_each_image_has_its_own_draw():
    same = torch.full((64, 3, SIDE, SIDE), 0.25)
    same[:, :, 4:9, 2:7] = 0.75
    out = views.view(same, Draws((1, 1, 0), torch.arange(64)), {"flip": 0.5, "zoom": [0.8, 1.2], "swap": 0.5})
    assert len({row.numpy().tobytes() for row in out}) == 64


def test_crop_boxes_have_areas_and_ratios_in_range():
    top, left, height, width = views.crop_box(Draws((1, 1, 0), torch.arange(5000)), 100, 0.2, 0.8, 0.5, 2.0)
    assert (top >= 0).all() and (left >= 0).all() and (top + height <= 100).all() and (left + width <= 100).all()
    area = height * width / 100**2
    assert area.min() > 0.15 and area.max() < 0.82 and abs(float(area.mean()) - 0.5) < 0.03


def test_a_covered_corner_holds_the_given_pixels_and_nothing_else_changes(images):
    pixels = torch.rand(images.shape, generator=torch.Generator().manual_seed(2))
    covered = views.cover_corner(images, pixels, 0.25)
    assert (covered[:, :, :4, :4] == pixels[:, :, :4, :4]).all()
    covered[:, :, :4, :4] = images[:, :, :4, :4]
    assert (covered == images).all() and (views.cover_corner(images, pixels, 0) == images).all()


def test_a_corner_is_covered_in_the_given_share_of_views(images):
    batch = images[:1].expand(4000, -1, -1, -1)
    seen = views.view(batch, Draws((0,), torch.arange(4000)), {"corner": {"probability": 0.8, "side": 0.3}})
    assert abs((seen != batch).flatten(1).any(dim=1).float().mean() - 0.8) < 4 * 0.4 / 4000**0.5
