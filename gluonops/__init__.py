"""gluonops: a layer zoo for Gluon on Apache MXNet 1.9.1.

Import it before mxnet: it gives MXNet the NumPy that MXNet was written for, then registers its operators, so that
``Custom(op_type="gluonops_...")`` nodes work in Symbol, Module and Gluon. See ``gluonops.ops``, ``gluonops.nn``,
``gluonops.loss``, ``gluonops.models``, ``gluonops.optimizer``, ``gluonops.train``, ``gluonops.export``,
``gluonops.darknet``. Where MXNet is not installed there are ``gluonops.files`` and
``gluonops.export.torch`` alone.
"""
import importlib
import typing

from .runtime import interrupted as _interrupted

_interrupted.install()

from .runtime import clone as _clone  # noqa: E402  (Ctrl-C during the imports below is one line)
from .runtime import importing as _importing  # noqa: E402

_importing.import_mxnet()

from .contract.errors import OpError  # noqa: E402  (mxnet has to be imported first)
from .runtime.doctor import doctor  # noqa: E402
from .version import __version__  # noqa: E402

__all__ = ["OpError", "__version__", "backend", "convert", "current_backend", "darknet", "data", "doctor", "export",
           "files", "legacy", "loss", "models", "native_library_path", "nn", "ops", "optimizer", "train", "tune_memory",
           "tune_threads"]
# Imported when they are used first: a program that only runs a net does not need them.
_LAZY = ("convert", "darknet", "data", "export", "files", "models", "train")

_refuse = _importing.refuser(__name__, () if _importing.is_imported() else __all__)
if _importing.is_imported():
    from .backends import examination, native, registration, tuning
    from .backends.backend import backend, current_backend, retrace_on_change
    from .contract import errors
    from .runtime import forks

    errors.install()
    forks.install()
    examination.install()
    registration.install()
    retrace_on_change()
    native.loaded()   # the first question loads the library
    tuning.tune_at_import()

    _clone.find_parts(__name__)

    from . import legacy, loss, nn, ops, optimizer
    from .backends.native import library_path as native_library_path
    from .backends.tuning import tune_memory, tune_threads
else:
    __all__, _LAZY = ["OpError", "__version__", "doctor", "export", "files"], ("export", "files")
if typing.TYPE_CHECKING:
    from . import convert, darknet, data, export, files, models, train


def __getattr__(name: str):
    if name in _LAZY:
        return importlib.import_module(f"{__name__}.{name}")
    return _refuse(name)


def __dir__():
    """The public names, for tab completion."""
    return sorted(__all__)
