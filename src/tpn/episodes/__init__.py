"""What a few-shot task is, and how tasks and mini-batches are sampled."""
