"""The arrays that a net is recorded with: their names, their types, and the mode that they belong to."""
from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import mxnet as mx
from mxnet.util import is_np_array

from ...backends.layer import EitherModeBlock
from ...backends.numpy_mode import is_numpy
from ...contract.errors import OpError, plural
from .naming import parameters_of

NUMPY, LEGACY = "an array of mx.np", "a legacy NDArray"
REMEDIES = {NUMPY: "Convert it with .as_nd_ndarray()", LEGACY: "Convert it with .as_np_ndarray()"}


class Arguments:
    """What a net is called with.

    - ``arrays``: by name. ``is_numpy``: whether they are arrays of ``mx.np``.
    """

    def __init__(self, where: str, net: mx.gluon.Block, inputs: Any):
        self._where, self._net = where, net
        self._values = self._ordered(inputs)
        self.arrays: dict[str, mx.nd.NDArray] = {}
        for name, value in self._values:
            self._collect(name, value)
        if not self.arrays:
            raise OpError(where, "inputs has no array", "Pass the arrays that the net takes, such as inputs=(x,)")
        first, kind = next((name, _kind(array)) for name, array in self.arrays.items())
        for name, array in self.arrays.items():
            if _kind(array) != kind:
                raise OpError(where, f"the input {first} is {kind}, and {name} is {_kind(array)}; expected one kind",
                              REMEDIES[_kind(array)])
        self.is_numpy = kind == NUMPY
        self._check_mode(kind)

    def _ordered(self, inputs: Any) -> list[tuple[str, Any]]:
        """The arguments with their names, in the order in which the net takes them."""
        names, needed, takes_more = _parameters(self._net)
        if isinstance(inputs, dict):
            unknown = [name for name in inputs if name not in names]
            if unknown and not takes_more:
                raise OpError(self._where, f"inputs names {unknown[0]!r}; {type(self._net).__name__} takes "
                              f"{', '.join(names)}", "Use the names in the signature of its forward")
            names += unknown
            passed = {name: inputs[name] for name in names if name in inputs}
        else:
            values = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
            if len(values) > len(names) and not takes_more:
                raise OpError(self._where, f"inputs has {plural(len(values), 'value')}; {type(self._net).__name__} "
                              f"takes {len(names)}: {', '.join(names)}", "Pass one value for each")
            names += [f"data{number}" for number in range(len(values) - len(names))]
            passed = dict(zip(names, values))
        missing = [name for name in needed if name not in passed]
        if missing:
            raise OpError(self._where, f"{type(self._net).__name__} takes {', '.join(needed)}, and inputs lacks "
                          f"{', '.join(missing)}", "Pass a value for each, in the order of its forward")
        last = max((names.index(name) for name in passed), default=-1)
        return [(name, passed.get(name)) for name in names[:last + 1]]

    def _collect(self, name: str, value: Any) -> None:
        """Enter the arrays in a value by name."""
        if isinstance(value, mx.nd.sparse.BaseSparseNDArray):
            raise OpError(self._where, f"the input {name} is a sparse array", "Convert it with .tostype('default')")
        if isinstance(value, mx.nd.NDArray):
            while name in self.arrays:
                name += "_"
            self.arrays[name] = value
        elif isinstance(value, (list, tuple)):
            for index, each in enumerate(value):
                self._collect(f"{name}_{index}", each)
        elif type(value).__module__ == "numpy":
            raise OpError(self._where, f"the input {name} is of NumPy's {type(value).__name__}; expected an array of "
                          "MXNet's", "Convert it with mx.nd.array(x, dtype=x.dtype), or mx.np.array")

    def _check_mode(self, kind: str) -> None:
        """Raise an OpError if the net is of the other mode: its parameters say it, or the mode in force."""
        parameters, name = parameters_of(self._net).values(), next(iter(self.arrays))
        with_values = [parameter for parameter in parameters if parameter._data]
        for parameter in with_values:
            if _kind(parameter._data[0]) != kind:
                raise OpError(self._where, f"the input {name} is {kind}, and the parameter {parameter.name} is "
                              f"{_kind(parameter._data[0])}; expected one kind", REMEDIES[kind])
        if parameters and not with_values and is_np_array() != self.is_numpy:
            mode = "on" if is_np_array() else "off"
            raise OpError(self._where, f"the input {name} is {kind}, and NumPy mode is {mode} where the parameters get "
                          "their values; expected one mode", REMEDIES[kind])

    def copies(self, changed: dict[str, mx.nd.NDArray] | None = None) -> tuple[dict[str, mx.nd.NDArray], list[Any]]:
        """Copies of the arrays by name, or of others, and the arguments of a call that has them."""
        arrays = {name: (changed or {}).get(name, array).copy() for name, array in self.arrays.items()}
        copies = iter(arrays.values())
        return arrays, [_replaced(value, copies) for _, value in self._values]


def _replaced(value: Any, copies: Iterator[Any]) -> Any:
    """A value with the next copies in place of its arrays."""
    if isinstance(value, (list, tuple)):
        values = [_replaced(each, copies) for each in value]
        return type(value)(*values) if hasattr(value, "_fields") else type(value)(values)
    return next(copies) if isinstance(value, mx.nd.NDArray) else value


def _kind(array: mx.nd.NDArray) -> str:
    return NUMPY if is_numpy(array) else LEGACY


def _parameters(net: mx.gluon.Block) -> tuple[list[str], list[str], bool]:
    """The names of what a net takes, those without a default, and whether it takes any number more."""
    function = signature_of(net)
    parameters = [each for each in inspect.signature(function).parameters.values()
                  if each.name not in getattr(net, "_reg_params", {}) or not isinstance(net, mx.gluon.HybridBlock)]
    named = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    needed = [each.name for each in named if each.default is each.empty]
    takes_more = any(each.kind is each.VAR_POSITIONAL for each in parameters)
    return [each.name for each in named], needed, takes_more


def signature_of(net: mx.gluon.Block) -> Callable:
    """The function whose signature names what a net takes."""
    hybrid = mx.gluon.HybridBlock
    if type(net).__call__ not in (hybrid.__call__, EitherModeBlock.__call__):
        return net.__call__   # gluon's LSTM has one, whose states are optional
    if not isinstance(net, hybrid) or type(net).forward is not hybrid.forward:
        return net.forward
    return functools.partial(net.hybrid_forward, mx.sym)


def arrays_of_arguments(block: mx.gluon.Block, inputs: tuple) -> Iterator[tuple[str, mx.nd.NDArray]]:
    """The arrays that a block is called with, and what it calls them. Those in a list are numbered."""
    names, _, _ = _parameters(block)
    for name, value in zip(names, inputs):
        arrays = [each for each in arrays_in(value) if isinstance(each, mx.nd.NDArray)]
        for number, array in enumerate(arrays, 1):
            yield (name if len(arrays) == 1 else f"{name}{number}"), array


def arrays_in(value: Any) -> Iterator[Any]:
    """Everything in nested lists, tuples and dicts, without None."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from arrays_in(each)
    elif value is not None:
        yield value
