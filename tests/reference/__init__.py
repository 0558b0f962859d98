"""Slow, obvious re-implementations that the fast code is compared with."""
