"""How fast APL's stage I would learn from ImageNet, and how long the task of 882 known and 30 novel classes would take,
on images of noise: writes a record for docs/speed.md.

    python benchmarks/speed/imagenet.py --out benchmarks/speed/imagenet-h200.json
    python benchmarks/speed/page.py                             docs/speed.md from the records
    python benchmarks/speed/imagenet.py --device cpu --tiny     the same way through, on a CPU

The recipe is ImageNet's, with its views of 224 and 96 pixels and its batch. The collection has the sizes of the real
one, as far as they are published; a few thousand images of noise, which lie on the device, stand for all of them. The
real ones take about 180 GB and are read from a disk, ahead of the steps: a slow disk would make it longer.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1]))
from record import begin, write
from steps import StageBench, Step

from newfound.data.collection import UNKNOWN, Collection, novel_tasks
from newfound.data.store import ImageStore
from newfound.engine.device import fastest_kernels
from newfound.methods.parts.encoder import make_encoder
from newfound.methods.parts.representation import Representation
from newfound.plan.recipe import resolve_settings

RECIPE, SIDE = "apl-imagenet", 224
KNOWN, NOVEL, UNLABELLED = 882, 30, 39_000
"""Classes of the task, and its unlabelled images: about 39,000 in each subset, the paper says."""
LABELLED = round(1_281_167 * 882 / 1000)
"""Of the 1,281,167 training images the share of the known classes, as if all had equally many."""
TINY = {"network": "tiny", "stage1.batch": 8, "dino.hidden": 32, "dino.bottleneck": 16, "dino.out": 64}


class Repeated(ImageStore):
    """A store that says it has more images than lie there: they come again and again."""

    n = 0

    @classmethod
    def of(cls, images: Tensor, n: int) -> Repeated:
        found = cls(images)
        found.n = n
        return found

    def __len__(self) -> int:
        return self.n

    def to(self, device: torch.device) -> Repeated:
        return self.of(self.images.to(device), self.n)

    def take(self, rows: np.ndarray) -> Repeated:
        """As many of the images, whichever: they are noise."""
        return self.of(self.images, len(rows))

    def batch(self, index: Tensor) -> Tensor:
        return self.images[index % len(self.images)]

    def channel_statistics(self, most: int = 65536) -> tuple[Tensor, Tensor]:
        return ImageStore(self.images).channel_statistics(most)


def noise(labelled: int, unlabelled: int, known: int, novel: int, there: int) -> Collection:
    """A collection of those sizes; ``there`` images stand for all."""
    generator = np.random.default_rng(0)
    images = torch.from_numpy(generator.integers(0, 256, (there, 3, SIDE, SIDE), dtype=np.uint8))
    labels = np.full(labelled + unlabelled, UNKNOWN)
    labels[:labelled] = generator.integers(0, known, labelled)
    tasks = novel_tasks(known, ("", novel, np.arange(labelled, len(labels))))
    return Collection(Repeated.of(images, len(labels)), labels, tuple(map(str, range(known))), tasks)


class ImageNetBench(StageBench):
    """APL's stage I by the recipe of ImageNet."""

    def new_stage(self) -> Representation:
        encoder = make_encoder(self.settings.network, self.collection, None, dimension=self.settings.dimension)
        return Representation(encoder, self.collection, self.settings).to(self.device).train()

    def bare(self) -> Step:
        raise TypeError("this benchmark times whole steps")


def measure(device: torch.device, tiny: bool) -> dict[str, Any]:
    collection = noise(60, 20, 6, 3, 16) if tiny else noise(LABELLED, UNLABELLED, KNOWN, NOVEL, 2048)
    bench = ImageNetBench(device, collection, resolve_settings("apl", RECIPE, TINY if tiny else {}))
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    training, step = bench.full(capture=True)
    found = bench.time(step, 1 if tiny else 20)
    steps = training.steps * training.plan.epochs
    record: dict[str, Any] = {
        "batch": bench.batch,
        "ms": round(found, 2),
        "images_per_s": round(1e3 * bench.batch / found),
        "images": {"labelled": collection.n_labelled, "unlabelled": collection.n_unlabelled},
        "steps_per_epoch": training.steps,
        "epochs": training.plan.epochs,
        "hours": round(steps * found / 3.6e6, 2),
    }
    if device.type == "cuda":
        record["peak_memory_gb"] = round(torch.cuda.max_memory_allocated() / 1e9, 2)
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = torch.device(options.device)
    made = begin(settings=resolve_settings("apl", RECIPE, TINY if options.tiny else {}), seed=0, device=device)
    what = f"stage I of APL, recipe {RECIPE}, 2 views of {SIDE} px and 6 of 96 px, noise that lies on the device"
    with fastest_kernels():
        record = {**made, "what": what, **measure(device, options.tiny)}
    if options.out:
        write(options.out, record)
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
