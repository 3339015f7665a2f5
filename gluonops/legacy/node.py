"""A node of NumpyOp or NDArrayOp: an instance behind ``mx.operator.CustomOp``."""
from __future__ import annotations

import numbers
from types import ModuleType
from typing import TYPE_CHECKING

import mxnet as mx
import numpy as np

from ..backends import nodes, registration
from ..contract.errors import OpError
from . import instances

if TYPE_CHECKING:
    from ..backends.emitter import Array

OP_TYPE = "legacy_gluonops"   # operators with the prefix gluonops_ have a contract, and exports convert them

MAX_SIZE = 2 ** 31 - 1   # MXNet's largest dimension


def emit(instance: object, space: ModuleType, inputs: list, named: dict[str, str]) -> Array | list:
    """Call ``space.Custom`` for an instance, whose inputs get a plain layout like those of every CustomOp of gluonops.

    ``named`` has the ``name`` of the node in a graph, and is empty for NDArrays.
    """
    copies_inputs = nodes.needs_plain_layout(space, inputs)
    if copies_inputs:
        inputs = [nodes.plain_layout(space, value) if _may_be_blocked(space, value) else value for value in inputs]
    attributes = {"op_type": OP_TYPE, **instances.strings(instance)}
    if not copies_inputs or not instance.need_top_grad():
        return space.Custom(*inputs, **attributes, **named)

    result = space.Custom(*inputs, **attributes, **nodes.with_suffix(named, "_custom"))
    outputs = names(instance, "list_outputs")
    if len(outputs) == 1:
        return nodes.plain_layout(space, result, may_be_scalar=True, **named)
    values = [nodes.plain_layout(space, result[i], may_be_scalar=True, **nodes.with_suffix(named, f"_{output}"))
              for i, output in enumerate(outputs)]
    return mx.sym.Group(values) if space is mx.sym else values


def _may_be_blocked(space: ModuleType, value: Array) -> bool:
    """Return whether a value may be in a layout of oneDNN.

    The inputs of a block may be. A variable to which a graph is bound is not, and neither is a parameter. Their shapes
    may have to be inferred from those of the operator, which a copy in between would prevent.
    """
    if space is mx.nd or value.get_children() is not None:
        return True
    in_block = getattr(mx.gluon.block._BlockScope._current, "value", None) is not None
    return in_block and value.attr("__lr_mult__") is None   # every Parameter's variable has it


def names(instance: object, method: str) -> list[str]:
    """Return what ``list_arguments`` or ``list_outputs`` of an instance returns, validated.

    Raise an OpError if it is not a list of names, or if a name occurs twice, because MXNet would confuse the two. An
    operator may have no input, but it must have an output.
    """
    returned = getattr(instance, method)()
    valid = isinstance(returned, (list, tuple)) and all(isinstance(name, str) for name in returned)
    lacks_output = not returned and method == "list_outputs"
    if not valid or lacks_output or len(set(returned)) < len(returned):
        raise OpError(f"legacy.{type(instance).__name__}",
                      f"{method} returned {returned!r}; expected a list of different names",
                      "Return for instance ['data', 'label']")
    return list(returned)


class Operator(mx.operator.CustomOp):
    """Runs ``forward`` and ``backward`` of an instance, and writes or adds the results as requested."""

    def __init__(self, instance: object, where: str):
        super().__init__()
        self.instance, self.where = instance, where

    def forward(self, is_train: bool, req: list, in_data: list, out_data: list, aux: list) -> None:
        self._run("forward", "out_data", out_data, req, in_data=in_data)

    def backward(self, req: list, out_grad: list, in_data: list, out_data: list, in_grad: list, aux: list) -> None:
        arrays = [*out_grad, *in_data, *out_data]
        ids, first, last = list(range(len(arrays))), len(out_grad), len(out_grad) + len(in_data)
        read = self.instance.declare_backward_dependency(ids[:first], ids[first:last], ids[last:])
        kept = [array if i in read else None for i, array in enumerate(arrays)]   # MXNet has freed the others
        self._run("backward", "in_grad", in_grad, req,
                  out_grad=kept[:first], in_data=kept[first:last], out_data=kept[last:])

    def _run(self, method: str, written: str, results: list, requests: list[str], **read: list) -> None:
        """Call a method of the instance, and write or add what it wrote to the results.

        The method writes into the list of the name ``written``, and reads the others.
        """
        instance = self.instance
        blank = [instance._blank(request, array) for request, array in zip(requests, results)]
        lists = {name: [None if array is None else instance._opened(array) for array in arrays]
                 for name, arrays in read.items()}
        lists[written] = list(blank)
        try:
            getattr(instance, method)(**lists)
        except OpError:
            raise
        except Exception as error:
            is_old_rtc = str(error) == "'module' object is not callable"   # mx.rtc is a module since MXNet 1.0
            raise OpError(self.where, f"{method} raised {type(error).__name__}: {error}",
                          "Write gluonops.legacy.Rtc where mx.rtc is called" if is_old_rtc else
                          "Correct the method; the traceback above says where it fails") from error
        for i, (request, result, value) in enumerate(zip(requests, results, blank)):
            if lists[written][i] is not value:
                raise OpError(self.where, f"{method} put another array into {written}[{i}], which is not used",
                              f"Write into the array that it got: {written}[{i}][:] = ...")
            if request == "add":
                result += value if isinstance(value, mx.nd.NDArray) else mx.nd.array(value, result.context, value.dtype)
            elif request != "null" and value is not result:
                result[:] = value


