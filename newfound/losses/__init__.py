"""Losses as pure functions of tensors: fixed shapes, nothing that waits for the device, float32 inside."""

from newfound.losses.angular import separation
from newfound.losses.consistency import consistency
from newfound.losses.contrastive import info_nce, nt_xent
from newfound.losses.distillation import self_distillation
from newfound.losses.divergence import inter_class, intra_class
from newfound.losses.ensemble import TemporalEnsemble
from newfound.losses.evenness import unevenness
from newfound.losses.pairwise import pair_divergence, pair_likelihood
from newfound.losses.prototypes import OnlinePrototypes
from newfound.losses.prototypical import prototypical
from newfound.losses.ranking import same_top_ranks
from newfound.losses.rectified import rectified_cross_entropy
from newfound.losses.sinkhorn import sinkhorn
from newfound.losses.soft import soft_cross_entropy
from newfound.losses.studentt import cluster_divergence, sharpen, soft_assignment
from newfound.losses.supcon import joint_contrast
from newfound.losses.swapped import swapped_prediction
from newfound.losses.wta import choose_threshold, count_pairs, shared_codes, wta_codes, wta_windows

__all__ = [
    "OnlinePrototypes",
    "TemporalEnsemble",
    "choose_threshold",
    "cluster_divergence",
    "consistency",
    "count_pairs",
    "info_nce",
    "inter_class",
    "intra_class",
    "joint_contrast",
    "nt_xent",
    "pair_divergence",
    "pair_likelihood",
    "prototypical",
    "rectified_cross_entropy",
    "same_top_ranks",
    "self_distillation",
    "separation",
    "shared_codes",
    "sharpen",
    "sinkhorn",
    "soft_assignment",
    "soft_cross_entropy",
    "swapped_prediction",
    "unevenness",
    "wta_codes",
    "wta_windows",
]
