"""What a run says of an outcome: whether to trust it, which categories its images have, how it was made."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from typing import Any

import numpy as np

from newfound._version import __version__
from newfound.config.mapping import to_mapping
from newfound.data.collection import Collection, Reading
from newfound.methods import get_method
from newfound.progress import Reporter
from newfound.runfolder import Run


def judge(run: Run, reading: Reading, outcome: Any, reporter: Reporter) -> tuple[Any, dict[str, Any]]:
    """The outcome with calibrated confidence, and what was chosen for the person and whether the result can be trusted.
    A data set has answers to tell that."""
    from newfound.trust.confidence import calibrated
    from newfound.trust.gauges import gauge
    from newfound.trust.rehearsal import rehearse
    from newfound.trust.warnings import doubts
    from newfound.trust.within import share_within

    result: dict[str, Any] = {"auto": [to_mapping(choice) for choice in run.auto], "warnings": list(run.warnings)}
    if run.counted is not None:
        result["counted"] = run.counted
    collection, rehearsal = reading.collection, None
    if run.call.source.dataset is None:
        method = get_method(run.settings.method)(run.settings)
        with reporter.task("judging the result", 3, "steps") as task:
            rehearsal = rehearse(collection, outcome, method, run.call.seed)
            task.advance(1)
            result["trust"] = gauge(collection, outcome, method, run.call.seed)
            task.advance(1)
            if (within := share_within(collection, outcome, run.call.seed)) is not None:
                result["trust"]["within"] = within
            task.advance(1)
        found = doubts(collection, outcome, result["trust"], rehearsal).values()
        for warning in found:
            reporter.warn(warning)
        result["warnings"] += found
    outcome = calibrated(collection, outcome, rehearsal)
    result["confidence"] = {"mean": float(outcome.confidence.mean()), "calibrated": outcome.calibrated}
    if rehearsal is not None:
        result["rehearsed"] = {
            "images": len(rehearsal.right), "right": float(rehearsal.right.mean()), "plain": rehearsal.right_plain
        }  # fmt: skip
    return outcome, result


def names_near(collection: Collection, outcome: Any) -> dict[str, list[str]]:
    """For each novel category the known ones that it is near. A network that labels have trained draws the known
    categories apart, so that all else seems near to one: no names then."""
    import torch

    from newfound.trust.near import near_known

    known, novel = outcome.model.known, outcome.model.novel
    features = outcome.features if outcome.features_before_stage2 is None else outcome.features_before_stage2
    if outcome.backbone_features is None or features is None:
        return {name: [] for name in novel}
    labels = torch.from_numpy(collection.labels[: collection.n_labelled])
    found = near_known(features, labels, outcome.assignments, len(known), len(novel))
    return {name: [known[other] for other in near] for name, near in zip(novel, found, strict=True)}


def write_assignments(run: Run, reading: Reading, outcome: Any) -> None:
    """assignments.csv: of each image the category and the confidence and, where the method kept them, its group by
    k-means on plain features, called like the category that it shares the most images with."""
    from newfound.evaluate.accuracy import match

    names = np.array(outcome.model.classes)
    columns = [names[outcome.assignments], [f"{c:.6f}" for c in outcome.confidence]]
    plain = outcome.earlier.get("plain")
    if plain is not None:
        meaning = match(plain, outcome.assignments)
        left = sorted(set(reading.collection.candidates.tolist()) - set(meaning.values()))
        meaning |= dict(zip(sorted(set(plain.tolist()) - set(meaning)), left, strict=False))
        columns.append([names[meaning[group]] for group in plain.tolist()])
    header = ["image", "category", "confidence", "plain"][: 1 + len(columns)]
    run.write_table("assignments.csv", header, sorted(zip(reading.names.unlabelled, *columns, strict=True)))


def describe(run: Run, reading: Reading, outcome: Any, engine: Any) -> dict[str, Any]:
    """What a record says beside the figures: method, data, hardware, versions, date."""
    import torch

    from newfound.engine.device import describe_device

    collection = reading.collection
    return {
        "newfound": __version__,
        "method": run.settings.method,
        "data": run.call.source.dataset or ("features" if run.call.source.features else "folders"),
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
