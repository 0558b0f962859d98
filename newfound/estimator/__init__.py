"""scikit-learn's interface: estimators on arrays, tensors or lists of paths."""
