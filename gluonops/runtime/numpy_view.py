"""The NumPy that MXNet 1.9.1 and gluoncv 0.10.5 were written for, for these two packages alone.

NumPy 1.24 to 2.5 removed names that they read, and changed results that they rely on. After :func:`install`, a finder
loads their modules with an ``import`` of their own. It gives them views of NumPy and of ``multiprocessing``: copies of
these modules with the old names and the old defaults. Some functions of MXNet and gluoncv are repaired as well. NumPy,
``sys.modules`` and all other packages stay as they are.

This file uses nothing of gluonops. ``gluonops install-mxnet`` copies it into MXNet's wheel, and a program without
gluonops can run it as a file: ``runpy.run_path("numpy_view.py")["install"]()``.
"""
from __future__ import annotations

import builtins
import functools
import importlib.machinery
import importlib.metadata
import multiprocessing
import sys
import types
from collections.abc import Callable, Sequence

import numpy

__all__ = ["install"]

PACKAGES = ("mxnet", "gluoncv")
# Functions of finance, which are in numpy-financial since NumPy 1.20. MXNet reads the names and calls none of them.
FINANCE = ("mirr", "npv", "pmt", "ppmt", "pv", "rate")
# (old text, new text) in the source of a module, where a function has to do something else in its middle.
SOURCE_CHANGES = {
    "mxnet.recordio": [("label.tostring()", "label.tobytes()"), ("buf.tostring()", "buf.tobytes()")],   # NumPy 2.3
    "gluoncv.model_zoo.center_net.target_generator": [("int(cid)", "int(np.asarray(cid).item())")],   # NumPy 2.5
}


