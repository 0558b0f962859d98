"""Models that were saved, and those of runs, as estimators."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from newfound.config.mapping import brief
from newfound.engine.own import own_torch
from newfound.errors import UserError
from newfound.estimator.discoverer import Discoverer
from newfound.model import load_model
from newfound.runfolder import Run


def load(folder: str | Path) -> Discoverer:
    """The Discoverer of a saved model or of a finished run, ready to predict."""
    try:
        path = Path(folder)
    except TypeError:
        raise UserError(f"a model is loaded from a folder, not from {brief(folder)}") from None
    with own_torch():
        model = load_model(Run.open(path).model_folder() if (path / "settings.yaml").is_file() else path)
    estimator = Discoverer(model.method, n_novel=len(model.novel))
    known = np.array([int(name) for name in model.known]) if model.numbered else np.array(model.known, dtype=object)
    estimator._adopt(model, known)
    return estimator
