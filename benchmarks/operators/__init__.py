"""What is measured of each operator: classes with their names, in the words of ``benchmarks/harness/declaration.py``.

``python -m benchmarks.operators`` times the operators beside their peers on the CPU.
"""
from . import activations, box_cases, loss_cases, moves, norms, softmax  # noqa: F401
