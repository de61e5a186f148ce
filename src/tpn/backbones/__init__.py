"""Networks from images to feature maps."""
