"""One NumPy oracle per operator: ``oracles.get("reorg")`` is the module ``ops/reorg/oracle.py``.

Each is written from the paper or the specification, in float64, and needs NumPy alone: the machines that run the GPU
benchmark may have no MXNet. The suites in ``tests/ops``, the tests of the CUDA kernels and ``benchmarks/gpu`` share it.
What the oracles of a family share is in ``ops/_region/oracle.py`` and ``ops/_softmax/oracle.py``.

A module has

``forward(attrs, *inputs)``
    Every output by name, hidden ones included.
``backward(attrs, head, *inputs)``
    The gradient of every input that has one, by the name of the input. ``head`` is the gradient of the first output;
    an operator that ignores it accepts None.

and, where the operator needs it,

``draw(attrs, shapes, rng)``
    Inputs that plain random numbers cannot be, by name. ``shapes`` has the shape of every input by name.
``objective(attrs, head, *inputs)``
    The scalar whose derivative ``backward`` is, where that is not ``(head * output).sum()``.

``attrs`` has every attribute of the operator; ``inputs`` come in the contract's order, floats as float64.

Wherever ``tests`` is on Python's path, ``ops`` is the folder ``tests/ops``: it has no ``__init__.py``, and needs none.
"""
import importlib

import numpy as np

__all__ = ["draw_labels", "get"]


def get(name):
    """The oracle module of an operator."""
    return importlib.import_module(f"ops.{name}.oracle")


def draw_labels(rng, shape, classes, ignore_label=None):
    """Class indices from 0 to ``classes`` - 1, of no classes 0; about a third is ``ignore_label``, if there is one."""
    labels = rng.randint(0, max(classes, 1), shape)
    if ignore_label is not None:
        labels = np.where(rng.rand(*shape) < 0.3, ignore_label, labels)
    return labels
