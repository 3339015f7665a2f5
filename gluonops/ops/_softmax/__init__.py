"""What the operators of the softmax family share.

``reference.py`` is for MXNet's own operators, ``softmax.cuh`` for CUDA kernels, ``softmax.h`` for C++ kernels.
"""
