"""How fast a step of UNO's discovery is, beside the same in an ordinary loop: writes a record for docs/speed.md.

    python benchmarks/speed/uno.py --out benchmarks/speed/uno-h200.json [--rival]
    python benchmarks/speed/page.py                           docs/speed.md from the records
    python benchmarks/speed/uno.py --device cpu --tiny        the same way through, on a CPU

Images are random numbers. Every figure of ours is a median over several stretches of steps, timed by the device's own
clock, in one run.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1]))
from record import begin, write
from steps import StageBench, Step, random_collection
from unoloop import RECIPE, uno_images_per_s

from newfound.engine.device import fastest_kernels, precision
from newfound.engine.optimiser import build_optimiser
from newfound.engine.stage import Batch
from newfound.methods.parts.encoder import make_encoder
from newfound.methods.parts.swapped import SwappedPrediction
from newfound.methods.parts.views import make_views
from newfound.nets.heads import CosineClassifier
from newfound.plan.recipe import resolve_settings

KNOWN, NOVEL, LABELLED = 80, 20, 0.8
TINY = {"network": "tiny", "discovery.batch": 40, "heads.count": 2, "heads.hidden": 32, "heads.bottleneck": 16}


class UnoBench(StageBench):
    """UNO's discovery on a device, its steps, and their times."""

    def __init__(self, device: torch.device, changes: dict[str, Any], images: int) -> None:
        collection = random_collection(images, KNOWN, NOVEL, labelled=LABELLED)
        super().__init__(device, collection, resolve_settings("uno", RECIPE, changes))

    def new_stage(self) -> SwappedPrediction:
        encoder = make_encoder(self.settings.network, self.collection, None)
        known = CosineClassifier(encoder.width, KNOWN, self.settings.heads.temperature)
        views = make_views(self.settings.views, encoder.size)
        return SwappedPrediction(encoder, known, self.collection, self.settings, views).to(self.device).train()

    def bare(self) -> Step:
        """The model's step alone: encoder forward and backward, heads, labels, losses, SGD, unit prototypes."""
        stage = self.new_stage()
        optimiser = build_optimiser(stage.plan, stage.parameter_groups(), self.device)
        for group in optimiser.param_groups:
            group["lr"].fill_(1e-2)
        t = torch.zeros((), dtype=torch.int64, device=self.device)
        index = self.order[0].to(self.device)
        images = self.engine.train_images.batch(index)
        views = stage.views.apply(images, stage.views.draw(torch.Generator(self.device), len(index), t))
        batch = Batch(views, self.engine.labels[index], index, stage.sampler.n_known)

        def step(index: Tensor, images: Tensor) -> None:
            with precision(self.device):
                loss = stage.step(batch, t)["loss"]
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            with torch.no_grad():
                stage.after_step(t)

        return step


def measure(options: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    changes: dict[str, Any] = TINY if options.tiny else {}
    bench = UnoBench(device, changes, 1000 if options.tiny else 50_000)
    batch, repeats = bench.batch, 2 if options.tiny else 40
    record: dict[str, Any] = {"batch": batch, "ms": {}}
    ms = record["ms"]

    def note(name: str, value: float) -> None:
        ms[name] = round(value, 3)
        print(f"{name:40s} {value:8.2f} ms {1e3 * batch / value:10,.0f} images/s", flush=True)

    note("bare", bench.time(bench.captured(bench.bare()), repeats))
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    note("full", bench.time(bench.full(capture=True)[1], repeats))
    if device.type == "cuda":
        record["peak_memory_gb"] = round(torch.cuda.max_memory_allocated() / 1e9, 2)
    note("bare again", bench.time(bench.captured(bench.bare()), repeats))
    note("full, kernel by kernel", bench.time(bench.full(capture=False)[1], max(2, repeats // 4)))
    flops, bare = bench.flops(), min(ms["bare"], ms["bare again"])
    record["tflop_per_bare_step"] = round(flops / 1e12, 3)
    record["tflops"] = {name: round(flops / ms[name] / 1e9, 1) for name in ("bare", "full")}
    record["full_over_bare"] = round(bare / ms["full"], 4)
    record["images_per_s"] = {"bare": round(1e3 * batch / bare), "full": round(1e3 * batch / ms["full"])}
    if options.rival:
        images = bench.collection.train.images.permute(0, 2, 3, 1).contiguous().numpy()
        short = {"workers": 1, "steps": 2} if options.tiny else {}
        same = {"known": KNOWN, "novel": NOVEL, "labelled": bench.collection.n_labelled, "changes": changes}
        record["rival"] = uno_images_per_s(images, **same, batch=batch, device=device.type, **short)
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--rival", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = torch.device(options.device)
    settings = resolve_settings("uno", RECIPE, TINY if options.tiny else {})
    made = begin(settings=settings, seed=0, device=device)
    what = f"UNO's discovery, recipe {RECIPE}, 2 views of 32 px and 2 of 16 px, {KNOWN} known and {NOVEL} novel"
    with fastest_kernels():
        record = {**made, "what": what, **measure(options, device)}
    if options.out:
        write(options.out, record)
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
