"""Settings compared where they may be: on labelled classes that play the novel ones. Writes a record.

    python benchmarks/rehearsal/run.py --dataset cifar100 --data ROOT --out record.json \\
        --set stage1.epochs=30 --run base --run hard:prototypes.soft=false --run sharp:prototypes.epsilon=0.02

Each --run is a name and the settings it changes, separated by commas; --set changes all of them. With --method each run
is one of that method, as a whole. Without it they are APL's in parts: each --branch goes on
from every run's stage I with a stage II of its own, so that these are compared on the same features;
without one the run's own follow. With --keep FOLDER the encoders of stage I stay there, and a run whose encoder is
there already has its stage I from it. The record is written after each part, and no part begins if the longest before
it would not fit into --minutes.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))
from record import begin, write

OTHERS = ("mixed", "fashion")
"""Rehearsals that only this benchmark knows, each in a module of its own."""


WATCHED = ("epoch", "ins", "cls", "pas", "cluster", "over", "inter", "label_entropy", "label_certainty",
           "similarity_range", "teacher_entropy", "loss", "agreement")  # fmt: skip


def recipe_of(dataset: str, method: str) -> str:
    return f"{method}-cifar10" if dataset in OTHERS else f"{method}-{dataset}"


class Rehearsal:
    """A data set's rehearsal, and runs on it: of a method, or of APL's parts, which may share one stage I."""

    def __init__(self, dataset: str, root: Path | None, seed: int, device: str, method: str = "apl") -> None:
        from newfound.data.sources import DATASETS, Request
        from newfound.engine.device import pick_device
        from newfound.errors import UserError
        from newfound.progress import Reporter

        self.method, self.recipe = method, recipe_of(dataset, method)
        self.seed, self.device = seed, pick_device(device)
        if dataset in OTHERS:
            if root is None:
                raise UserError(f"{dataset} needs --data: the folder that has its files")
            self.reading = getattr(importlib.import_module(dataset), f"read_{dataset}")(root, seed)
        else:
            size = self.settings({}).data.size
            self.reading = DATASETS[f"{dataset}-rehearsal"].read(Request(size, seed, Reporter(quiet=True), root))

    def settings(self, changes: dict[str, Any]) -> Any:
        from newfound.plan.recipe import resolve_settings

        return resolve_settings(self.method, self.recipe, changes)

    def whole(self, changes: dict[str, Any]) -> dict[str, Any]:
        """A run of the method from its first stage to its last."""
        from newfound.methods.base import run_method

        began = time.monotonic()
        with self._engine() as (engine, lines):
            outcome = run_method(self.settings(changes), self.reading.collection, engine)
        accuracy, test = self._accuracy(outcome, engine)
        ends = {line["stage"]: line for line in lines}
        return {
            "changes": changes,
            "seed": self.seed,
            "accuracy": accuracy,
            "test": test,
            "last": {stage: _watched(line) for stage, line in ends.items()},
            "seconds": round(time.monotonic() - began, 1),
        }

    def stage1(self, changes: dict[str, Any], kept: Path | None = None) -> tuple[Any, dict[str, Any]]:
        """What stage I found, and its record; from the file ``kept`` where it is there, which else is written."""
        if kept is None:
            return self._train_stage1(changes)
        if kept.exists():
            return self._read_stage1(changes, kept)
        found, run = self._train_stage1(changes)
        from safetensors.torch import save_file

        weights = {name: tensor.contiguous() for name, tensor in found.model.encoder.state_dict().items()}
        kept.parent.mkdir(parents=True, exist_ok=True)
        save_file(weights, kept, metadata={"run": json.dumps(run)})
        return found, run

    def _read_stage1(self, changes: dict[str, Any], kept: Path) -> tuple[Any, dict[str, Any]]:
        from safetensors import safe_open

        from newfound.errors import UserError
        from newfound.methods.apl import APL
        from newfound.model import Encoder

        with safe_open(kept, "pt") as file:
            run = json.loads(file.metadata()["run"])
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dict)
        if (run["changes"], run["seed"]) != (changes, self.seed):
            raise UserError(f"{kept} is of seed {run['seed']} with {run['changes']}, not of this run")
        chosen, train = self.settings(changes), self.reading.collection.train
        channels, size, _ = train.shape
        encoder = Encoder(chosen.network, channels, size, *train.channel_statistics(), dimension=chosen.dimension)
        encoder.load_state_dict(weights)
        with self._engine() as (engine, _):
            found = APL(chosen).read(encoder.to(self.device), self.reading.collection, engine)
        return found, {**run, "kept": True}

    def _train_stage1(self, changes: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        import torch

        from newfound.methods.apl import APL

        began = time.monotonic()
        torch.manual_seed(self.seed)
        with self._engine() as (engine, lines):
            found = APL(self.settings(changes)).represent(self.reading.collection, engine)
        curve = [line for line in lines if line["stage"] == "stage1"]
        some = curve[:: max(1, len(curve) // 12)][:-1] + curve[-1:]
        return found, {
            "changes": changes,
            "seed": self.seed,
            "accuracy": self._accuracy(found, engine)[0],
            "stage1": [_watched(line) for line in some],
            "seconds": round(time.monotonic() - began, 1),
            "branches": {},
        }

    def branch(self, found: Any, changes: dict[str, Any]) -> dict[str, Any]:
        """What follows stage I, from what it ``found``, which stays as it is."""
        import torch

        from newfound.methods.apl import APL

        began = time.monotonic()
        torch.manual_seed(self.seed)  # the classifier starts from the same numbers in every branch
        with self._engine() as (engine, lines):
            outcome = APL(self.settings(changes)).finish(copy.deepcopy(found), self.reading.collection, engine)
        accuracy, test = self._accuracy(outcome, engine)
        ends = {line["stage"]: line for line in lines}
        return {
            "accuracy": accuracy,
            "test": test,
            "last": {stage: _watched(line) for stage, line in ends.items()},
            "seconds": round(time.monotonic() - began, 1),
        }

    def _accuracy(self, outcome: Any, engine: Any) -> tuple[dict[str, float], Any]:
        from newfound.runs.figures import evaluate_run

        figures = evaluate_run(outcome, self.reading, engine)
        judged = {**figures.get("earlier", {}), "result": figures["unlabelled"]}
        return {name: round(found["accuracy"], 4) for name, found in judged.items()}, figures.get("test")

    @contextmanager
    def _engine(self) -> Iterator[tuple[Any, list[dict[str, Any]]]]:
        """An engine, and a list that has its metrics when it is done."""
        from newfound.engine.loop import Engine
        from newfound.engine.metrics import Metrics

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "metrics.jsonl"
            metrics = Metrics(path)
            engine = Engine(self.reading.collection, self.device, seed=self.seed, metrics=metrics, log_every=50)
            lines: list[dict[str, Any]] = []
            yield engine, lines
            metrics.close()
            lines += [json.loads(line) for line in path.read_text().splitlines()]


def _watched(line: dict[str, Any]) -> dict[str, float]:
    """Of a line of metrics.jsonl what tells how a stage went."""
    return {name: round(line[name], 4) for name in WATCHED if name in line}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", choices=["digits", "cifar10", "cifar100", "omniglot", *OTHERS], required=True)
    parser.add_argument("--method", help="Runs of this method as a whole; without it APL's, in parts.")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--run", action="append", default=[])
    parser.add_argument("--branch", action="append", default=[])
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--seed", type=int, action="append", default=[])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--minutes", type=float, default=1e6)
    parser.add_argument("--keep", type=Path, help="The folder for encoders of stage I.")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    from newfound.engine.device import pick_device
    from newfound.plan.recipe import parse_changes, resolve_settings

    method = options.method or "apl"
    recipe, changed = recipe_of(options.dataset, method), parse_changes(options.set)
    settings = resolve_settings(method, recipe, changed)
    record: dict[str, Any] = {
        "what": f"{method} in rehearsal on {options.dataset}: labelled classes play the novel ones",
        "recipe": recipe,
        **begin(settings=settings, seed=options.seed or [0], device=pick_device(options.device)),
        "runs": {},
    }

    began, longest = time.monotonic(), {"run": 0.0, "branch": 0.0}

    def fits(part: str) -> bool:
        return time.monotonic() - began + longest[part] < 60 * options.minutes

    def done(part: str, name: str, found: dict[str, Any]) -> None:
        longest[part] = max(longest[part], found["seconds"])
        write(options.out, record)
        last = found["last"] if "last" in found else found["stage1"][-1]
        print(name, found["accuracy"], last, found["seconds"], flush=True)

    def parse(text: str) -> tuple[str, dict[str, Any]]:
        name, _, changes = text.partition(":")
        parts = re.split(r",(?![^\[]*\])", changes)  # at commas outside of brackets
        return name, parse_changes([part for part in parts if part])

    for seed in options.seed or [0]:
        rehearsal = Rehearsal(options.dataset, options.data, seed, options.device, method)
        for name, own in map(parse, options.run or ["base"]):
            if not fits("run"):
                print(f"no time left for {name}", flush=True)
                continue
            changes = changed | own
            if options.method:
                record["runs"][f"{name}, seed {seed}"] = run = rehearsal.whole(changes)
                done("run", name, run)
                continue
            kept = options.keep and options.keep / f"{options.dataset}-{name}-{seed}.safetensors"
            found, run = rehearsal.stage1(changes, kept)
            record["runs"][f"{name}, seed {seed}"] = run
            done("run", name, run)
            for branch, more in map(parse, options.branch or ["base"]):
                if fits("branch"):
                    run["branches"][branch] = {"changes": more, **rehearsal.branch(found, changes | more)}
                    done("branch", f"  {branch}", run["branches"][branch])


if __name__ == "__main__":
    main()
