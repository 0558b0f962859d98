"""What others' code does with the same images, views, network and device: lightly's DINO loop and kornia's views.

    lightly_images_per_s(images)    {"images_per_s": ..., "loader_images_per_s": ..., "step_images_per_s": ..., ...}
    kornia_ms(images)               {"ms": ..., "ways": {...}, ...}

Each rival runs in a process of its own and within a time limit, so that a missing library, a crash or a worker that
hangs ends as a "reason" beside the figures, the main one of which is then None. Both are given more than their users
write: lightly batches that never end with an epoch, images in memory instead of files, bf16 and channels_last; kornia
the fastest of several ways to call it. lightly's loop is measured twice: as its example for PyTorch writes it, a pass
for each view, but with our head and AdamW; and "tuned" by us, with the views of one size in one pass and fused AdamW.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

from newfound.nets.resnet import resnet18
from newfound.views.natural import natural_views

AHEAD = 2
"""Batches that each worker of a DataLoader prepares ahead; as many are taken before a measurement, so that none of
what is measured was prepared before it began."""


def lightly_images_per_s(
    images: np.ndarray,
    batch: int = 256,
    workers: int = 16,
    seconds: float = 8.0,
    limit: float = 90.0,
    device: str = "cuda",
) -> dict[str, Any]:
    """Images a second of lightly's DINO loop over uint8 images [N, H, W, 3], over ``seconds`` once it is steady.

    "images_per_s" is of the loop as lightly's example writes it, "tuned_images_per_s" of the same with a faster step.
    Beside them: what the DataLoader delivers to a loop that does nothing, and what each step does with a batch that is
    already there; the lower of the two is what holds a loop up.
    """
    options = {"batch": batch, "workers": workers, "seconds": seconds, "device": device}
    return measure_alone("lightly", "images_per_s", images, options, limit)


def kornia_ms(
    images: np.ndarray, batch: int = 256, repeats: int = 20, limit: float = 40.0, device: str = "cuda"
) -> dict[str, Any]:
    """Milliseconds in which kornia makes all views of a batch of uint8 images [N, H, W, 3] that lie on the device.

    "ways" has the median of ``repeats`` calls for each way to call it, "ms" that of the fastest.
    """
    options = {"batch": batch, "repeats": repeats, "device": device}
    return measure_alone("kornia", "ms", images, options, limit)


def measure_alone(
    rival: str, figure: str, images: np.ndarray, options: dict[str, Any], limit: float, script: str = __file__
) -> dict[str, Any]:
    """What the script prints of the rival, in a process of its own and within ``limit`` seconds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "images.npy"
        np.save(path, images)
        command = [sys.executable, script, rival, json.dumps(options | {"images": str(path)})]
        return {figure: None} | run_within(limit, command)


def run_within(limit: float, command: list[str]) -> dict[str, Any]:
    """The figures that a program prints, a JSON object a line, and a "reason" where it stops before its end.

    It and the processes it started are killed after ``limit`` seconds; what it printed until then is kept.
    """
    paths = os.pathsep.join(os.path.abspath(path) for path in sys.path)
    program = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": paths},
        start_new_session=True,
    )
    late = False
    try:
        said, complaints = program.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        late = True
        _kill(program)
        said, complaints = program.communicate()
    finally:
        _kill(program)
    figures: dict[str, Any] = {}
    for line in said.splitlines():
        with contextlib.suppress(json.JSONDecodeError, TypeError):
            figures |= json.loads(line)
    if late:
        figures["reason"] = f"stopped after {limit:g} s"
    elif program.returncode:
        last = (complaints.strip().splitlines() or ["it said nothing"])[-1]
        figures["reason"] = f"ended with status {program.returncode}: {last}"
    return figures


def _kill(program: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)


def tell(**figures: Any) -> None:
    print(json.dumps(figures), flush=True)


class _Views(Dataset[list[Tensor]]):
    """The views of each image, by a transform that takes PIL images."""

    def __init__(self, images: np.ndarray, transform: Callable[[Any], list[Tensor]]) -> None:
        self.images, self.transform = images, transform

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> list[Tensor]:
        from PIL import Image

        return self.transform(Image.fromarray(self.images[index]))


