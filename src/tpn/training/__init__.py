"""Training by episodes: the loop, the run folder, checkpoints and resuming."""
