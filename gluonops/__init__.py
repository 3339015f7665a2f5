"""gluonops: a layer zoo for Gluon on Apache MXNet 1.9.1.

Import it before mxnet: it makes MXNet importable on NumPy 1.24 to 1.26, then registers its operators, so that
``Custom(op_type="gluonops_...")`` nodes work in Symbol, Module and Gluon. See ``gluonops.ops``, ``gluonops.nn``,
``gluonops.loss``, ``gluonops.models``, ``gluonops.optimizer``, ``gluonops.train``, ``gluonops.export``,
``gluonops.darknet``.
"""
import importlib

from . import threads as _threads
from ._compat import import_mxnet

with _threads.chosen_environment():
    import_mxnet()

from . import memory as _memory  # noqa: E402  (mxnet has to be importable first)
from .core import errors, native, retrace  # noqa: E402

errors.install()
retrace.install()
native.load()
_threads.tune_threads()
_memory.tune_at_import()

from . import darknet, data, export, legacy, loss, nn, ops, optimizer  # noqa: E402

try:
    from . import models
except ImportError as _error:
    if getattr(_error, "name", None) not in (__name__, f"{__name__}.models"):
        raise
    raise ImportError(f"gluonops: {__path__[0]} is part of a clone that is not installed (its models are missing). "
                      "Run in the clone: pip install -e .") from _error
from .core.backend import backend, current_backend  # noqa: E402
from .core.errors import OpError  # noqa: E402
from .core.native import library_path as native_library_path  # noqa: E402
from .doctor import doctor  # noqa: E402
from .memory import tune_memory  # noqa: E402
from .threads import tune_threads  # noqa: E402
from .version import __version__  # noqa: E402

__all__ = ["OpError", "__version__", "backend", "current_backend", "darknet", "data", "doctor", "export", "legacy",
           "loss", "models", "native_library_path", "nn", "ops", "optimizer", "train", "tune_memory", "tune_threads"]


def __getattr__(name):
    if name == "train":   # when it is used first: programs that only run a net do not need it
        return importlib.import_module(f"{__name__}.train")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    """The public names, for tab completion."""
    return sorted(__all__)
