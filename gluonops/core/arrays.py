"""Reads files of arrays as NDArrays. :mod:`gluonops.core.params` reads and writes them without MXNet."""
from __future__ import annotations

import os

import mxnet as mx

from . import params
from .errors import OpError


def load_arrays(where: str, path: str | os.PathLike, remedy: str = "Save the arrays again") -> dict[str, mx.nd.NDArray]:
    """Read a file of named arrays.

    ``remedy``: what the user can do, for errors. The arrays are on the CPU. Raises OpError: the file cannot be read, is
    damaged, or has arrays without names, or of a type or shape that MXNet does not take.
    """
    names = [entry.name for entry in params.entries(where, path, remedy)]
    if None in names:
        raise OpError(where, f"{path} is not a file of named arrays: they have no names", remedy)
    values = params.read(where, path, remedy)
    return {name: _array(where, path, name, values.pop(name)) for name in names}   # one copy at a time


def _array(where, path, name, values):
    if values.dtype.type not in mx.ndarray.ndarray._DTYPE_NP_TO_MX:
        raise OpError(where, f"{path}: {name} has the type {values.dtype}, which MXNet does not compute with",
                      "Convert it first")
    if 0 in (values.ndim, values.size) and not mx.util.is_np_shape():
        raise OpError(where, f"{path}: {name} has the shape {values.shape}, which MXNet takes with NumPy's shapes only",
                      "Read it within mxnet.util.np_shape()")
    return mx.ndarray.ndarray.array(values, mx.cpu(), values.dtype)   # mx.nd.array warns with SciPy
