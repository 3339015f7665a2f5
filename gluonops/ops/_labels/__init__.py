"""What the operators on class labels share: which labels are a class, and what the others do to their rows.

``reference.py`` is for MXNet's own operators, ``labels.cuh`` for CUDA kernels, ``labels.h`` for C++ kernels.
"""
