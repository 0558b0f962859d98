"""APL on the features of a pretrained network."""
