"""What the operators on YOLOv2's map share.

For MXNet's own operators: ``reference.py`` (the map), ``boxes.py`` (rows of ground truth, and the overlap of boxes) and
``assignment.py`` (which anchor and cell a box is assigned to). For CUDA kernels: ``region.cuh`` and ``truth.cuh``. For
C++ kernels: ``region.h``.
"""
