"""What is measured of each operator, on the CPU, on a GPU and in two commits: see :mod:`benchmarks.harness.cases`.

``python -m benchmarks.operators`` times the operators beside their peers on the CPU.
"""
