"""Self-supervised learners: they tell instances apart, without any label."""
