"""The experiments of the paper, one recipe each: what is trained, what is tested, and what the paper reports."""
