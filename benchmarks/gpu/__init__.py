"""The CUDA kernels on an NVIDIA GPU: checked against NumPy, then timed: ``python -m benchmarks.gpu``."""
