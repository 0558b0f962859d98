"""What `discover` takes images for, symbols or not, and how far from its bars they are: writes look.json.

    python benchmarks/trust/look.py --data ROOT --fashion FOLDER [--seeds 20]

A folder here is 100 images of three categories that its seed draws, as files, in one of several forms: other sizes,
without colour, inverted, as coarse JPEG files, with noise, and on yellowish paper. Digits and characters are symbols,
clothes and photographs are not; the bars were chosen before on some of the images as they are.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps
from pools import POOLS, Pool, options, write

from newfound.data import look as bars
from newfound.data.look import look

RECORD = Path(__file__).parent / "look.json"
SYMBOLS = ("digits", "omniglot")
CATEGORIES, IMAGES = 3, 100


def _paper(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    return Image.fromarray((np.asarray(image) * np.array([1, 0.94, 0.78])).astype(np.uint8))


def _noise(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    pixels = np.asarray(image) + rng.normal(0, 10, (image.height, image.width, 1))
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def _sized(side: int) -> Callable[[Image.Image, np.random.Generator], Image.Image]:
    return lambda image, rng: image.resize((side, side), Image.Resampling.BICUBIC)


FORMS: dict[str, Callable[[Image.Image, np.random.Generator], Image.Image]] = {
    "as they are": lambda image, rng: image,
    "16 px": _sized(16),
    "32 px": _sized(32),
    "128 px": _sized(128),
    "without colour": lambda image, rng: image.convert("L"),
    "inverted": lambda image, rng: ImageOps.invert(image),
    "coarse JPEG": lambda image, rng: image,
    "noise": _noise,
    "yellowish paper": _paper,
}


def look_once(pool: Pool, form: str, seed: int) -> dict[str, Any]:
    """What is seen in the folder of that seed."""
    rng = np.random.default_rng([seed, 0x100C])
    rows = np.concatenate([pool.of(c) for c in rng.permutation(np.unique(pool.categories))[:CATEGORIES]])
    with tempfile.TemporaryDirectory() as place:
        files = []
        for i, row in enumerate(rng.permutation(rows)[:IMAGES]):
            image = Image.fromarray(pool.images.images[row].numpy().transpose(1, 2, 0))
            files.append(Path(place) / f"{i}.{'jpg' if form == 'coarse JPEG' else 'png'}")
            FORMS[form](image, rng).save(files[-1], **({"quality": 30} if form == "coarse JPEG" else {}))
        seen = look(files)
    assert seen is not None
    return {"share": round(seen.share, 4), "colour": round(seen.colour, 4), "domain": seen.domain}


def table(record: dict[str, Any]) -> str:
    """The record as docs/trust-figures.md has it."""
    lines = ["| | form | background | colour | right |", "|---|---|---|---|---|"]
    for name, found in record["results"].items():
        for form, seen in found["forms"].items():
            spans = " | ".join(f"{low:.0%} to {high:.0%}" for low, high in (seen["share"], seen["colour"]))
            lines.append(f"| {name} | {form} | {spans} | {seen['right']} of {record['seeds']} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    chosen = options(__doc__, seeds=20)
    results: dict[str, Any] = {}
    for name, read in POOLS.items():
        pool = read(chosen.roots[name])
        results[name] = {"title": read.__doc__, "side": pool.images.shape[1], "forms": {}}
        for form in FORMS:
            found = [look_once(pool, form, seed) for seed in range(chosen.seeds)]
            right = "symbolic" if name in SYMBOLS else "natural"
            results[name]["forms"][form] = {
                **{
                    key: [min(one[key] for one in found), max(one[key] for one in found)] for key in ("share", "colour")
                },
                "right": sum(one["domain"] == right for one in found),
            }
            print(name, form, results[name]["forms"][form], flush=True)
    names = ("NEAR", "COLOURED", "MOST_COLOUR", "BACKGROUND", "BACKGROUND_IF_SMALL", "SMALL")
    record = {"what": "what the look sees", "bars": {name: getattr(bars, name) for name in names}}
    write(RECORD, record | {"seeds": chosen.seeds, "symbols": SYMBOLS, "results": results}, chosen)


if __name__ == "__main__":
    main()
