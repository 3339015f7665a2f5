"""The NumPy that MXNet 1.9.1 and gluoncv 0.10.5 were written for, for these two packages alone.

NumPy 1.24 to 2.5 removed names that they read, and changed results that they rely on. After :func:`install`, a finder
loads their modules with an ``import`` of their own. It gives them views of NumPy and of ``multiprocessing``: copies of
these modules with the old names and the old defaults. Some functions of MXNet and gluoncv are repaired as well. NumPy,
``sys.modules`` and all other packages stay as they are. ``tests/runtime/old_numpy.py`` lists what MXNet computes, and
compares it with what NumPy 1.22 gave.

This file uses nothing of gluonops. ``gluonops install-mxnet`` copies it into MXNet's wheel, and a program without
gluonops can run it as a file: ``runpy.run_path("numpy_view.py")["install"]()``.
"""
from __future__ import annotations

import builtins
import functools
import importlib.machinery
import importlib.metadata
import importlib.util
import multiprocessing
import operator
import sys
import types
from collections.abc import Callable, Sequence

import numpy

__all__ = ["install"]

PACKAGES = ("mxnet", "gluoncv")
IS_NUMPY_2 = hasattr(numpy, "trapezoid")
# Functions of finance, which are in numpy-financial since NumPy 1.20. MXNet reads the names and calls none of them.
FINANCE = ("mirr", "npv", "pmt", "ppmt", "pv", "rate")
# The old and the new text in the source of a module in which a function has to do something else in its middle.
# A size that is a number or an array of NumPy is compared with (): an empty array was false until NumPy 2.2.
_SIZES = [("if size == ():", "if isinstance(size, tuple) and size == ():")]
_BATCHES = [("if batch_shape == ():", "if isinstance(batch_shape, tuple) and batch_shape == ():")]
SOURCE_CHANGES = {
    "mxnet.ndarray.numpy.random": _SIZES,
    "mxnet.ndarray.numpy_extension.random": _SIZES + _BATCHES,
    "mxnet.symbol.numpy.random": _SIZES,
    "mxnet.symbol.numpy_extension.random": _SIZES + _BATCHES,
    # Functions of numpy.linalg return named tuples since NumPy 1.25, which are not made of one list.
    "mxnet.numpy.multiarray": [
        ("return object.__class__(tmp)", "return (list if isinstance(object, list) else tuple)(tmp)")],
    "mxnet.recordio": [("label.tostring()", "label.tobytes()"), ("buf.tostring()", "buf.tobytes()")],   # NumPy 2.3
    "gluoncv.model_zoo.center_net.target_generator": [("int(cid)", "int(np.asarray(cid).item())")],   # NumPy 2.5
}


