"""The shape and the type of what an operator returns: one table, with an entry for each operator. Needs no MXNet.

A rule is a function of a :class:`Call`: it checks the shapes of the inputs, and returns the shape of the only output,
or a list of those of several. Outputs that nothing reads, such as the mask of a Dropout, may be missing.
:func:`infer_shapes` applies the rules to a graph.
"""
from __future__ import annotations

import collections
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Union

import numpy as np

from ..core import registry
from ..core.errors import OpError
from .graph import Entry, Graph, Node, is_ours, kind, our_name
from .parameters import LAYERS
from .values import NodeValues

Shape = tuple[int, ...]
Rule = Callable[["Call"], Union[Shape, list[Shape]]]
RULES: dict[str, Rule] = {}   # operator of MXNet -> rule; the contracts of gluonops's operators have theirs
TYPES: dict[str, Callable] = {}   # operator -> a function of node and types of inputs; others have that of the first
OPEN = 0   # a size that follows from what else a reader reads, as the batch of a recurrent layer's first states

# The names of a layer's inputs. Old files spell a parameter's lr_mult by its name.
INPUTS = {**dict.fromkeys(("Convolution", "Deconvolution", "FullyConnected"), ("data", "weight", "bias")),
          "BatchNorm": ("data", "gamma", "beta", "moving_mean", "moving_var"),
          "InstanceNorm": ("data", "gamma", "beta"),
          "LeakyReLU": ("data", "gamma"), "Embedding": ("data", "weight"), "SoftmaxOutput": ("data", "label")}
# How files call operators that have another name today, but for `_PlusScalar` and its like, which is `_plus_scalar`.
ALIASES = {
    "_Plus": "elemwise_add", "_plus": "elemwise_add", "_add": "elemwise_add", "_Minus": "elemwise_sub",
    "_minus": "elemwise_sub", "_sub": "elemwise_sub", "_Mul": "elemwise_mul", "_mul": "elemwise_mul",
    "_Div": "elemwise_div", "_div": "elemwise_div", "broadcast_plus": "broadcast_add",
    "broadcast_minus": "broadcast_sub", "broadcast_axes": "broadcast_axis", "ElementWiseSum": "add_n",
    "Softmax": "SoftmaxOutput", "cast": "Cast", "concat": "Concat", "crop": "slice", "flatten": "Flatten",
    "flip": "reverse", "identity": "_copy", "pad": "Pad", "reshape": "Reshape", "split": "SliceChannel",
    "stop_gradient": "BlockGrad", "swapaxes": "SwapAxis", "max_axis": "max", "min_axis": "min", "sum_axis": "sum",
    "linalg_gemm2": "_linalg_gemm2", "choose_element_0index": "pick", "cumsum": "_np_cumsum",
    "_contrib_box_non_maximum_suppression": "_contrib_box_nms", "CuDNNBatchNorm": "BatchNorm"}


class Misfit(Exception):
    """Why an operator does not take its inputs."""


class Call(NodeValues):
    """A node with the shapes of its inputs, as far as they are known."""

    def __init__(self, node: Node, found: dict[Entry, Shape | None]):
        super().__init__(node, [found.get(entry) for entry in node.inputs])
        self._found = found

    @property
    def data(self) -> Shape:
        """The shape of the first input."""
        return self.shapes[0]

    def axis(self, name: str = "axis", default: int = -1) -> int:
        axis, rank = self.value(name, default), len(self.data)
        self.check(-rank <= axis < rank, 0, f"an axis {axis}")
        return axis % rank

    def expect(self, position: int, shape: Shape) -> None:
        """Check the shape of an input. What is not known of it follows."""
        if position >= len(self.shapes):
            return
        known = self.shapes[position]
        if known is not None:
            self.check(len(known) == len(shape) and all(
                old == new or OPEN in (old, new) for old, new in zip(known, shape)), position, shape)
            shape = tuple(old or new for old, new in zip(known, shape))
        self.shapes[position] = self._found[self.node.inputs[position]] = shape

    def check(self, fits: bool, position: int, expected: object) -> None:
        """Raise a Misfit unless an input fits."""
        if not fits:
            source = self.node.source(position)
            raise Misfit(f"{self.node.name!r} ({self.node.op}) reads {source.name!r} of shape {self.shapes[position]}; "
                         f"expected {expected}")

    def alike(self, positions: Iterable[int] | None = None) -> Shape:
        """The shape that inputs have in common, by default all."""
        positions = range(len(self.shapes)) if positions is None else positions
        for one in [*positions, *positions]:   # a size that is open may follow from a later input
            for other in positions:
                if self.shapes[one] is not None:
                    self.expect(other, self.shapes[one])
        return self.data


