"""Learn on known categories which images are alike, then cluster the others by the likelihood of pairs.

MCL: the likelihood that two images are of one category is the inner product of their probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from newfound.losses import pair_likelihood
from newfound.methods.parts.constrained import ConstrainedMethod, ConstrainedSettings


@dataclass(frozen=True)
class MCLSettings(ConstrainedSettings):
    """Settings of MCL: those of KCL."""

    method: str = "mcl"


class MCL(ConstrainedMethod):
    """Constrained clustering by the likelihood of pairs."""

    Settings = MCLSettings
    reference = "Hsu et al., Multi-class Classification without Multi-class Labels, ICLR"
    year = 2019

    @staticmethod
    def pair_loss(probabilities: Tensor, same: Tensor) -> Tensor:
        return pair_likelihood(probabilities, probabilities, same)
