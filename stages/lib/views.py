"""Views: a batch of images -> the same batch under a policy's random augmentations, each image with its own draws.

Every operation is a pure function of float images [B, 3, S, S] in [0, 1] and of one number per image; for the same
numbers it equals torchvision's functional operation of that name. A policy is a mapping from operation to strength;
an operation that it does not name is not applied. Order, fixed (torchvision shuffles the jitter's): corner, geometry in one
resampling (crop, flip, zoom, shift), blur, brightness, contrast, saturation, hue, grayscale, swap, noise.
"""
import math
from functools import cache

import torch

from stages.lib.draws import Draws

NARROW = 1e-3  # a standard deviation, in pixels, of a blur that leaves an image bit by bit as it is
TINY = 1e-12  # a grey pixel has no hue; divided by this, its 0 stays 0
LUMA = (0.2989, 0.587, 0.114)  # ITU-R 601-2, as torchvision's rgb_to_grayscale


def pair_of_views(images, ids, policy, seed, epoch):
    """Two independent views of each image, concatenated: row i pairs with row i + B.

    images: uint8 [B, 3, S, S]; ids: int64 [B]; returns float32 [2B, 3, S, S] in [0, 1].
    """
    images = images.float() / 255
    return view(torch.cat([images, images]), Draws.joined([(seed, epoch, number) for number in (0, 1)], ids), policy)


def view(images, draws, policy):
    """One view of float images [B, 3, S, S] under `policy`, with random numbers from `draws`."""
    if "corner" in policy:
        covered = cover_corner(images, draws.uniform(*images.shape[1:]), policy["corner"]["side"])
        images = torch.where(draws.chance(policy["corner"]["probability"])[:, None, None, None], covered, images)
    side, maps = images.shape[-1], None  # what is linear in the pixels of a row or column becomes one matrix for each axis
    if policy.keys() & {"crop", "flip", "zoom", "shift"}:
        maps = resampling(*_geometry(draws, policy, side), side)
    if "blur" in policy:
        low, high = policy["blur"]["sigma"]
        sigma, chosen = draws.between(low, high), draws.chance(policy["blur"]["probability"])
        blur = blurring(sigma.masked_fill(~chosen, NARROW), min(math.ceil(3 * high), side - 1), side)
        maps = (blur, blur) if maps is None else blur @ maps
    if maps is not None:
        images = by_axes(images, *maps)
    if "jitter" in policy:
        images = _jitter(images, draws, policy["jitter"])
    if "grayscale" in policy:
        images = some(images, draws.chance(policy["grayscale"]), grayscale)
    if "swap" in policy:
        images = some(images, draws.chance(policy["swap"]), lambda rows: rows.flip(1))
    if "noise" in policy:
        images = (images + policy["noise"] * draws.normal(*images.shape[1:])).clamp_(0, 1)
    return images

def some(images, chosen, operation):
    """The images with `operation` applied to the rows where `chosen` [B] is true."""
    rows = chosen.nonzero()[:, 0]
    return images.index_copy(0, rows, operation(images[rows])) if len(rows) else images


def _geometry(draws, policy, side):
    """A draw of crop box (top, left, height, width: whole pixels), mirror (bool), zoom (factor) and shift (pixels x, y), each [B]."""
    zeros = torch.zeros_like(draws.uniform())
    box = crop_box(draws, side, *policy["crop"]["scale"], *policy["crop"]["ratio"]) if "crop" in policy else (zeros, zeros, zeros + side, zeros + side)
    mirror = draws.chance(policy["flip"]) if "flip" in policy else zeros.bool()
    zoom = draws.between(*policy["zoom"]) if "zoom" in policy else zeros + 1
    reach = policy.get("shift", 0)
    shift = (draws.between(-reach, reach), draws.between(-reach, reach)) if "shift" in policy else (zeros, zeros)
    return box, mirror, zoom, shift


def crop_box(draws, side, scale_low, scale_high, ratio_low, ratio_high):
    """Boxes of torchvision's RandomResizedCrop: area a fraction of the image's, aspect ratio log-uniform, whole pixels.

    Differs: a box longer than the image is cut to it, where torchvision draws again (up to ten times).
    """
    area = draws.between(scale_low, scale_high) * side**2
    ratio = draws.between(math.log(ratio_low), math.log(ratio_high)).exp()
    width = (area * ratio).sqrt().round().clamp(1, side)
    height = (area / ratio).sqrt().round().clamp(1, side)
    top = (draws.uniform() * (side - height + 1)).floor()
    left = (draws.uniform() * (side - width + 1)).floor()
    return top, left, height, width


def resample(images, box, mirror, zoom, shift):
    """Crop, resize to the old side, mirror, zoom about the center and shift, in one bilinear sampling."""
    return by_axes(images, *resampling(box, mirror, zoom, shift, images.shape[-1]))


