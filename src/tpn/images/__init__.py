"""Where images come from, one module per source, and the one form they all become (`store`)."""
