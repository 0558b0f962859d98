"""How fast a step of APL's stage I is, and where its time goes: writes a record for docs/speed.md.

    python benchmarks/speed/run.py --out benchmarks/speed/h200.json [--rivals] [--growth] [--compile]
    python benchmarks/speed/page.py                           docs/speed.md from h200.json
    python benchmarks/speed/run.py --device cpu --tiny        the same way through, in a minute, on a CPU

Images are random numbers: a step's time does not depend on what they show. Every figure is a median over several
stretches of steps, timed by the device's own clock, in one run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

sys.path.append(str(Path(__file__).parents[1]))
from record import begin, write
from steps import StageBench, random_collection

from newfound.cluster.kmeans import kmeans
from newfound.engine.device import SideStream, fastest_kernels, precision
from newfound.engine.optimiser import build_optimiser
from newfound.evaluate.neighbours import vote
from newfound.evaluate.tasks import evaluate_tasks
from newfound.losses import self_distillation
from newfound.methods.instance.dino import Dino
from newfound.methods.parts.representation import Representation
from newfound.model import Encoder
from newfound.nets import norm
from newfound.plan.recipe import resolve_settings

HERE = Path(__file__).parent
TINY = {"network": "tiny", "stage1.batch": 32, "dino.hidden": 32, "dino.bottleneck": 16, "dino.out": 64}
LABELS = {"prototypes.labels_from": "mean", "prototypes.balance": "bank", "prototypes.soft": False}
"""Over a bank of all unlabelled images, as the records have been measured; CIFAR-10's recipe balances over a batch."""


def settings(changes: dict[str, Any]) -> Any:
    return resolve_settings("apl", "apl-cifar10", {**LABELS, **changes})


