"""A model in MXNet, in float64: what the written net is compared with."""
from __future__ import annotations

from collections.abc import Callable

import mxnet as mx
import numpy as np

from ...ops.gelu import reference as gelu
from .. import passes
from ..graph import Graph, Node
from ..model import ExportedModel

MOMENTUM = float(np.float32(0.9))   # of SGD, as MXNet holds it
TYPED = ("Cast", "amp_cast", "_zeros", "_ones", "topk", "argsort", "one_hot")   # an attribute chooses their type
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
            elif node.op in TYPED and node.attrs.get("dtype", "float32").startswith("float"):
                node.attrs["dtype"] = "float64"
            elif node.op == "_contrib_SyncBatchNorm":   # on one device it is a batch norm, and in float32 only
                node.op = "BatchNorm"
                node.attrs = {key: value for key, value in node.attrs.items() if key not in ("key", "ndev")}
        _compute_in_double(graph)
        symbol = graph.symbol()
        self._names = symbol.list_inputs()
        self._call = mx.nd.CachedOp(symbol)
        self.values = {name: value.astype("float64") for name, value in model.parameters.items()}
        self._states = {name: self.values[name].asnumpy() for name in symbol.list_auxiliary_states()}
        self._trained = set(symbol.list_arguments()).intersection(self.values)

    def outputs(self, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        """The outputs in evaluation mode."""
        return [value.asnumpy() for value in self._outputs(_arrays(inputs))]

    def run(self, inputs: dict[str, np.ndarray],
            is_training: bool) -> tuple[list[np.ndarray], dict[str, mx.nd.NDArray]]:
        """The outputs, and the gradient of every parameter and input until the next run."""
        arrays = _arrays(inputs)
        # MXNet's losses have no gradient of labels.
        data = {name: array for name, array in arrays.items() if not name.endswith("label")}
        sources = {**data, **{name: self.values[name] for name in self._trained}}
        for array in sources.values():
            if array.grad is None:
                array.attach_grad()
        with mx.autograd.record(train_mode=is_training):
            outputs = self._outputs(arrays)
        heads = [mx.nd.array(head(value.shape), dtype="float64") for value in outputs]
        mx.autograd.backward(outputs, heads, train_mode=is_training)
        return [value.asnumpy() for value in outputs], {name: array.grad for name, array in sources.items()}

    def train(self, inputs: dict[str, np.ndarray], steps: int, rate: float, decay: float,
              multipliers: dict[str, tuple[float, float]]) -> None:
        """Steps of MXNet's SGD. ``multipliers``: of the rate and the decay of each parameter that is trained."""
        optimizer = mx.optimizer.SGD(learning_rate=rate, momentum=MOMENTUM, wd=decay)
        optimizer.set_lr_mult({name: pair[0] for name, pair in multipliers.items()})
        optimizer.set_wd_mult({name: pair[1] for name, pair in multipliers.items()})
        update = mx.optimizer.get_updater(optimizer)
        for _ in range(steps):
            _, gradients = self.run(inputs, True)
            for name in multipliers:
                update(name, gradients[name], self.values[name])

    def reset(self) -> None:
        """Give the states their first values again."""
        for name, array in self._states.items():
            self.values[name][:] = array

    def _outputs(self, arrays: dict[str, mx.nd.NDArray]) -> list[mx.nd.NDArray]:
        results = self._call(*[arrays[name] if name in arrays else self.values[name] for name in self._names])
        return results if isinstance(results, list) else [results]


def _arrays(inputs: dict[str, np.ndarray]) -> dict[str, mx.nd.NDArray]:
    return {name: mx.nd.array(array, dtype="float64") for name, array in inputs.items()}


def _compute_in_double(graph: Graph) -> None:
    """Replace the operators that MXNet computes in float32, whatever their data are, by the same formula, in place."""
    for node in graph.nodes():
        formula = _formula(node)
        if formula is not None:
            read = [node.inputs[0], *node.source(1).inputs] if node.op == "RNN" else node.inputs
            variables = [mx.sym.var(f"input{number}") for number in range(len(read))]
            made, = graph.splice(formula(*variables), {f"input{number}": entry for number, entry in enumerate(read)})
            graph.replace({(node, 0): made})


def _formula(node: Node) -> Callable | None:
    """What computes an operator in the type of its data; None if MXNet does so itself."""
    F = mx.sym
    if node.op == "InstanceNorm":
        eps = float(node.attrs.get("eps", 1e-3))
        return lambda x, gamma, beta: _standardized(F, x, gamma, beta, eps)
    if node.op == "Embedding":   # MXNet refuses the gradient of the indices
        return lambda indices, weight: F.Embedding(F.BlockGrad(indices), weight, **node.attrs)
    if node.op == "SequenceLast" and not node.flag("use_sequence_length"):   # its gradient destroys memory
        axis = int(node.attrs.get("axis", 0))
        return lambda x: F.squeeze(F.slice_axis(x, axis=axis, begin=-1, end=None), axis=axis)
    if node.op.startswith("_contrib_interleaved_matmul"):
        return lambda x, y=None: _attention(F, node, x, y)
    if node.op == "LRN":
        return lambda x: _across_neighbours(F, x, node.attrs)
    if node.op == "SoftmaxActivation":
        axis = 1 if node.attrs.get("mode") == "channel" else -1
        return lambda x: F.softmax(x, axis=axis)
    if node.op == "Crop" and len(node.inputs) == 2:
        return lambda x, y: F.slice_like(x, y, axes=(2, 3))
    is_scaled = node.attrs.get("normalization", "null") != "null" or node.flag("multi_output")
    if is_scaled and node.op in ("SoftmaxOutput", "MakeLoss"):   # in float32
        return lambda *inputs: _loss_head(F, node.attrs, *inputs)
    if node.op == "_contrib_BilinearResize2D":
        return lambda x, *like: _resized(F, x, node, *like)
    if node.op == "RNN" and node.attrs["mode"] == "rnn_relu":
        return lambda *read: _recurrent(F, int(node.attrs["state_size"]), node.flag("bidirectional"), *read)
    if node.op == "_contrib_ROIAlign":
        return lambda x, regions: _aligned(F, x, regions, node.attrs)
    if node.op == "amp_cast":
        return lambda x: F.cast(x, dtype=node.attrs["dtype"])
    if node.op == "batch_take":   # it has no gradient in MXNet, not even one of 0
        return lambda x, indices: F.pick(x, indices)
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


def _across_neighbours(F, x, attrs):
    """Data divided by a power of the mean of the squares in neighbouring channels. MXNet fails in float64."""
    alpha, beta, least = (float(np.float32(attrs.get(name, default)))
                          for name, default in (("alpha", 1e-4), ("beta", 0.75), ("knorm", 2)))
    count = int(attrs["nsize"])
    rows = F.swapaxes(F.square(x), dim1=1, dim2=2)
    mean = F.Pooling(rows, kernel=(count, 1), pad=(count // 2, 0), pool_type="avg", stride=(1, 1))
    return x * (least + alpha * F.swapaxes(mean, dim1=1, dim2=2)) ** -beta


def _attention(F, node, x, y):
    """Of (steps, batch, heads * parts * size): the scores of queries and keys, or the values that scores weigh."""
    heads, parts = int(node.attrs["heads"]), 3 if "selfatt" in node.op else 2
    if node.op.endswith("valatt"):
        weighted = F.swapaxes(F.batch_dot(y, _part_of_heads(F, x, heads, parts - 1, parts)), dim1=0, dim2=1)
        return F.reshape(F.reshape(weighted, (0, -4, -1, heads, 0)), (0, 0, -3))
    queries, keys = (x, 0, parts), (x, 1, parts)
    if parts == 2:
        queries, keys = (x, 0, 1), (y, 0, parts)
    queries, keys = (_part_of_heads(F, data, heads, part, count) for data, part, count in (queries, keys))
    return F.batch_dot(F.contrib.div_sqrt_dim(queries), keys, transpose_b=True)


def _part_of_heads(F, x, heads, part, parts):
    """(batch * heads, steps, size)."""
    split = F.reshape(F.reshape(x, (0, 0, -4, heads, -1)), (0, -3, -4, parts, -1))
    return F.swapaxes(F.squeeze(F.slice_axis(split, axis=2, begin=part, end=part + 1), axis=2), dim1=0, dim2=1)


def _aligned(F, x, regions, attrs):
    """MXNet does not write what it returns for a region of no image, and writes a 0 in another one's."""
    image = F.slice_axis(regions, axis=1, begin=0, end=1)
    known = F.concat(F.maximum(image, 0), F.slice_axis(regions, axis=1, begin=1, end=None), dim=1)
    pooled = F.contrib.ROIAlign(x, known, **attrs)
    return F.broadcast_mul(pooled, F.reshape(image >= 0, (-1, 1, 1, 1)))


def _resized(F, x, node, like=None):
    """(batch, channels, height, width) times a matrix of each axis, which weighs the pixels near each new one."""
    for axis, name in ((3, "width"), (2, "height")):
        scale = node.attrs.get(f"scale_{name}", "None")
        if like is not None:
            new = F.contrib.arange_like(like, axis=axis)
        elif scale != "None":
            new = F.contrib.arange_like(F.repeat(x, int(float(scale)), axis=axis), axis=axis)
        else:
            new = F.arange(int(node.attrs[name]), dtype="float64")
        weights = _weights_of_pixels(F, F.contrib.arange_like(x, axis=axis), new, node.flag("align_corners", True))
        x = F.swapaxes(F.dot(F.swapaxes(x, dim1=axis, dim2=3), weights, transpose_b=True), dim1=axis, dim2=3)
    return x


def _weights_of_pixels(F, old, new, align_corners):
    """(new, old): how much of each old pixel is in each new one. ``old``, ``new``: their numbers along an axis."""
    last, new_last = F.max(old), F.max(new)
    if align_corners:
        place = F.broadcast_mul(new, F.broadcast_div(last, F.maximum(new_last, 1)))
    else:
        ratio = F.broadcast_div(last + 1, new_last + 1)
        place = F.broadcast_minimum(F.maximum(F.broadcast_mul(new + 0.5, ratio) - 0.5, 0), last)
    return F.relu(1 - F.abs(F.broadcast_sub(F.expand_dims(place, 1), F.expand_dims(old, 0))))


def _recurrent(F, size, is_bidirectional, x, *parameters):
    """A recurrent net of ReLUs of (time, batch, channels), from states of 0. The biases come behind all weights."""
    ends = 2 if is_bidirectional else 1
    weights, biases = parameters[:len(parameters) // 2], parameters[len(parameters) // 2:]
    for first in range(0, len(weights), 2 * ends):
        outputs = []
        for end in range(ends):
            place = first + 2 * end
            of_data, of_state = (F.reshape(weight, (size, -1)) for weight in weights[place:place + 2])
            rows = F.dot(F.reverse(x, axis=0) if end else x, of_data, transpose_b=True)
            rows = F.broadcast_add(rows, biases[place] + biases[place + 1])

            def step(row, state, of_state=of_state):
                state = F.relu(row + F.dot(state, of_state, transpose_b=True))
                return state, state

            rows, _ = F.contrib.foreach(step, rows, F.zeros_like(F.squeeze(F.slice_axis(rows, 0, 0, 1), axis=0)))
            outputs.append(F.reverse(rows, axis=0) if end else rows)
        x = F.concat(*outputs, dim=2)
    return x
