"""The formulas, in float64, of the operators that MXNet computes in float32 or gives no right gradient."""
from __future__ import annotations

import ast
from collections.abc import Collection

import mxnet as mx
import numpy as np
from gluonops.export.graph import Graph
from gluonops.export.operators.attributes import attributes_of
from gluonops.export.torch.prepare import has_open_size
from gluonops.export.torch.reference import SELU_ALPHA, SELU_SCALE
from gluonops.export.values import NodeValues
from gluonops.ops._order.reference import descending
from gluonops.ops.gelu import reference as gelu

__all__ = ["FORMULAS", "compute_in_double"]

F = mx.sym
REGRESSIONS = ("LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput")


def compute_in_double(graph: Graph, operators: Collection[str]) -> None:
    """Replace the operators of some names that MXNet computes in float32 by the same formula, in place."""
    for node in graph.nodes():
        is_right = COMPUTED.get(node.op)
        if node.op in operators and not (is_right and is_right(node)):
            read = node.inputs
            if node.op == "RNN":
                states = [entry for entry in node.inputs[2:] if not has_open_size(entry[0])]
                read = [node.inputs[0], *states, *node.source(1).inputs]
            variables = {f"input{number}": entry for number, entry in enumerate(read)}
            made = graph.splice(FORMULAS[node.op](node, *map(F.var, variables)), variables)
            graph.replace({(node, number): entry for number, entry in enumerate(made)})


def _loss_head(node, x, label=None):
    """A loss head whose gradient is scaled in the type of the data, in front of one without a scale.

    Dense labels of a SoftmaxOutput are refused before. With ``multi_output`` the divisor is that of each map.
    """
    attrs, mode, is_map = node.attrs, node.attrs.get("normalization", "null"), attributes_of(node).get("multi_output")
    label = None if label is None else F.BlockGrad(label)   # MXNet does not write its gradient
    rows = F.reshape(F.BlockGrad(x) if label is None else label, (0, -1))
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
    if node.op in REGRESSIONS:   # a row of one number has no further divisor
        return F.reshape_like(getattr(F, node.op)(F.reshape(x, (-1, 1)), F.reshape(label, (-1, 1))), x)
    ignored = {name: attrs[name] for name in ("use_ignore", "ignore_label") if name in attrs}
    if not is_map:
        return F.SoftmaxOutput(x, label, preserve_shape=True, **ignored)
    maps = F.transpose(F.reshape(x, (0, 0, -1)), (0, 2, 1))
    maps = F.SoftmaxOutput(maps, F.reshape(label, (0, -1)), preserve_shape=True, **ignored)
    return F.reshape_like(F.transpose(maps, (0, 2, 1)), x)


def _across_channels(function, x, vector):
    """A function of data and a number for each channel, axis 1."""
    return F.swapaxes(function(F.swapaxes(x, dim1=1, dim2=-1), vector), dim1=1, dim2=-1)


def _standardized(node, x, gamma, beta):
    """The instance norm of (batch, channels, ...)."""
    eps = float(node.attrs.get("eps", 1e-3))
    rows = F.reshape(x, (0, 0, -1))
    centred = F.broadcast_sub(rows, F.mean(rows, axis=2, keepdims=True))
    scale = F.rsqrt(F.mean(F.square(centred), axis=2, keepdims=True) + eps)
    result = F.reshape_like(F.broadcast_mul(centred, scale), x)
    return _across_channels(F.broadcast_add, _across_channels(F.broadcast_mul, result, gamma), beta)