def endless_loader(data: Dataset[list[Tensor]], batch: int, workers: int, device: torch.device) -> DataLoader[Any]:
    """Batches of the data at random, without the pause at the end of an epoch."""
    return DataLoader(
        data,
        batch,
        sampler=RandomSampler(data, replacement=True, num_samples=10**9),  # type: ignore[arg-type]
        num_workers=workers,
        prefetch_factor=AHEAD if workers else None,
        persistent_workers=workers > 0,
        pin_memory=device.type == "cuda",
        drop_last=True,
    )


def _lightly(images: np.ndarray, batch: int, workers: int, seconds: float, device: torch.device) -> None:
    import lightly
    import PIL
    import torchvision
    from lightly.transforms.dino_transform import DINOTransform

    ours = natural_views(images.shape[1])
    bright, contrast, saturation, hue = (2 * reach for reach in ours.jitter)  # lightly multiplies them by 1/2
    transform = DINOTransform(
        global_crop_size=ours.size,
        global_crop_scale=ours.whole_scale,
        local_crop_size=ours.extra_size,
        local_crop_scale=ours.extra_scale,
        n_local_views=ours.extra,
        hf_prob=ours.flip,
        cj_prob=ours.jitter_probability[0],
        cj_bright=bright,
        cj_contrast=contrast,
        cj_sat=saturation,
        cj_hue=hue,
        random_gray_scale=ours.grey,
        gaussian_blur=ours.blur,
        solarization_prob=ours.solarise[1],
    )
    loader = endless_loader(_Views(images, transform), batch, workers, device)
    versions = {"lightly": lightly.__version__, "torchvision": torchvision.__version__, "pillow": PIL.__version__}
    tell(versions=versions, batch=batch, workers=workers, cores=os.cpu_count())

    batches = iter(loader)
    kept = skip(batches, AHEAD * workers)
    tell(loader_images_per_s=rate(lambda: next(batches), batch, seconds / 2, device))
    for prefix, together in (("", False), ("tuned_", True)):
        step = _lightly_step(device, together)
        loop, alone, loss = measure_loop(step, batches, kept, seconds, device, AHEAD * workers)
        tell(**{f"{prefix}images_per_s": loop, f"{prefix}step_images_per_s": alone, f"{prefix}loss": loss})


def measure_loop(
    step: Callable[[list[Tensor]], Tensor],
    batches: Iterator[list[Tensor]],
    kept: list[Tensor],
    seconds: float,
    device: torch.device,
    ahead: int,
    most: float = math.inf,
) -> tuple[float, float, float]:
    """Images a second of the loop, over ``seconds`` or ``most`` steps, and of its step on a ``kept`` batch, and the
    loss in the end."""
    batch = len(kept[0])
    for _ in range(3):
        step(kept)
    for _ in range(ahead):
        step(next(batches))
    loop = rate(lambda: step(next(batches)), batch, seconds, device, most)
    return loop, rate(lambda: step(kept), batch, seconds / 4, device, most), step(kept).item()


def _lightly_step(device: torch.device, together: bool) -> Callable[[list[Tensor]], Tensor]:
    """A training step on the views of a batch, from lightly's parts; it gives the loss. The views of one size go
    through the network ``together``, or each by itself."""
    from lightly.loss import DINOLoss
    from lightly.models.modules import DINOProjectionHead
    from lightly.models.utils import deactivate_requires_grad, update_momentum

    def network() -> nn.Module:
        head = DINOProjectionHead(512, 2048, 256, 4096, batch_norm=True)
        return nn.Sequential(resnet18(), head).to(device, memory_format=torch.channels_last)

    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    student, teacher = network(), network()
    teacher.load_state_dict(student.state_dict())
    deactivate_requires_grad(teacher)
    criterion = DINOLoss(4096).to(device)
    trained = [p for p in student.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=5e-4, weight_decay=0.04, fused=together or None)

    def outputs(of: nn.Module, views: list[Tensor]) -> list[Tensor]:
        if together:
            return list(of(torch.cat(views).to(memory_format=torch.channels_last)).chunk(len(views)))
        return [of(view.to(memory_format=torch.channels_last)) for view in views]

    def step(views: list[Tensor]) -> Tensor:
        update_momentum(student, teacher, m=0.996)
        there = [view.to(device, non_blocking=True) for view in views]
        with torch.autocast(device.type, torch.bfloat16):
            with torch.no_grad():
                taught = outputs(teacher, there[:2])
            loss = criterion(taught, outputs(student, there[:2]) + outputs(student, there[2:]))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.detach()

    return step


