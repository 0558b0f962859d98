"""UNO's discovery in the kind of loop that its authors' code is, written by us: the rival of uno.py.

    uno_images_per_s(images, …)    {"images_per_s": ..., "loader_images_per_s": ..., "step_images_per_s": ..., ...}

torchvision's transforms on PIL images in a DataLoader, torchvision's ResNet-18 with a CIFAR stem, a pass for each view,
every head a module of its own, labels balanced for each head and view, float16 with a scaler, SGD, no graphs. Views,
heads and temperatures are those of our recipe. It is given more than most loops have: batches that never end with an
epoch, images in memory, cuDNN's fastest algorithms and channels last.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset

sys.path.append(str(Path(__file__).parent))
from rivals import AHEAD, endless_loader, main, measure_alone, measure_loop, rate, skip, tell

from newfound.methods.parts.views import make_views
from newfound.plan.recipe import resolve_settings
from newfound.views.multiview import MultiViews

RECIPE = "uno-cifar100"
Transform = Callable[[Any], Tensor]


def uno_images_per_s(
    images: np.ndarray,
    known: int,
    novel: int,
    labelled: int,
    changes: dict[str, Any] | None = None,
    batch: int = 512,
    workers: int = 16,
    steps: int = 60,
    seconds: float = 15.0,
    limit: float = 90.0,
    device: str = "cuda",
) -> dict[str, Any]:
    """Images a second of the loop over uint8 images [N, H, W, 3], the first ``labelled`` of which have random
    labels: ``steps`` steps once it is steady, fewer where they would take longer than ``seconds``. The settings differ
    from the recipe by ``changes``.

    Beside it: what the DataLoader delivers to a loop that does nothing, and what the step does with a batch that is
    already there; the lower of the two is what holds the loop up.
    """
    options = {"known": known, "novel": novel, "labelled": labelled, "changes": changes or {}, "batch": batch}
    options |= {"workers": workers, "steps": steps, "seconds": seconds, "device": device}
    return measure_alone("torchvision", "images_per_s", images, options, limit, script=__file__)


class Solarise:
    """Solarise a PIL image from a random level on, with that probability."""

    def __init__(self, probability: float) -> None:
        self.probability = probability

    def __call__(self, image: Any) -> Any:
        from PIL import ImageOps

        return ImageOps.solarize(image, random.randrange(256)) if random.random() < self.probability else image


def view_transforms(ours: MultiViews) -> list[Transform]:
    """One transform a view: two whole ones, then the small ones."""
    from torchvision import transforms as T

    def view(size: int, crop: Any, kind: int) -> Transform:
        jitter = T.RandomApply([T.ColorJitter(*ours.jitter)], p=ours.jitter_probability[kind])
        colours = [jitter, Solarise(ours.solarise[kind]), T.RandomEqualize(p=ours.equalise[kind])]
        numbers = [T.ToTensor(), T.Normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))]
        made: Transform = T.Compose([crop, T.RandomHorizontalFlip(ours.flip), *colours, *numbers])
        return made

    def whole(kind: int) -> Transform:
        enlarged = T.RandomResizedCrop(ours.size, scale=ours.whole_scale, ratio=ours.ratio)
        crop = T.RandomChoice([T.RandomCrop(ours.size, padding=ours.pad), enlarged], p=[ours.padded, 1 - ours.padded])
        return view(ours.size, crop, kind)

    small = T.RandomResizedCrop(ours.extra_size, scale=ours.extra_scale, ratio=ours.ratio)
    return [whole(0), whole(1), *(view(ours.extra_size, small, 2) for _ in range(ours.extra))]


class Views(Dataset[list[Any]]):
    """The views of each image, then its label."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, transforms: list[Transform]) -> None:
        self.images, self.labels, self.transforms = images, labels, transforms

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> list[Any]:
        from PIL import Image

        image = Image.fromarray(self.images[index])
        return [*(transform(image) for transform in self.transforms), int(self.labels[index])]


class Head(nn.Module):
    """Cosines [n, outputs] of features [n, width] to prototypes, behind an MLP."""

    def __init__(self, width: int, hidden: int, bottleneck: int, outputs: int) -> None:
        super().__init__()
        layers = nn.Linear(width, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, bottleneck)
        self.mlp, self.prototypes = nn.Sequential(*layers), nn.Linear(bottleneck, outputs, bias=False)

    def forward(self, features: Tensor) -> Tensor:
        cosines: Tensor = self.prototypes(F.normalize(self.mlp(features), dim=1))
        return cosines


