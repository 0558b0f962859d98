"""Learn one softmax over known and novel categories from balanced labels that views of an image give each other.

UNO, version 2 of its public recipe.
"""

from __future__ import annotations

from dataclasses import dataclass

from newfound.methods.parts.swapped import SwappedMethod, SwappedSettings


@dataclass(frozen=True)
class UNOSettings(SwappedSettings):
    """Settings of UNO: those of swapped prediction, without IIC's terms."""

    method: str = "uno"


class UNO(SwappedMethod):
    """A unified objective: swapped prediction with several heads."""

    Settings = UNOSettings
    reference = "Fini et al., A Unified Objective for Novel Class Discovery, ICCV"
    year = 2021
    mixed = True
