"""Run folders: the settings, metrics and weights of a training, and loading them."""
