"""NumpyOp and NDArrayOp: the methods that a user's class overrides, and the call that adds an instance to a graph."""
from __future__ import annotations

import mxnet as mx
import numpy as np

from ..backends import emitter
from ..backends.emitter import Array
from ..contract.errors import OpError, plural
from . import instances, node
from .notice import once

INSTEAD = ("an operator of gluonops.ops where there is one, or mx.operator.CustomOp, or an operator's folder of your "
           "own (docs/new_op.md)")


class PythonOp:
    """The base class of NumpyOp and NDArrayOp. A subclass overrides the methods that it needs.

    ``infer_shape``, ``list_arguments`` and ``list_outputs`` default to one input, ``data``, and one output of its
    shape. Elements that ``forward`` or ``backward`` does not write are 0. The requests (write, add, null) are handled
    outside of your class.

    Parameters
    ----------
    need_top_grad : bool
        Whether ``backward`` reads ``out_grad``; False for a loss.
    """

    need_top_grad_ = True   # classes whose __init__ does not call this one's read it

    def __init_subclass__(cls, **kwargs) -> None:
        super().__init_subclass__(**kwargs)
        instances.register_class(cls)

    def __new__(cls, *args, **kwargs) -> PythonOp:
        base = next(parent.__name__ for parent in cls.__mro__ if parent.__module__ == __name__)
        once(base, INSTEAD)
        self = super().__new__(cls)
        instances.register(self, args, kwargs)
        return self

    def __init__(self, need_top_grad: bool = True):
        self.need_top_grad_ = need_top_grad

    def __call__(self, *args, **kwargs) -> mx.sym.Symbol | mx.nd.NDArray | list:
        """Put the operator into a graph, or run it.

        - ``args`` and ``kwargs``: the inputs, in the order of ``list_arguments()`` or by name. A Symbol that is left
          out becomes the variable ``<name>_<argument>``.
        - ``name``: name of the node.
        - ``attr``: its attributes, such as ``{"ctx_group": "stage1"}``.

        The result is a Symbol or an NDArray, like the inputs. Several outputs are a grouped Symbol, or a list of
        NDArrays. An operator without inputs, whose ``list_arguments`` returns ``[]``, gives a Symbol, as before. Raise
        an OpError if an input is unknown, given twice, missing, or of another kind, or if Symbols and NDArrays are
        mixed.
        """
        name, attr = kwargs.pop("name", None), kwargs.pop("attr", None) or {}
        inputs = self._inputs(args, kwargs)
        if inputs and not emitter.is_symbolic(self._error, tuple(inputs), tuple(inputs.values())):
            return node.emit(self, mx.nd, list(inputs.values()), {})
        name = emitter.full_name(name, type(self).__name__.lower())
        symbols = [mx.sym.var(f"{name}_{key}") if value is None else value for key, value in inputs.items()]
        with mx.name.NameManager(), mx.AttrScope(**attr):   # the name is complete: blocks add no prefix
            return node.emit(self, mx.sym, symbols, {"name": name})

    def get_symbol(self, *args, **kwargs) -> mx.sym.Symbol | mx.nd.NDArray | list:
        """Return the same as calling the instance."""
        return self(*args, **kwargs)

    def _inputs(self, args: tuple, kwargs: dict) -> dict[str, Array | None]:
        names = node.names(self, "list_arguments")
        if len(args) > len(names):
            raise self._error(f"got {plural(len(args), 'input')}; expected {', '.join(names) or 'none'}",
                              "Leave the others out")
        inputs = dict(zip(names, args))
        for name, value in kwargs.items():
            if name not in names:
                raise self._error(f"there is no input {name!r}; expected {', '.join(names) or 'none'}",
                                  "Choose one of them, or name it in list_arguments")
            if name in inputs:
                raise self._error(f"the input {name!r} was passed twice", "Pass it either by position or by name")
            inputs[name] = value
        return {name: inputs.get(name) for name in names}

    def _error(self, what: str, remedy: str) -> OpError:
        return OpError(f"legacy.{type(self).__name__}", what, remedy)

    def list_arguments(self) -> list[str]:
        """Return the names of the inputs, a list of str."""
        return ["data"]

    def list_outputs(self) -> list[str]:
        """Return the names of the outputs, a list of str."""
        return ["output"]

    def infer_shape(self, in_shape: list[list[int]]) -> tuple:
        """Return the shapes of every input and output.

        Parameters
        ----------
        in_shape : list of list of int
            One for each input, empty if it is not known yet.

        Returns
        -------
        list of list of int, list of list of int
            The inputs' shapes, completed, and the outputs'.
        """
        return in_shape, [in_shape[0]]

    def need_top_grad(self) -> bool:
        """Return whether ``backward`` reads ``out_grad``."""
        return self.need_top_grad_

    def declare_backward_dependency(self, out_grad: list[int], in_data: list[int], out_data: list[int]) -> list[int]:
        """Return the ids of the tensors that ``backward`` reads. MXNet frees the others after ``forward``."""
        return [*(out_grad if self.need_top_grad() else []), *in_data, *out_data]

    def forward(self, in_data: list, out_data: list) -> None:
        """Compute ``out_data`` from ``in_data``, both lists, in place: ``out_data[0][:] = ...``."""
        out_data[0][:] = in_data[0]

    def backward(self, out_grad: list, in_data: list, out_data: list, in_grad: list) -> None:
        """Compute ``in_grad``, in place. All four are lists, with None for undeclared dependencies."""
        raise self._error("it has no backward", "Write one; if the gradient is not needed, pass the data through "
                                                "mx.sym.BlockGrad")


class NumpyOp(PythonOp):
    """An operator written in NumPy, with the interface of ``mx.operator.NumpyOp``.

    ``forward`` and ``backward`` get lists of numpy.ndarray: copies, so each call waits for MXNet's engine. The class
    of MXNet 1.9.1 is broken: it passes wrong shapes to ``forward``, and continues with zeros if that raises.

    Parameters
    ----------
    need_top_grad : bool
        Whether ``backward`` reads ``out_grad``; False for a loss.

    Examples
    --------
    >>> class Square(gops.legacy.NumpyOp):
    ...     def forward(self, in_data, out_data):
    ...         out_data[0][:] = in_data[0] ** 2
    ...     def backward(self, out_grad, in_data, out_data, in_grad):
    ...         in_grad[0][:] = 2 * in_data[0] * out_grad[0]
    >>> Square()(mx.nd.array([3]))
    """

    @staticmethod
    def _opened(array: mx.nd.NDArray) -> np.ndarray:
        return array.asnumpy()

    @staticmethod
    def _blank(request: str, array: mx.nd.NDArray) -> np.ndarray:
        return np.zeros(array.shape, array.dtype)


class NDArrayOp(PythonOp):
    """An operator written with NDArrays, with the interface of ``mx.operator.NDArrayOp``.

    ``forward`` and ``backward`` get lists of NDArray, on whatever device the node runs; ``declare_backward_dependency``
    may be overridden to keep less memory. Kernels of :class:`Rtc` may be pushed in them.

    Parameters
    ----------
    need_top_grad : bool
        Whether ``backward`` reads ``out_grad``; False for a loss.
    """

    @staticmethod
    def _opened(array: mx.nd.NDArray) -> mx.nd.NDArray:
        return array

    @staticmethod
    def _blank(request: str, array: mx.nd.NDArray) -> mx.nd.NDArray:
        if request != "write":
            return mx.nd.zeros(array.shape, array.context, array.dtype)
        array[:] = 0
        return array
