"""Make MXNet 1.9.1 importable: give it the NumPy that it expects, and load the CUDA libraries it does not find."""
from __future__ import annotations

import importlib.util
import sys
import types
import warnings
from collections.abc import Callable, Collection
from typing import NoReturn

import numpy

from . import cuda_libraries, support, threads


def import_mxnet() -> types.ModuleType | None:
    """Import MXNet, with a view of NumPy for itself, and return it. Return None if it is not installed.

    Raise an ImportError if NumPy is not supported, or if MXNet lacks a CUDA library. The message says what to install.
    """
    problem = support.numpy_problem(numpy.__version__)
    if problem:
        raise ImportError(problem)
    if not _is_installed():
        return None
    if "mxnet" not in sys.modules and "mxnet.base" in sys.modules:   # its parts stay, and are missing in a new mxnet
        raise ImportError("gluonops: an earlier import of mxnet has failed in this process. Start Python again, and "
                          "import gluonops first.")
    from . import numpy_view  # not above: it needs a NumPy that is supported
    numpy_view.install()
    cuda_libraries.preload()
    try:
        with threads.chosen_environment(), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)   # MXNet's imports cause them; a user cannot fix them
            import mxnet
    except ModuleNotFoundError as error:
        if error.name == "distutils":
            raise ImportError("gluonops: MXNet 1.9.1 imports distutils, which Python 3.12 no longer has. "
                              "Run: pip install setuptools") from error
        if "No module named 'mxnet'" not in str(error):
            raise
        return None
    except OSError as error:
        load_errors = cuda_libraries.missing() if cuda_libraries.has_cuda_wheel() else {}
        if not load_errors:
            raise
        raise ImportError(f"gluonops: MXNet's CUDA wheel does not load, {error}. "
                          f"{cuda_libraries.remedy(load_errors)}.") from error
    return mxnet


def _is_installed() -> bool:
    try:
        return importlib.util.find_spec("mxnet") is not None
    except ImportError:   # a finder may raise it
        return False


def is_imported() -> bool:
    """Return whether MXNet is imported: gluonops is imported without it where it is not installed."""
    return sys.modules.get("mxnet") is not None


def refuser(package: str, names: Collection[str]) -> Callable[[str], NoReturn]:
    """Return the ``__getattr__`` of a package whose public names need MXNet, for a process without it."""
    def refuse(name: str) -> NoReturn:
        if name in names:
            raise ImportError(f"{support.NO_MXNET} {package}.{name} needs MXNet.")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return refuse
