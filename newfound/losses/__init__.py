"""Losses as pure functions of tensors: fixed shapes, nothing that waits for the device, float32 inside."""

from newfound.losses.angular import separation
from newfound.losses.distillation import self_distillation
from newfound.losses.rectified import rectified_cross_entropy
from newfound.losses.soft import soft_cross_entropy

__all__ = ["rectified_cross_entropy", "self_distillation", "separation", "soft_cross_entropy"]
