"""Make MXNet 1.9.1 importable: restore the NumPy aliases it reads, and load the CUDA libraries it does not find."""
from __future__ import annotations

import contextlib
import sys
import types
import warnings
from collections.abc import Iterator

from . import _preload

_ALIASES = {"int": int, "float": float, "object": object, "complex": complex}


def import_mxnet() -> types.ModuleType:
    """Import MXNet on NumPy 1.21 to 1.26 and return it.

    NumPy 1.24 removed ``numpy.bool`` and its relatives; MXNet 1.9.1 and gluoncv read them at import.
    NumPy 1.21 to 1.23 still have them and stay untouched.

    MXNet imports scikit-learn where it is installed, for the base class of its deprecated ``mx.model.FeedForward``.
    That takes a second of two and a half, so MXNet does not find it here. Who needs the base class imports ``sklearn``
    before gluonops.

    Raises
    ------
    ImportError
        NumPy is 2.0 or newer, MXNet is not installed, or it lacks a CUDA library; the message says what to install.
    """
    import numpy
    if int(numpy.__version__.split(".")[0]) >= 2:
        raise ImportError(f"gluonops: found NumPy {numpy.__version__}; MXNet 1.9.1 needs NumPy 1.21 to 1.26. "
                          "Run: pip install 'numpy<2'")
    if "bool" not in vars(numpy) and not _has_alias(numpy):
        numpy.bool = numpy.bool_
        for name, value in _ALIASES.items():
            setattr(numpy, name, value)
    _preload.preload()
    try:
        with warnings.catch_warnings(), _hidden("sklearn"):
            warnings.simplefilter("ignore", DeprecationWarning)   # from MXNet's imports; a user cannot fix them
            import mxnet
    except ModuleNotFoundError as error:
        if error.name == "distutils":
            raise ImportError("gluonops: MXNet 1.9.1 imports distutils, which Python 3.12 no longer has. "
                              "Run: pip install setuptools") from error
        if error.name != "mxnet":
            raise
        raise ImportError("gluonops: MXNet is not installed. Run in the clone: pip install '.[cpu]' (or "
                          f"'.[cu117]' on an NVIDIA machine), with Python 3.9 to 3.12; this is Python "
                          f"{sys.version_info.major}.{sys.version_info.minor}") from error
    except OSError as error:
        load_errors = _preload.missing() if _preload.has_cuda_wheel() else {}
        if not load_errors:
            raise
        raise ImportError(f"gluonops: MXNet's CUDA wheel does not load, {error}. "
                          f"{_preload.remedy(load_errors)}.") from error
    return mxnet


@contextlib.contextmanager
def _hidden(package: str) -> Iterator[None]:
    """Within it, a package that is not imported yet counts as not installed."""
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None
    try:
        yield
    finally:
        del sys.modules[package]


def _has_alias(numpy: types.ModuleType) -> bool:
    """True on NumPy before 1.24, whose module ``__getattr__`` still knows ``numpy.bool``."""
    major, minor = (int(part) for part in numpy.__version__.split(".")[:2])
    return (major, minor) < (1, 24)
