"""What a training leaves behind, and reading it again."""