def shape_of(*names: str) -> Callable[[Rule], Rule]:
    """Enter the decorated rule for these operators."""
    def enter(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, rule))
        return rule
    return enter


def rule_of(node: Node) -> Rule | None:
    """The rule of a node; None if there is none."""
    return of_contract if is_ours(node) else RULES.get(node.op)


def of_contract(call: Call) -> list[Shape]:
    """An operator of gluonops, by its contract."""
    op = registry.get(our_name(call.node)).op
    attrs = _attributes(call.node)
    known = {arg.name: shape for arg, shape in zip(op.inputs, call.shapes) if shape is not None}
    shapes = op.infer_shape(attrs, known)
    for position, arg in enumerate(op.inputs):
        call.expect(position, shapes[arg.name])
    return [shapes[out.name] for out in op.outputs]


def _attributes(node: Node) -> tuple:
    """The attributes of an operator of gluonops."""
    op = registry.get(our_name(node)).op
    return op.parse({name: value for name, value in node.attrs.items() if name != "op_type"})


# -- element by element -------------------------------------------------------------------------------------------
FIRST = ("abs", "amp_cast", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "argsort", "cbrt", "ceil",
         "clip", "cos", "cosh", "degrees", "erf", "erfinv", "exp", "expm1", "fix", "floor", "gamma", "gammaln",
         "hard_sigmoid", "log", "log10", "log1p", "log2", "log_softmax", "logical_not", "make_loss", "negative",
         "ones_like", "radians", "rcbrt", "reciprocal", "relu", "reverse", "rint", "round", "rsqrt", "sigmoid", "sign",
         "sin", "sinh", "smooth_l1", "softmax", "softmin", "softsign", "sort", "sqrt", "square", "tan", "tanh", "trunc",
         "zeros_like", "Activation", "BlockGrad", "Cast", "Dropout", "L2Normalization",
         "LRN", "MakeLoss", "SoftmaxActivation", "_contrib_div_sqrt_dim", "_copy",
         "_identity_with_attr_like_rhs")
OF_TWO = ("add", "sub", "mul", "div", "power", "mod", "maximum", "minimum", "hypot", "equal", "not_equal", "greater",
          "greater_equal", "lesser", "lesser_equal", "logical_and", "logical_or", "logical_xor")
_SCALARS = [*OF_TWO[5:], "plus", "minus", "mul", "div", "power", "rminus", "rdiv", "rpower", "rmod"]


@shape_of(*FIRST, *(f"_{name}_scalar" for name in _SCALARS))
def of_the_first(call: Call) -> Shape:
    return call.data


@shape_of("add_n", *(f"elemwise_{name}" for name in OF_TWO[:4]), *(f"_{name}" for name in OF_TWO[4:]))
def elementwise(call: Call) -> Shape:
    return call.alike()


@shape_of("where")
def where(call: Call) -> Shape:
    shape = call.alike((1, 2)) and call.shapes[1]
    call.check(call.data in (shape, shape[:1]), 0, shape)
    return shape


@shape_of(*(f"broadcast_{name}" for name in OF_TWO))
def broadcast_pair(call: Call) -> Shape:
    rank = max(map(len, call.shapes))
    left, right = ((1,) * (rank - len(shape)) + shape for shape in call.shapes)
    call.check(all(one == other or 1 in (one, other) for one, other in zip(left, right)), 1, f"one like {left}")
    return tuple(one if other == 1 else other for one, other in zip(left, right))


@shape_of("LeakyReLU")
def leaky_relu(call: Call) -> Shape:
    if call.text("act_type") == "prelu":
        shape = call.shapes[1]
        call.check(shape in ((1,), call.data[1:2]), 1, call.data[1:2])
    return call.data


# -- layers -------------------------------------------------------------------------------------------------------
def _places(call: Call) -> tuple[int, list[int]]:
    """The axis of the channels, and those of the pixels."""
    rank = len(call.data)
    is_last = (call.text("layout") or "None").endswith("C")
    return (rank - 1, [*range(1, rank - 1)]) if is_last else (1, [*range(2, rank)])


def _with(call: Call, channels: int, sizes: Sequence[int]) -> Shape:
    """The shape of the data with other channels and pixels."""
    axis, places = _places(call)
    shape = list(call.data)
    shape[axis] = channels
    for place, size in zip(places, sizes):
        call.check(size > 0, 0, "more pixels")
        shape[place] = int(size)
    return tuple(shape)


def _pixels(call: Call, kernel: Shape) -> list[int]:
    """The sizes of the data along the axes of the pixels."""
    pixels = [call.data[place] for place in _places(call)[1]]
    call.check(len(pixels) == len(kernel), 0, f"{len(kernel) + 2} dimensions")
    return pixels