def install() -> None:
    """Serve the modules of MXNet and gluoncv that are imported from now on. Further calls do nothing."""
    if not any(hasattr(finder, "serves_old_numpy") for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds the modules of PACKAGES as the other finders do, and gives them the loader below."""

    serves_old_numpy = True   # another copy of this file looks for it, too

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
        if importer.startswith("mxnet.") and _asks_for_statistics(name, fromlist):
            return _scipy_without_statistics()
    module = builtins.__import__(name, globals, locals, fromlist, level)
    return _view(module.__name__) if module.__name__ in VIEWS else module


def _refuse(name: str, importer: str) -> None:
    """Hide the packages that MXNet and gluoncv are better off without.

    MXNet imports scikit-learn for the base class of its deprecated ``mx.model.FeedForward``. This takes one of the two
    and a half seconds of ``import mxnet``. A script that needs the base class imports ``sklearn`` first. gluoncv fails
    where torch 2 is installed, though it does not need torch for MXNet.
    """
    if (importer, name) == ("mxnet", "sklearn") and name not in sys.modules:
        raise ModuleNotFoundError("scikit-learn is hidden from MXNet; import sklearn before mxnet", name=name)
    if (importer, name) == ("gluoncv", "torch") and _major_version(name) >= 2:
        raise ModuleNotFoundError("torch 2 is hidden from gluoncv, which works with torch 1 only", name=name)


def _asks_for_statistics(name: str, names: Sequence[str] | None) -> bool:
    """Return whether an import asks for ``scipy.stats``, which is installed and which nobody has imported yet."""
    is_asked = name == "scipy.stats" or (name == "scipy" and "stats" in (names or ()))
    return is_asked and "scipy.stats" not in sys.modules and importlib.util.find_spec("scipy") is not None


def _scipy_without_statistics() -> types.ModuleType:
    """Return what stands for scipy where MXNet imports ``scipy.stats``.

    ``scipy.stats`` itself is imported when something in it is used. Its import takes a fourth of the time of ``import
    mxnet``, and only functions that test random numbers use it.
    """
    scipy, stats = types.ModuleType("scipy"), types.ModuleType("scipy.stats")
    stats.__getattr__ = lambda name: getattr(importlib.import_module("scipy.stats"), name)
    scipy.stats = stats
    return scipy


def _major_version(distribution: str) -> int:
    """Return the first number of an installed version, or 0 if the package is not installed."""
    try:
        return int(importlib.metadata.version(distribution).partition(".")[0])
    except importlib.metadata.PackageNotFoundError:
        return 0


# -- the views ---------------------------------------------------------------------------------------------
@functools.cache
def _view(name: str) -> types.ModuleType:
    """Return a copy of an imported module, with other values for some names."""
    module = sys.modules[name]
    view = types.ModuleType(name, module.__doc__)
    vars(view).update(vars(module))
    vars(view).update(VIEWS[name]())
    view.__getattr__ = functools.partial(getattr, module)   # the module may load more later
    return view


def _old_names() -> dict[str, object]:
    """Return what MXNet and gluoncv read of NumPy 1.23 and this NumPy lacks, or computes differently."""
    old = {
        "bool": numpy.bool_, "int": int, "float": float, "object": object, "complex": complex,   # until 1.23
        **{name: _unavailable(name) for name in FINANCE},
        # until 1.26
        "Inf": numpy.inf, "PINF": numpy.inf, "NINF": -numpy.inf, "NaN": numpy.nan, "NAN": numpy.nan, "PZERO": 0.0,
        "NZERO": -0.0, "alltrue": _alltrue, "sometrue": numpy.any, "product": numpy.prod, "round_": numpy.round,
        "msort": functools.partial(numpy.sort, axis=0), "compat": types.SimpleNamespace(basestring=str),
    }
    missing = {name: value for name, value in old.items() if name not in vars(numpy)}
    if IS_NUMPY_2:   # where the first three warn as long as they are there
        missing.update(core=numpy._core, in1d=_in1d, trapz=numpy.trapezoid)
        missing.update({name: _wrapping(getattr(numpy, name)) for name in ("array", "asarray")})
        missing.update({name: _in_double(getattr(numpy, name)) for name in ("histogram2d", "histogramdd")})
        missing.update(histogram_bin_edges=_histogram_bin_edges, nanpercentile=_nanpercentile,
                       nanquantile=_nanquantile, count_nonzero=_count_nonzero)
    return missing


def _wrapping(create: Callable) -> Callable:
    """Return a function that makes an array of numbers, and wraps the whole numbers that its dtype cannot hold.

    NumPy 1 turned 300 into 44 for uint8, as a cast in C does. NumPy 2 raises an OverflowError.
    """
    @functools.wraps(create)
    def wrapped(object, dtype=None, *args, **kwargs):   # noqa: A002 (the name of NumPy's argument)
        try:
            return create(object, dtype, *args, **kwargs)
        except OverflowError:
            kind = numpy.dtype(dtype)
            if kind.kind not in "iu":
                raise
            values = numpy.array(object, dtype=builtins.object)
            whole = numpy.array([int(value) for value in values.flat], dtype="int64")   # larger ones had no dtype
            return create(whole.astype(kind).reshape(values.shape), kind, *args, **kwargs)

    return wrapped


def _in_double(function: Callable) -> Callable:
    """Return a function of numbers in float32 that computes in float64.

    NumPy 1 did so, and NumPy 2 computes in float32.
    """
    @functools.wraps(function)
    def double(*args, **kwargs):
        return function(*map(_as_double, args), **{name: _as_double(value) for name, value in kwargs.items()})

    return double


def _as_double(value):
    """Return an array of real numbers in float64, also in a list or a tuple. Other values stay as they are."""
    if type(value) in (list, tuple):
        return type(value)(map(_as_double, value))
    return value.astype("float64") if hasattr(value, "astype") and numpy.dtype(value.dtype).kind == "f" else value


def _histogram_bin_edges(a, *args, **kwargs):
    """Return the edges in the type of the data, as the nearest numbers of that type."""
    edges = numpy.histogram_bin_edges(_as_double(a), *args, **kwargs)
    return edges.astype(a.dtype) if hasattr(a, "dtype") and numpy.dtype(a.dtype).kind == "f" else edges


def _nanpercentile(a, q, *args, **kwargs):
    return _nanquantile(a, numpy.true_divide(numpy.asarray(q), 100), *args, **kwargs)


def _nanquantile(a, q, *args, **kwargs):
    """Compute quantiles as NumPy 1 did.

    Until NumPy 2.4 the argument ``method`` could be called ``interpolation``, and until NumPy 2 a float of Python was
    taken for a float64.
    """
    if "interpolation" in kwargs:
        kwargs["method"] = kwargs.pop("interpolation")
    return numpy.nanquantile(a, numpy.asarray(q, dtype="float64"), *args, **kwargs)


def _count_nonzero(*args, **kwargs):
    """Return the count of a whole array as an int. NumPy 2.4 makes it a number of NumPy."""
    return _plain(numpy.count_nonzero(*args, **kwargs))


def _alltrue(a, axis=None, **kwargs):
    """Return whether all elements are true. Without an axis it is NumPy's bool, also for an array of MXNet."""
    result = numpy.all(a, axis, **kwargs)
    return numpy.bool_(result) if axis is None and not kwargs else result


def _in1d(ar1, ar2, assume_unique=False, invert=False):
    return numpy.isin(ar1, ar2, assume_unique=assume_unique, invert=invert).reshape(-1)


def _unavailable(name: str) -> Callable:
    def function(*_args, **_kwargs):
        raise AttributeError(f"NumPy {numpy.__version__} has no function {name}; numpy-financial has it")

    function.__name__ = name
    return function


def _forking_names() -> dict[str, object]:
    """Return names of ``multiprocessing`` whose workers fork, as they did by default before Python 3.14.

    Such workers inherit the data set, and MXNet as it is.
    """
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
    """Return numbers of NumPy as Python's, also in tuples and lists. MXNet cannot read ``(np.int64(2), 3)``."""
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
    """Let ``var`` take a shape with numbers of NumPy, because the shape of a variable is an attribute.

    This module also asks ``isinstance(x, str)``, so ``str`` cannot be replaced in it.
    """
    var = module.var

    @functools.wraps(var)
    def with_plain_shape(name, attr=None, shape=None, *args, **kwargs):
        return var(name, attr, _plain(shape), *args, **kwargs)

    module.var = module.Variable = with_plain_shape


def _repair_sums(kind: type) -> None:
    """Let the numbers among the attributes of a class keep the arithmetic of NumPy 1.

    The product or sum of a float32 and a float of Python is a float32 in NumPy 2, and was a float64: a metric that
    sums up losses would stop at 2**24, and rates of schedulers would lose digits. A metric's sum may also begin as a
    float of Python, to which a float32 is added.
    """
    def __setattr__(self, name, value):
        if name.endswith("sum_metric") and type(value) is float:
            value = numpy.float64(value)
        object.__setattr__(self, name, _old(value))

    kind.__setattr__ = __setattr__


# -- scalars -----------------------------------------------------------------------------------------------
# The arithmetic of a number of NumPy with one of Python. NumPy 1 took Python's number as one of these types. NumPy 2
# takes it as one of the other's type. So 2.0 ** 24 + numpy.float32(1) is 16777217.0 with NumPy 1, and 16777216.0 with
# NumPy 2.
OF_PYTHON = {bool: numpy.bool_, int: numpy.int64, float: numpy.float64, complex: numpy.complex128}
BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift")
COMPARISONS = ("lt", "le", "eq", "ne", "gt", "ge")
UNARY = ("neg", "pos", "abs", "invert")


def _old_scalar(base: type) -> type:
    """Return a subclass of a type of NumPy's scalars that computes with Python's numbers as NumPy 1 did.

    Results that have the type become instances of the subclass, too. With arrays it computes as NumPy does. A copy in a
    file is a number of the base type.
    """
    def binary(name):
        function = getattr(operator, f"__{name}__")
        return lambda self, other: _old(function(base(self), _of_python(other)))

    def reflected(name):
        function = getattr(operator, f"__{name}__")
        return lambda self, other: _old(function(_of_python(other), base(self)))

    def unary(name):
        function = getattr(operator, f"__{name}__")
        return lambda self: _old(function(base(self)))

    methods = {
        **{f"__{name}__": binary(name) for name in (*BINARY, *COMPARISONS)},
        **{f"__r{name}__": reflected(name) for name in BINARY},
        **{f"__{name}__": unary(name) for name in UNARY},
        "__divmod__": lambda self, other: tuple(map(_old, divmod(base(self), _of_python(other)))),
        "__rdivmod__": lambda self, other: tuple(map(_old, divmod(_of_python(other), base(self)))),
        "__round__": lambda self, digits=None: _old(base(self).__round__(digits)),
        "__hash__": base.__hash__,
        "__reduce__": lambda self: base(self).__reduce__(),
        "__slots__": (), "__doc__": base.__doc__, "__module__": base.__module__,
    }
    return type(base.__name__, (base,), methods)


def _of_python(value):
    """Return a number of Python as the number of NumPy that NumPy 1 took it for.

    Other values, and whole numbers that 64 bits cannot hold, stay as they are.
    """
    kind = OF_PYTHON.get(type(value))
    if kind is None or (kind is numpy.int64 and not -2**63 <= value < 2**63):
        return value
    return kind(value)


def _old(value):
    """Return a result that goes on with NumPy 1's arithmetic, if it is a scalar that NumPy 2 treats differently."""
    kind = OLD_SCALARS.get(type(value))
    return value if kind is None else kind(value)


# float64 and int64 are not among them, because Python's numbers were taken for these.
OLD_SCALARS = {base: _old_scalar(base) for base in (numpy.float16, numpy.float32, numpy.int8, numpy.int16, numpy.int32,
                                                    numpy.uint8, numpy.uint16, numpy.uint32, numpy.uint64)}


def _repair_arrays(module: types.ModuleType) -> None:
    """Let NDArrays become arrays of NumPy, and let scalars from them have the arithmetic of NumPy 1.

    NumPy 1 walked through the elements of an NDArray one by one, and NumPy 2 cannot. The element of an array of shape
    (1, 1) is a scalar, too: float() of an array is an error since NumPy 2.5.
    """
    asscalar = module.NDArray.asscalar

    @functools.wraps(asscalar)
    def scalar(self):
        value = asscalar(self)
        value = value if isinstance(value, numpy.generic) else value.reshape(-1)[0]
        return _old(value) if IS_NUMPY_2 else value

    def __array__(self, dtype=None, copy=None):
        """Return the elements in an array of NumPy. It is always a copy, so ``copy=False`` is a ValueError."""
        if copy is False and IS_NUMPY_2:
            raise ValueError("copy is False, and an NDArray has its elements in MXNet's memory; expected copy=None or "
                             "copy=True. Call asnumpy(), or leave copy out")
        array = self.asnumpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    module.NDArray.asscalar = scalar
    module.NDArray.__array__ = __array__


def _repair_dispatch(module: types.ModuleType) -> None:
    """Add today's names of operators, by which NumPy calls them: true_divide, for example, is called divide."""
    operators = module._NUMPY_ARRAY_UFUNC_DICT
    for name in list(operators):
        operators.setdefault(getattr(numpy, name).__name__, operators[name])


def _repair_sparse(module: types.ModuleType) -> None:
    """Let MXNet find SciPy's sparse matrices in ``scipy.sparse``.

    It looks in ``scipy.sparse.csr`` at every ``mx.nd.array``. That warns each time, and SciPy 2 will not have it.
    """
    if module.spsp is not None:
        sparse = module.spsp
        module.spsp = types.SimpleNamespace(csr=sparse, csr_matrix=sparse.csr_matrix, coo_matrix=sparse.coo_matrix)


def _repair_thresholds(module: types.ModuleType) -> None:
    """Let the thresholds of a quantized net be scalars, because they become floats in C."""
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
    "mxnet.ndarray.ndarray": _repair_arrays,
    "mxnet.ndarray.sparse": _repair_sparse,
    "mxnet.ndarray.utils": _repair_sparse,
    "mxnet.numpy_dispatch_protocol": _repair_dispatch,
    "mxnet.optimizer.optimizer": lambda module: _repair_sums(module.Optimizer),
    "mxnet.symbol.symbol": _repair_variable,
}
