"""discover and resume: from images to a finished run folder, and the Discovery that tells what was found."""

from __future__ import annotations

import platform
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from newfound._version import __version__
from newfound.data.cache import default_cache
from newfound.data.collection import Reading
from newfound.data.sources import Request, Source
from newfound.errors import Interrupted, UserError
from newfound.files import write_json
from newfound.methods import get_method
from newfound.progress import Reporter
from newfound.run import Call, Run, check_free
from newfound.settings import Settings, from_mapping, load_recipe, override


@dataclass(frozen=True)
class Discovery:
    """What a finished run found: a category and a confidence for every unlabelled image."""

    folder: Path
    images: tuple[str, ...]
    categories: tuple[str, ...]
    confidence: tuple[float, ...]
    result: dict[str, Any]
    """Every figure of the run, as in result.json."""

    @classmethod
    def of(cls, run: Run) -> Discovery:
        """The discovery that a finished run folder holds."""
        result, rows = run.read_result(), run.read_assignments()
        images, categories = tuple(r["image"] for r in rows), tuple(r["category"] for r in rows)
        return cls(run.folder, images, categories, tuple(float(r["confidence"]) for r in rows), result)

    def __len__(self) -> int:
        return len(self.images)

    def sizes(self) -> dict[str, int]:
        """How many images each discovered category has, empty ones included."""
        return {name: 0 for name in self.result["novel"]} | dict(sorted(Counter(self.categories).items()))

    def images_of(self, category: str) -> list[str]:
        """The images of a category, the surest first."""
        if category not in self.sizes():
            raise UserError(f"there is no category {category}; there are: {', '.join(self.sizes())}")
        rows = [
            (-c, i)
            for i, name, c in zip(self.images, self.categories, self.confidence, strict=True)
            if name == category
        ]
        return [image for _, image in sorted(rows)]

    def to_frame(self) -> Any:
        """A pandas DataFrame with the columns image, category, confidence."""
        try:
            import pandas as pd
        except ImportError:
            raise UserError("to_frame needs pandas: pip install pandas") from None
        return pd.DataFrame({"image": self.images, "category": self.categories, "confidence": self.confidence})

    def model(self) -> Any:
        """The classifier over old and new categories, as a fitted Discoverer."""
        from newfound.estimator import load

        return load(self.folder)


def discover(
    labelled: str | Path | None = None,
    unlabelled: str | Path | None = None,
    *,
    n_novel: int | None = None,
    out: str | Path,
    dataset: str | None = None,
    data: str | Path | None = None,
    labels: str | Path | None = None,
    method: str = "kmeans",
    recipe: str | None = None,
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    device: str = "auto",
    threads: int = 0,
    cache: str | Path | None = None,
    reporter: Reporter | None = None,
) -> Discovery:
    """Find ``n_novel`` categories among unlabelled images, and leave everything in the run folder ``out``.

    ``labelled`` has one folder a category (or any tree, with ``labels``, a CSV file image,label); ``unlabelled`` is any
    tree of images. Instead of both, ``dataset`` names a data set, whose files are in ``data``. ``settings`` maps dotted
    names to values, such as {"stage1.epochs": 50}, and goes over the ``recipe``. Decoded images are kept in ``cache``,
    by default the user's cache folder.
    """
    import torch

    from newfound.engine.device import pick_device

    reporter = reporter or Reporter(quiet=True)
    source = Source(
        dataset=dataset,
        data=str(data) if data else None,
        labelled=str(labelled) if labelled else None,
        unlabelled=str(unlabelled) if unlabelled else None,
        labels=str(labels) if labels else None,
        n_novel=n_novel,
    ).absolute()
    resolved = resolve_settings(method, recipe or f"{method}-{source.recipe}", settings or {})
    place = Path(cache).absolute() if cache else default_cache()
    call = Call(source, seed, str(pick_device(device)), threads or torch.get_num_threads(), str(place))
    folder = Path(out)
    check_free(folder)
    reading = read_call(call, resolved, reporter)
    return _execute(Run.create(folder, call, resolved), reading, reporter)


def resume(folder: str | Path, *, reporter: Reporter | None = None) -> Discovery:
    """Go on with an interrupted run from its newest checkpoint; a finished one is given back as it is."""
    reporter = reporter or Reporter(quiet=True)
    run = Run.open(Path(folder))
    if run.finished:
        reporter.say(f"the run {folder} is finished already")
        return Discovery.of(run)
    return _execute(run, read_call(run.call, run.settings, reporter), reporter)


