"""The CUDA kernels on an NVIDIA GPU: checked against NumPy, then timed: ``python -m benchmarks.gpu``.

An operator declares rows in ``rows/<op>.py``; see :mod:`benchmarks.gpu.cases`. One without such a file is checked on
the cases of its suite, and timed at the typical size that follows from its contract.
"""
