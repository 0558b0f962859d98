"""Learn from all images to find a view's image in a queue (MoCo v2), then cluster the unlabelled ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from newfound.config.settings import ClusterSettings, MultiViewSettings, PlanSettings, Settings
from newfound.methods.instance.moco import MoCoV2Settings
from newfound.methods.parts.selfsupervised import LearnAndCluster


@dataclass(frozen=True)
class MoCoV2MethodSettings(Settings):
    """Settings of MoCo v2 and k-means."""

    method: str = "mocov2"
    views: MultiViewSettings = MultiViewSettings(extra=0)
    mocov2: MoCoV2Settings = MoCoV2Settings()
    stage1: PlanSettings = PlanSettings(epochs=100, batch=256, lr=0.3, weight_decay=1e-4, warmup_epochs=10)
    cluster: ClusterSettings = ClusterSettings(normalise=True)


class MoCoV2Method(LearnAndCluster):
    """Contrast with a queue behind an MLP, then clusters."""

    Settings = MoCoV2MethodSettings
    reference: ClassVar[str] = "Chen et al., MoCo v2, arXiv 2003.04297"
    year: ClassVar[int] = 2020