def _kornia(images: np.ndarray, batch: int, repeats: int, device: torch.device) -> None:
    import kornia
    from kornia import augmentation as K

    ours = natural_views(images.shape[1])
    stored = torch.from_numpy(images[:batch]).permute(0, 3, 1, 2).contiguous().to(device)
    tell(versions={"kornia": kornia.__version__}, batch=len(stored), repeats=repeats)

    def views_of(size: int, scale: tuple[float, float], solarise: float, mode: str) -> nn.Module:
        parts = [
            K.RandomResizedCrop((size, size), scale, ours.ratio, align_corners=False, cropping_mode=mode),
            K.RandomHorizontalFlip(p=ours.flip),
            K.ColorJitter(*ours.jitter, p=ours.jitter_probability[0]),
            K.RandomGrayscale(p=ours.grey),
        ]
        if solarise:
            parts.append(K.RandomSolarize((0.5, 0.5), (0.0, 0.0), p=solarise))
        return nn.Sequential(*parts)

    def way(mode: str, together: bool) -> Callable[[], list[Tensor]]:
        first, second = (views_of(ours.size, ours.whole_scale, p, mode) for p in ours.solarise[:2])
        extra = views_of(ours.extra_size, ours.extra_scale, ours.solarise[2], mode)

        def views() -> list[Tensor]:
            pixels = stored.float() / 255
            if together:
                return [first(pixels), second(pixels), extra(pixels.repeat(ours.extra, 1, 1, 1))]
            return [first(pixels), second(pixels), *(extra(pixels) for _ in range(ours.extra))]

        return views

    ways = {
        "crops by slicing (its default), a view a call": way("slice", together=False),
        "crops by resampling, a view a call": way("resample", together=False),
        "crops by resampling, the extra views in one call": way("resample", together=True),
    }
    medians: dict[str, float] = {}
    for name, views in ways.items():
        medians[name] = _median_ms(views, repeats, device)
        tell(ms=min(medians.values()), ways=medians)


def skip(batches: Iterator[Any], count: int) -> Any:
    """The last of ``count`` + 1 batches."""
    for _ in range(count):
        next(batches)
    return next(batches)


def rate(call: Callable[[], Any], batch: int, seconds: float, device: torch.device, most: float = math.inf) -> float:
    """Images a second of calls that take a batch each, the work they left to the device included: as many as begin in
    ``seconds``, and no more than ``most``."""
    calls = 0
    _wait(device)
    began = time.perf_counter()
    while calls < most and time.perf_counter() - began < seconds:
        call()
        calls += 1
    _wait(device)
    return calls * batch / (time.perf_counter() - began)


@torch.no_grad()
def _median_ms(call: Callable[[], Any], repeats: int, device: torch.device) -> float:
    for _ in range(3):
        call()
    times = []
    for _ in range(repeats):
        _wait(device)
        if device.type == "cuda":
            began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            began.record()
            call()
            ended.record()
            ended.synchronize()
            times.append(began.elapsed_time(ended))
        else:
            clock = time.perf_counter()
            call()
            times.append(1e3 * (time.perf_counter() - clock))
    return statistics.median(times)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def main(rivals: dict[str, Callable[..., None]], rival: str, options: dict[str, Any]) -> None:
    """What a process of its own does: load the images and measure, or say which library is missing."""
    options["images"] = np.load(options["images"])
    options["device"] = torch.device(options["device"])
    torch.manual_seed(0)
    try:
        rivals[rival](**options)
    except ModuleNotFoundError as error:
        tell(reason=f"{rival} cannot be imported here: {error}")


if __name__ == "__main__":
    main({"lightly": _lightly, "kornia": _kornia}, sys.argv[1], json.loads(sys.argv[2]))
