"""Batched image arithmetic for random views: every image of a batch under parameters of its own, nothing random here.

Images are float32 in 0..1 [n, C, H, W], parameters are tensors [n]. Shapes never depend on values, so all of it can
be compiled and captured. Sums are written out instead of using matrix products and convolutions, because autocast
would round coordinates and pixels to bfloat16 there.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

LUMA = (0.299, 0.587, 0.114)
"""The weights of red, green and blue in grey (ITU-R BT.601)."""


def crop_matrices(top: Tensor, left: Tensor, height: Tensor, width: Tensor) -> Tensor:
    """Matrices [..., 2, 3] for ``warp`` that enlarge a box to the whole view; the box in fractions of the frame."""
    zero = torch.zeros_like(top)
    return _matrices(width, zero, 2 * left + width - 1, zero, height, 2 * top + height - 1)


def affine_matrices(angle: Tensor, scale: Tensor, shear: Tensor, shift_x: Tensor, shift_y: Tensor) -> Tensor:
    """Matrices [..., 2, 3] for ``warp`` that shear a square frame along x, rotate it counter-clockwise, enlarge it by
    ``scale``, all about its centre, and then move it right and down; degrees, and fractions of the frame.

    The restricted rotation of section 3.1.1 is the angle alone.
    """
    cos, sin, lean = torch.cos(torch.deg2rad(angle)), torch.sin(torch.deg2rad(angle)), torch.tan(torch.deg2rad(shear))
    xx, xy, yx, yy = (cos - lean * sin) / scale, -(sin + lean * cos) / scale, sin / scale, cos / scale
    x, y = 2 * shift_x, 2 * shift_y
    return _matrices(xx, xy, -(xx * x + xy * y), yx, yy, -(yx * x + yy * y))


def mirror(matrices: Tensor, mask: Tensor) -> Tensor:
    """The matrices [..., 2, 3], with left and right of the view exchanged where ``mask`` [...]."""
    x, rest = matrices[..., :1], matrices[..., 1:]
    return torch.cat([torch.where(mask[..., None, None], -x, x), rest], -1)


def compose(first: Tensor, then: Tensor) -> Tensor:
    """Matrices [..., 2, 3] of the view ``then`` of the view ``first``, resampled once."""
    # Matrices lead from the view back to the image, so what was done last to the image comes first here.
    product = (first[..., :2, None] * then[..., None, :, :]).sum(-2)
    return torch.cat([product[..., :2], product[..., 2:] + first[..., 2:]], -1)


def _matrices(*entries: Tensor) -> Tensor:
    return torch.stack(entries, -1).unflatten(-1, (2, 3))


def warp(images: Tensor, matrices: Tensor, size: int, fill: float, padded: Tensor | None = None) -> Tensor:
    """Views [V, n, C, size, size] of images [n, C, H, W] (uint8, or float in 0..1) under matrices [V, n, 2, 3].

    A matrix leads from a point (x, y) of the view to one of the image; the frame reaches from -1 to 1 in both. One
    bilinear resampling does crop, mirror, rotation, shear, scale and shift together. Outside its frame the image goes
    over from its edge to the level ``fill`` within one pixel; inside, edges are not darkened by what lies beyond. There
    is no low-pass filter: views that shrink the image more than twice may alias.

    Where ``padded`` [V, n], the image goes over to ``fill`` within half a pixel, where the first pixel of a padding has
    its centre: a view moved by whole pixels is then a crop of the padded image.
    """
    if images.dtype == torch.uint8:
        images = images.float() / 255
    views, n = matrices.shape[:2]
    height, width = images.shape[-2:]
    place = (2 * torch.arange(size, device=images.device, dtype=images.dtype) + 1) / size - 1
    entries = matrices.transpose(0, 1)[..., None, None]  # [n, V, 2, 3, 1, 1]: the views of an image lie side by side
    x, y = (entries[:, :, :, 0] * place + entries[:, :, :, 1] * place[:, None] + entries[:, :, :, 2]).unbind(2)
    grid = torch.stack([x, y], -1).view(n, views * size, size, 2)
    seen = F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)
    seen = seen.unflatten(2, (views, size)).permute(2, 0, 1, 3, 4).contiguous()
    steepness = 1 if padded is None else torch.where(padded, 2.0, 1.0).T[:, :, None, None]
    inside = _within(x, width, steepness) * _within(y, height, steepness)
    return torch.lerp(seen.new_full((), fill), seen, inside.transpose(0, 1)[:, :, None]).clamp(0, 1)


def _within(place: Tensor, pixels: int, steepness: Tensor | int) -> Tensor:
    """1 up to the edge of a frame of that many pixels, 0 from 1 / ``steepness`` pixels beyond it, linear in between."""
    return ((1 - place.abs()) * (pixels / 2 * steepness) + 1).clamp(0, 1)


def adjust_colours(
    images: Tensor, brightness: Tensor, contrast: Tensor, saturation: Tensor, hue: Tensor | None
) -> Tensor:
    """Images [n, C, H, W] in other colours: brightness, contrast and saturation are factors [n], hue is in turns [n].

    The meaning of each is that of torchvision's ColorJitter: contrast blends with the mean grey of the image,
    saturation with the grey of the pixel, hue turns in HSV. They come in this order, whereas ColorJitter shuffles them.
    Images of one channel have neither saturation nor hue. Without ``hue``, which costs most, hues stay as they are.
    """
    images = (images * _each(brightness)).clamp(0, 1)
    images = torch.lerp(_grey(images).mean((1, 2, 3), keepdim=True), images, _each(contrast)).clamp(0, 1)
    if images.shape[1] == 1:
        return images
    images = torch.lerp(_grey(images), images, _each(saturation)).clamp(0, 1)
    return images if hue is None else _turn_hue(images, hue)


def _turn_hue(images: Tensor, turns: Tensor) -> Tensor:
    red, green, blue = images.unbind(1)
    high = torch.maximum(torch.maximum(red, green), blue)
    low = torch.minimum(torch.minimum(red, green), blue)
    chroma = high - low
    scale = 1 / chroma.clamp_min(1e-12)  # grey pixels have no hue; whichever they get here is multiplied by chroma 0
    hue = torch.where(high == green, (blue - red) * scale + 2, (red - green) * scale + 4)
    hue = torch.where(high == red, (green - blue) * scale, hue) / 6 + turns[:, None, None]
    hue = 6 * (hue - hue.floor())
    level = torch.stack([(hue - 3).abs() - 1, 2 - (hue - 2).abs(), 2 - (hue - 4).abs()], 1).clamp(0, 1)
    return torch.addcmul(low[:, None], chroma[:, None], level)


def to_grey(images: Tensor, mask: Tensor) -> Tensor:
    """The images [n, C, H, W], without colour where ``mask`` [n]."""
    return torch.where(_each(mask), _grey(images), images)


def solarise(images: Tensor, mask: Tensor, threshold: Tensor | float = 0.5) -> Tensor:
    """The images [n, C, H, W], with levels from ``threshold`` (one, or [n]) up inverted where ``mask`` [n]."""
    limit = torch.where(mask, threshold, torch.inf)  # in place of a mask [n, C, H, W]: saves a pass over the images
    return torch.where(images >= _each(limit), 1 - images, images)


def equalise(images: Tensor, mask: Tensor) -> Tensor:
    """The images [n, C, H, W], with each channel's histogram made level where ``mask`` [n].

    The meaning is that of Pillow's ImageOps.equalize on levels rounded to 0..255: a level becomes the number of pixels
    below it, divided by the step that spreads these numbers over 0..255. A channel with less than 255 pixels below its
    highest level stays as it is, but for rounding.
    """
    levels = (images * 255 + 0.5).long().flatten(2)
    counts = levels.new_zeros(*levels.shape[:2], 256).scatter_add_(2, levels, levels.new_ones(()).expand_as(levels))
    below = counts.cumsum(2) - counts
    step = torch.where(counts > 0, below, 0).amax(2, keepdim=True) // 255
    table = ((step // 2 + below) // step.clamp_min(1)).clamp_max(255)
    new = torch.where(step > 0, table.gather(2, levels), levels)
    return torch.where(_each(mask), (new / 255).view(images.shape), images)


def blur(images: Tensor, sigma: Tensor, mask: Tensor, kernel: int = 7) -> Tensor:
    """The images [n, C, H, W], blurred where ``mask`` [n] by a gaussian of ``sigma`` [n] pixels, cut off to ``kernel``
    (odd) pixels; images are continued by reflection."""
    reach = kernel // 2
    offset = torch.arange(-reach, reach + 1, device=images.device)
    weights = torch.exp(-0.5 * (offset / sigma[:, None]) ** 2)
    weights = torch.where(mask[:, None], weights / weights.sum(1, keepdim=True), (offset == 0).to(weights.dtype))
    padded = F.pad(images, [reach] * 4, mode="reflect")
    return _slide(_slide(padded, weights, 2), weights, 3).clamp(max=1)  # weights add up to 1 only nearly


def _slide(images: Tensor, weights: Tensor, dim: int) -> Tensor:
    """The sum, weighted by ``weights`` [n, K], of ``images`` moved by 0 to K - 1 pixels along ``dim``."""
    taps = weights.shape[1]
    length = images.shape[dim] - taps + 1
    total = images.narrow(dim, 0, length) * _each(weights[:, 0])
    for i in range(1, taps):
        total.addcmul_(images.narrow(dim, i, length), _each(weights[:, i]))
    return total


def _grey(images: Tensor) -> Tensor:
    """The grey levels [n, 1, H, W] of images of three channels; those of one channel as they are."""
    if images.shape[1] == 1:
        return images
    red, green, blue = images.split(1, 1)
    return LUMA[0] * red + LUMA[1] * green + LUMA[2] * blue


def _each(values: Tensor) -> Tensor:
    """Values [n] of images, in a shape that meets [n, C, H, W]."""
    return values[:, None, None, None]
