"""The words in which ``benchmarks/operators`` declares what is measured of an operator.

It imports neither gluonops nor MXNet, because a machine with a GPU may have neither.
"""
from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable

import numpy as np

DECLARED = {}   # name -> class


@dataclasses.dataclass(frozen=True)
class Row:
    """A shape of the data, attributes, and the shapes of inputs that do not follow from the data's."""
    shape: tuple
    attrs: dict = dataclasses.field(default_factory=dict)
    more: dict = dataclasses.field(default_factory=dict)
    dtype: str = "float32"


@dataclasses.dataclass(frozen=True)
class Target:
    """``at_least``: of the speed of the peer in a part; ``copy`` is a copy of as many bytes."""
    part: str
    than: str
    at_least: float


class Declaration:
    """What is measured of an operator: derive a class with its name."""
    CPU = ()               # rows that are timed beside the peers on the CPU
    CHAINED = ()           # rows of a chain of operators there, for the cost of a node
    COMMITS = ()           # rows that are timed in two commits, beside those of CPU
    TARGETS = (Target("both", "builtin", 2), Target("both", "torch", 1.3))
    GPU = ()               # rows that are timed on a GPU
    GPU_TARGETS = ()
    TYPICAL = ()           # rows that every float type goes through there
    SMALL = ()             # odd little rows, which are also added to, offset, and given labels of integers
    INTEGERS = None        # rows for the integer types, where the operator takes them; None: those of SMALL
    VARIANTS = ()          # rows for what the attributes bring, in float32
    ALL_OUTPUTS = {}       # attributes with which the function returns every output that it can
    EXACT = ()             # results that have to be equal to NumPy's on a GPU, because elements only move
    COMPARED = 1 << 22     # elements that NumPy computes at most
    LIGER = False          # whether Liger-Kernel has the function
    EXCHANGES = False      # whether elements that float32 does not tell apart may exchange their gradients
    REFERENCE = "builtin"  # the peer that the others have to agree with on the CPU

    def __init_subclass__(cls):
        DECLARED[cls.__name__] = cls

    def independent(self, attrs: dict, ndim: int) -> bool:
        """Whether a result depends on its own row of the first axis alone."""
        return False

    def backends(self, shape: tuple) -> tuple[str, ...]:
        """Those that are timed."""
        return "native", "custom", "builtin"

    def draw(self, attrs: types.SimpleNamespace, shapes: dict, rng: np.random.RandomState) -> dict[str, np.ndarray]:
        """Inputs by name, in place of those of the oracle or random numbers."""
        return {}

    def in_torch(self, attrs: dict, ndim: int) -> Callable | None:
        """``run(torch, *inputs)``, or None where torch has no such function."""

    def in_mxnet(self, attrs: dict, shape: tuple) -> dict[str, Callable]:
        """Peer -> ``run(F, *inputs)``, beside those of ``gluonops.bench.peers``."""
        return {}

    def in_numpy(self, attrs: dict) -> tuple[Callable, Callable] | None:
        """The functions of a CustomOp in NumPy: see ``benchmarks/cpu/numpy_peer.py``."""


class OfSamples(Declaration):
    """An operator whose samples know nothing of each other."""

    def independent(self, attrs, ndim):
        return True


class AlongAxis(Declaration):
    """An operator that computes along its attribute ``axis``."""

    def independent(self, attrs, ndim):
        return attrs["axis"] % ndim != 0


# An operator on a GPU only moves its data, or computes meanwhile.
AS_FAST_AS_A_COPY = [Target("forward", "copy", 0.9), Target("backward", "copy", 0.9), Target("forward", "torch", 1),
                     Target("both", "torch", 1)]
NEARLY_AS_FAST_AS_A_COPY = [Target("forward", "copy", 0.85), Target("backward", "copy", 0.85)]
BOTH_NEARLY_AS_FAST = [Target("both", "copy", 0.85)]
