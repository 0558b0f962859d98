"""Two whole views and several extra ones of each image, as the instance discrimination of section 3.1.1 wants them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from newfound.errors import UserError
from newfound.views import augment

Range = tuple[float, float]


@dataclass(frozen=True)
class Crops:
    """Views of n images, float32 in 0..1: ``whole`` [2, n, C, S, S] and ``extra`` [V, n, C, s, s]."""

    whole: Tensor
    extra: Tensor


@dataclass(frozen=True)
class MultiViews:
    """The views of a square image: two whole ones of ``size`` pixels, and ``extra`` local or rotated ones.

    ``appearance``, ``geometric`` and ``rotation`` are the columns of the paper's table of augmentations. Without
    ``geometric``, rotation and ``affine``, every view is the full frame. Probabilities in threes are those of the
    first whole, the second whole, and the extra views. A setting does not change what the others draw.
    """

    size: int = 32
    extra: int = 6
    extra_size: int = 16
    fill: int = 0
    """The level, 0 to 255, of what lies outside the image: that of the background."""

    geometric: bool = True
    """Whether views are cropped and mirrored."""
    whole_scale: Range = (0.3, 1.0)
    """The part of the image's area that a whole view shows."""
    extra_scale: Range = (0.05, 0.3)
    ratio: Range = (3 / 4, 4 / 3)
    """Width over height of a crop."""
    flip: float = 0.5
    padded: float = 0.0
    """The probability that a whole view is, instead of a part of the image enlarged, a crop of the image's own size
    after padding by ``pad`` pixels of level ``fill``."""
    pad: int = 4

    rotation: float = 0.0
    """Restricted rotation: extra views are turned by up to so many degrees either way, whole views stay upright."""
    affine: bool = False
    """Whether every view is shifted, zoomed, sheared and turned a little, whole views too."""
    shift: float = 0.08
    zoom: Range = (0.85, 1.1)
    shear: float = 8.0
    upright_rotation: float = 5.0
    """Degrees by which ``affine`` turns views, unless they are extra ones and have a ``rotation``."""

    appearance: bool = True
    """Whether views change their colours: jitter, grey, blur, solarisation and equalisation, in this order."""
    jitter: tuple[float, float, float, float] = (0.4, 0.4, 0.2, 0.1)
    """How far brightness, contrast and saturation go from 1, and hue (in turns) from 0."""
    jitter_probability: tuple[float, float, float] = (0.8, 0.8, 0.8)
    grey: float = 0.2
    blur: tuple[float, float, float] = (0.0, 0.0, 0.0)
    blur_sigma: Range = (0.1, 1.0)
    blur_kernel: int = 7
    solarise: tuple[float, float, float] = (0.0, 0.2, 0.0)
    random_threshold: bool = False
    """Whether each view is solarised from a random level on, instead of one half."""
    equalise: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """The probability that a view's histogram is made level."""

    def __post_init__(self) -> None:
        smallest = min(self.size, self.extra_size) if self.extra else self.size
        if any(self.blur) and not (self.blur_kernel % 2 and self.blur_kernel // 2 < smallest):
            raise UserError(
                f"blur_kernel is {self.blur_kernel}; it has to be odd and below {2 * smallest}, for the smallest views "
                f"are {smallest} pixels wide"
            )

    def draw(self, generator: torch.Generator, n: int, t: Tensor) -> dict[str, Tensor]:
        """Parameters [2 + V, n] of the views of ``n`` images, on the generator's device."""
        draws = torch.rand(19, 2 + self.extra, n, generator=generator, device=generator.device)
        drawn = self._crop(draws[:5]) | self._affine(draws[5:10]) | self._colours(draws[10:])
        if not (self.padded or self.random_threshold or any(self.equalise)):
            return drawn
        # Drawn after the others, so that these settings, too, leave alone what the others draw.
        more = torch.rand(5, 2 + self.extra, n, generator=generator, device=generator.device)
        return self._pad(drawn, more[:3]) | self._more_colours(more[3:])

    def _crop(self, draws: Tensor) -> dict[str, Tensor]:
        """Boxes "top", "left", "height" and "width" in fractions of the frame, and "mirror" (bool).

        The area is uniform and the logarithm of the ratio too, as in torchvision's RandomResizedCrop; a side longer
        than the frame is cut to it, where RandomResizedCrop draws again.
        """
        full = (1.0, 1.0)
        area = _spread(draws[0], *((self.whole_scale, self.extra_scale) if self.geometric else (full, full)))
        low, high = self.ratio if self.geometric else full
        stretch = torch.exp(_between(draws[1], math.log(low), math.log(high)) / 2)
        height, width = (area.sqrt() / stretch).clamp(max=1), (area.sqrt() * stretch).clamp(max=1)
        return {
            "top": draws[2] * (1 - height),
            "left": draws[3] * (1 - width),
            "height": height,
            "width": width,
            "mirror": draws[4] < (self.flip if self.geometric else 0.0),
        }

    def _pad(self, drawn: dict[str, Tensor], draws: Tensor) -> dict[str, Tensor]:
        """What was drawn, with other boxes where "padded" (bool): the full frame, moved by whole pixels."""
        if not (self.padded and self.geometric):
            return drawn
        padded = _happens(draws[0], self.padded, self.padded, 0.0)
        top, left = ((draws[1:] * (2 * self.pad + 1)).floor().clamp(max=2 * self.pad) - self.pad) / self.size
        box = {"top": top, "left": left, "height": torch.ones_like(top), "width": torch.ones_like(left)}
        boxes = {name: torch.where(padded, value, drawn[name]) for name, value in box.items()}
        return drawn | boxes | {"padded": padded}

    def _affine(self, draws: Tensor) -> dict[str, Tensor]:
        """ "angle" and "shear" in degrees, "scale", and "shift_x" and "shift_y" in fractions of the frame."""
        upright = self.upright_rotation if self.affine else 0.0
        turned = self.rotation or upright
        low, high = self.zoom if self.affine else (1.0, 1.0)
        shear, shift = (self.shear, self.shift) if self.affine else (0.0, 0.0)
        return {
            "angle": _spread(draws[0], (-upright, upright), (-turned, turned)),
            "scale": _between(draws[1], low, high),
            "shear": _between(draws[2], -shear, shear),
            "shift_x": _between(draws[3], -shift, shift),
            "shift_y": _between(draws[4], -shift, shift),
        }

    def _colours(self, draws: Tensor) -> dict[str, Tensor]:
        """Factors "brightness", "contrast" and "saturation", "hue" in turns, "sigma" of the blur in pixels, and
        whether to "grey", "blur" and "solarise" (bool)."""
        jittered = _happens(draws[4], *self.jitter_probability)
        steps = [torch.where(jittered, _between(u, -r, r), 0.0) for u, r in zip(draws[:4], self.jitter, strict=True)]
        return {
            "brightness": 1 + steps[0],
            "contrast": 1 + steps[1],
            "saturation": 1 + steps[2],
            "hue": steps[3],
            "grey": draws[5] < self.grey,
            "sigma": _between(draws[6], *self.blur_sigma),
            "blur": _happens(draws[7], *self.blur),
            "solarise": _happens(draws[8], *self.solarise),
        }

    def _more_colours(self, draws: Tensor) -> dict[str, Tensor]:
        """The "threshold" of solarisation, and whether to "equalise" (bool), where the settings want them."""
        threshold = {"threshold": draws[0]} if self.random_threshold else {}
        return threshold | ({"equalise": _happens(draws[1], *self.equalise)} if any(self.equalise) else {})

    def apply(self, images: Tensor, parameters: dict[str, Tensor]) -> Crops:
        """The views of uint8 images [n, C, H, W] under what ``draw`` gave."""
        whole = self._views(images, {name: value[:2] for name, value in parameters.items()}, self.size)
        if not self.extra:
            empty = whole.new_empty((0, *whole.shape[1:3], self.extra_size, self.extra_size))
            return Crops(whole, empty)
        extra = self._views(images, {name: value[2:] for name, value in parameters.items()}, self.extra_size)
        return Crops(whole, extra)

    def _views(self, images: Tensor, p: dict[str, Tensor], size: int) -> Tensor:
        """Views [v, n, C, size, size] of the images under parameters [v, n]."""
        blurred = self.appearance and any(self.blur)
        if kernel_available(images, size):
            from newfound.views import kernel

            colours = {"colours": self.appearance, "hue": self.jitter[3] != 0, "grey": self.grey != 0}
            if not blurred:  # what is blurred is solarised and equalised afterwards
                colours |= {"solarise": any(self.solarise), "equalise": any(self.equalise)}
            views = kernel.make_views(images, p, size, self.fill / 255, **colours)
            return self._finish(views, p) if blurred else views
        crop = augment.mirror(augment.crop_matrices(p["top"], p["left"], p["height"], p["width"]), p["mirror"])
        affine = augment.affine_matrices(p["angle"], p["scale"], p["shear"], p["shift_x"], p["shift_y"])
        views = augment.warp(images, augment.compose(crop, affine), size, self.fill / 255, p.get("padded"))
        return self._finish(self._recolour(views, p), p) if self.appearance else views

    def _recolour(self, views: Tensor, p: dict[str, Tensor]) -> Tensor:
        """The views [v, n, C, s, s] in other colours; what the settings rule out is not computed."""
        flat, p = views.flatten(0, 1), {name: value.flatten() for name, value in p.items()}
        hue = p["hue"] if self.jitter[3] else None
        flat = augment.adjust_colours(flat, p["brightness"], p["contrast"], p["saturation"], hue)
        if self.grey:
            flat = augment.to_grey(flat, p["grey"])
        return flat.view(views.shape)

    def _finish(self, views: Tensor, p: dict[str, Tensor]) -> Tensor:
        """The views [v, n, C, s, s], blurred, solarised and equalised, where the settings want that."""
        flat = views.flatten(0, 1)
        if any(self.blur):
            flat = augment.blur(flat, p["sigma"].flatten(), p["blur"].flatten(), self.blur_kernel)
        if any(self.solarise):
            threshold = p["threshold"].flatten() if self.random_threshold else 0.5
            flat = augment.solarise(flat, p["solarise"].flatten(), threshold)
        if any(self.equalise):
            flat = augment.equalise(flat, p["equalise"].flatten())
        return flat.view(views.shape)


@dataclass(frozen=True)
class FirstView:
    """The first whole view alone, as a tensor [n, C, size, size]: for supervised training on one view an image."""

    views: MultiViews

    def draw(self, generator: torch.Generator, n: int, t: Tensor) -> dict[str, Tensor]:
        return {name: value[:1] for name, value in self.views.draw(generator, n, t).items()}

    def apply(self, images: Tensor, parameters: dict[str, Tensor]) -> Tensor:
        return self.views._views(images, parameters, self.views.size)[0]


def kernel_available(images: Tensor, size: int) -> bool:
    """Whether one kernel can make the views of ``size`` pixels: on a GPU, with Triton, if a view fits its registers."""
    return images.is_cuda and images.dtype == torch.uint8 and size * size <= 4096 and _triton_found()


@cache
def _triton_found() -> bool:
    return find_spec("triton") is not None


def _between(draws: Tensor, low: float, high: float) -> Tensor:
    return low + (high - low) * draws


def _spread(draws: Tensor, whole: Range, extra: Range) -> Tensor:
    """Draws [2 + V, n] from 0..1 brought to the range of their views."""
    return torch.cat([_between(draws[:2], *whole), _between(draws[2:], *extra)])


def _happens(draws: Tensor, first: float, second: float, extra: float) -> Tensor:
    """Which of the draws [2 + V, n] fall below the probability of their views."""
    return torch.cat([draws[:1] < first, draws[1:2] < second, draws[2:] < extra])
