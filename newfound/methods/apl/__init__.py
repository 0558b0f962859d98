"""Adaptive prototype learning, the paper's method: self-distillation with online prototypes, then self-training."""

from newfound.methods.apl.method import APL

__all__ = ["APL"]
