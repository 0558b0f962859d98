"""Whether a result can be trusted."""
