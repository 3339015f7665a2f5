"""One NumPy oracle per operator: ``oracles.get("reorg")`` is the module ``ops/reorg/oracle.py``.

An oracle is written from the paper or the specification, in float64. It needs only NumPy, because the machines that run
the GPU benchmark may have no MXNet. The suites in ``tests/ops``, the tests of the CUDA kernels and ``benchmarks/gpu``
use it.
What the oracles of a family share is in ``ops/_region/oracle.py`` and ``ops/_softmax/oracle.py``.

A module has two functions:

``forward(attrs, *inputs)``
    All outputs by name, including hidden outputs.
``backward(attrs, head, *inputs)``
    The gradients by the names of the inputs. ``head`` is the gradient of the first output. If the operator ignores it,
    ``head`` may be None.

Two more functions are optional:

``draw(attrs, shapes, rng)``
    Inputs by name that cannot be plain random numbers. ``shapes`` has the shapes of all inputs by name.
``objective(attrs, head, *inputs)``
    The scalar whose derivative is ``backward``. The default is ``(head * output).sum()``.

``attrs`` has all attributes of the operator. ``inputs`` have the order of the contract. Floats are float64.

Wherever ``tests`` is on Python's path, ``ops`` is the folder ``tests/ops``: it has no ``__init__.py``, and needs none.
"""
import functools
import importlib
import types

import numpy as np

__all__ = ["draw_labels", "get", "remembered"]


def get(name):
    """Return the oracle module of an operator."""
    return importlib.import_module(f"ops.{name}.oracle")


def draw_labels(rng, shape, classes, ignore_label=None):
    """Random class ids from 0 to ``classes`` - 1 (0 if there are no classes). About a third is ``ignore_label``.

    Not all of them are 0: three labels of five classes are so now and then, and a kernel that reads none would pass.
    """
    labels = rng.randint(0, max(classes, 1), shape)
    if labels.size and not labels.any():
        labels.flat[0] = max(classes, 1) - 1
    if ignore_label is not None:
        labels = np.where(rng.rand(*shape) < 0.3, ignore_label, labels)
    return labels


def remembered(function):
    """Return a function that keeps its latest results: an oracle takes longer than the kernels that it judges.

    Its arguments are attributes and arrays, and the same numbers have the same results. Nobody may change these.
    """
    @functools.lru_cache(maxsize=256)
    def of_numbers(*arguments):
        return function(*[argument.array if isinstance(argument, _Numbers) else argument for argument in arguments])

    @functools.wraps(function)
    def call(*arguments):
        return of_numbers(*map(_key, arguments))
    return call


def _key(argument):
    if isinstance(argument, types.SimpleNamespace):   # the attributes of a benchmark, without gluonops
        return _Attributes(**vars(argument))
    return _Numbers(argument) if isinstance(argument, (list, np.ndarray)) else argument


class _Attributes(types.SimpleNamespace):
    """Attributes as a key: equal to others of the same values."""

    def __hash__(self):
        return hash(repr(self))


class _Numbers:
    """An array as a key: equal to another one of the same numbers. It keeps a copy, as tests change theirs."""

    def __init__(self, array):
        self.array = np.array(array)
        self.key = self.array.shape, self.array.dtype.str, self.array.tobytes()

    def __eq__(self, other):
        return isinstance(other, _Numbers) and self.key == other.key

    def __hash__(self):
        return hash(self.key)
