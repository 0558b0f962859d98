"""Learn from all images to find a view's image in a queue (MoCo), then cluster the unlabelled ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from newfound.config.settings import ClusterSettings, MultiViewSettings, PlanSettings, Settings
from newfound.methods.instance.moco import MoCoSettings
from newfound.methods.parts.selfsupervised import LearnAndCluster


@dataclass(frozen=True)
class MoCoMethodSettings(Settings):
    """Settings of MoCo and k-means."""

    method: str = "moco"
    views: MultiViewSettings = MultiViewSettings(extra=0)
    moco: MoCoSettings = MoCoSettings()
    stage1: PlanSettings = PlanSettings(epochs=100, batch=256, lr=0.12, weight_decay=5e-4)
    cluster: ClusterSettings = ClusterSettings(normalise=True)


class MoCoMethod(LearnAndCluster):
    """Contrast with a queue, then clusters."""

    Settings = MoCoMethodSettings
    reference: ClassVar[str] = "He et al., MoCo, CVPR"
    year: ClassVar[int] = 2020