def resolve_settings(method: str, recipe: str, changes: Mapping[str, Any]) -> Settings:
    """The recipe with ``changes`` over it, checked."""
    row = get_method(method)
    mapping = load_recipe(recipe)
    if mapping.get("method") != method:
        raise UserError(f"the recipe {recipe} is for the method {mapping.get('method')}, not {method}")
    from_mapping(row.settings, mapping, f"recipe {recipe}")
    return from_mapping(row.settings, override(mapping, changes), "--set")


def read_call(call: Call, settings: Settings, reporter: Reporter) -> Reading:
    """The images a run was called with."""
    return call.source.read(Request(settings.data.size, call.seed, reporter, cache=Path(call.cache)))


def _execute(run: Run, reading: Reading, reporter: Reporter) -> Discovery:
    import torch

    from newfound.engine.checkpoint import Checkpoints
    from newfound.engine.device import pick_device
    from newfound.engine.loop import Engine
    from newfound.engine.metrics import Metrics

    began = time.monotonic()
    with run.locked():
        run.remember(reading.collection)
        run.write_table("skipped.csv", ["file", "reason"], ([s.file, s.reason] for s in reading.skipped))
        if reading.skipped:
            reporter.say(f"{len(reading.skipped)} files were left out: {run.folder / 'skipped.csv'} says why")
        torch.set_num_threads(run.call.threads)
        metrics = Metrics(run.folder / "metrics.jsonl")
        engine = Engine(
            reading.collection,
            pick_device(run.call.device),
            seed=run.call.seed,
            reporter=reporter,
            checkpoints=Checkpoints(run.folder / "checkpoint", reporter),
            metrics=metrics,
            log_every=run.settings.log_every,
            checkpoint_every=run.settings.checkpoint_every,
        )
        try:
            outcome = get_method(run.settings.method).load()(run.settings).fit(reading.collection, engine)
        except Interrupted as error:
            raise Interrupted(f"{error}; go on with `newfound resume {run.folder}`") from None
        finally:
            metrics.close()
        outcome.model.save(run.folder / "model")
        _write_assignments(run, reading, outcome)
        result = _describe(run, reading, outcome, engine)
        result |= evaluate_run(outcome.model, reading, outcome.assignments, engine, outcome.earlier)
        result["seconds"]["since_start"] = round(time.monotonic() - began, 3)
        write_json(run.folder / "result.json", result)
    return Discovery.of(run)


def _write_assignments(run: Run, reading: Reading, outcome: Any) -> None:
    categories = np.array(outcome.model.novel)[outcome.assignments]
    rows = zip(reading.names.unlabelled, categories, (f"{c:.6f}" for c in outcome.confidence), strict=True)
    run.write_table("assignments.csv", ["image", "category", "confidence"], sorted(rows))


def _describe(run: Run, reading: Reading, outcome: Any, engine: Any) -> dict[str, Any]:
    """What a record says beside the figures: method, data, hardware, versions, date."""
    import torch

    from newfound.engine.device import describe_device

    collection = reading.collection
    return {
        "newfound": __version__,
        "method": run.settings.method,
        "data": run.call.source.dataset or "folders",
        "seed": run.call.seed,
        "images": {
            "labelled": collection.n_labelled,
            "unlabelled": collection.n_unlabelled,
            "test": len(collection.test) if collection.test is not None else 0,
            "skipped": len(reading.skipped),
        },
        "known": list(outcome.model.known),
        "novel": list(outcome.model.novel),
        "figures": outcome.figures,
        "seconds": {name: round(value, 3) for name, value in engine.seconds.items()},
        "hardware": describe_device(engine.device),
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__},
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def evaluate_run(
    model: Any, reading: Reading, assignments: np.ndarray, engine: Any, earlier: Mapping[str, np.ndarray] | None = None
) -> dict[str, Any]:
    """The figures that need answers, which only this function sees: "unlabelled" and "test", where there are any; and
    "earlier", those of assignments on the way."""
    from newfound.evaluate.protocol import evaluate_test
    from newfound.evaluate.tasks import evaluate_tasks

    answers, test = reading.answers, reading.collection.test
    if answers is None or answers.unlabelled is None:
        return {}
    first = reading.collection.n_labelled
    tasks = {task.name: task.rows - first for task in reading.collection.tasks}

    def judge(found: np.ndarray) -> dict[str, Any]:
        return evaluate_tasks([model.novel[i] for i in found], answers.unlabelled or (), tasks)

    figures: dict[str, Any] = {"unlabelled": judge(assignments)}
    if earlier:
        figures["earlier"] = {name: judge(found) for name, found in earlier.items()}
    if test is not None and answers.test is not None:
        logits = engine.features(model, test, title="test images").cpu().numpy()
        figures["test"] = evaluate_test(
            logits, model.known, len(model.novel), answers.test, assignments, answers.unlabelled
        )
    return figures
