"""All views of a batch by one GPU kernel: what augment.py does in dozens, without going through memory in between.

A program makes one view of one image. It holds the whole view in registers, since contrast needs its mean: it is
for small views. Needs Triton, which comes with torch where torch has CUDA; multiview.py imports this file only there.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from newfound.views import augment

RED, GREEN, BLUE = (tl.constexpr(weight) for weight in augment.LUMA)
RADIANS = tl.constexpr(math.pi / 180)
PLACE = ("top", "left", "height", "width", "mirror", "angle", "scale", "shear", "shift_x", "shift_y")
COLOURS = ("brightness", "contrast", "saturation", "hue", "grey", "solarise")
OPTIONAL = ("padded", "threshold", "equalise")


def make_views(
    images: Tensor,
    p: dict[str, Tensor],
    size: int,
    fill: float,
    *,
    colours: bool,
    hue: bool,
    grey: bool,
    solarise: bool = False,
    equalise: bool = False,
) -> Tensor:
    """Views [V, n, C, size, size] of uint8 images [n, C, H, W], C of 1 or 3, under parameters [V, n] of MultiViews.

    They are warped and, with ``colours``, change brightness, contrast and saturation and then what else is asked for,
    in this order. In memory the channels of a pixel lie side by side: flattened to [V * n, C, size, size], views are
    in torch's channels_last, as networks want them.
    """
    n, channels, height, width = images.shape
    views = len(p["angle"])
    made = torch.empty(views, n, size, size, channels, device=images.device)
    block = triton.next_power_of_2(size * size)
    with torch.cuda.device_of(images):
        _make_view[(views * n,)](
            images.contiguous(),
            made,
            n,
            fill,
            **{name: p[name].contiguous() for name in PLACE + COLOURS},
            **{name: p[name].contiguous() if name in p else None for name in OPTIONAL},
            CHANNELS=channels,
            IMAGE_HEIGHT=height,
            IMAGE_WIDTH=width,
            SIZE=size,
            BLOCK=block,
            RECOLOUR=colours,
            HUE=hue,
            GREY=grey,
            SOLARISE=solarise,
            EQUALISE=equalise,
            num_warps=min(max(block // 128, 1), 16),
        )
    return made.permute(0, 1, 4, 2, 3)


@triton.jit
def _make_view(
    images: tl.tensor,
    made: tl.tensor,
    n: tl.tensor,
    fill: tl.tensor,
    top: tl.tensor,
    left: tl.tensor,
    height: tl.tensor,
    width: tl.tensor,
    mirror: tl.tensor,
    angle: tl.tensor,
    scale: tl.tensor,
    shear: tl.tensor,
    shift_x: tl.tensor,
    shift_y: tl.tensor,
    brightness: tl.tensor,
    contrast: tl.tensor,
    saturation: tl.tensor,
    hue: tl.tensor,
    grey: tl.tensor,
    solarise: tl.tensor,
    padded: tl.tensor | None,
    threshold: tl.tensor | None,
    equalise: tl.tensor | None,
    CHANNELS: tl.constexpr,
    IMAGE_HEIGHT: tl.constexpr,
    IMAGE_WIDTH: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
    RECOLOUR: tl.constexpr,
    HUE: tl.constexpr,
    GREY: tl.constexpr,
    SOLARISE: tl.constexpr,
    EQUALISE: tl.constexpr,
) -> None:
    """Write view ``one`` of V * n: parameters are pointers to [V, n], ``images`` to [n, C, H, W]."""
    one = tl.program_id(0)
    pixel = tl.arange(0, BLOCK)
    real = pixel < SIZE * SIZE

    # Backwards from the view to the image, as the matrices of augment.py: first the affine map, then the crop.
    x = (2 * (pixel % SIZE) + 1).to(tl.float32) / SIZE - 1 - 2 * tl.load(shift_x + one)
    y = (2 * (pixel // SIZE) + 1).to(tl.float32) / SIZE - 1 - 2 * tl.load(shift_y + one)
    turn, slant, zoom = tl.load(angle + one) * RADIANS, tl.load(shear + one) * RADIANS, tl.load(scale + one)
    cos, sin, lean = tl.cos(turn), tl.sin(turn), tl.sin(slant) / tl.cos(slant)
    across = ((cos - lean * sin) * x - (sin + lean * cos) * y) / zoom
    down = (sin * x + cos * y) / zoom
    box_height, box_width = tl.load(height + one), tl.load(width + one)
    across = tl.where(tl.load(mirror + one) != 0, -across, across)
    across = box_width * across + (2 * tl.load(left + one) + box_width - 1)
    down = box_height * down + (2 * tl.load(top + one) + box_height - 1)

    steepness = 1.0
    if padded is not None:
        steepness = tl.where(tl.load(padded + one) != 0, 2.0, 1.0)

    # One channel is treated as three equal ones: the compiler sees that it computes the same and does it once.
    plane = images + (one % n).to(tl.int64) * (CHANNELS * IMAGE_HEIGHT * IMAGE_WIDTH)
    red = _sample(plane, across, down, fill, steepness, IMAGE_HEIGHT, IMAGE_WIDTH)
    green, blue = red, red
    if CHANNELS == 3:
        plane += IMAGE_HEIGHT * IMAGE_WIDTH
        green = _sample(plane, across, down, fill, steepness, IMAGE_HEIGHT, IMAGE_WIDTH)
        plane += IMAGE_HEIGHT * IMAGE_WIDTH
        blue = _sample(plane, across, down, fill, steepness, IMAGE_HEIGHT, IMAGE_WIDTH)

    if RECOLOUR:
        factor = tl.load(brightness + one)
        red, green, blue = _unit(red * factor), _unit(green * factor), _unit(blue * factor)
        factor = tl.load(contrast + one)
        mean = tl.sum(tl.where(real, _grey(red, green, blue, CHANNELS), 0.0), 0) / (SIZE * SIZE)
        red, green, blue = _blend3(mean, red, green, blue, factor)
        if CHANNELS == 3:
            red, green, blue = _blend3(_grey(red, green, blue, CHANNELS), red, green, blue, tl.load(saturation + one))
            if HUE:
                red, green, blue = _turn_hue(red, green, blue, tl.load(hue + one))
            if GREY:
                colourless = tl.load(grey + one) != 0
                level = _grey(red, green, blue, CHANNELS)
                red, green, blue = (
                    tl.where(colourless, level, red),
                    tl.where(colourless, level, green),
                    tl.where(colourless, level, blue),
                )
        if SOLARISE:
            limit = 0.5
            if threshold is not None:
                limit = tl.load(threshold + one)
            limit = tl.where(tl.load(solarise + one) != 0, limit, float("inf"))
            red = tl.where(red >= limit, 1 - red, red)
            green = tl.where(green >= limit, 1 - green, green)
            blue = tl.where(blue >= limit, 1 - blue, blue)
        if EQUALISE:
            chosen = tl.load(equalise + one) != 0
            if chosen:  # few views are; the others do not wait for the sums
                red = _equalise(red, real)
                if CHANNELS == 3:
                    green = _equalise(green, real)
                    blue = _equalise(blue, real)

    place = made + one.to(tl.int64) * (SIZE * SIZE * CHANNELS) + pixel * CHANNELS
    tl.store(place, red, mask=real)
    if CHANNELS == 3:
        tl.store(place + 1, green, mask=real)
        tl.store(place + 2, blue, mask=real)


@triton.jit
def _sample(
    plane: tl.tensor,
    across: tl.tensor,
    down: tl.tensor,
    fill: tl.tensor,
    steepness: tl.tensor,
    IMAGE_HEIGHT: tl.constexpr,
    IMAGE_WIDTH: tl.constexpr,
) -> tl.tensor:
    """Levels 0..1 of a channel at places of the frame from -1 to 1, as augment.warp defines them."""
    x = tl.minimum(tl.maximum(((across + 1) * IMAGE_WIDTH - 1) / 2, 0.0), IMAGE_WIDTH - 1.0)
    y = tl.minimum(tl.maximum(((down + 1) * IMAGE_HEIGHT - 1) / 2, 0.0), IMAGE_HEIGHT - 1.0)
    left, top = tl.floor(x).to(tl.int32), tl.floor(y).to(tl.int32)
    # At the right and lower edges the neighbour beyond has no weight; it only must not be read.
    right, bottom = tl.minimum(left + 1, IMAGE_WIDTH - 1), tl.minimum(top + 1, IMAGE_HEIGHT - 1)
    x, y = x - left.to(tl.float32), y - top.to(tl.float32)
    upper, lower = plane + top * IMAGE_WIDTH, plane + bottom * IMAGE_WIDTH
    above = _blend(tl.load(upper + left).to(tl.float32), tl.load(upper + right).to(tl.float32), x)
    below = _blend(tl.load(lower + left).to(tl.float32), tl.load(lower + right).to(tl.float32), x)
    inside = _unit((1 - tl.abs(across)) * (IMAGE_WIDTH / 2 * steepness) + 1)
    inside *= _unit((1 - tl.abs(down)) * (IMAGE_HEIGHT / 2 * steepness) + 1)
    return _unit(_blend(fill, _blend(above, below, y) / 255, inside))


@triton.jit
def _turn_hue(
    red: tl.tensor, green: tl.tensor, blue: tl.tensor, turns: tl.tensor
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """The colours with their hue turned, step by step as in augment.py."""
    high = tl.maximum(tl.maximum(red, green), blue)
    low = tl.minimum(tl.minimum(red, green), blue)
    chroma = high - low
    scale = 1 / tl.maximum(chroma, 1e-12)
    hue = tl.where(high == green, (blue - red) * scale + 2, (red - green) * scale + 4)
    hue = tl.where(high == red, (green - blue) * scale, hue) / 6 + turns
    hue = 6 * (hue - tl.floor(hue))
    red = low + chroma * _unit(tl.abs(hue - 3) - 1)
    green = low + chroma * _unit(2 - tl.abs(hue - 2))
    blue = low + chroma * _unit(2 - tl.abs(hue - 4))
    return red, green, blue


@triton.jit
def _equalise(level: tl.tensor, real: tl.tensor) -> tl.tensor:
    """A channel with its histogram made level, as augment.equalise defines it; only ``real`` pixels count."""
    whole = tl.where(real, (level * 255 + 0.5).to(tl.int32), -1)
    below = tl.zeros_like(whole)
    for one in range(256):
        below += tl.where(whole > one, tl.sum((whole == one).to(tl.int32), 0), 0)
    step = tl.max(below, 0) // 255
    new = tl.minimum((step // 2 + below) // tl.maximum(step, 1), 255)
    return tl.where(step > 0, new, whole).to(tl.float32) / 255


@triton.jit
def _grey(red: tl.tensor, green: tl.tensor, blue: tl.tensor, CHANNELS: tl.constexpr) -> tl.tensor:
    return red * RED + green * GREEN + blue * BLUE if CHANNELS == 3 else red


@triton.jit
def _blend3(
    level: tl.tensor, red: tl.tensor, green: tl.tensor, blue: tl.tensor, share: tl.tensor
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """From ``level`` towards the colours by ``share``, beyond them where it is above 1, cut to 0..1."""
    return _unit(_blend(level, red, share)), _unit(_blend(level, green, share)), _unit(_blend(level, blue, share))


@triton.jit
def _blend(first: tl.tensor, second: tl.tensor, share: tl.tensor) -> tl.tensor:
    """Exactly the first at share 0, exactly the second at share 1."""
    return (1 - share) * first + share * second


@triton.jit
def _unit(level: tl.tensor) -> tl.tensor:
    return tl.minimum(tl.maximum(level, 0.0), 1.0)
