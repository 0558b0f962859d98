"""How many novel categories a pile has: an estimate from features, the labels of known images, and nothing else."""
