"""The benchmarks: run them from the root of the repository, ``python -m benchmarks.operators`` and so on.

``operators`` times every operator beside its peers on the CPU, ``networks`` whole networks, and ``gpu`` checks and
times the CUDA kernels. ``before_after`` compares two commits. What is measured is data: a row per case. An operator
without rows of its own gets some that follow from its contract and its suite in ``tests/ops``.
"""
