"""One image and one pixel at a time, in double precision: what newfound.views.augment does to a batch.

Images are float [C, H, W] in 0..1. Places are in fractions of a frame, x to the right and y down.
"""

import colorsys
import math

import numpy as np


def sample(image: np.ndarray, x: float, y: float, fill: float, margin: float = 1.0) -> np.ndarray:
    """The colour [C] at a place: bilinear between pixel centres, the edge's outside them, and ``fill`` from ``margin``
    pixels beyond."""
    _, height, width = image.shape
    column, row = x * width - 0.5, y * height - 0.5
    inner_column, inner_row = min(max(column, 0), width - 1), min(max(row, 0), height - 1)
    left, top = math.floor(inner_column), math.floor(inner_row)
    right, bottom = min(left + 1, width - 1), min(top + 1, height - 1)
    across, down = inner_column - left, inner_row - top
    upper = image[:, top, left] * (1 - across) + image[:, top, right] * across
    lower = image[:, bottom, left] * (1 - across) + image[:, bottom, right] * across
    colour = upper * (1 - down) + lower * down
    pixels_beyond_x = max(0.0, -x * width, (x - 1) * width)
    pixels_beyond_y = max(0.0, -y * height, (y - 1) * height)
    part = max(0.0, 1 - pixels_beyond_x / margin) * max(0.0, 1 - pixels_beyond_y / margin)
    return colour * part + fill * (1 - part)


def resample(image: np.ndarray, size: int, fill: float, source, margin: float = 1.0) -> np.ndarray:
    """The view [C, size, size] whose colour at (x, y) is the image's at ``source(x, y)``."""
    view = np.empty((image.shape[0], size, size))
    for i in range(size):
        for j in range(size):
            x, y = source((j + 0.5) / size, (i + 0.5) / size)
            view[:, i, j] = sample(image, x, y, fill, margin)
    return view


def warp(image: np.ndarray, matrix: np.ndarray, size: int, fill: float) -> np.ndarray:
    """The view under a matrix [2, 3] between frames that reach from -1 to 1."""

    def source(x, y):
        place = matrix @ [2 * x - 1, 2 * y - 1, 1]
        return (place[0] + 1) / 2, (place[1] + 1) / 2

    return resample(image, size, fill, source)


def uncrop(x, y, top, left, height, width):
    """Where a place of the crop lies in the image."""
    return left + x * width, top + y * height


def unaffine(x, y, angle, scale, shear, shift_x, shift_y):
    """Where a place was before it was sheared, rotated, enlarged and shifted: each undone, the last one first."""
    x, y = x - shift_x - 0.5, y - shift_y - 0.5
    x, y = x / scale, y / scale
    distance, direction = math.hypot(x, y), math.atan2(-y, x) - math.radians(angle)
    x, y = distance * math.cos(direction), -distance * math.sin(direction)
    x = x - y * math.tan(math.radians(shear))
    return x + 0.5, y + 0.5


def grey(pixel: np.ndarray) -> float:
    return float(pixel[0]) if len(pixel) == 1 else 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2]


def adjust_colours(image: np.ndarray, brightness: float, contrast: float, saturation: float, hue: float) -> np.ndarray:
    image = np.clip(image * brightness, 0, 1)
    mean = np.mean([grey(image[:, i, j]) for i, j in places(image)])
    image = np.clip(contrast * image + (1 - contrast) * mean, 0, 1)
    if len(image) == 1:
        return image
    result = np.empty_like(image)
    for i, j in places(image):
        pixel = image[:, i, j]
        pixel = np.clip(saturation * pixel + (1 - saturation) * grey(pixel), 0, 1)
        h, s, v = colorsys.rgb_to_hsv(*pixel)
        result[:, i, j] = colorsys.hsv_to_rgb((h + hue) % 1, s, v)
    return result


def to_grey(image: np.ndarray) -> np.ndarray:
    result = np.empty_like(image)
    for i, j in places(image):
        result[:, i, j] = grey(image[:, i, j])
    return result


def solarise(image: np.ndarray, threshold: float) -> np.ndarray:
    return np.array([level if level < threshold else 1 - level for level in image.ravel()]).reshape(image.shape)


def equalise(image: np.ndarray) -> np.ndarray:
    result = np.empty_like(image)
    for channel, levels in enumerate(image):
        levels = [[math.floor(level * 255 + 0.5) for level in row] for row in levels]
        every = [level for row in levels for level in row]
        step = (len(every) - every.count(max(every))) // 255
        for i, j in places(image):
            level = levels[i][j]
            below = sum(other < level for other in every)
            result[channel, i, j] = (min((step // 2 + below) // step, 255) if step else level) / 255
    return result


def blur(image: np.ndarray, sigma: float, kernel: int) -> np.ndarray:
    reach = kernel // 2
    padded = np.pad(image, ((0, 0), (reach, reach), (reach, reach)), mode="reflect")
    total, weights = np.zeros_like(image), 0.0
    for down in range(-reach, reach + 1):
        for right in range(-reach, reach + 1):
            weight = math.exp(-(down**2 + right**2) / (2 * sigma**2))
            moved = padded[:, reach + down :, reach + right :][:, : image.shape[1], : image.shape[2]]
            total, weights = total + weight * moved, weights + weight
    return total / weights


def view(image: np.ndarray, p: dict, size: int, fill: float, kernel: int) -> np.ndarray:
    """The view of a uint8 image [C, H, W] under one image's and one view's parameters of MultiViews."""

    def source(x, y):
        x, y = unaffine(x, y, p["angle"], p["scale"], p["shear"], p["shift_x"], p["shift_y"])
        return uncrop(1 - x if p["mirror"] else x, y, p["top"], p["left"], p["height"], p["width"])

    result = resample(image / 255, size, fill, source, 0.5 if p.get("padded") else 1.0)
    result = adjust_colours(result, p["brightness"], p["contrast"], p["saturation"], p["hue"])
    result = to_grey(result) if p["grey"] else result
    result = blur(result, p["sigma"], kernel) if p["blur"] else result
    result = solarise(result, p.get("threshold", 0.5)) if p["solarise"] else result
    return equalise(result) if p.get("equalise") else result


def places(image: np.ndarray):
    return [(i, j) for i in range(image.shape[1]) for j in range(image.shape[2])]
