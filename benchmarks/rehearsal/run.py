"""Settings compared where they may be: on labelled classes that play the novel ones. Writes a record.

    python benchmarks/rehearsal/run.py --dataset cifar100 --data ROOT --out record.json \\
        --set stage1.epochs=30 --run base --run hard:prototypes.soft=false --run sharp:prototypes.epsilon=0.02
    python benchmarks/rehearsal/run.py --dataset cifar100 --data ROOT --method apl-plus --out record.json \\
        --run thirty:stage1.epochs=30 --branch base --branch alone:discovery_instance=0 --branch late:inter=0.02

Each --run is a name and the settings it changes, separated by commas; --set changes all of them. With --branch the
stages of a run up to --share, by default its first one, are trained once, and each branch goes on from there with the
changes of its own, so that branches are compared on the same stage I. With --keep FOLDER these stages stay there for
later calls. The record is written after each part, and no part begins if the longest before it would not fit into
--minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import re
import shutil
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

NEVER = 10**9
"""Epochs between checkpoints: a stage is kept at its end alone."""

WATCHED = ("epoch", "ins", "cls", "pas", "cluster", "over", "inter", "label_entropy", "label_certainty",
           "similarity_range", "teacher_entropy", "loss", "agreement")  # fmt: skip


def recipe_of(dataset: str, method: str) -> str:
    return f"{method}-cifar10" if dataset in OTHERS else f"{method}-{dataset}"


class Reached(Exception):
    """The stages that branches share have been trained."""


class Rehearsal:
    """A data set's rehearsal, and a method's runs on it, which may share their first stages."""

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

    def whole(self, changes: dict[str, Any], begun: Path | None = None) -> dict[str, Any]:
        """A run from its first stage to its last, or from those that ``begun`` has."""
        from newfound.methods.base import run_method

        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "run"
            if begun:
                shutil.copytree(begun, place)
            with self._engine(place) as (engine, lines):
                outcome = run_method(self.settings(changes), self.reading.collection, engine)
            accuracy, test = self._accuracy(outcome, engine)
        return {
            "changes": changes,
            "seed": self.seed,
            "accuracy": accuracy,
            "test": test,
            "last": {line["stage"]: _watched(line) for line in lines},
            "seconds": round(time.monotonic() - began, 1),
        }

    def begin(self, changes: dict[str, Any], folder: Path, share: str) -> dict[str, Any]:
        """Train the stages up to ``share`` ("" for the first) into ``folder``, unless they are there; their record."""
        from newfound.errors import UserError
        from newfound.methods.base import run_method

        record = folder / "run.json"
        asked = {"changes": changes, "seed": self.seed, "share": share}
        if record.exists():
            run: dict[str, Any] = json.loads(record.read_text())
            if {name: run[name] for name in asked} != asked:
                raise UserError(f"{folder} is of {run['changes']} and seed {run['seed']}, not of this run")
            return run
        began = time.monotonic()
        shutil.rmtree(folder, ignore_errors=True)  # of a call that was cut off
        with self._engine(folder, share) as (engine, lines), contextlib.suppress(Reached):
            run_method(self.settings(changes), self.reading.collection, engine)
            raise UserError(f"{self.method} has no stage {share}; its stages are {', '.join(engine.seconds)}")
        curve = lines[:: max(1, len(lines) // 12)][:-1] + lines[-1:]
        run = {**asked, "curve": [_watched(line) for line in curve], "seconds": round(time.monotonic() - began, 1)}
        record.write_text(json.dumps(run))
        return run

    def _accuracy(self, outcome: Any, engine: Any) -> tuple[dict[str, float], Any]:
        from newfound.runs.figures import evaluate_run

        figures = evaluate_run(outcome, self.reading, engine)
        judged = {**figures.get("earlier", {}), "result": figures["unlabelled"]}
        return {name: round(found["accuracy"], 4) for name, found in judged.items()}, figures.get("test")

    @contextmanager
    def _engine(self, folder: Path, share: str | None = None) -> Iterator[tuple[Any, list[dict[str, Any]]]]:
        """An engine that keeps the stages it has trained in ``folder``, and a list that has its metrics when it is
        done. With ``share`` it raises Reached after the stage of that name, or after the first."""
        from newfound.engine.checkpoint import Checkpoints
        from newfound.engine.loop import Engine
        from newfound.engine.metrics import Metrics
        from newfound.engine.stage import Stage
        from newfound.progress import Reporter

        class UpTo(Engine):
            def train(self, stage: Stage) -> None:
                super().train(stage)
                if share is not None and share in ("", stage.name):
                    raise Reached

        folder.mkdir(parents=True, exist_ok=True)
        metrics = Metrics(folder / "metrics.jsonl")
        engine = UpTo(
            self.reading.collection,
            self.device,
            seed=self.seed,
            checkpoints=Checkpoints(folder / "checkpoint", Reporter(quiet=True)),
            checkpoint_every=NEVER,
            metrics=metrics,
            log_every=50,
        )
        lines: list[dict[str, Any]] = []
        try:
            yield engine, lines
        finally:
            metrics.close()
        lines += [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def _watched(line: dict[str, Any]) -> dict[str, float]:
    """Of a line of metrics.jsonl what tells how a stage went."""
    return {name: round(line[name], 4) for name in WATCHED if name in line}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", choices=["digits", "cifar10", "cifar100", "omniglot", *OTHERS], required=True)
    parser.add_argument("--method", default="apl")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--run", action="append", default=[])
    parser.add_argument("--branch", action="append", default=[])
    parser.add_argument("--share", default="", help="The last stage that branches share; by default the first.")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--seed", type=int, action="append", default=[])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--minutes", type=float, default=1e6)
    parser.add_argument("--keep", type=Path, help="The folder for stages that branches share.")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rehearse(options, options.keep or Path(folder))


def rehearse(options: argparse.Namespace, keep: Path) -> None:
    from newfound.engine.device import pick_device
    from newfound.plan.recipe import parse_changes, resolve_settings

    recipe, changed = recipe_of(options.dataset, options.method), parse_changes(options.set)
    settings = resolve_settings(options.method, recipe, changed)
    record: dict[str, Any] = {
        "what": f"{options.method} in rehearsal on {options.dataset}: labelled classes play the novel ones",
        "recipe": recipe,
        **begin(settings=settings, seed=options.seed or [0], device=pick_device(options.device)),
        "runs": {},
    }

    began, longest = time.monotonic(), {"run": 0.0, "branch": 0.0}

    def fits(part: str, name: str) -> bool:
        enough = time.monotonic() - began + longest[part] < 60 * options.minutes
        if not enough:
            print(f"no time left for {name}", flush=True)
        return enough

    def done(part: str, name: str, found: dict[str, Any]) -> None:
        longest[part] = max(longest[part], found["seconds"])
        write(options.out, record)
        last = found["last"] if "last" in found else found["curve"][-1]
        print(name, found.get("accuracy", ""), last, found["seconds"], flush=True)

    def parse(text: str) -> tuple[str, dict[str, Any]]:
        name, _, changes = text.partition(":")
        parts = re.split(r",(?![^\[]*\])", changes)  # at commas outside of brackets
        return name, parse_changes([part for part in parts if part])

    for seed in options.seed or [0]:
        rehearsal = Rehearsal(options.dataset, options.data, seed, options.device, options.method)
        for name, own in map(parse, options.run or ["base"]):
            if not fits("run", name):
                continue
            changes = changed | own
            if not options.branch:
                record["runs"][f"{name}, seed {seed}"] = run = rehearsal.whole(changes)
                done("run", name, run)
                continue
            begun = keep / f"{options.dataset}-{options.method}-{name}-{seed}"
            run = {**rehearsal.begin(changes, begun, options.share), "branches": {}}
            record["runs"][f"{name}, seed {seed}"] = run
            done("run", name, run)
            for branch, more in map(parse, options.branch):
                if fits("branch", f"{name}, {branch}"):
                    found = rehearsal.whole(changes | more, begun)
                    run["branches"][branch] = found | {"changes": more}
                    done("branch", f"  {branch}", found)


if __name__ == "__main__":
    main()
