"""The folder workflow: find images and labels, embed, propagate, suggest, write."""
