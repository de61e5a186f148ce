"""Label propagation on arrays, as a scikit-learn estimator."""
