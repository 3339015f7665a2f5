"""Make MXNet 1.9.1 importable: give it the NumPy that it expects, and load the CUDA libraries it does not find."""
from __future__ import annotations

import types
import warnings

import numpy

from . import cuda_libraries, numpy_view, support


def import_mxnet() -> types.ModuleType:
    """Import MXNet, with a view of NumPy for itself, and return it.

    Raises ImportError: NumPy is not supported, MXNet is not installed, or it lacks a CUDA library; the message says
    what to install.
    """
    problem = support.numpy_problem(numpy.__version__)
    if problem:
        raise ImportError(problem)
    numpy_view.install()
    cuda_libraries.preload()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)   # MXNet's imports cause them; a user cannot fix them
            import mxnet
    except ModuleNotFoundError as error:
        if error.name == "distutils":
            raise ImportError("gluonops: MXNet 1.9.1 imports distutils, which Python 3.12 no longer has. "
                              "Run: pip install setuptools") from error
        if error.name != "mxnet":
            raise
        raise ImportError("gluonops: MXNet is not installed. Run: gluonops install-mxnet (on an NVIDIA machine: "
                          "gluonops install-mxnet cu117)") from error
    except OSError as error:
        load_errors = cuda_libraries.missing() if cuda_libraries.has_cuda_wheel() else {}
        if not load_errors:
            raise
        raise ImportError(f"gluonops: MXNet's CUDA wheel does not load, {error}. "
                          f"{cuda_libraries.remedy(load_errors)}.") from error
    return mxnet

