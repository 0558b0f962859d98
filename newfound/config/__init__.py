"""Settings: their names and ranges, and the way from nested dictionaries to them."""
