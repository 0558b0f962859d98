"""APL on the features of a network that others have trained: whitening, clusters, then self-training."""

from newfound.methods.apl_features.method import FeatureAPL

__all__ = ["FeatureAPL"]
