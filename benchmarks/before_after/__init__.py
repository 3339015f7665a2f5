"""The operators of two commits beside each other, in one run: ``python -m benchmarks.before_after COMMIT``."""
