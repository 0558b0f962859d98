"""Contrast with labels where there are any: views of one image are to be alike, and so are images of one category."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F


def joint_contrast(views: Tensor, labels: Tensor, *, temperature: float = 0.1) -> Tensor:
    """The mean cross-entropy (a scalar) of finding each view's positives among all others, from outputs [2, n, D] and
    labels [n], negative where an image has none.

    The logits of a view are its cosines with the 2 n - 1 others over the temperature. The positives of a labelled image
    are all other views of its category, which share the target equally (supervised contrast, Khosla et al. 2020); that
    of an unlabelled image is its other view (SimCLR, Chen et al. 2020). WTA-NCD (Jia et al. 2021) contrasts both
    together.
    """
    if len(views) != 2 or views.shape[1] != len(labels) or len(labels) < 2:
        raise ValueError(f"expected 2 views of at least 2 images with a label each: {views.shape[:2]}, {len(labels)}")
    # In bfloat16, as autocast would multiply, cosines above .5 come in steps of .004.
    with torch.autocast(views.device.type, enabled=False):
        unit = F.normalize(views.float(), dim=-1).flatten(0, 1)
        logits = unit @ unit.T / temperature
    itself = torch.eye(len(unit), dtype=torch.bool, device=views.device)
    image = torch.arange(len(labels), device=views.device)
    alike = (image[:, None] == image) | ((labels[:, None] == labels) & (labels >= 0))
    positive = alike.repeat(2, 2) & ~itself
    log_share = F.log_softmax(logits.masked_fill(itself, -math.inf), dim=1)
    found = torch.where(positive, log_share, 0.0).sum(1) / positive.sum(1)
    return -found.mean()
