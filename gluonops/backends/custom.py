"""Makes the ``CustomOpProp`` and the ``CustomOp`` of a contract, and handles the requests write, add and null."""
from __future__ import annotations

from collections.abc import Iterable

import mxnet as mx
import numpy as np

from ..contract import errors
from ..contract.dims import UNKNOWN
from ..contract.op import Op, cached
from ..contract.registry import RegisteredOp
from ..cuda import rtc
from . import label_checks, native
from .registration import add, asked

Arrays = list[mx.nd.NDArray]
Requested = dict[str, tuple[str, mx.nd.NDArray]]   # the request and the array by name

WRITES = ("write", "inplace")


class Operator(mx.operator.CustomOp):
    """Runs a node: with the CUDA kernel on a GPU, the native kernel on a CPU, or else the reference in ``mx.nd``.

    MXNet creates another operator for another context, and for other shapes and dtypes.
    """

    def __init__(self, registered: RegisteredOp, bound_op: rtc.BoundOp):
        super().__init__()
        self.op, self.where = registered.op, registered.op.name
        self.reference = registered.reference
        self.attrs = bound_op.attrs
        self.bound_op = bound_op
        self.has_scalars = bound_op.layout.may_have_scalars
        # Whether a CUDA kernel is launched, if the operator has one.
        self.launches = rtc.usable(bound_op.context) and not bound_op.layout.has_empty
        self.runs_native = native.has(registered.op) and bound_op.context.device_type != "gpu"

    def forward(self, is_train: bool, req: list[str], in_data: Arrays, out_data: Arrays, aux: Arrays) -> None:
        op = self.op
        if self.has_scalars:
            in_data, out_data = _vectors(in_data), _vectors(out_data)
        if label_checks.checking():
            label_checks.check(op, self.attrs, _named(op.inputs, in_data))
        if self.launches and rtc.launch(self.bound_op, "forward", tuple(req), in_data, out_data):
            return

        if 0 in out_data[0].shape:   # nobody reads the hidden outputs then
            return
        if 0 in in_data[0].shape:
            raise op.error(f"{op.inputs[0].name} has shape {in_data[0].shape}, which has no elements; expected at "
                           f"least one, because the output has shape {out_data[0].shape}",
                           "Do not call the operator with an empty input")
        requested = {out.name: (request, array) for out, request, array in zip(op.outputs, req, out_data)}
        if self.runs_native:
            self._run_native(op.graph_name, in_data, requested)
            return
        results = self.reference.forward(mx.nd, self.attrs, *self._widened(_named(op.inputs, in_data)).values())
        results = results if isinstance(results, tuple) else (results,)
        self._store(requested, _named(op.outputs, results))

    def backward(self, req: list[str], out_grad: Arrays, in_data: Arrays, out_data: Arrays, in_grad: Arrays,
                 aux: Arrays) -> None:
        op, tensors = self.op, [*out_grad, *in_data, *out_data]
        if self.has_scalars:
            tensors, in_grad = _vectors(tensors), _vectors(in_grad)
        if self.launches and self._launch_backward(req, tensors, in_grad):
            return

        requested = self._requested_gradients(req, in_grad)
        wanted = {name: grad for name, (request, grad) in requested.items() if request != "null"}
        if not wanted:
            return
        available = dict(zip(op.offered_to_backward, tensors))
        tensors = {name: available[name] for name in op.backward}
        if any(0 in array.shape for array in (*tensors.values(), *wanted.values())):   # sums over nothing are 0
            _fill_with_zeros(requested.values())
            return

        shapes_of_arrays = {name.replace("_grad", ""): array.shape for name, array in {**tensors, **wanted}.items()}
        shapes = op.infer_shape(self.attrs, shapes_of_arrays)
        if self.runs_native:
            self._backward_native(shapes, tensors, requested)
            return
        self._store(requested, self.reference.backward(mx.nd, self.attrs, shapes, **self._widened(tensors)))

    def _launch_backward(self, requests: list[str], available: Arrays, gradients: Arrays) -> bool:
        """Launch the CUDA kernel on the head gradients, inputs and outputs that are ``available``.

        Return False if there is no kernel, or no gradient is requested.
        """
        layout = self.bound_op.layout
        read = [available[index] for index in layout.read]
        written = [gradients[index] for index in layout.written]
        wanted = tuple(requests[index] if index in layout.gradients else "null" for index in layout.written)
        if all(request == "null" for request in wanted):
            return False
        if not rtc.launch(self.bound_op, "backward", wanted, read, written):
            return False
        _fill_with_zeros((request, gradient) for index, (request, gradient) in enumerate(zip(requests, gradients))
                         if index not in layout.gradients)
        return True

    def _requested_gradients(self, requests: list[str], grads: Arrays) -> Requested:
        """Return the request and the array for each input that has a gradient, and fill the others with zeros."""
        requested = {arg.name: pair for arg, pair in zip(self.op.inputs, zip(requests, grads))}
        having = {arg.name for arg in self.op.inputs if arg.has_gradient(self.attrs)}
        _fill_with_zeros(pair for name, pair in requested.items() if name not in having)
        return {name: pair for name, pair in requested.items() if name in having}

    def _run_native(self, graph_name: str, arguments: Arrays, requested: Requested) -> None:
        """Call an operator of the library. What is not requested as a write gets memory of its own first.

        It always gets arrays to write to: MXNet does not infer the shapes of a library's gradients.
        """
        results = {name: array if request in WRITES else mx.nd.empty(array.shape, array.context, array.dtype)
                   for name, (request, array) in requested.items()}
        native.invoke(graph_name, arguments, self.op.strings(self.attrs), list(results.values()))
        self._store({name: pair for name, pair in requested.items() if pair[0] not in WRITES}, results)

    def _backward_native(self, shapes: dict[str, tuple], tensors: dict[str, mx.nd.NDArray],
                         requested: Requested) -> None:
        """Call the native gradient. It takes all tensors and returns all gradients, so some are placeholders."""
        op = self.op
        variables = op.type_vars(self.attrs)
        wanted = {name: pair for name, pair in requested.items() if pair[0] != "null"}
        dtypes = {variables[name]: array.dtype for name, array in tensors.items()}
        dtypes.update((variables[name], array.dtype) for name, (_, array) in wanted.items())

        def placeholder(name: str, shape: tuple) -> mx.nd.NDArray:   # it is never read, so unknown sizes are arbitrary
            sizes = [1 if size == UNKNOWN else size for size in shape]
            return mx.nd.empty(sizes, self.bound_op.context, dtypes.get(variables[name], dtypes["T"]))

        arguments = [tensors[name] if name in tensors else placeholder(name, shapes[name.replace("_grad", "")])
                     for name in op.offered_to_backward]
        # MXNet assumes that all gradients of an operator in a library have the type of the first tensor.
        all_inputs = {arg.name: wanted.get(arg.name) or ("write", placeholder(op.inputs[0].name, shapes[arg.name]))
                      for arg in op.inputs}
        self._run_native(f"_backward_{op.graph_name}", arguments, all_inputs)

    def _widened(self, tensors: dict[str, mx.nd.NDArray]) -> dict[str, mx.nd.NDArray]:
        """Return the tensors, with float16 data cast to float32 if the contract says so."""
        if not self.op.accumulate_fp32:
            return tensors
        variables = self.op.type_vars(self.attrs)
        return {name: array.astype("float32") if variables[name] == "T" and array.dtype == np.float16 else array
                for name, array in tensors.items()}

    @staticmethod
    def _store(requested: Requested, values: dict[str, mx.nd.NDArray]) -> None:
        """Write or add values to arrays, as requested."""
        for name, (request, array) in requested.items():
            if request == "add":
                array[:] = array.astype(values[name].dtype) + values[name]
            elif request != "null":
                array[:] = values[name]