def resampling(box, mirror, zoom, shift, side):
    """[2, B, S, S]: how much of each input row an output row gets, by its distance to where that one reads; then the same of columns.

    Edges are repeated outward; a crop reads no pixel outside its box (as resized_crop of torchvision). Rows and columns
    are sampled independently, so the map is a matrix for each axis: on small images that is faster than grid_sample.
    """
    top, left, height, width = box
    start, length, offset, zoom = (torch.stack(pair)[:, :, None] for pair in
                                   ((top, left), (height, width), shift[::-1], (zoom, torch.where(mirror, -zoom, zoom))))
    pixels = torch.arange(side, dtype=zoom.dtype, device=zoom.device)
    x = (pixels - (side - 1) / 2 - offset) / zoom + side / 2  # in the resized crop, from its edge
    x = start + (x * (length / side) - 0.5).clamp_(min=0).minimum(length - 1)
    return (1 - (x[..., None] - pixels).abs_()).clamp_(min=0)


def by_axes(images, rows, columns):
    """rows @ image @ columns^T for each channel: images [B, C, S, S], rows and columns [B, S, S]."""
    return rows[:, None] @ (images.flatten(1, 2) @ columns.mT).view(images.shape)


def cover_corner(images, pixels, side):
    """`images` with `pixels` in the top left corner, a square of `side` times the image's side, rounded to whole pixels.

    Random erasing (Zhong et al. 2020) at a known place: what a corner shows then no longer tells which image it is.
    """
    end = round(side * images.shape[-1])
    covered = images.clone()
    covered[:, :, :end, :end] = pixels[:, :, :end, :end]
    return covered


def _jitter(images, draws, strength):
    """Brightness, contrast, saturation and hue jitter of SimCLR (appendix A), applied to an image with `probability`."""
    steps = []
    for name, (adjust, neutral) in ADJUSTMENTS.items():
        if name in strength:
            low, high = (-strength[name], strength[name]) if name == "hue" else (max(0.0, 1 - strength[name]), 1 + strength[name])
            steps.append((adjust, draws.between(low, high), neutral))
    spared = ~draws.chance(strength["probability"])
    for adjust, number, neutral in steps:
        images = adjust(images, number.masked_fill(spared, neutral))
    return images


def luma(images):
    """[B, 1, S, S]"""
    red, green, blue = images.split(1, dim=1)
    return (red * LUMA[0]).add_(green, alpha=LUMA[1]).add_(blue, alpha=LUMA[2])


def grayscale(images):
    """Luma in all three channels, [B, 3, S, S]."""
    return luma(images).expand_as(images)


def _blend(images, others, factor):
    """factor * images + (1 - factor) * others, clamped to [0, 1]; factor [B]."""
    factor = factor[:, None, None, None]
    return (images * factor).add_(others * (1 - factor)).clamp_(0, 1)


def adjust_brightness(images, factor):
    return (images * factor[:, None, None, None]).clamp_(0, 1)


def adjust_contrast(images, factor):
    return _blend(images, luma(images.mean(dim=(2, 3), keepdim=True)), factor)


def adjust_saturation(images, factor):
    return _blend(images, luma(images), factor)


def adjust_hue(images, turn):
    """Rotate the hue by `turn` [B], in full turns, value and saturation of HSV kept."""
    value, low = images.amax(dim=1), images.amin(dim=1)
    red, green, blue = images.unbind(1)
    chroma = value - low
    # hue times chroma, in sixths of a turn; the lerps choose, since a sign is 0 or 1 here (`where` takes ten times as long)
    hue = torch.lerp(torch.add(blue - red, chroma, alpha=2), torch.add(red - green, chroma, alpha=4), (value - green).sign_())
    hue = torch.lerp(green - blue, hue, (value - red).sign_())
    hue = hue / chroma.clamp(min=TINY) + 6 * turn[:, None, None]
    place = hue[:, None] + images.new_tensor([5.0, 3.0, 1.0])[:, None, None]
    place = place.sub_((place / 6).floor_(), alpha=6)  # modulo 6
    return torch.addcmul(low[:, None], chroma[:, None], place.sub_(2).abs_().sub_(1).clamp_(0, 1))


ADJUSTMENTS = {"brightness": (adjust_brightness, 1), "contrast": (adjust_contrast, 1), "saturation": (adjust_saturation, 1), "hue": (adjust_hue, 0)}


def gaussian_blur(images, sigma, radius):
    """Gaussian blur with a standard deviation per image, in pixels [B]; kernel of 2 * radius + 1 pixels, edges reflected."""
    blur = blurring(sigma, radius, images.shape[-1])
    return by_axes(images, blur, blur)


def blurring(sigma, radius, side):
    """[B, S, S]: how much of each input pixel of a row an output pixel gets under the blur of `gaussian_blur`."""
    offsets = torch.arange(-radius, radius + 1, dtype=sigma.dtype, device=sigma.device)
    kernel = torch.exp(-0.5 * (offsets / sigma[:, None]) ** 2)
    kernel = kernel / kernel.sum(dim=1, keepdim=True)
    return (kernel @ _reads(side, radius, sigma.device)).view(-1, side, side)


@cache
def _reads(side, radius, device):
    """float32 [2 * radius + 1, S * S]: 1 where output pixel i reads input pixel j at that offset, edges reflected without repeating them."""
    reads = torch.arange(-radius, radius + 1)[:, None] + torch.arange(side)
    reads = side - 1 - (side - 1 - reads.abs()).abs()
    return torch.nn.functional.one_hot(reads, side).flatten(1).float().to(device)