def _across_neighbours(node, x):
    """Data divided by a power of the mean of the squares in neighbouring channels. MXNet fails in float64."""
    alpha, beta, least = (_numbers(node, *pair) for pair in (("alpha", 1e-4), ("beta", 0.75), ("knorm", 2)))
    count = int(node.attrs["nsize"])
    rows = F.swapaxes(F.square(x), dim1=1, dim2=2)
    mean = F.Pooling(rows, kernel=(count, 1), pad=(count // 2, 0), pool_type="avg", stride=(1, 1))
    return x * (least + alpha * F.swapaxes(mean, dim1=1, dim2=2)) ** -beta


def _attention(node, x, y=None):
    """The scores of queries and keys, or the values that scores weigh. ``x``: (steps, batch, heads * parts * size)."""
    heads, parts = int(node.attrs["heads"]), 3 if "selfatt" in node.op else 2
    if node.op.endswith("valatt"):
        weighted = F.swapaxes(F.batch_dot(y, _part_of_heads(x, heads, parts - 1, parts)), dim1=0, dim2=1)
        return F.reshape(F.reshape(weighted, (0, -4, -1, heads, 0)), (0, 0, -3))
    queries, keys = (x, 0, parts), (x, 1, parts)
    if parts == 2:
        queries, keys = (x, 0, 1), (y, 0, parts)
    queries, keys = (_part_of_heads(data, heads, part, count) for data, part, count in (queries, keys))
    return F.batch_dot(F.contrib.div_sqrt_dim(queries), keys, transpose_b=True)


def _part_of_heads(x, heads, part, parts):
    """(batch * heads, steps, size)."""
    split = F.reshape(F.reshape(x, (0, 0, -4, heads, -1)), (0, -3, -4, parts, -1))
    return F.swapaxes(F.squeeze(F.slice_axis(split, axis=2, begin=part, end=part + 1), axis=2), dim1=0, dim2=1)


def _aligned(node, x, regions):
    """MXNet does not write what it returns for a region of no image, and writes a 0 in another one's."""
    image = F.slice_axis(regions, axis=1, begin=0, end=1)
    known = F.concat(F.maximum(image, 0), F.slice_axis(regions, axis=1, begin=1, end=None), dim=1)
    pooled = F.contrib.ROIAlign(x, known, **node.attrs)
    return F.broadcast_mul(pooled, F.reshape(image >= 0, (-1, 1, 1, 1)))


def _sorted(node, x):
    """The best along an axis. MXNet orders equal numbers in any way; here, as in torch, the first one comes first."""
    axis, count = int(node.attrs.get("axis", -1)), int(node.attrs.get("k", 1)) if node.op == "topk" else 0
    x = F.swapaxes(x, dim1=axis, dim2=-1)
    rows = F.reshape(x, (-1, 0), reverse=True)
    order = descending(F, -rows if attributes_of(node)["is_ascend"] else rows)[0]
    parts = {"value": [_reordered(rows, order)], "indices": [F.cast(F.BlockGrad(order), node.attrs["dtype"])]}
    parts["both"] = parts["value"] + parts["indices"]
    like = F.slice_axis(x, axis=-1, begin=0, end=count or None)
    return F.Group([F.swapaxes(F.reshape_like(F.slice_axis(part, axis=1, begin=0, end=count or None), like),
                               dim1=axis, dim2=-1) for part in parts[node.attrs.get("ret_typ", "indices")]])


def _numbers(node, name, default):
    """The number of an attribute, or the numbers if the default has several, as MXNet holds them."""
    numbers = np.float32(ast.literal_eval(node.attrs.get(name, str(default)))).tolist()
    return [numbers] if isinstance(default, tuple) and isinstance(numbers, float) else numbers


def _anchors(node, x):
    """SSD's anchors of each pixel, (1, anchors, 4)."""
    positions = [F.contrib.arange_like(x, axis=axis) for axis in (2, 3)]
    height, width = (F.max(position) + 1 for position in positions)
    steps, offsets = _numbers(node, "steps", (-1, -1)), _numbers(node, "offsets", (0.5, 0.5))
    y, x = (position + offset for position, offset in zip(positions, offsets))
    y, x = (y * steps[0], x * steps[1]) if min(steps) > 0 else (F.broadcast_div(y, height), F.broadcast_div(x, width))
    y, x = F.reshape(y, (-1, 1)), F.reshape(x, (1, -1))
    centre = F.stack(F.broadcast_add(x, F.zeros_like(y)), F.broadcast_add(y, F.zeros_like(x)), axis=2)
    sizes, ratios = _numbers(node, "sizes", (1,)), _numbers(node, "ratios", (1,))
    kinds = [(size, ratios[0]) for size in sizes] + [(sizes[0], ratio) for ratio in ratios[1:]]
    half_x = F.concat(*[height / width * (size * ratio ** 0.5 / 2) for size, ratio in kinds], dim=0)
    half_y = F.concat(*[F.ones_like(height) * (size / ratio ** 0.5 / 2) for size, ratio in kinds], dim=0)
    centre, half = F.reshape(centre, (-1, 1, 2)), F.expand_dims(F.stack(half_x, half_y, axis=1), 0)
    boxes = F.concat(F.broadcast_sub(centre, half), F.broadcast_add(centre, half), dim=2)
    boxes = F.reshape(boxes, (1, -1, 4))
    return F.clip(boxes, 0, 1) if attributes_of(node)["clip"] else boxes


def _detections(node, scores, offsets, anchors):
    """SSD's rows of class, score and box. The class of a row that is suppressed, or not among the best, is -1."""
    threshold, overlap = _numbers(node, "threshold", 0.01), _numbers(node, "nms_threshold", 0.5)
    topk = int(node.attrs.get("nms_topk", -1))
    objects = F.slice_axis(scores, axis=1, begin=1, end=None)
    score, ids = F.max(objects, axis=1), F.argmax(objects, axis=1)
    is_valid = score >= threshold
    score = F.where(is_valid, score, -2 * F.ones_like(score))
    deviations = _numbers(node, "variances", (0.1, 0.1, 0.2, 0.2))
    boxes = F.contrib.box_decode(F.reshape(offsets, (0, -1, 4)), anchors, *deviations, format="corner")
    boxes = F.clip(boxes, 0, 1) if attributes_of(node)["clip"] else boxes
    rows = F.concat(F.expand_dims(ids, 2), F.expand_dims(score, 2), boxes, dim=2)
    front = descending(F, F.cast(is_valid, dtype="float64"))[0]
    unsorted = _filled(_reordered(rows, front), _reordered(is_valid, front))
    if not 0 < overlap <= 1:
        return F.BlockGrad(unsorted)
    order = descending(F, F.cast(score, dtype="float64"))[0]
    rows, score = _reordered(rows, order), _reordered(score, order)
    position = F.contrib.arange_like(score, axis=1)
    positions = F.broadcast_add(position, F.zeros_like(score))
    candidates = F.concat(rows, F.expand_dims(positions, 2), dim=2)
    below = float(np.nextafter(np.float32(overlap), np.float32(0)))   # rows of that overlap are suppressed as well
    suppresses_all = attributes_of(node)["force_suppress"]
    kept = F.contrib.box_nms(candidates, below, -1.5, topk, 2, 1, 0, force_suppress=suppresses_all)
    kept = F.slice_axis(kept, axis=2, begin=6, end=7)
    kept = kept if topk < 0 else F.slice(kept, begin=(None, 0), end=(None, topk))
    is_kept = F.max(F.broadcast_equal(kept, F.reshape(position, (1, 1, -1))), axis=1)
    ids, rest = F.slice_axis(rows, axis=2, begin=0, end=1), F.slice_axis(rows, axis=2, begin=1, end=None)
    best = _filled(F.concat(_filled(ids, is_kept), rest, dim=2), score >= threshold)
    if topk < 0:
        return F.BlockGrad(best)
    behind = F.slice_axis(unsorted, axis=2, begin=1, end=None)
    behind = F.concat(-F.ones_like(ids), behind, dim=2)
    return F.BlockGrad(F.where(F.broadcast_like(F.expand_dims(positions >= topk, 2), best), behind, best))


def _filled(rows, condition):
    """Rows of -1 where a condition does not hold."""
    return F.where(F.broadcast_like(F.expand_dims(condition, 2), rows), rows, -F.ones_like(rows))


def _reordered(rows, order):
    """The rows of each image in another order."""
    image = F.broadcast_add(F.expand_dims(F.contrib.arange_like(order, axis=0), 1), F.zeros_like(order))
    return F.gather_nd(rows, F.stack(image, order, axis=0))


def _deformed(node, x, offset, mask, weight, bias=None):
    """A deformable convolution of the second version, from bilinear samples at each point of the kernel."""
    kernel, *steps = NodeValues(node, []).window()
    groups, points = int(node.attrs.get("num_deformable_group", 1)), kernel[0] * kernel[1]
    x = F.reshape(F.reshape(x, (0, -4, groups, -1, -2)), (-3, -2))
    offset, mask = F.reshape(offset, (-1, 2 * points, 0, 0)), F.reshape(mask, (-1, points, 0, 0))
    grid = []
    for axis, (stride, pad, dilation) in enumerate(zip(*steps)):
        first = F.contrib.arange_like(offset, axis=2 + axis) * stride - pad
        first = F.reshape(first, (1, 1, -1, 1) if axis == 0 else (1, 1, 1, -1))
        position = F.concat(*[first + int(step) * dilation for step in np.indices(kernel)[axis].flat], dim=1)
        position = F.broadcast_add(F.slice(offset, begin=(None, axis), end=(None, None), step=(None, 2)), position)
        last = F.max(F.contrib.arange_like(x, axis=2 + axis))
        position = F.broadcast_div(position, F.reshape(last / 2, (1, 1, 1, 1))) - 1
        grid.append(F.reshape(position, (0, -3, 0)))
    sampled = F.reshape(F.BilinearSampler(x, F.stack(*grid[::-1], axis=1)), (0, 0, -4, points, -1, 0))
    sampled = F.broadcast_mul(sampled, F.expand_dims(mask, 1))
    columns = F.reshape(F.reshape(sampled, (-4, -1, groups, -3, 0, 0)), (0, -3, 0, 0))
    weight = F.reshape(weight, (0, -1, 1, 1))
    return F.Convolution(columns, weight, *([] if bias is None else [bias]), kernel=(1, 1), no_bias=bias is None,
                         num_filter=int(node.attrs["num_filter"]), num_group=int(node.attrs.get("num_group", 1)))


def _resized(node, x, like=None):
    """(batch, channels, height, width) times a matrix of each axis, which weighs the pixels near each new one."""
    for axis, name in ((3, "width"), (2, "height")):
        scale = node.attrs.get(f"scale_{name}", "None")
        if like is not None:
            new = F.contrib.arange_like(like, axis=axis)
        elif scale != "None":
            new = F.contrib.arange_like(F.repeat(x, int(float(scale)), axis=axis), axis=axis)
        else:
            new = F.arange(int(node.attrs[name]), dtype="float64")
        weights = _weights_of_pixels(F.contrib.arange_like(x, axis=axis), new, attributes_of(node)["align_corners"])
        x = F.swapaxes(F.dot(F.swapaxes(x, dim1=axis, dim2=3), weights, transpose_b=True), dim1=axis, dim2=3)
    return x


def _weights_of_pixels(old, new, align_corners):
    """(new, old): how much of each old pixel is in each new one. ``old``, ``new``: their numbers along an axis."""
    last, new_last = F.max(old), F.max(new)
    if align_corners:
        position = F.broadcast_mul(new, F.broadcast_div(last, F.maximum(new_last, 1)))
    else:
        ratio = F.broadcast_div(last + 1, new_last + 1)
        position = F.broadcast_minimum(F.maximum(F.broadcast_mul(new + 0.5, ratio) - 0.5, 0), last)
    return F.relu(1 - F.abs(F.broadcast_sub(F.expand_dims(position, 1), F.expand_dims(old, 0))))


def _recurrent(node, x, *read):
    """The output and the last states of a recurrent net of ReLUs, from states of 0 if there are none.

    ``x``: (time, batch, channels). ``read``: the states if there are some, all weights, and behind them the biases.
    """
    states, parameters = (None, read) if has_open_size(node.source(2)) else (read[0], read[1:])
    size, ends, last = int(node.attrs["state_size"]), 2 if attributes_of(node)["bidirectional"] else 1, []
    weights, biases = parameters[:len(parameters) // 2], parameters[len(parameters) // 2:]
    outputs = []   # what the ends of a layer return
    for number in range(len(weights) // 2):
        pair, is_reversed = slice(2 * number, 2 * number + 2), number % ends == 1
        of_data, of_state = (F.reshape(weight, (size, -1)) for weight in weights[pair])
        rows = F.dot(F.reverse(x, axis=0) if is_reversed else x, of_data, transpose_b=True)
        rows = F.broadcast_add(rows, sum(biases[pair]))

        def step(row, state, of_state=of_state):
            state = F.relu(row + F.dot(state, of_state, transpose_b=True))
            return state, state

        state = F.squeeze(F.zeros_like(F.slice_axis(rows, 0, 0, 1)) if states is None else
                          F.slice_axis(states, axis=0, begin=number, end=number + 1), axis=0)
        rows, state = F.contrib.foreach(step, rows, state)
        last.append(state)
        outputs.append(F.reverse(rows, axis=0) if is_reversed else rows)
        if len(outputs) == ends:
            x, outputs = F.concat(*outputs, dim=2), []
    return F.Group([x, F.stack(*last, axis=0)])


def _last(node, x, lengths=None):
    """The last element of each sequence. The gradient of MXNet's destroys memory if all sequences are equally long."""
    if lengths is not None:
        return F.SequenceLast(x, F.BlockGrad(lengths), **node.attrs)
    axis = int(node.attrs.get("axis", 0))
    return F.squeeze(F.slice_axis(x, axis=axis, begin=-1, end=None), axis=axis)


def _activation(node, x, gamma=None):
    """A LeakyReLU of a kind that MXNet computes in float32."""
    kind, slope = node.attrs.get("act_type", "leaky"), float(node.attrs.get("slope", 0.25))
    if kind == "selu":
        return SELU_SCALE * F.where(x > 0, x, SELU_ALPHA * F.expm1(x))
    if kind == "gelu":
        return x * gelu.probability(F, x)
    return F.where(x > 0, x, slope * x if kind == "leaky" else _across_channels(F.broadcast_mul, x, gamma))


# Operator -> what computes it in the type of its data, from the node and symbols of its inputs.
FORMULAS = {
    # Beyond 20 a softrelu is the number itself, but MXNet's gradient is not 1.
    "Activation": lambda node, x: F.where(x > 20, x, F.log1p(F.exp(F.minimum(x, 20)))),
    "InstanceNorm": _standardized,
    "LRN": _across_neighbours,
    "LeakyReLU": _activation,
    "RNN": _recurrent,
    "Embedding": lambda node, indices, weight: F.Embedding(   # The indices have no gradient.
        F.BlockGrad(indices), weight, **{**node.attrs, "sparse_grad": False}),
    "SequenceLast": _last,
    **dict.fromkeys(("SequenceMask", "SequenceReverse"),   # the lengths have no gradient
                    lambda node, x, lengths: getattr(F, node.op)(x, F.BlockGrad(lengths), **node.attrs)),
    **dict.fromkeys(("topk", "argsort"), _sorted),
    **dict.fromkeys(("SoftmaxOutput", "MakeLoss", *REGRESSIONS), _loss_head),
    **{f"_contrib_interleaved_matmul_{kind}": _attention
       for kind in ("selfatt_qk", "selfatt_valatt", "encdec_qk", "encdec_valatt")},
    "_contrib_BilinearResize2D": _resized,
    "_contrib_ModulatedDeformableConvolution": _deformed,   # its gradient is on a GPU only
    "_contrib_MultiBoxDetection": _detections,
    "_contrib_MultiBoxPrior": _anchors,
    "_contrib_ROIAlign": _aligned,
    "Crop": lambda node, x, y: F.slice_like(x, y, axes=(2, 3)),
    "SoftmaxActivation": lambda node, x: F.softmax(x, axis=1 if node.attrs.get("mode") == "channel" else -1),
    "amp_cast": lambda node, x: F.cast(x, dtype=node.attrs["dtype"]),
    "batch_take": lambda node, x, indices: F.pick(x, indices),   # it has no gradient in MXNet, not even one of 0
    "erf": lambda node, x: gelu.erf(F, x),
}
# Operator -> whether MXNet computes a node of it in the type of its data.
COMPUTED = {
    "Activation": lambda node: node.attrs["act_type"] != "softrelu",
    "Crop": lambda node: len(node.inputs) != 2,
    "LeakyReLU": lambda node: node.attrs.get("act_type", "leaky") not in ("leaky", "prelu", "selu", "gelu"),
    "RNN": lambda node: node.attrs["mode"] != "rnn_relu",
    **dict.fromkeys(("SequenceMask", "SequenceReverse"), lambda node: len(node.inputs) < 2),
    **dict.fromkeys(("topk", "argsort"), lambda node: node.attrs.get("axis") == "None"),
    **dict.fromkeys(("SoftmaxOutput", "MakeLoss"), lambda node: not attributes_of(node).get("multi_output")
                    and node.attrs.get("normalization", "null") == "null"),
}
