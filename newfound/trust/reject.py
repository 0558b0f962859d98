"""Whether a model can tell images that fit none of its categories."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from newfound.errors import UserError
from newfound.model import Model


def calibrate(model: Model, judged: Tensor) -> None:
    """Take images, of which the model says ``judged`` [n, classes + 1], for held-out images of its categories."""
    if model.strangeness is None:
        raise UserError("this model cannot tell strange images: make it again with `newfound discover`")
    model.strangeness.calibrate(judged[:, -1])


def require_calibrated(model: Model, reject: float = 0.5) -> None:
    """Stop unless the model can reject that share."""
    if not 0 < reject < 1:
        raise UserError(f"--reject {reject}: it is a share of the images, above 0 and below 1, such as 0.05")
    held_out = 0 if model.strangeness is None else len(model.strangeness.held_out)
    needed = int(np.ceil(1 / reject - 1e-9)) - 1
    if held_out < needed:
        more = "give more images of its categories that it has not been trained on with --calibrate"
        if held_out:
            least = np.ceil(1e4 / (held_out + 1)) / 1e4
            raise UserError(
                f"--reject {reject:g} needs {needed:,} images that were not trained on, and the model knows of "
                f"{held_out:,}: choose {least:g} or more, or {more}"
            )
        raise UserError(f"--reject {reject:g}: nothing was held out when this model was made, so {more}")