def install() -> None:
    """Serve the modules of MXNet and gluoncv that are imported from now on. Further calls do nothing."""
    if not any(hasattr(finder, "serves_old_numpy") for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds the modules of PACKAGES as the other finders do, and gives them the loader below."""

    serves_old_numpy = True   # known also to another copy of this file

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None,
                  ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] not in PACKAGES:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                if (spec.origin or "").endswith(".py"):   # also where pytest has a loader for mxnet.test_utils
                    spec.loader = _Loader(name, spec.origin)
                return spec
        return None


class _Loader(importlib.machinery.SourceFileLoader):
    """Runs a module with the ``import`` below, and repairs it."""

    def get_code(self, fullname: str) -> types.CodeType | None:
        changes = SOURCE_CHANGES.get(fullname)
        if changes is None:
            return super().get_code(fullname)
        path = self.get_filename(fullname)
        source = self.get_data(path).decode("utf-8")
        for old, new in changes:
            source = source.replace(old, new)
        return self.source_to_code(source.encode("utf-8"), path)

    def exec_module(self, module: types.ModuleType) -> None:
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": _import}
        super().exec_module(module)
        repair = REPAIRS.get(module.__name__)
        if repair is not None:
            repair(module)


def _import(name, globals=None, locals=None, fromlist=(), level=0):   # noqa: A002 (the names of builtins.__import__)
    if level == 0:
        importer = (globals or {}).get("__name__", "")
        _refuse(name.partition(".")[0], importer.partition(".")[0])
    module = builtins.__import__(name, globals, locals, fromlist, level)
    return _view(module.__name__) if module.__name__ in VIEWS else module


def _refuse(name: str, importer: str) -> None:
    """Hide what a package is better off without.

    MXNet imports scikit-learn for the base class of its deprecated ``mx.model.FeedForward``. That takes a second of two
    and a half. Who needs the base class imports ``sklearn`` first. gluoncv fails where torch 2 is installed, though it
    does not need torch for MXNet.
    """
    if (importer, name) == ("mxnet", "sklearn") and name not in sys.modules:
        raise ModuleNotFoundError("scikit-learn is hidden from MXNet; import sklearn before mxnet", name=name)
    if (importer, name) == ("gluoncv", "torch") and _major_version(name) >= 2:
        raise ModuleNotFoundError("torch 2 is hidden from gluoncv, which works with torch 1 only", name=name)


def _major_version(distribution: str) -> int:
    """The first number of an installed version; 0 if it is not installed."""
    try:
        return int(importlib.metadata.version(distribution).partition(".")[0])
    except importlib.metadata.PackageNotFoundError:
        return 0


# -- the views ---------------------------------------------------------------------------------------------
@functools.cache
def _view(name: str) -> types.ModuleType:
    """A copy of an imported module, with other values for some names."""
    module = sys.modules[name]
    view = types.ModuleType(name, module.__doc__)
    vars(view).update(vars(module))
    vars(view).update(VIEWS[name]())
    view.__getattr__ = functools.partial(getattr, module)   # the module may load more later
    return view


def _old_names() -> dict[str, object]:
    """What MXNet and gluoncv read of NumPy 1.23, without what this NumPy has."""
    old = {
        "bool": numpy.bool_, "int": int, "float": float, "object": object, "complex": complex,   # until 1.23
        **{name: _unavailable(name) for name in FINANCE},
        # until 1.26
        "Inf": numpy.inf, "PINF": numpy.inf, "NINF": -numpy.inf, "NaN": numpy.nan, "NAN": numpy.nan, "PZERO": 0.0,
        "NZERO": -0.0, "alltrue": numpy.all, "sometrue": numpy.any, "product": numpy.prod, "round_": numpy.round,
        "msort": functools.partial(numpy.sort, axis=0), "compat": types.SimpleNamespace(basestring=str),
    }
    missing = {name: value for name, value in old.items() if name not in vars(numpy)}
    if hasattr(numpy, "trapezoid"):   # NumPy 2.0 and later, where these warn as long as they are there
        missing.update(core=numpy._core, in1d=_in1d, trapz=numpy.trapezoid)
    return missing


def _in1d(ar1, ar2, assume_unique=False, invert=False):
    return numpy.isin(ar1, ar2, assume_unique=assume_unique, invert=invert).reshape(-1)


def _unavailable(name: str) -> Callable:
    def function(*_args, **_kwargs):
        raise AttributeError(f"NumPy {numpy.__version__} has no function {name}; numpy-financial has it")

    function.__name__ = name
    return function


def _forking_names() -> dict[str, object]:
    """Workers fork, as they did by default before Python 3.14: they inherit the data set, and MXNet as it is."""
    return {name: _forking(name) for name in ("Pool", "Process", "get_context")}


def _forking(name: str) -> Callable:
    def function(*args, **kwargs):
        chosen = multiprocessing.get_start_method(allow_none=True)
        default = multiprocessing.get_all_start_methods()[0]
        context = multiprocessing.get_context("fork" if chosen in (None, default) else chosen)
        return getattr(context, name)(*args, **kwargs)

    return function


VIEWS = {"numpy": _old_names, "multiprocessing": _forking_names}


# -- the repairs -------------------------------------------------------------------------------------------
def _plain(value):
    """NumPy's numbers as Python's, also in tuples and lists: MXNet cannot read NumPy 2's (np.int64(2), 3)."""
    if isinstance(value, numpy.floating):
        return float(str(value))   # NumPy 1 writes a float32 of 0.1 as 0.1
    if isinstance(value, numpy.generic):
        return value.item()
    return type(value)(map(_plain, value)) if type(value) in (tuple, list) else value


def _attribute_text(value) -> str:
    return str(_plain(value))


def _repair_attributes(module: types.ModuleType) -> None:
    module.str = _attribute_text


def _repair_variable(module: types.ModuleType) -> None:
    """The shape of a variable is an attribute, too. (This module also asks isinstance(x, str), so str stays.)"""
    var = module.var

    @functools.wraps(var)
    def with_plain_shape(name, attr=None, shape=None, *args, **kwargs):
        return var(name, attr, _plain(shape), *args, **kwargs)

    module.var = module.Variable = with_plain_shape


def _repair_sums(kind: type) -> None:
    """A float32 among the attributes of a class is a float64.

    Its product or sum with a float of Python is a float32 in NumPy 2, and was a float64: a metric that sums up losses
    stops at 2**24, and rates of schedulers lose digits. A metric's sum may also begin as a float of Python.
    """
    def __setattr__(self, name, value):
        if isinstance(value, (numpy.float16, numpy.float32)) or (name.endswith("sum_metric") and type(value) is float):
            value = numpy.float64(value)
        object.__setattr__(self, name, value)

    kind.__setattr__ = __setattr__


def _repair_scalars(module: types.ModuleType) -> None:
    """The element of an array of shape (1, 1) is a scalar: float() of the array is an error since NumPy 2.5."""
    asscalar = module.NDArray.asscalar

    @functools.wraps(asscalar)
    def scalar(self):
        value = asscalar(self)
        return value if isinstance(value, numpy.generic) else value.reshape(-1)[0]

    module.NDArray.asscalar = scalar


def _repair_thresholds(module: types.ModuleType) -> None:
    """The same for the thresholds of a quantized net, which become C's floats."""
    find = module._get_optimal_threshold

    @functools.wraps(find)
    def scalars(*args, **kwargs):
        return tuple(value[0] if isinstance(value, numpy.ndarray) else value for value in find(*args, **kwargs))

    module._get_optimal_threshold = scalars


REPAIRS = {
    "mxnet._ctypes.ndarray": _repair_attributes,
    "mxnet._ctypes.symbol": _repair_attributes,
    "mxnet.contrib.quantization": _repair_thresholds,
    "mxnet.image.detection": lambda module: _repair_sums(module.DetAugmenter),
    "mxnet.image.image": lambda module: _repair_sums(module.Augmenter),
    "mxnet.io.io": _repair_attributes,
    "mxnet.lr_scheduler": lambda module: _repair_sums(module.LRScheduler),
    "mxnet.metric": lambda module: _repair_sums(module.EvalMetric),
    "mxnet.ndarray.ndarray": _repair_scalars,
    "mxnet.optimizer.optimizer": lambda module: _repair_sums(module.Optimizer),
    "mxnet.symbol.symbol": _repair_variable,
}
