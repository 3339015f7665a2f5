"""The operators as MXNet's tutorials have one write them: CustomOps that compute in NumPy.

Every ``.asnumpy()`` waits for the engine and copies, every ``mx.nd.array`` copies back: that is what they are here to
show. The formulas are those of ``in_numpy(attrs)`` in the operator's declaration: two functions. ``forward(*inputs)``
returns the output, and ``backward(head, *inputs)`` the gradient of the data.
"""
from __future__ import annotations

import functools
from collections.abc import Callable

import mxnet as mx
from gluonops.core import registry

from ..harness.cases import declared


def peer(op: str, attrs: dict) -> Callable | None:
    """``run(F, *inputs)``, or None if the operator declares no formulas."""
    if declared(op).in_numpy(registry.get(op).op.parse(attrs)._asdict()) is None:
        return None
    _register(op)
    return lambda F, *inputs: F.Custom(*inputs, op_type=f"numpy_{op}", **attrs)


@functools.cache
def _register(name):
    """A CustomOp of the formulas; its output is the operator's first."""
    contract, in_numpy = registry.get(name).op, declared(name).in_numpy
    output_name = contract.outputs[0].name

    class Operator(mx.operator.CustomOp):
        def __init__(self, formulas):
            super().__init__()
            self.compute, self.differentiate = formulas

        def forward(self, is_train, req, in_data, out_data, aux):
            output = self.compute(*[array.asnumpy() for array in in_data])
            self.assign(out_data[0], req[0], mx.nd.array(output))

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            gradient = self.differentiate(out_grad[0].asnumpy(), *[array.asnumpy() for array in in_data])
            self.assign(in_grad[0], req[0], mx.nd.array(gradient))
            for target, request in zip(in_grad[1:], req[1:]):
                self.assign(target, request, mx.nd.zeros(target.shape))

    class Properties(mx.operator.CustomOpProp):
        def __init__(self, **texts):
            super().__init__(need_top_grad=True)
            self.attrs = contract.parse(texts)

        def list_arguments(self):
            return [arg.name for arg in contract.inputs]

        def infer_shape(self, in_shape):
            names = self.list_arguments()
            shapes = contract.infer_shape(self.attrs, {names[0]: tuple(in_shape[0])})
            return [shapes[arg] for arg in names], [shapes[output_name]], []

        def create_operator(self, ctx, shapes, dtypes):
            return Operator(in_numpy(self.attrs._asdict()))

    mx.operator.register(f"numpy_{name}")(Properties)
