"""A model in MXNet, in float64: what the written net is compared with."""
from __future__ import annotations

import mxnet as mx
import numpy as np

from ...ops.gelu import reference as gelu
from .. import passes
from ..graph import Graph, Node
from ..model import ExportedModel

MOMENTUM, DECAY = 0.9, 1e-4   # of SGD
SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def head(shape: tuple[int, ...]) -> np.ndarray:
    """The gradient that an output gets."""
    return np.cos(np.arange(np.prod(shape, dtype=int), dtype=np.float64)).reshape(shape)


class Reference:
    """A model in MXNet, in float64 and without dropout."""

    def __init__(self, model: ExportedModel):
        graph = passes.lower(model, "builtin").graph
        for node in graph.nodes():
            if node.is_variable:
                node.attrs = {}
            elif node.op in ("Dropout", "RNN"):
                node.attrs["p"] = "0"
            elif node.op in ("_zeros", "_ones"):
                node.attrs["dtype"] = "float64"
        _compute_in_double(graph)
        symbol = graph.symbol()
        self._names = symbol.list_inputs()
        self._call = mx.nd.CachedOp(symbol)
        self.values = {name: value.astype("float64") for name, value in model.parameters.items()}
        self._initial = {name: value.asnumpy() for name, value in self.values.items()}
        self._trained = set(symbol.list_arguments()).intersection(self.values)
        for name in self._trained:
            self.values[name].attach_grad()

    def outputs(self, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        """The outputs in evaluation mode."""
        return [value.asnumpy() for value in self._outputs(_arrays(inputs))]

    def run(self, inputs: dict[str, np.ndarray], is_training: bool) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
        """The outputs, and the gradient of every parameter and input. MXNet's losses have none of their labels."""
        arrays = _arrays(inputs)
        for name, array in arrays.items():
            if not name.endswith("label"):
                array.attach_grad()
        with mx.autograd.record(train_mode=is_training):
            outputs = self._outputs(arrays)
        heads = [mx.nd.array(head(value.shape), dtype="float64") for value in outputs]
        mx.autograd.backward(outputs, heads, train_mode=is_training)
        gradients = {name: self.values[name].grad.asnumpy() for name in self._trained}
        gradients.update({name: array.grad.asnumpy() for name, array in arrays.items() if array.grad is not None})
        return [value.asnumpy() for value in outputs], gradients

    def step(self, inputs: dict[str, np.ndarray], velocity: dict[str, np.ndarray], rate: float,
             trained: set[str]) -> None:
        """A step of SGD with momentum and weight decay."""
        _, gradients = self.run(inputs, True)
        for name in trained:
            value = self.values[name].asnumpy()
            velocity[name] = MOMENTUM * velocity.get(name, 0) - rate * (gradients[name] + DECAY * value)
            self.values[name][:] = value + velocity[name]

    def reset(self) -> None:
        """Give the parameters and states their first values again."""
        for name, array in self._initial.items():
            self.values[name][:] = array

    def _outputs(self, arrays: dict[str, mx.nd.NDArray]) -> list[mx.nd.NDArray]:
        results = self._call(*[arrays[name] if name in arrays else self.values[name] for name in self._names])
        return results if isinstance(results, list) else [results]


def _arrays(inputs: dict[str, np.ndarray]) -> dict[str, mx.nd.NDArray]:
    return {name: mx.nd.array(array, dtype="float64") for name, array in inputs.items()}


def rounds(graph: Graph) -> str | None:
    """An operator that MXNet computes in float32, and that has no other formula here; None if there is none."""
    return next((node.op for node in graph.nodes() if node.op == "_contrib_BilinearResize2D"
                 or node.attrs.get("mode") == "rnn_relu"), None)


def _compute_in_double(graph: Graph) -> None:
    """Replace the operators that MXNet computes in float32, whatever their data are, by the same formula, in place."""
    for node in graph.nodes():
        formula = _formula(node)
        if formula is not None:
            variables = [mx.sym.var(f"input{number}") for number in range(len(node.inputs))]
            entries = {f"input{number}": entry for number, entry in enumerate(node.inputs)}
            made, = graph.splice(formula(*variables), entries)
            graph.replace({(node, 0): made})


def _formula(node: Node):
    """What computes a node in the type of its data; None if MXNet does so itself."""
    F = mx.sym
    if node.op == "InstanceNorm":
        eps = float(node.attrs.get("eps", 1e-3))
        return lambda x, gamma, beta: _standardized(F, x, gamma, beta, eps)
    if node.op == "SoftmaxActivation":
        axis = 1 if node.attrs.get("mode") == "channel" else -1
        return lambda x: F.softmax(x, axis=axis)
    if node.op == "Crop" and len(node.inputs) == 2:
        return lambda x, y: F.slice_like(x, y, axes=(2, 3))
    is_scaled = node.attrs.get("normalization", "null") != "null" or node.flag("multi_output")
    if is_scaled and node.op in ("SoftmaxOutput", "MakeLoss"):   # in float32
        return lambda *inputs: _loss_head(F, node.attrs, *inputs)
    if node.op == "erf":
        return lambda x: gelu.erf(F, x)
    if node.op != "LeakyReLU":
        return None
    kind, slope = node.attrs.get("act_type", "leaky"), float(node.attrs.get("slope", 0.25))
    return {"leaky": lambda x: F.where(x > 0, x, slope * x),
            "prelu": lambda x, gamma: F.where(x > 0, x, _across_channels(F, F.broadcast_mul, x, gamma)),
            "selu": lambda x: SELU_SCALE * F.where(x > 0, x, SELU_ALPHA * F.expm1(x)),
            "gelu": lambda x: x * gelu.probability(F, x)}.get(kind)


def _loss_head(F, attrs, x, label=None):
    """A MakeLoss or a SoftmaxOutput whose gradient is scaled in the type of the data, in front of one without a scale.

    Dense labels are refused before. With ``multi_output`` the divisor is that of each map.
    """
    mode, is_map = attrs.get("normalization", "null"), attrs.get("multi_output") in ("True", "1")
    rows = F.reshape(F.BlockGrad(x if label is None else label), (0, -1))
    counts = F.ones_like(rows)
    if mode == "valid":
        counts = rows > float(attrs.get("valid_thresh", 0)) if label is None else \
            rows != float(attrs.get("ignore_label", -1))
    elif label is None:
        counts = F.slice_axis(counts, axis=1, begin=0, end=1)
    elif mode == "null":
        counts = F.slice_axis(counts, axis=0, begin=0, end=1)
    divisor = F.broadcast_maximum(F.sum(counts), F.ones_like(F.sum(counts)))
    scaled = F.broadcast_div(float(np.float32(attrs.get("grad_scale", 1))) * x, divisor)
    x = scaled + F.BlockGrad(x - scaled)
    if label is None:
        return F.MakeLoss(x)
    ignored = {name: attrs[name] for name in ("use_ignore", "ignore_label") if name in attrs}
    if not is_map:
        return F.SoftmaxOutput(x, label, preserve_shape=True, **ignored)
    maps = F.transpose(F.reshape(x, (0, 0, -1)), (0, 2, 1))
    maps = F.SoftmaxOutput(maps, F.reshape(label, (0, -1)), preserve_shape=True, **ignored)
    return F.reshape_like(F.transpose(maps, (0, 2, 1)), x)


def _across_channels(F, function, x, vector):
    """A function of data and a number for each channel, axis 1."""
    return F.swapaxes(function(F.swapaxes(x, dim1=1, dim2=-1), vector), dim1=1, dim2=-1)


def _standardized(F, x, gamma, beta, eps):
    """The instance norm of (batch, channels, ...)."""
    rows = F.reshape(x, (0, 0, -1))
    centred = F.broadcast_sub(rows, F.mean(rows, axis=2, keepdims=True))
    scale = F.rsqrt(F.mean(F.square(centred), axis=2, keepdims=True) + eps)
    result = F.reshape_like(F.broadcast_mul(centred, scale), x)
    return _across_channels(F, F.broadcast_add, _across_channels(F, F.broadcast_mul, result, gamma), beta)