class Network(nn.Module):
    """A ResNet-18 for small images, the known categories' prototypes, and the heads over novel ones."""

    def __init__(self, known: int, novel: int, heads: Any) -> None:
        super().__init__()
        from torchvision.models import resnet18

        self.encoder = resnet18()
        width = self.encoder.fc.in_features
        self.encoder.conv1 = nn.Conv2d(3, self.encoder.conv1.out_channels, 3, padding=1, bias=False)
        self.encoder.maxpool, self.encoder.fc = nn.Identity(), nn.Identity()
        self.known = nn.Linear(width, known, bias=False)
        self.heads, self.over = (
            nn.ModuleList(Head(width, heads.hidden, heads.bottleneck, each * novel) for _ in range(heads.count))
            for each in (1, heads.over)
        )

    def forward(self, view: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Cosines to the known categories, and those of every head, over-clustering heads last."""
        features = self.encoder(view)
        known = self.known(F.normalize(features, dim=1))
        return known, [head(features) for head in (*self.heads, *self.over)]

    @torch.no_grad()
    def normalise(self) -> None:
        for layer in (self.known, *(head.prototypes for head in (*self.heads, *self.over))):
            layer.weight.copy_(F.normalize(layer.weight, dim=1))


@torch.no_grad()
def balanced(cosines: Tensor, epsilon: float, rounds: int) -> Tensor:
    """Soft labels [n, K] that use every category equally, for cosines [n, K]."""
    mass = (cosines.float() / epsilon).exp()
    for _ in range(rounds):
        mass = mass / mass.sum(0, keepdim=True) / mass.shape[1]
        mass = mass / mass.sum(1, keepdim=True) / mass.shape[0]
    return mass / mass.sum(1, keepdim=True)


def head_loss(known: list[Tensor], novel: list[Tensor], labels: Tensor, chosen: Any) -> Tensor:
    """One head's cross-entropy: every view predicts the labels of each whole view but itself."""
    labelled = labels >= 0
    targets = []
    for view in (0, 1):
        target = torch.zeros(len(labels), known[0].shape[1] + novel[0].shape[1], device=labels.device)
        target[labelled, labels[labelled]] = 1.0
        target[~labelled, known[0].shape[1] :] = balanced(novel[view][~labelled], chosen.epsilon, chosen.rounds)
        targets.append(target)
    logits = [torch.cat(both, 1).float() / chosen.temperature for both in zip(known, novel, strict=True)]
    pairs = [(target, view) for target in (0, 1) for view in range(len(logits)) if view != target]
    return torch.stack([F.cross_entropy(logits[view], targets[target]) for target, view in pairs]).mean()


def uno_step(device: torch.device, known: int, novel: int, settings: Any) -> Callable[[list[Tensor]], Tensor]:
    """A training step on the views and labels of a batch; it gives the loss."""
    torch.backends.cudnn.benchmark = True
    network = Network(known, novel, settings.heads).to(device, memory_format=torch.channels_last)
    plan, half = settings.discovery, device.type == "cuda"
    optimiser = torch.optim.SGD(network.parameters(), 0.01, momentum=plan.momentum, weight_decay=plan.weight_decay)
    scaler = torch.amp.GradScaler(device.type, enabled=half)

    def step(batch: list[Tensor]) -> Tensor:
        *views, labels = (part.to(device, non_blocking=True) for part in batch)
        network.normalise()
        with torch.autocast(device.type, torch.float16, enabled=half):
            outputs = [network(view.to(memory_format=torch.channels_last)) for view in views]
        cosines = [one for one, _ in outputs]
        of_heads = zip(*(heads for _, heads in outputs), strict=True)
        losses = [head_loss(cosines, list(novel), labels, settings.heads) for novel in of_heads]
        loss = torch.stack(losses).mean()
        optimiser.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimiser)
        scaler.update()
        return loss.detach()

    return step


def torchvision_loop(
    images: np.ndarray,
    known: int,
    novel: int,
    labelled: int,
    changes: dict[str, Any],
    batch: int,
    workers: int,
    steps: int,
    seconds: float,
    device: torch.device,
) -> None:
    import PIL
    import torchvision

    settings: Any = resolve_settings("uno", RECIPE, changes)
    transforms = view_transforms(make_views(settings.views, images.shape[1]))
    labels = np.where(np.arange(len(images)) < labelled, np.random.default_rng(0).integers(0, known, len(images)), -1)
    batches = iter(endless_loader(Views(images, labels, transforms), batch, workers, device))
    versions = {"torchvision": torchvision.__version__, "pillow": PIL.__version__}
    tell(versions=versions, batch=batch, workers=workers, cores=os.cpu_count(), steps=steps)
    kept = skip(batches, AHEAD * workers)
    tell(loader_images_per_s=rate(lambda: next(batches), batch, seconds, device, steps))
    step = uno_step(device, known, novel, settings)
    loop, alone, loss = measure_loop(step, batches, kept, seconds, device, AHEAD * workers, steps)
    tell(images_per_s=loop, step_images_per_s=alone, loss=loss)


if __name__ == "__main__":
    main({"torchvision": torchvision_loop}, sys.argv[1], json.loads(sys.argv[2]))
