"""UNO with two more terms: known and novel images apart, views of one image together.

Inter-class and intra-class constraints.
"""

from __future__ import annotations

from dataclasses import dataclass

from newfound.config.settings import number
from newfound.methods.parts.swapped import SwappedMethod, SwappedSettings


@dataclass(frozen=True)
class IICSettings(SwappedSettings):
    """Settings of IIC: those of swapped prediction, with both terms."""

    method: str = "iic"
    inter: float = number(0.05, 0)
    intra: float = number(0.01, 0)


class IIC(SwappedMethod):
    """Inter-class and intra-class constraints on top of swapped prediction."""

    Settings = IICSettings
    reference = "Li et al., Modeling Inter-Class and Intra-Class Constraints in Novel Class Discovery, CVPR"
    year = 2023
    mixed = True
