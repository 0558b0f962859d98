"""Learn from all images that two views of one are alike (SimCLR), then cluster the unlabelled ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from newfound.config.settings import ClusterSettings, MultiViewSettings, PlanSettings, Settings
from newfound.methods.instance.simclr import SimCLRSettings
from newfound.methods.parts.selfsupervised import LearnAndCluster


@dataclass(frozen=True)
class SimCLRMethodSettings(Settings):
    """Settings of SimCLR and k-means."""

    method: str = "simclr"
    views: MultiViewSettings = MultiViewSettings(extra=0)
    simclr: SimCLRSettings = SimCLRSettings()
    stage1: PlanSettings = PlanSettings(epochs=100, batch=256, lr=0.12, weight_decay=5e-4)
    cluster: ClusterSettings = ClusterSettings(normalise=True)


class SimCLRMethod(LearnAndCluster):
    """Contrast within each batch, then clusters."""

    Settings = SimCLRMethodSettings
    reference: ClassVar[str] = "Chen et al., SimCLR, ICML"
    year: ClassVar[int] = 2020
