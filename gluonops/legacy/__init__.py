"""The interfaces from before MXNet 1.0 for code that still uses them: change the base class, and nothing else.

``NumpyOp`` and ``NDArrayOp`` take the place of ``mx.operator.NumpyOp`` and ``mx.operator.NDArrayOp``, and ``Rtc`` that
of ``mx.rtc(name, inputs, outputs, body)``. An instance is called with Symbols, as before, or with NDArrays, so it works
in Module, in a hybridized block and under autograd. Each base class warns once, with a DeprecationWarning that names
its replacement; docs/migrating.md shows the changes line by line.
"""
from . import notice
from .operators import NDArrayOp, NumpyOp
from .rtc import Rtc

__all__ = ["NDArrayOp", "NumpyOp", "Rtc"]

notice.install()
