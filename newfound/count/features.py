"""The estimate for images: the features that it needs, and those of the pretrained network, which a run of it finds in
the cache again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from newfound.count.estimate import count
from newfound.count.result import Count
from newfound.count.sample import drawn_rows
from newfound.data.store import ImageStore
from newfound.data.vectors import VectorStore
from newfound.engine.frozen import frozen_features
from newfound.model.encoder import Encoder
from newfound.nets.pretrained import Backbone
from newfound.progress import Reporter


def pretrained_features(
    images: ImageStore, backbone: Backbone | None, device: torch.device, reporter: Reporter, cache: Path | None
) -> Tensor:
    """What the network makes of images, [n, D] on the CPU; features that were given stay as they are."""
    if isinstance(images, VectorStore):
        return images.images.flatten(1).float()
    assert backbone is not None
    channels, size, _ = images.shape
    mean, deviation = torch.tensor(backbone.mean), torch.tensor(backbone.deviation)
    encoder = Encoder(backbone.network, channels, size, mean, deviation, resized=backbone.size)
    encoder.net.load_state_dict(backbone.net.state_dict())
    features = frozen_features(
        encoder,
        images,
        device,
        reporter,
        of=encoder.backbone_features,
        identity=backbone.digest(),
        cache=cache,
    )
    return features.cpu()


def count_images(
    images: ImageStore,
    labels: np.ndarray,
    features_of: Callable[[ImageStore], Tensor],
    *,
    mixed: bool,
    seed: int,
    reporter: Reporter,
    taught: bool = False,
) -> Count:
    """How many novel categories there are among images of which the first have ``labels`` [n] from 0. ``features_of``
    gives the features of those images alone that the estimate looks at; whether the labels have ``taught`` it is as in
    ``count``."""
    known = torch.from_numpy(labels)
    rows = drawn_rows(known, len(images), seed)
    features = features_of(images.take(rows.numpy()))
    return count(features, known[rows[rows < len(known)]], mixed=mixed, taught=taught, seed=seed, reporter=reporter)
