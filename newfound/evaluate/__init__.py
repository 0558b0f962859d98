"""How good a discovery is, by the true categories, which only this package is given."""
