"""The operators as MXNet's tutorials have one write them: CustomOps that compute in NumPy.

Every ``.asnumpy()`` waits for the engine and copies, every ``mx.nd.array`` copies back: that is what they are here to
show.
"""
from __future__ import annotations

import itertools
from collections.abc import Callable

import mxnet as mx
import numpy as np

NUMBERS = itertools.count()   # They number the CustomOps that are registered.


def peer(formulas: tuple[Callable, Callable], names: list[str]) -> Callable:
    """``run(F, *inputs)`` of two functions: ``forward(*inputs)``, and ``backward(grad_out, *inputs)`` for the data."""
    forward, backward = formulas

    class Operator(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            output = forward(*[array.asnumpy() for array in in_data])
            self.assign(out_data[0], req[0], mx.nd.array(output))

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            gradient = backward(out_grad[0].asnumpy(), *[array.asnumpy() for array in in_data])
            self.assign(in_grad[0], req[0], mx.nd.array(gradient))
            for target, request in zip(in_grad[1:], req[1:]):
                self.assign(target, request, mx.nd.zeros(target.shape))

    class Properties(mx.operator.CustomOpProp):
        def list_arguments(self):
            return names

        def infer_shape(self, in_shape):
            return in_shape, [forward(*map(np.zeros, in_shape)).shape], []

        def create_operator(self, ctx, shapes, dtypes):
            return Operator()

    name = f"numpy_{next(NUMBERS)}"
    mx.operator.register(name)(Properties)
    return lambda F, *inputs: F.Custom(*inputs, op_type=name)
