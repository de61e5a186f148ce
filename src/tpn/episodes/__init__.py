"""Few-shot tasks, and the sampling of tasks and mini-batches."""