@shape_of("Convolution", "Convolution_v1", "_contrib_DeformableConvolution", "_contrib_ModulatedDeformableConvolution")
def convolution(call: Call) -> Shape:
    kernel, strides, pads, dilations = call.window()
    filters, groups = call.value("num_filter"), call.value("num_group", 1)
    channels, _ = _places(call)
    sizes = [(size + 2 * pad - dilation * (length - 1) - 1) // stride + 1 for size, length, stride, pad, dilation
             in zip(_pixels(call, kernel), kernel, strides, pads, dilations)]
    weight = call.data[channels] // groups
    call.check(weight * groups == call.data[channels], 0, f"channels in {groups} groups")
    first = {"_contrib_DeformableConvolution": 2, "_contrib_ModulatedDeformableConvolution": 3}.get(call.node.op, 1)
    points = call.value("num_deformable_group", 1) * math.prod(kernel)
    for position, count in zip(range(1, first), (2 * points, points)):   # offsets, and weights of the points
        call.expect(position, (call.data[0], count, *sizes))
    call.expect(first, (filters, *kernel, weight) if channels > 1 else (filters, weight, *kernel))
    call.expect(first + 1, (filters,))
    return _with(call, filters, sizes)


@shape_of("Deconvolution")
def deconvolution(call: Call) -> Shape:
    kernel, strides, pads, dilations = call.window()
    filters, groups = call.value("num_filter"), call.value("num_group", 1)
    channels, _ = _places(call)
    adjustments, targets = call.ints("adj", (0,) * len(kernel)), call.ints("target_shape", (0,) * len(kernel))
    sizes = [stride * (size - 1) + dilation * (length - 1) + 1 - 2 * pad + more for size, length, stride, pad, dilation,
             more in zip(_pixels(call, kernel), kernel, strides, pads, dilations, adjustments)]
    sizes = targets if all(targets) else sizes
    call.expect(1, (call.data[channels], *kernel, filters // groups) if channels > 1
                else (call.data[channels], filters // groups, *kernel))
    call.expect(2, (filters,))
    return _with(call, filters, sizes)


@shape_of("FullyConnected")
def fully_connected(call: Call) -> Shape:
    count = call.value("num_hidden")
    flattens = call.flag("flatten", True)
    rows = call.data[:1] if flattens else call.data[:-1]
    call.expect(1, (count, math.prod(call.data[1:]) if flattens else call.data[-1]))
    call.expect(2, (count,))
    return (*rows, count)


@shape_of("Pooling", "Pooling_v1")
def pooling(call: Call) -> Shape:
    channels, places = _places(call)
    if call.flag("global_pool"):
        return _with(call, call.data[channels], [1] * len(places))
    kernel, strides, pads, _ = call.window()
    convention = call.text("pooling_convention", "valid")
    sizes = []
    for size, length, stride, pad in zip(_pixels(call, kernel), kernel, strides, pads):
        call.check(length <= size + 2 * pad, 0, f"pixels for a kernel of {kernel}")
        if convention == "same":
            sizes.append(-(-size // stride))
        else:
            rest = size + 2 * pad - length
            sizes.append((-(-rest // stride) if convention == "full" else rest // stride) + 1)
    return _with(call, call.data[channels], sizes)


@shape_of("BatchNorm", "BatchNorm_v1", "_contrib_SyncBatchNorm", "LayerNorm", "InstanceNorm", "GroupNorm")
def normalization(call: Call) -> Shape:
    if call.node.op == "GroupNorm":
        count = call.value("num_groups", 1)
    else:
        count = call.data[call.axis(default=-1 if call.node.op == "LayerNorm" else 1)]
    for position in range(1, len(call.shapes)):
        call.expect(position, (count,))
    return call.data


@shape_of("Embedding")
def embedding(call: Call) -> Shape:
    call.expect(1, (call.value("input_dim"), call.value("output_dim")))
    return (*call.data, call.value("output_dim"))


@shape_of("RNN")
def recurrent(call: Call) -> list[Shape]:
    time, batch, inputs = call.data
    size, layers = call.value("state_size"), call.value("num_layers")
    ends = 2 if call.flag("bidirectional") else 1
    shown = call.value("projection_size") or size
    gates = {"lstm": 4, "gru": 3}.get(call.text("mode"), 1)
    if shown == size:   # a projection has weights of its own
        widths = [inputs, *[size * ends] * (layers - 1)]
        call.expect(1, (sum(ends * gates * size * (width + size + 2) for width in widths),))
    states = [(layers * ends, batch, shown), (layers * ends, batch, size)]
    for position, state in enumerate(states[:2 if call.text("mode") == "lstm" else 1]):
        call.expect(2 + position, state)
    returned = states[:2 if call.text("mode") == "lstm" else 1] if call.flag("state_outputs") else []
    return [(time, batch, shown * ends), *returned]


@shape_of("UpSampling")
def up_sampling(call: Call) -> Shape:
    batch, channels, height, width = call.data
    scale = call.value("scale")
    if call.text("sample_type") == "nearest" and len(call.shapes) > 1:
        channels = sum(shape[1] for shape in call.shapes) if call.text("multi_input_mode") != "sum" else channels
    return batch, channels, height * scale, width * scale


@shape_of("_contrib_BilinearResize2D")
def bilinear_resize(call: Call) -> Shape:
    mode = call.text("mode", "size")
    sizes = []
    for axis, name in ((2, "height"), (3, "width")):
        old, scale = call.data[axis], call.value(f"scale_{name}")
        if mode == "like":
            new = call.shapes[1][axis]
        elif mode == "size":
            new = call.value(name, 1) if scale is None else int(np.float32(scale) * old)
        elif mode == "odd_scale":
            new = int(np.float32(old) * scale) if old % 2 == 0 else int(np.float32(old - 1) * scale) + 1
        else:
            parity = {"to_even_down": old % 2 == 1 and -1, "to_even_up": old % 2 == 1 and 1,
                      "to_odd_down": old % 2 == 0 and -1, "to_odd_up": old % 2 == 0 and 1}
            new = old + int(parity[mode])
        sizes.append(new)
    return (*call.data[:2], *sizes)


@shape_of("_contrib_AdaptiveAvgPooling2D")
def adaptive_average(call: Call) -> Shape:
    sizes = call.ints("output_size", (1,))
    return (*call.data[:2], *(sizes * 2)[:2])


# -- losses -------------------------------------------------------------------------------------------------------
@shape_of("SoftmaxOutput")
def softmax_output(call: Call) -> Shape:
    label, (batch, _, *rest) = call.shapes[1], call.data
    if call.flag("multi_output"):
        taken = [(batch, math.prod(rest)), (batch, *rest), (batch, 1, *rest), call.data]
        call.expect(1, label if label in taken else taken[0])
    elif label != call.data:
        call.expect(1, call.data[:-1])
    return call.data


@shape_of("LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput")
def regression_output(call: Call) -> Shape:
    label = call.shapes[1]
    if label is None:
        call.expect(1, call.data[:1] if call.data[1:] == (1,) else call.data)
    else:
        call.check(math.prod(label) == math.prod(call.data), 1, call.data)
    return call.data


@shape_of("SVMOutput", "softmax_cross_entropy", "batch_take")
def of_rows(call: Call) -> Shape:
    """They read a number for each row."""
    call.expect(1, call.data[:1])
    return {"SVMOutput": call.data, "softmax_cross_entropy": (1,)}.get(call.node.op, call.data[:1])


# -- reductions and products --------------------------------------------------------------------------------------
def _reduced(call: Call, axes: Iterable[int], keeps: bool) -> Shape:
    axes = set(axes)
    shape = tuple(1 if axis in axes else size for axis, size in enumerate(call.data) if keeps or axis not in axes)
    return shape or (1,)


@shape_of("sum", "mean", "max", "min", "prod", "nansum", "nanprod", "norm")
def reduction(call: Call) -> Shape:
    return _reduced(call, call.reduced_axes(), call.flag("keepdims"))


@shape_of("argmax", "argmin")
def arg_extreme(call: Call) -> Shape:
    axis = call.value("axis")
    axes = range(len(call.data)) if axis is None else [call.axis()]
    return _reduced(call, axes, call.flag("keepdims"))


@shape_of("topk")
def top(call: Call) -> Shape | list[Shape]:
    kind, axis = call.text("ret_typ", "indices"), call.value("axis", -1)
    shape = list(call.data) if axis is not None else [math.prod(call.data)]
    if kind != "mask":
        place = -1 if axis is None else call.axis()
        shape[place] = call.value("k", 1) or shape[place]
    return [tuple(shape)] * 2 if kind == "both" else tuple(shape)


@shape_of("batch_dot", "_linalg_gemm2", "dot")
def product(call: Call) -> Shape:
    left, right = call.shapes
    if call.node.op == "dot":
        left = left[1:] + left[:1] if call.flag("transpose_a") else left
        right = right[-1:] + right[:-1] if call.flag("transpose_b") else right
        call.check(left[-1] == right[0], 1, f"{left[-1]} rows")
        return (*left[:-1], *right[1:]) or (1,)
    rows, inner = left[:-3:-1] if call.flag("transpose_a") else left[-2:]
    others, columns = right[:-3:-1] if call.flag("transpose_b") else right[-2:]
    call.check(inner == others and left[:-2] == right[:-2], 1, f"{inner} rows")
    return (*left[:-2], rows, columns)


# -- what moves and selects elements --------------------------------------------------------------------------------
# The codes of npx.reshape that mean the same as others of Reshape, and one that leaves out a size of 1.
SKIP = -7
NUMPYS_CODES = {-2: 0, -3: SKIP, -4: -2, -5: -3, -6: -4}


@shape_of("Reshape", "_npx_reshape")
def reshape(call: Call) -> Shape:
    sizes = sizes_of_reshape(call, call.data)
    rest = math.prod(size for size in sizes if size != -1)
    shape = tuple(math.prod(call.data) // max(rest, 1) if size == -1 else size for size in sizes)
    call.check(math.prod(shape) == math.prod(call.data) and sizes.count(-1) < 2, 0, f"as many elements as {shape}")
    return shape


def sizes_of_reshape(call: NodeValues, data: Sequence) -> list:
    """The sizes of a reshape; -1 for one that follows. Those of the data may be expressions."""
    has_numpys_codes = call.node.op == "_npx_reshape"
    codes = call.ints("newshape" if has_numpys_codes else "shape", ())
    if not codes:   # of MXNet 0.8
        target = call.ints("target_shape", ())
        sizes = [data[0] if call.flag("keep_highest") else target[0], *target[1:]]
        return [size or -1 for size in sizes]
    if has_numpys_codes:
        codes = [NUMPYS_CODES.get(code, code) for code in codes]
    if call.flag("reverse"):
        return _sizes(data[::-1], list(codes[::-1]))[::-1]
    return _sizes(data, list(codes))


def _sizes(data: Sequence, codes: list[int]) -> list:
    """The sizes that codes, counted from the front, make of those of the data."""
    sizes, place = [], 0
    while codes:
        code = codes.pop(0)
        if code == -2:
            sizes += data[place:]
            place = len(data)
        elif code == -3:
            sizes.append(data[place] * data[place + 1])
            place += 2
        elif code == -4:
            first, second = codes.pop(0), codes.pop(0)
            sizes += [data[place] // second if first == -1 else first, data[place] // first if second == -1 else second]
            place += 1
        else:
            sizes += [] if code == SKIP else [data[place] if code == 0 else code]
            place += 1
    return sizes


@shape_of("reshape_like")
def reshape_like(call: Call) -> Shape:
    (start, stop), (first, last) = call.replaced_axes()
    shape = (*call.data[:start], *call.shapes[1][first:last], *call.data[stop:])
    call.check(math.prod(shape) == math.prod(call.data), 0, f"as many elements as {shape}")
    return shape


@shape_of("SwapAxis")
def swap_axes(call: Call) -> Shape:
    shape = list(call.data)
    one, other = call.value("dim1", 0), call.value("dim2", 0)
    shape[one], shape[other] = shape[other], shape[one]
    return tuple(shape)


@shape_of("expand_dims")
def expand_dims(call: Call) -> Shape:
    axis = call.value("axis")
    axis += len(call.data) + 1 if axis < 0 else 0
    return (*call.data[:axis], 1, *call.data[axis:])


@shape_of("squeeze")
def squeeze(call: Call) -> Shape:
    ones = [axis for axis, size in enumerate(call.data) if size == 1]
    axes = {axis % len(call.data) for axis in call.ints("axis", ones)}
    call.check(axes.issubset(ones), 0, f"sizes of 1 along {sorted(axes)}")
    return _reduced(call, axes, False)


@shape_of("Concat")
def concat(call: Call) -> Shape:
    axis = call.axis("dim", 1)
    shape = list(call.data)
    for position, other in enumerate(call.shapes):
        expected = (*shape[:axis], other[axis], *shape[axis + 1:])
        call.expect(position, expected)
    shape[axis] = sum(other[axis] for other in call.shapes)
    return tuple(shape)


@shape_of("stack")
def stack(call: Call) -> Shape:
    axis = call.value("axis", 0) % (len(call.data) + 1)
    shape = call.alike()
    return (*shape[:axis], len(call.shapes), *shape[axis:])


@shape_of("SliceChannel")
def split(call: Call) -> list[Shape]:
    count, axis = call.value("num_outputs"), call.axis(default=1)
    size, rest = divmod(call.data[axis], count)
    squeezes = call.flag("squeeze_axis")
    call.check(rest == 0 and (size == 1 or not squeezes), 0, f"a size of {count} parts along axis {axis}")
    part = () if squeezes else (size,)
    return [(*call.data[:axis], *part, *call.data[axis + 1:])] * count


@shape_of("slice", "slice_axis")
def part(call: Call) -> Shape:
    if call.node.op == "slice_axis":
        axes, bounds = [call.axis()], [(call.value("begin"), call.value("end"))]
    else:
        begins, ends = call.ints("begin", ()), call.ints("end", ())
        axes = range(len(begins))
        bounds = zip(begins, ends, call.ints("step", (None,) * len(begins)))
    shape = list(call.data)
    for axis, each in zip(axes, bounds):
        shape[axis] = len(range(shape[axis])[slice(*each)])
        call.check(shape[axis] > 0, 0, "elements in the slice")
    return tuple(shape)


@shape_of("slice_like")
def slice_like(call: Call) -> Shape:
    shape, other = list(call.data), call.shapes[1]
    for axis in call.ints("axes", tuple(range(len(shape)))):
        call.check(other[axis] <= shape[axis], 1, f"at most {shape[axis]} along axis {axis}")
        shape[axis] = other[axis]
    return tuple(shape)


@shape_of("Crop")
def crop(call: Call) -> Shape:
    sizes = call.shapes[1][2:] if len(call.shapes) > 1 else call.ints("h_w", (0, 0))
    call.check(all(size <= old for size, old in zip(sizes, call.data[2:])), 0, f"at least {sizes}")
    return (*call.data[:2], *sizes)


@shape_of("tile")
def tile(call: Call) -> Shape:
    counts = call.ints("reps", ())
    rank = max(len(counts), len(call.data))
    counts = (1,) * (rank - len(counts)) + counts
    return tuple(count * size for count, size in zip(counts, (1,) * (rank - len(call.data)) + call.data))


@shape_of("repeat")
def repeat(call: Call) -> Shape:
    count = call.value("repeats")
    if call.value("axis") is None:
        return (count * math.prod(call.data),)
    shape, axis = list(call.data), call.axis()
    shape[axis] *= count
    return tuple(shape)


@shape_of("broadcast_to")
def broadcast_to(call: Call) -> Shape:
    shape = tuple(new or old for new, old in zip(call.ints("shape", ()), call.data))
    call.check(len(shape) == len(call.data) and all(old in (1, new) for new, old in zip(shape, call.data)), 0, shape)
    return shape


@shape_of("broadcast_axis", "broadcast_like")
def broadcast_axes(call: Call) -> Shape:
    shape, is_like = list(call.data), call.node.op == "broadcast_like"
    axes, sizes = call.ints("axis", ()), call.ints("size", ())
    if is_like:
        axes, other = call.ints("lhs_axes", range(len(shape))), call.shapes[1]
        sizes = [other[axis] for axis in call.ints("rhs_axes", range(len(other)))]
    for axis, size in zip(axes, sizes):
        call.check(shape[axis] == 1 or (is_like and shape[axis] == size), 0, f"a size of 1 along axis {axis}")
        shape[axis] = size
    return tuple(shape)


@shape_of("space_to_depth", "depth_to_space")
def blocks(call: Call) -> Shape:
    batch, channels, height, width = call.data
    size = call.value("block_size")
    if call.node.op == "space_to_depth":
        call.check(height % size == width % size == 0, 0, f"sizes that are divisible by {size}")
        return batch, channels * size * size, height // size, width // size
    call.check(channels % (size * size) == 0, 0, f"channels that are divisible by {size * size}")
    return batch, channels // (size * size), height * size, width * size


@shape_of("pick")
def pick(call: Call) -> Shape:
    if call.value("axis", -1) is None:
        return call.shapes[1]
    shapes = [_reduced(call, [call.axis()], keeps) for keeps in (False, True)]
    call.check(call.shapes[1] in shapes, 1, shapes[0])
    return shapes[call.flag("keepdims")]


@shape_of("SequenceMask", "SequenceReverse", "SequenceLast")
def sequence(call: Call) -> Shape:
    """They may read the length of each sequence. Time and batch are the first two axes."""
    time = call.axis(default=0)
    call.expect(1, (call.data[1 - time],))
    return _reduced(call, [time], False) if call.node.op == "SequenceLast" else call.data


# Attention with interleaved heads: (time, batch, heads * parts * size), with two or three parts.
@shape_of("_contrib_interleaved_matmul_selfatt_qk", "_contrib_interleaved_matmul_encdec_qk")
def attention(call: Call) -> Shape:
    time, batch, width = call.data
    if "encdec" in call.node.op:
        call.expect(1, (call.shapes[1][0], batch, 2 * width))
    return batch * call.value("heads"), time, call.shapes[-1][0]


@shape_of("_contrib_interleaved_matmul_selfatt_valatt", "_contrib_interleaved_matmul_encdec_valatt")
def attended(call: Call) -> Shape:
    time, batch, width = call.data
    call.expect(1, (batch * call.value("heads"), call.shapes[1][1], time))
    return call.shapes[1][1], batch, width // (3 if "selfatt" in call.node.op else 2)


def arange_values(call: Call) -> np.ndarray:
    """The values of an ``_arange``, which computes in float64."""
    start, stop, step = (call.value(name, default) for name, default in (("start", 0), ("stop", None), ("step", 1.0)))
    if call.flag("infer_range"):
        raise Misfit(f"{call.node.name!r} (_arange) has a length that follows from its readers")
    start, stop = (0, start) if stop is None else (start, stop)
    count = math.ceil((stop - start) / step)
    values = np.float64(start) + np.arange(count) * np.float64(step)
    return np.repeat(values, call.value("repeat", 1)).astype(call.text("dtype", "float32"))


def _pad(call: Call) -> Shape:
    widths = call.ints("pad_width", ())
    return tuple(size + widths[2 * axis] + widths[2 * axis + 1] for axis, size in enumerate(call.data))


def _taken(call: Call) -> Shape:
    axis = call.axis(default=0)
    return (*call.data[:axis], *call.shapes[1], *call.data[axis + 1:])


RULES.update({
    "amp_multicast": lambda call: list(call.shapes),
    "Flatten": lambda call: (call.data[0], math.prod(call.data[1:])),
    "transpose": lambda call: tuple(call.data[axis] for axis in call.ints("axes", range(len(call.data))[::-1])),
    "Pad": _pad,
    "take": _taken,
    "gather_nd": lambda call: (*call.shapes[1][1:], *call.data[call.shapes[1][0]:]),
    "one_hot": lambda call: (*call.data, call.value("depth")),
    "shape_array": lambda call: (len(call.data),),
    "size_array": lambda call: (1,),
    "_rnn_param_concat": lambda call: (sum(shape[0] for shape in call.shapes),),
    "_np_cumsum": lambda call: (math.prod(call.data),) if call.value("axis") is None else call.data,
    "_contrib_index_array": lambda call: (*call.data, len(call.ints("axes", call.data))),
    "_contrib_arange_like": lambda call: call.data if call.value("axis") is None else (call.data[call.axis()],),
    "_arange": lambda call: (len(arange_values(call)),),
    **dict.fromkeys(("_zeros", "_ones", "_full"), lambda call: call.ints("shape", ())),
})


# -- boxes --------------------------------------------------------------------------------------------------------
@shape_of("_contrib_box_nms")
def box_nms(call: Call) -> Shape:
    call.check(len(call.data) > 1, 0, "rows of boxes")
    return call.data


@shape_of("_contrib_box_decode")
def box_decode(call: Call) -> Shape:
    call.check(len(call.data) == 3 and call.data[2] == 4, 0, "(batch, boxes, 4)")
    call.check(call.shapes[1][1:] == call.data[1:], 1, f"(1, {call.data[1]}, 4)")
    return call.data


@shape_of("_contrib_ROIAlign", "ROIPooling", "_contrib_PSROIPooling")
def of_regions(call: Call) -> Shape:
    regions, sizes = call.shapes[1], (call.ints("pooled_size", ()) * 2)[:2]
    call.check(len(regions) == 2 and regions[1] == 5, 1, "rows of an image and a box")
    channels = call.value("output_dim", call.data[1])
    if call.flag("position_sensitive"):
        channels //= math.prod(sizes)
    return (regions[0], channels, *sizes)


@shape_of("_contrib_MultiBoxPrior")
def multi_box_prior(call: Call) -> Shape:
    each_pixel = len(call.ints("sizes", (1.0,))) + len(call.ints("ratios", (1.0,))) - 1
    return 1, call.data[2] * call.data[3] * each_pixel, 4


@shape_of("_contrib_MultiBoxTarget")
def multi_box_target(call: Call) -> list[Shape]:
    count, batch = call.data[1], call.shapes[1][0]
    call.expect(0, (1, count, 4))
    call.expect(2, (batch, call.shapes[2][1], count))
    return [(batch, 4 * count), (batch, 4 * count), (batch, count)]


@shape_of("_contrib_MultiBoxDetection")
def multi_box_detection(call: Call) -> Shape:
    batch, _, count = call.data
    call.expect(1, (batch, 4 * count))
    call.expect(2, (1, count, 4))
    return batch, count, 6


# -- a graph ------------------------------------------------------------------------------------------------------
def infer_shapes(graph: Graph, shapes: dict[str, Shape]) -> dict[Entry, Shape | None]:
    """The shape of every output, as far as it follows from shapes of variables; None for others.

    A Misfit if the shapes do not fit, or a node has no rule.
    """
    found = {}
    for node in graph.nodes():
        if node.is_variable:
            found[node, 0] = shapes.get(node.name)
            continue
        rule = _known(node)
        call = Call(node, found)
        try:
            outputs = rule(call)
            outputs = outputs if isinstance(outputs, list) else [outputs]
            if any(not isinstance(size, int) or size < 0 for shape in outputs for size in shape):
                raise ValueError(f"it would make {outputs}")
        except Misfit:
            raise
        except OpError as error:
            raise Misfit(f"{node.name!r}: {error.what}") from error
        except Exception as error:   # of an attribute that is none of the operator's, whatever it is
            if None not in call.shapes:
                raise Misfit(f"{node.name!r} ({node.op}) does not take {call.shapes}: {error}") from error
            outputs = [None]
        found.update({(node, index): shape for index, shape in enumerate(outputs)})
    for node in reversed(graph.nodes()):   # the first state of a recurrent cell has the rows of a dense layer's output
        rows = found[node, 0] if node.op == "FullyConnected" else None
        if rows and OPEN in (found[node.inputs[0]] or ()):
            call = Call(node, found)
            call.expect(0, (rows[0], *call.data[1:]))
    return found


def infer_types(graph: Graph, types: dict[str, np.dtype],
                outputs: Iterable[Entry] = ()) -> dict[Entry, np.dtype]:
    """The types of outputs, from those of the variables, which are float32 if they are not known.

    A Misfit if a node has no rule, or a layer has parameters of another type.
    """
    counts = collections.Counter(node for node, _ in outputs)
    found = {}
    for node in graph.nodes():
        if node.is_variable:
            found[node, 0] = np.dtype(types.get(node.name, "float32"))
            continue
        read = [found.get(entry, found[entry[0], 0]) for entry in node.inputs]
        _known(node)
        try:
            returned = _types_of(node, read)
        except Misfit:
            raise
        except OpError as error:
            raise Misfit(f"{node.name!r}: {error.what}") from error
        except Exception as error:   # as above
            raise Misfit(f"{node.name!r} ({node.op}) does not take {read}: {error}") from error
        returned = returned if isinstance(returned, list) else [returned] * max(counts[node], 1)
        found.update({(node, index): dtype for index, dtype in enumerate(returned)})
    return found


def _known(node: Node) -> Rule:
    rule = rule_of(node)
    if rule is None:
        raise Misfit(f"{node.name!r} is the operator {kind(node)}, whose shapes only MXNet knows")
    return rule


# -- types --------------------------------------------------------------------------------------------------------
def _types_of(node: Node, types: list[np.dtype]) -> np.dtype | list[np.dtype]:
    """The type of what a node returns; a list if its outputs have several."""
    if is_ours(node):
        op = registry.get(our_name(node)).op
        found = op.infer_type(_attributes(node), {arg.name: dtype.name for arg, dtype in zip(op.inputs, types)})
        return [np.dtype(found[out.name]) for out in op.outputs]
    if node.op in TYPES:
        return TYPES[node.op](node, types)
    if node.op in LAYERS:
        half = "BatchNorm" in node.op and types[0] == np.float16   # its parameters are float32
        parameters = np.dtype("float32") if half else types[0]
        if set(types[1:]) - {parameters}:
            raise Misfit(f"{node.name!r} ({node.op}) has parameters of {types[1]}; expected {parameters}")
    return types[0]


def _chosen(node: Node, types: list[np.dtype]) -> np.dtype:
    """The type that an attribute chooses."""
    return np.dtype(_given(node) or "float32")


def _given(node: Node) -> str | None:
    name = node.attrs.get("dtype", "None")
    return None if name == "None" else name


def _of_top(node: Node, types: list[np.dtype]) -> np.dtype | list[np.dtype]:
    kind, indices = node.attrs.get("ret_typ", "indices"), _chosen(node, types)
    return {"indices": indices, "both": [types[0], indices]}.get(kind, types[0])


def _of_several(node: Node, types: list[np.dtype]) -> np.dtype:
    choose = min if node.flag("cast_narrow") else max
    return choose(types, key=lambda dtype: dtype.itemsize)


TYPES.update({
    **dict.fromkeys(("_zeros", "_ones", "_full", "_arange", "argsort", "one_hot", "Cast", "amp_cast"), _chosen),
    **dict.fromkeys(("softmax", "log_softmax", "softmin", "_np_cumsum"),
                    lambda node, types: np.dtype(_given(node) or types[0])),
    **dict.fromkeys(("_contrib_index_array", "shape_array", "size_array"), lambda node, types: np.dtype("int64")),
    **dict.fromkeys(("where", "Embedding"), lambda node, types: types[1]),
    "topk": _of_top,
    "amp_multicast": _of_several,
})
