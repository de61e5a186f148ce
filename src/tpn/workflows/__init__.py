"""One file per journey: what `import tpn` offers, and all that the command line calls."""
