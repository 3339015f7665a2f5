"""The operators as MXNet's tutorials have one write them: CustomOps that compute in NumPy.

Every ``.asnumpy()`` waits for the engine and copies, every ``mx.nd.array`` copies back: that is what they are here to
show. They are written from the formulas, apart from gluonops, and so they are what every other peer is checked against.
An operator without one here gets a CustomOp that calls its oracle in ``tests/ops``.
"""
from collections.abc import Iterable

import mxnet as mx
import numpy as np
from gluonops.core import registry

from ..common import suites

_registered = set()


def _register(name, forward, backward, attributes, output_shape=lambda shapes, attrs: shapes[0], need_top_grad=True):
    """A CustomOp from ``forward(attrs, *inputs)`` and ``backward(attrs, output_grad, output, *inputs)``."""

    class Operator(mx.operator.CustomOp):
        def __init__(self, attrs):
            super().__init__()
            self.attrs = attrs

        def forward(self, is_train, req, in_data, out_data, aux):
            output = forward(self.attrs, *[array.asnumpy() for array in in_data])
            self.assign(out_data[0], req[0], mx.nd.array(output))

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            inputs = [array.asnumpy() for array in in_data]
            output_grad = out_grad[0].asnumpy() if need_top_grad else None
            grad = backward(self.attrs, output_grad, out_data[0].asnumpy(), *inputs)
            self.assign(in_grad[0], req[0], mx.nd.array(grad))
            if len(in_grad) > 1:
                self.assign(in_grad[1], req[1], mx.nd.zeros(in_grad[1].shape))

    class Properties(mx.operator.CustomOpProp):
        def __init__(self, **texts):
            super().__init__(need_top_grad=need_top_grad)
            self.attrs = {key: attributes[key](text) for key, text in texts.items()}

        def list_arguments(self):
            return ["data", "label"] if name.startswith("softmax_") else ["data"]

        def infer_shape(self, in_shape):
            if len(in_shape) > 1:
                in_shape[1] = in_shape[0][:-1]
            return in_shape, [output_shape(in_shape, self.attrs)], []

        def create_operator(self, ctx, shapes, dtypes):
            return Operator(self.attrs)

    mx.operator.register(f"numpy_{name}")(Properties)
    _registered.add(name)


def register(ops: Iterable[str]) -> None:
    """Register ``numpy_<op>`` of those operators that have none here."""
    for op in sorted(set(ops) - _registered):
        _register_oracle(op)


def _register_oracle(name):
    """A CustomOp that calls an operator's oracle; its output is the operator's first."""
    contract, oracle = registry.get(name).op, suites.oracle(name)
    output_name = contract.outputs[0].name

    class Operator(mx.operator.CustomOp):
        def __init__(self, attrs):
            super().__init__()
            self.attrs = attrs

        def forward(self, is_train, req, in_data, out_data, aux):
            outputs = oracle.forward(self.attrs, *[array.asnumpy() for array in in_data])
            self.assign(out_data[0], req[0], mx.nd.array(outputs[output_name]))

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            inputs = [array.asnumpy() for array in in_data]
            gradients = oracle.backward(self.attrs, out_grad[0].asnumpy(), *inputs)
            for arg, target, request in zip(contract.inputs, in_grad, req):
                gradient = gradients.get(arg.name, np.zeros(target.shape))
                self.assign(target, request, mx.nd.array(gradient))

    class Properties(mx.operator.CustomOpProp):
        def __init__(self, **texts):
            super().__init__(need_top_grad=True)
            self.attrs = contract.parse(texts)

        def list_arguments(self):
            return [arg.name for arg in contract.inputs]

        def infer_shape(self, in_shape):
            names = self.list_arguments()
            shapes = contract.infer_shape(self.attrs, dict(zip(names, map(tuple, in_shape))))
            return [shapes[arg] for arg in names], [shapes[output_name]], []

        def create_operator(self, ctx, shapes, dtypes):
            return Operator(self.attrs)

    mx.operator.register(f"numpy_{name}")(Properties)
    _registered.add(name)