class Properties(mx.operator.CustomOpProp):
    """Answers MXNet's questions about a node before it runs, from the instance; its answers are validated."""

    def __init__(self, **kwargs: str):
        super().__init__()
        self._error, self.where = None, f"legacy.{kwargs.get('operator', '?').rpartition('.')[2]}"
        try:
            self.instance = instances.find(kwargs.get("operator", "?"), kwargs.get("instance"), kwargs.get("given"))
        except Exception as error:   # MXNet 1.9.1 crashes on an exception here, so the next call raises it
            self._error = error

    def list_arguments(self) -> list[str]:
        if self._error:
            raise self._error
        return names(self.instance, "list_arguments")

    def list_outputs(self) -> list[str]:
        return names(self.instance, "list_outputs")

    def infer_shape(self, in_shape: list) -> tuple[list, list, list]:
        input_shapes = [list(shape) for shape in in_shape]
        outputs = len(names(self.instance, "list_outputs"))
        lowest = min([1, *(size for shape in input_shapes for size in shape or [-1])])   # -1 is an unknown size
        try:
            answer = self.instance.infer_shape([list(shape) for shape in input_shapes])
        except Exception:
            if lowest >= 0:
                raise
            return input_shapes, [[]] * outputs, []   # an old infer_shape expects to know every size
        try:
            inputs, results = ([self._sizes(shape, lowest) for shape in shapes] for shapes in answer)
        except OpError:
            raise
        except (TypeError, ValueError) as error:
            raise self._bad_shapes(answer, "") from error
        if (len(inputs), len(results)) != (len(input_shapes), outputs):
            raise self._bad_shapes(answer, f" of {len(input_shapes)} and {outputs} shapes")
        return inputs, results, []

    def _bad_shapes(self, answer: object, sizes: str) -> OpError:
        return OpError(self.where, f"infer_shape returned {answer!r}; expected two lists{sizes}, of the inputs' shapes "
                       "and of the outputs'", "Return them in the order of list_arguments and list_outputs")

    def _sizes(self, shape: list, lowest: int) -> list[int]:
        for size in shape:
            if not isinstance(size, numbers.Integral):
                raise OpError(self.where, f"infer_shape returned the shape {tuple(shape)}; expected whole numbers",
                              "Divide with //, because / makes a float in Python 3")
        if any(not lowest <= size <= MAX_SIZE for size in shape) or (lowest >= 0 and not len(shape)):
            raise OpError(self.where, f"infer_shape returned the shape {tuple(shape)}; expected sizes from {lowest} to "
                          f"{MAX_SIZE}", "Return a size for every dimension where the inputs have theirs")
        return [int(size) for size in shape]

    def infer_type(self, in_type: list) -> tuple[list, list, list]:
        """Give all tensors the first known type, or float32 if there is no input."""
        default = None if in_type else np.float32
        first = next((np.dtype(dtype).type for dtype in in_type if dtype is not None), default)
        return [dtype or first for dtype in in_type], [first] * len(self.instance.list_outputs()), []

    def declare_backward_dependency(self, out_grad: list, in_data: list, out_data: list) -> list:
        return self.instance.declare_backward_dependency(list(out_grad), list(in_data), list(out_data))

    def create_operator(self, ctx: str, in_shapes: list, in_dtypes: list) -> Operator:
        return Operator(self.instance, self.where)


registration.add(OP_TYPE, Properties)
registration.described[OP_TYPE] = "operator", "gluonops.legacy"
