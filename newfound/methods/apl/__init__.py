"""APL, adaptive prototype learning: the method of the paper."""
