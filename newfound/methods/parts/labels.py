"""Labels over old and new categories, and prototypes: the categories' mean directions."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from newfound.engine.loop import Engine


def one_hot(labels: Tensor, n: int) -> Tensor:
    """Labels [N] as rows [N, n] of 0 and 1; torch's own looks at the labels on the host."""
    return (labels[:, None] == torch.arange(n, device=labels.device)).float()


def joint_labels(engine: Engine, assignments: np.ndarray) -> Tensor:
    """Labels [n_train] over old and new: the true ones, then the ``assignments`` [n_unlabelled]."""
    return torch.cat([engine.labels[: engine.collection.n_labelled], torch.from_numpy(assignments).to(engine.device)])


def class_means(features: Tensor, labels: Tensor, n: int) -> Tensor:
    """Prototypes [n, D]: unit means of unit features [N, D] under labels [N]."""
    members = F.one_hot(labels, n).to(features.dtype)
    return F.normalize(members.T @ F.normalize(features))


def rectification(features: Tensor, labels: Tensor, prototypes: Tensor) -> Tensor:
    """The weight [N] of each feature [N, D]: its cosine with its label's prototype, in 0 to 1 (section 3.2.2)."""
    return (F.normalize(features) * prototypes[labels]).sum(1).clamp(0, 1)
