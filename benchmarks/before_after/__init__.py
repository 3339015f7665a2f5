"""The operators of two commits beside each other, in one run: ``python -m benchmarks.before_after COMMIT``.

Both commits are built, and then measured in turn by fresh processes, so that noise and the luck of a process's memory
layout affect both alike.
"""
