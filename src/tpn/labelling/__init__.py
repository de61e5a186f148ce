"""Labelling the rest: an estimator that spreads labels over millions of points, and folders of images."""
