"""Learn from all images how they were turned (RotNet), then cluster the unlabelled ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from newfound.config.settings import ClusterSettings, MultiViewSettings, PlanSettings, Settings
from newfound.methods.parts.selfsupervised import LearnAndCluster


@dataclass(frozen=True)
class RotationMethodSettings(Settings):
    """Settings of RotNet and k-means."""

    method: str = "rotation"
    views: MultiViewSettings = MultiViewSettings(extra=0)
    stage1: PlanSettings = PlanSettings(epochs=100, batch=256, lr=0.1, weight_decay=5e-4)
    cluster: ClusterSettings = ClusterSettings(normalise=True)


class RotationMethod(LearnAndCluster):
    """Prediction of quarter turns, then clusters."""

    Settings = RotationMethodSettings
    reference: ClassVar[str] = "Gidaris et al., RotNet, ICLR"
    year: ClassVar[int] = 2018
