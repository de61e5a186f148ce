"""Testing methods, comparing them, and drawing what came out."""