def _named(declared: tuple, arrays: Arrays) -> dict[str, mx.nd.NDArray]:
    return {item.name: array for item, array in zip(declared, arrays)}


def _vectors(arrays: Arrays) -> Arrays:
    """Return the arrays, with scalars as vectors of one element in the same memory.

    The thread that runs a CustomOp takes the shape of a scalar for an unknown one.
    """
    if all(array.shape for array in arrays):
        return arrays
    with mx.util.np_shape(True):   # an absent array has the shape None there
        return [array.reshape((1,)) if array.shape == () else array for array in arrays]


def _fill_with_zeros(pairs: Iterable[tuple[str, mx.nd.NDArray]]) -> None:
    """Write zeros to the arrays of write requests."""
    for request, array in pairs:
        if request not in WRITES:
            continue
        if rtc.mxnet_computes(array.context):
            array[:] = 0
        else:
            mx.nd.zeros(array.shape, mx.cpu(), array.dtype).copyto(array)


class Properties(mx.operator.CustomOpProp):
    """Answers MXNet's questions about a node before it runs, from the contract."""

    # The subclass that `register` makes sets these: the operator, its contract and its name.
    registered = op = where = None

    def __init__(self, **kwargs: str):
        super().__init__(need_top_grad=self.op.reads_head_gradient)
        self._error = None
        try:
            self.attrs = _parsed(self.op, tuple(kwargs.items()))
        except errors.OpError as error:
            # MXNet 1.9.1 crashes if a constructor raises an exception, so the next call raises it instead.
            self._error = error

    def list_arguments(self) -> list[str]:
        if self._error:
            raise self._error
        return [arg.name for arg in self.op.inputs]

    def list_outputs(self) -> list[str]:
        return [out.name for out in self.op.outputs]

    def infer_shape(self, in_shape: list[list[int]]) -> tuple[list, list, list]:
        input_shapes = tuple(None if ndim == UNKNOWN else tuple(shape) for shape, ndim in zip(in_shape, asked.ndims))
        shapes = self.op.shapes_of(self.attrs, input_shapes)
        # The shape of a tensor is empty if it does not follow.
        return *[[list(shapes.get(tensor.name, ())) for tensor in tensors]
                 for tensors in (self.op.inputs, self.op.outputs)], []

    def infer_type(self, in_type: list) -> tuple[list, list, list]:
        names = self.op.dtypes_of(self.attrs, tuple(in_type))
        dtypes = {tensor: name and np.dtype(name).type for tensor, name in names.items()}
        return *[[dtypes[tensor.name] for tensor in tensors] for tensors in (self.op.inputs, self.op.outputs)], []

    def declare_backward_dependency(self, out_grad: list[int], in_data: list[int], out_data: list[int]) -> list[int]:
        ids = dict(zip(self.op.offered_to_backward, [*out_grad, *in_data, *out_data]))
        return [ids[name] for name in self.op.backward]

    def create_operator(self, ctx: str, in_shapes: list, in_dtypes: list) -> Operator:
        return Operator(self.registered, rtc.BoundOp.created(self.op, self.attrs, ctx, in_shapes, in_dtypes))


@cached
def _parsed(op: Op, strings: tuple[tuple[str, str], ...]) -> tuple:
    """Return typed attributes from the name and the text of each."""
    return op.parse(dict(strings))


def register(registered: RegisteredOp) -> None:
    """Register an operator with MXNet as ``Custom(op_type="gluonops_<name>")``."""
    op = registered.op
    name = f"{op.name.title().replace('_', '')}Properties"
    with mx.util.np_array(False):   # an operator receives the kind of arrays that is in force when it is registered
        add(op.graph_name, type(name, (Properties,), {"registered": registered, "op": op, "where": op.name}))
