"""What there is of a data set, and whether it is whole."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from newfound.data.collection import Reading
from newfound.data.sources import Request, Source
from newfound.progress import Reporter


def check_data(
    name: str, root: Path | None, *, size: int = 32, reporter: Reporter | None = None, cache: Path | None = None
) -> dict[str, Any]:
    """How many images and classes the labelled, unlabelled and test parts of a data set have, and its tasks if any.

    With the mean of each channel over all training images, in units of the range 0 to 1, and the seconds that the
    reading took. Data that is not whole raises UserError, as it would in a run. ``size`` is in pixels, for data sets
    whose images have to be brought to a size.
    """
    source = Source(dataset=name, data=str(root) if root else None)
    began = time.perf_counter()
    reading = source.read(Request(size, 0, reporter or Reporter(quiet=True), cache=cache))
    seconds = time.perf_counter() - began
    collection = reading.collection
    means, _ = collection.train.channel_statistics(most=len(collection.train))
    return {
        "name": name,
        "labelled": {"images": collection.n_labelled, "classes": len(collection.classes)},
        **_answered(reading),
        "means": [round(float(mean), 4) for mean in means],
        "seconds": round(seconds, 2),
    }


def _answered(reading: Reading) -> dict[str, Any]:
    """The parts whose classes only the answers know."""
    collection, answers = reading.collection, reading.answers
    assert answers is not None  # data sets have them
    truth = np.array(answers.unlabelled, dtype=object)
    parts: dict[str, Any] = {"unlabelled": _count(truth), "test": _count(answers.test or ())}
    if len(collection.tasks) > 1:
        of = {task.name: truth[task.rows - collection.n_labelled] for task in collection.tasks}
        parts["tasks"] = {name: _count(names) for name, names in of.items()}
    return parts


def _count(categories: Iterable[str | None]) -> dict[str, int]:
    names = list(categories)
    return {"images": len(names), "classes": len(set(names))}
