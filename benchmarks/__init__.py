"""The benchmarks: run them from the root of the repository, ``python -m benchmarks.operators`` and so on.

``operators`` has what is measured of each operator, and times it beside its peers on the CPU; ``gpu`` checks and times
the CUDA kernels; ``networks`` and ``busy`` time whole networks; ``before_after`` compares two commits. ``harness`` is
what they share.
"""
