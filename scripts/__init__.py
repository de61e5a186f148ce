"""Scripts that make what ships or is shown: data, weights, measurements, figures, the documentation site."""
