"""Settings: their names and ranges, recipes, and the way from nested dictionaries to them."""
