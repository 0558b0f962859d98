"""A script as people write it, for `mypy --strict` (make lint): every public result has a type."""

from pathlib import Path
from typing import Any, assert_type

import numpy as np
import pandas as pd
import torch

import newfound
from newfound import (
    APL,
    Comparison,
    Count,
    Discoverer,
    Discovery,
    UserError,
    compare,
    count_novel,
    discover,
    evaluate,
    load,
    open_run,
    resume,
)


def find(known: Path, pile: Path) -> None:
    found = discover(known, pile, n_novel=12, out="run", time="20m", verbose=False)
    assert_type(found, Discovery)
    assert_type(found.sizes(), dict[str, int])
    assert_type(found.images_of("novel-01"), list[str])
    assert_type(found.to_frame(), pd.DataFrame)
    assert_type(found.model(), Discoverer)
    assert_type(found.export("sorted", link="symlink"), dict[str, int])
    assert_type(resume("run"), Discovery)
    assert_type(open_run("run"), Discovery)
    assert_type(found.evaluate("truth.csv"), dict[str, Any])
    assert_type(discover(known, pile, n_novel="auto", out="again"), Discovery)
    assert_type(compare([found, "again"]), Comparison)
    assert_type(compare("runs").to_frame(), pd.DataFrame)
    assert_type(count_novel(known, pile), Count)
    assert_type(count_novel(run="run").interval, tuple[int, int])


def fit(images: np.ndarray, tensor: torch.Tensor, paths: list[Path], labels: np.ndarray) -> float:
    assert_type(APL(n_novel=3).fit(images, labels), APL)
    assert_type(Discoverer(n_novel="auto").fit(images, labels).count_, Count)
    model = Discoverer(n_novel=3, time=600, random_state=None).fit(images, labels)
    assert_type(model, Discoverer)
    assert_type(model.labels_, np.ndarray)
    assert_type(model.novel_classes_, np.ndarray)
    assert_type(model.n_features_in_, int)
    assert_type(model.trust_, dict[str, float])
    assert_type(model.predict(tensor), np.ndarray)
    assert_type(model.predict_proba(paths), np.ndarray)
    assert_type(model.calibrate(paths), Discoverer)
    assert_type(load("run"), Discoverer)
    try:
        model.fit(paths, ["a", "b", None])
    except UserError as error:
        assert_type(str(error), str)
    return model.score(images, labels)


def judge(found: list[str], truth: pd.Series, logits: torch.Tensor, labels: np.ndarray) -> None:
    assert_type(evaluate.clustering_accuracy(found, truth), float)
    assert_type(evaluate.single(found, truth, ["cat", "dog"]), dict[str, float | None])
    assert_type(evaluate.protocols(logits, labels, 80), dict[str, dict[str, float | None]])
    assert_type(evaluate.vote(logits, labels, logits, 80), torch.Tensor)


def misspell() -> None:
    newfound.discver(out="run")  # type: ignore[attr-defined]