def _unshuffle(data, stride, mode):
    batch, channels, height, width = data.shape
    blocks = data.reshape(batch, channels, height // stride, stride, width // stride, stride)
    order = (0, 1, 3, 5, 2, 4) if mode == "CRD" else (0, 3, 5, 1, 2, 4)
    return blocks.transpose(order).reshape(batch, channels * stride**2, height // stride, width // stride)


def _shuffle(data, stride, mode):
    batch, channels, height, width = data.shape
    channels //= stride**2
    if mode == "CRD":
        blocks = data.reshape(batch, channels, stride, stride, height, width).transpose(0, 1, 4, 2, 5, 3)
    else:
        blocks = data.reshape(batch, stride, stride, channels, height, width).transpose(0, 3, 4, 1, 5, 2)
    return blocks.reshape(batch, channels, height * stride, width * stride)


def _reorg(attrs, data):
    stride, mode = attrs["stride"], attrs["mode"]
    if attrs["reverse"]:
        return _shuffle(data, stride, mode)
    if mode == "darknet":   # it reads the tensor in its reverse's shape, moves it as DCR does, and calls it the output
        batch, channels, height, width = data.shape
        data = data.reshape(batch, channels // stride**2, height * stride, width * stride)
        return _unshuffle(data, stride, mode).reshape(_reorg_shape([(batch, channels, height, width)], attrs))
    return _unshuffle(data, stride, mode)


def _reorg_backward(attrs, grad, output, data):
    stride, mode = attrs["stride"], attrs["mode"]
    if attrs["reverse"]:
        return _unshuffle(grad, stride, mode)
    return _shuffle(grad.reshape(data.shape) if mode == "darknet" else grad, stride, mode).reshape(data.shape)


def _reorg_shape(shapes, attrs):
    batch, channels, height, width = shapes[0]
    s = attrs["stride"]
    if attrs["reverse"]:
        return batch, channels // s**2, height * s, width * s
    return batch, channels * s**2, height // s, width // s


def _softmax(attrs, data, label=None):
    powers = np.exp(data - data.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def _softmax_backward(attrs, grad, output, data):
    return (grad - (grad * output).sum(axis=-1, keepdims=True)) * output


def _probabilities_minus_one_hot(data, label):
    grad = _softmax(None, data)
    grad[np.arange(len(label)), label.astype(int)] -= 1
    return grad


def _cross_entropy(attrs, data, label):
    shifted = data - data.max(axis=-1, keepdims=True)
    return np.log(np.exp(shifted).sum(axis=-1)) - shifted[np.arange(len(label)), label.astype(int)]


def _tile_backward(attrs, grad, output, data):
    axis, count = attrs["axis"] % data.ndim, attrs["tiles"]
    return grad.reshape(data.shape[:axis] + (count,) + data.shape[axis:]).sum(axis=axis)


def _tile_shape(shapes, attrs):
    shape = list(shapes[0])
    shape[attrs["axis"]] *= attrs["tiles"]
    return shape


_register("abs", lambda attrs, data: np.abs(data), lambda attrs, grad, output, data: grad * np.sign(data), {})
_register("tile", lambda attrs, data: np.concatenate([data] * attrs["tiles"], attrs["axis"]), _tile_backward,
          {"tiles": int, "axis": int}, _tile_shape)
_register("reorg", _reorg, _reorg_backward, {"stride": int, "mode": str, "reverse": lambda text: text == "True"},
          _reorg_shape)
_register("softmax", _softmax, _softmax_backward, {})
_register("softmax_output", _softmax,
          lambda attrs, grad, output, data, label: _probabilities_minus_one_hot(data, label), {}, need_top_grad=False)
_register("softmax_cross_entropy", _cross_entropy,
          lambda attrs, grad, output, data, label: _probabilities_minus_one_hot(data, label) * grad[:, None], {},
          lambda shapes, attrs: shapes[0][:-1])
