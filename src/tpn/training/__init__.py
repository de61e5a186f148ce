"""Training by episodes: the loop, the optimiser, checkpoints, warm starts and several processes."""
