"""Side-by-side measurements, as ratios taken in one run: `python -m benchmarks [NAME ...]`, or `make bench`."""
