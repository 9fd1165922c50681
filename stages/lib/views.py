"""Views: a batch of images -> the same batch under a policy's random augmentations, each image with its own draws.

Every operation is a pure function of float images [B, 3, S, S] in [0, 1] and of one number per image; for the same
numbers it equals torchvision's functional operation of that name. A policy is a mapping from operation to strength;
an operation that it does not name is not applied. Order, fixed (torchvision shuffles the jitter's): corner, geometry in one
resampling (crop, flip, zoom, shift), blur, brightness, contrast, saturation, hue, grayscale, swap, noise.
"""
import math

import torch

from stages.lib.draws import Draws

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
    if policy.keys() & {"crop", "flip", "zoom", "shift"}:
        images = resample(images, *_geometry(draws, policy, images.shape[-1]))
    if "blur" in policy:
        low, high = policy["blur"]["sigma"]
        radius = min(math.ceil(3 * high), images.shape[-1] - 1)
        sigma = draws.between(low, high)
        images = some(images, draws.chance(policy["blur"]["probability"]), lambda rows, sigma: gaussian_blur(rows, sigma, radius), sigma)
    if "jitter" in policy:
        images = _jitter(images, draws, policy["jitter"])
    if "grayscale" in policy:
        images = some(images, draws.chance(policy["grayscale"]), grayscale)
    if "swap" in policy:
        images = some(images, draws.chance(policy["swap"]), lambda rows: rows.flip(1))
    if "noise" in policy:
        images = (images + policy["noise"] * draws.normal(*images.shape[1:])).clamp_(0, 1)
    return images


def some(images, chosen, operation, *numbers):
    """The images with `operation(rows, *numbers)` applied to the rows where `chosen` [B] is true; numbers [B] each."""
    rows = chosen.nonzero()[:, 0]
    if len(rows) == len(images):
        return operation(images, *numbers)
    return images.index_copy(0, rows, operation(images[rows], *(number[rows] for number in numbers))) if len(rows) else images


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
    """Crop, resize to the old side, mirror, zoom about the center and shift, in one bilinear sampling.

    Edges are repeated outward; a crop reads no pixel outside its box (as resized_crop of torchvision). Columns and rows
    are sampled independently, so the map is a matrix for each axis: on small images that is faster than grid_sample.
    """
    side = images.shape[-1]
    top, left, height, width = box
    steps = torch.arange(side, dtype=images.dtype, device=images.device) + 0.5 - side / 2  # pixel centers about the middle

    def weights(sign, offset, start, length):
        """[B, S, S]: how much of each input column (or row) an output column gets, by its distance to where that one reads."""
        x = sign[:, None] * (steps - offset[:, None]) / zoom[:, None] + side / 2
        x = x * (length / side)[:, None] - 0.5
        x = start[:, None] + x.clamp_(min=0).minimum(length[:, None] - 1)
        return (1 - (x[:, :, None] - (steps - steps[0])).abs()).clamp_(min=0)

    ones = torch.ones_like(zoom)
    return by_axes(images, weights(ones, shift[1], top, height), weights(torch.where(mirror, -ones, ones), shift[0], left, width))


def by_axes(images, rows, columns):
    """rows @ image @ columns^T for each channel: images [B, C, S, S], rows and columns [B, S, S]."""
    batch, channels, side, _ = images.shape
    images = torch.bmm(images.reshape(batch, channels * side, side), columns.transpose(1, 2))
    images = images.view(batch, channels, side, side).transpose(2, 3).reshape(batch, channels * side, side)
    return torch.bmm(images, rows.transpose(1, 2)).view(batch, channels, side, side).transpose(2, 3).contiguous()


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
    def factor(name):
        return draws.between(max(0.0, 1 - strength[name]), 1 + strength[name])

    steps = [(adjust, factor(name)) for adjust, name in ((adjust_brightness, "brightness"), (adjust_contrast, "contrast"),
                                                        (adjust_saturation, "saturation")) if name in strength]
    if "hue" in strength:
        steps.append((adjust_hue, draws.between(-strength["hue"], strength["hue"])))

    def jitter(rows, *numbers):
        for (adjust, _), number in zip(steps, numbers, strict=True):
            rows = adjust(rows, number)
        return rows
    return some(images, draws.chance(strength["probability"]), jitter, *(number for _, number in steps))


def _blend(images, others, factor):
    """factor * images + (1 - factor) * others, clamped to [0, 1]; factor [B]."""
    return torch.lerp(others, images, factor[:, None, None, None]).clamp_(0, 1)


def grayscale(images):
    """Luma in all three channels, [B, 3, S, S]."""
    luma = torch.einsum("bcij,c->bij", images, images.new_tensor(LUMA))
    return luma[:, None].expand_as(images)


def adjust_brightness(images, factor):
    return (images * factor[:, None, None, None]).clamp_(0, 1)


def adjust_contrast(images, factor):
    return _blend(images, grayscale(images).mean(dim=(1, 2, 3), keepdim=True), factor)


def adjust_saturation(images, factor):
    return _blend(images, grayscale(images), factor)


def adjust_hue(images, turn):
    """Rotate the hue by `turn` [B], in full turns, value and saturation of HSV kept."""
    value, _ = images.max(dim=1)
    chroma = value - images.min(dim=1).values
    safe = torch.where(chroma == 0, torch.ones_like(chroma), chroma)  # a grey pixel has no hue: any number does
    red, green, blue = images.unbind(1)
    sixths = torch.where(value == red, (green - blue) / safe,
                         torch.where(value == green, 2 + (blue - red) / safe, 4 + (red - green) / safe))
    hue = sixths + 6 * turn[:, None, None]

    def channel(shift):
        """f(n) = V - C max(0, min(k, 4 - k, 1)), k = (n + 6H) mod 6."""
        k = (shift + hue) % 6
        return value - chroma * torch.minimum(k, 4 - k).clamp(0, 1)

    return torch.stack([channel(5), channel(3), channel(1)], dim=1)


def gaussian_blur(images, sigma, radius):
    """Gaussian blur with a standard deviation per image, in pixels [B]; kernel of 2 * radius + 1 pixels, edges reflected."""
    side = images.shape[-1]
    offsets = torch.arange(-radius, radius + 1, dtype=images.dtype, device=images.device)
    kernel = torch.exp(-0.5 * (offsets / sigma[:, None]) ** 2)
    kernel = kernel / kernel.sum(dim=1, keepdim=True)
    reads = torch.arange(side, device=images.device)[:, None] + torch.arange(-radius, radius + 1, device=images.device)
    reads = (side - 1 - (side - 1 - reads.abs()).abs()).expand(len(images), -1, -1)  # reflected without repeating the edge
    weights = images.new_zeros(len(images), side, side).scatter_add_(2, reads, kernel[:, None, :].expand(-1, side, -1))
    return by_axes(images, weights, weights)
