"""Learn on known categories which images are alike, then cluster the others by the divergence of pairs.

KCL: images that are alike get probabilities of small divergence, others of a divergence up to a margin.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from newfound.losses import pair_divergence
from newfound.methods.parts.constrained import ConstrainedMethod, ConstrainedSettings


@dataclass(frozen=True)
class KCLSettings(ConstrainedSettings):
    """Settings of KCL."""

    method: str = "kcl"


class KCL(ConstrainedMethod):
    """Constrained clustering by the Kullback-Leibler divergence of pairs."""

    Settings = KCLSettings
    reference = "Hsu et al., Learning to Cluster in Order to Transfer across Domains and Tasks, ICLR"
    year = 2018

    @staticmethod
    def pair_loss(probabilities: Tensor, same: Tensor) -> Tensor:
        return pair_divergence(probabilities, same)