class Bench(StageBench):
    """A stage I on a device, its steps, and their times."""

    def __init__(self, device: torch.device, changes: dict[str, Any], *, images: int, known: int, novel: int) -> None:
        super().__init__(device, random_collection(images, known, novel), settings(changes))

    def new_stage(self) -> Representation:
        statistics_ = self.collection.train.channel_statistics(4096)
        encoder = Encoder(self.settings.network, 3, 32, *statistics_)
        return Representation(encoder, self.collection, self.settings).to(self.device).train()

    def bare(self, compiled: bool = False) -> Callable[[Tensor, Tensor], None]:
        """The model's step alone: student forward and backward, teacher forward, heads, AdamW, moving average."""
        stage = self.new_stage()
        groups = stage.parameter_groups()
        optimiser = build_optimiser(stage.plan, groups, self.device)
        for group in optimiser.param_groups:
            group["lr"].fill_(1e-4)
        images = self.engine.train_images.batch(self.order[0].to(self.device))
        drawn = stage.views.draw(torch.Generator(self.device), len(images), torch.zeros((), dtype=torch.int64))
        crops = stage.views.apply(images, drawn)
        t = torch.zeros((), dtype=torch.int64, device=self.device)
        model = stage.learner
        assert isinstance(model, Dino)

        def forward() -> Tensor:
            with SideStream("teacher", crops.whole) as teacher:
                taught = model.look(crops, t)[0]["outputs"]
            student = model._student(stage.encoder, stage.encoder(crops.whole.flatten(0, 1)), crops)
            teacher.join(taught)
            return self_distillation(student, taught, model.centre)

        function = torch.compile(forward) if compiled else forward

        def step(index: Tensor, images: Tensor) -> None:
            with precision(self.device):
                loss = function()
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            model.after_step(stage.encoder, t)

        return step

    def parts(self) -> dict[str, Callable[[Tensor, Tensor], None]]:
        """Pieces of a step, each by itself."""
        stage, generator = self.stage, self.generator
        t = torch.zeros((), dtype=torch.int64, device=self.device)
        n = self.batch
        images = self.engine.train_images.batch(self.order[0].to(self.device))
        drawn = stage.views.draw(generator, n, t)
        crops = stage.views.apply(images, drawn)
        rows = self.order[0, stage.sampler.n_known :].to(self.device) - stage.n_labelled
        source = torch.randn(len(rows), stage.encoder.width, device=self.device)

        def teach(*_: Tensor) -> None:
            with precision(self.device), torch.no_grad():
                stage.learner.look(crops, t)

        def forward_backward(views: Tensor) -> None:
            with precision(self.device):
                features = stage.encoder(views.flatten(0, 1))
            features.float().square().mean().backward()
            for p in stage.parameters():
                p.grad = None

        return {
            "draws": lambda *_: stage.views.draw(generator, n, t) and None,
            "views": lambda index, images: stage.views.apply(images, drawn) and None,
            "teacher": teach,
            "encoder, whole views": lambda *_: forward_backward(crops.whole),
            "encoder, extra views": lambda *_: forward_backward(crops.extra),
            "pseudo labels": lambda *_: stage._assign(source, rows, t) and None,
            "moving average": lambda *_: stage.learner.after_step(stage.encoder, t),
        }

    def after_training(self) -> dict[str, float]:
        """Seconds of what follows a stage, by the wall: features of all images, ten starts of k-means on all of them, a
        vote of neighbours for a fifth of them, and the metrics. Each is done for the first time."""
        encoder, seconds = self.stage.encoder.eval(), {}
        k = self.collection.n_novel
        truth = [str(i) for i in np.random.default_rng(1).integers(0, k, len(self.collection.labels))]

        def timed(name: str, work: Callable[[], Any]) -> Any:
            began = time.perf_counter()
            result = work()
            if self.device.type == "cuda":
                torch.cuda.synchronize()
            seconds[name] = round(time.perf_counter() - began, 2)
            return result

        images = self.engine.train_images
        features = timed("features", lambda: self.engine.features(encoder, images, title="features"))
        found = timed("k-means", lambda: kmeans(features, k, starts=10).labels.cpu().numpy())
        half = self.collection.n_labelled
        known, labels = features[:half], self.engine.labels[:half]
        queries = features[: len(features) // 5]
        timed("neighbours", lambda: vote(known, labels, queries, len(self.collection.classes)).cpu())
        timed("metrics", lambda: evaluate_tasks([f"novel-{i}" for i in found], truth, {"": np.arange(len(truth))}))
        return seconds


def matrix_rate(device: torch.device) -> float:
    """TFLOP/s of a large bfloat16 product of random matrices."""
    n = 8192
    a, b = (torch.randn(n, n, device=device, dtype=torch.bfloat16) for _ in range(2))
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(3):
        a @ b
    start.record()
    for _ in range(10):
        a @ b
    end.record()
    torch.cuda.synchronize()
    return 10 * 2 * n**3 / (start.elapsed_time(end) * 1e-3) / 1e12


@contextmanager
def torch_kernels():  # type: ignore[no-untyped-def]
    """Without kernels of our own."""
    before = norm.has_triton
    norm.has_triton = lambda: False  # type: ignore[assignment]
    try:
        yield
    finally:
        norm.has_triton = before


def measure(options: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    changes: dict[str, Any] = TINY if options.tiny else {}
    size = {"images": 2000 if options.tiny else 50_000, "known": 5, "novel": 5}
    repeats = 3 if options.tiny else 40
    bench = Bench(device, changes, **size)
    batch = bench.batch
    record: dict[str, Any] = {"batch": batch, "ms": {}, "parts_ms": {}}
    ms = record["ms"]

    def note(name: str, value: float) -> None:
        ms[name] = round(value, 3)
        print(f"{name:40s} {value:8.2f} ms {1e3 * batch / value:10,.0f} images/s", flush=True)

    if device.type == "cuda":
        record["matrix_tflops"] = round(matrix_rate(device), 1)
    began = time.monotonic()
    note("bare", bench.time(bench.captured(bench.bare()), repeats))
    record["seconds_to_first_graph"] = round(time.monotonic() - began, 1)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    training, step = bench.full(capture=True)
    note("full", bench.time(step, repeats))
    if device.type == "cuda":
        record["peak_memory_gb"] = round(torch.cuda.max_memory_allocated() / 1e9, 2)
    del training, step
    note("bare again", bench.time(bench.captured(bench.bare()), repeats))
    note("full, kernel by kernel", bench.time(bench.full(capture=False)[1], max(3, repeats // 4)))
    note("bare, kernel by kernel", bench.time(bench.bare(), max(3, repeats // 4)))
    with torch_kernels():
        note("bare, torch's batch norm", bench.time(bench.captured(bench.bare()), repeats))
        if options.compile:
            began = time.monotonic()
            note("bare, compiled by torch", bench.time(bench.captured(bench.bare(compiled=True)), repeats))
            record["seconds_of_compilation"] = round(time.monotonic() - began, 1)
    for name, part in bench.parts().items():
        record["parts_ms"][name] = round(bench.time(bench.captured(part), repeats, 3), 3)
        print(f"  part: {name:34s} {record['parts_ms'][name]:8.3f} ms", flush=True)
    record["after_training_s"] = bench.after_training()
    print("  after training, seconds:", record["after_training_s"], flush=True)
    flops = bench.flops()
    record["tflop_per_bare_step"] = round(flops / 1e12, 3)
    record["tflops"] = {name: round(flops / value / 1e9, 1) for name, value in ms.items() if "kernel" not in name}
    bare = min(ms["bare"], ms["bare again"])
    record["full_over_bare"] = round(bare / ms["full"], 4)
    record["images_per_s"] = {
        "bare": round(1e3 * batch / bare),
        "full": round(1e3 * batch / ms["full"]),
        "eager": round(1e3 * batch / ms["full, kernel by kernel"]),
    }
    if options.growth:
        record["growth"] = growth(device, changes, size, repeats)
    if options.rivals:
        record["rivals"] = rivals(bench)
        lightly = record["rivals"]["lightly"]
        if isinstance(lightly, dict) and "images_per_s" in lightly:
            record["images_per_s"]["lightly"] = lightly["images_per_s"]
    return record


def growth(device: torch.device, changes: dict[str, Any], size: dict[str, int], repeats: int) -> dict[str, Any]:
    """Milliseconds of the full step as one thing grows and the others stay."""
    cases: dict[str, list[tuple[Any, dict[str, Any], dict[str, int]]]] = {
        "batch": [(b, {"stage1.batch": b}, {}) for b in (64, 128, 512, 1024)],
        "images": [(n, {}, {"images": n}) for n in (10_000, 200_000)],
        "novel classes": [(k, {}, {"novel": k}) for k in (20, 100, 500)],
        "extra views": [(v, {"views.extra": v}, {}) for v in (0, 2, 4, 8)],
    }
    found: dict[str, Any] = {}
    for name, rows in cases.items():
        found[name] = {}
        for value, more, other in rows:
            bench = Bench(device, {**changes, **more}, **{**size, **other})
            _, step = bench.full(capture=True)
            ms = bench.time(step, max(3, repeats // 2), 3)
            found[name][str(value)] = {"ms": round(ms, 3), "images_per_s": round(1e3 * bench.batch / ms)}
            print(f"  {name} = {value}: {ms:.2f} ms", flush=True)
    return found


def rivals(bench: Bench) -> dict[str, Any]:
    """What others take for the same work on the same device."""
    sys.path.insert(0, str(HERE))
    from rivals import kornia_ms, lightly_images_per_s

    images = bench.collection.train.images.permute(0, 2, 3, 1).contiguous().numpy()
    return {"lightly": lightly_images_per_s(images), "kornia": kornia_ms(images)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--rivals", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = torch.device(options.device)
    with fastest_kernels():
        record = measure(options, device)
    record = {
        **begin(settings=settings(TINY if options.tiny else {}), seed=0, device=device),
        "what": "stage I of APL, recipe apl-cifar10 with labels over a bank, 2 views of 32 px and 6 of 16 px, bfloat16",
        **record,
    }
    if options.out:
        write(options.out, record)
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
