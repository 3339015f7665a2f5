"""Operators that jump, with the inputs at which they do, and what MXNet computes of them.

Every case names the types for which MXNet's results are defined. What is not: casts of NaN, infinities and numbers that
a type does not hold, and sums, powers and remainders of integers beyond it, differ between processors; a division of
integers by 0 ends the process; the order of NaN, and of equal numbers in a long row, is any.
"""
import dataclasses
import importlib
from collections.abc import Callable
from unittest import mock

import gluonops as gops
import mxnet as mx
import numpy as np
from gluonops.export import jumps
from gluonops.export.onnx.session import session

FLOATS, SIGNED = ("float32", "float64"), ("int32", "int64")
INTEGERS = (*SIGNED, "uint8", "int8")
ANY = FLOATS + INTEGERS
TENTHS = 0.6   # Multiples of a number that no float is: the quotient of two such numbers is rounded.
TOLERANCE = {"float32": 4e-6, "float64": 1e-12}   # of each number; roundings and comparisons have no error
WORDS = ("equal", "not_equal", "greater", "greater_equal", "lesser", "lesser_equal", "logical_and", "logical_or",
         "logical_xor")


@dataclasses.dataclass
class Jump:
    """A function of ``F`` and its inputs that returns outputs, and what draws the inputs, of a type.

    - ``kinds``: the types of its inputs.
    - ``has_gradients``: whether MXNet has gradients of it, and torch the same ones.
    """
    function: Callable
    inputs: Callable
    kinds: tuple[str, ...] = FLOATS
    has_gradients: bool = True


def numbers(kind):
    """A row of numbers at which operators of one input jump."""
    kind = np.dtype(kind)
    if kind.kind != "f":
        limits = np.iinfo(kind)
        return np.array([n for n in (*range(-9, 10), 64, 100, 127, -64) if limits.min <= n <= limits.max], kind)[None]
    half = np.nextafter(kind.type(0.5), kind.type(0))
    tenths = kind.type(0.6) * np.arange(-12, 13)
    small = np.arange(-17, 18) / 2
    large = [20.5, 100, -100, 2999.7, 255, 256, 8388607.5, 8388609, -8388609, 16777216, 1e9, -1e9, 1e20, -1e20]
    return np.concatenate([[0.0, -0.0, half, -half, np.inf, -np.inf, np.nan], tenths, small, large])[None].astype(kind)


def one(kind):
    return [numbers(kind)]


def finite(kind):
    values = numbers(kind)
    return [values[np.isfinite(values) & (np.abs(values) < 100)][None]]


def pairs(kind):
    """Every number beside every other one."""
    values = numbers(kind)[0]
    return [np.repeat(values, len(values))[None], np.tile(values, len(values))[None]]


def divisors(kind):
    """Pairs without a 0 in the second place."""
    left, right = pairs(kind)
    return [left[right != 0][None], right[right != 0][None]]


def ties(kind):
    """Rows with equal numbers, and with both zeros."""
    rows = np.array([[1, 3, 3, 2, 3, 1, 0, 0], [0] * 8, [9, 9, 2, 2, 5, 5, 5, 5], [2, 7, 1, 8, 2, 8, 1, 8],
                     [3, 0, 0, 0, 0, 3, 4, 4]], kind)
    if np.dtype(kind).kind != "u":
        rows[2:] -= np.array(4, kind)
    if np.dtype(kind).kind == "f":
        rows[1, ::2] = -0.0
    return [rows]


def indices(kind):
    """Indices out of range and between two, and what is indexed."""
    places = np.array([-9, -5, -4.7, -1.5, -1, -0.5, 0, 0.5, 1, 1.9999, 2, 2.7, 4, 4.5, 5, 6, 7.9, 12]).astype(kind)
    return [places[None], np.arange(1, 6).astype(kind)[None]]


def lengths(kind):
    """Lengths of sequences between two whole numbers."""
    return [np.array([[1, 1.2, 1.5, 2, 2.7, 3, 4, 3.9]]).astype(kind), np.arange(32).reshape(4, 8).astype(kind)]


def boxes(kind):
    """Rows of class, score and box, with equal scores and overlaps of exactly 1/2 and 1/4."""
    return [np.array([[[0, .9, 0, 0, 2, 2], [0, .9, 0, 0, 2, 1], [0, .9, 0, 0, 1, 2], [1, .9, 0, 0, 2, 2],
                       [0, .5, 1, 1, 3, 3], [0, .5, 0, 0, 2, 2], [0, 0, 0, 0, 1, 1], [0, .25, 4, 4, 4, 4],
                       [1, .5, 4, 4, 6, 6], [0, .7, 4, 4, 6, 5]]], kind)]


def scalar(word, number):
    """An operator beside a number, such as ``_mod_scalar``."""
    return lambda F, x: getattr(F._internal, f"_{word}_scalar")(x, scalar=number)


def all_of(*functions):
    return lambda F, *inputs: [function(F, *inputs) for function in functions]


def named(*names, **options):
    return all_of(*[lambda F, *inputs, name=name: getattr(F, name)(*inputs, **options) for name in names])


def flat(function):
    """A function of indices in a row, and of what they index."""
    return lambda F, x, y: function(F, F.reshape(x, (-1,)), y)


JUMPS = {
    "roundings": Jump(named("floor", "ceil", "fix", "trunc", "round", "rint", "sign"), one, ANY),
    "remainders": Jump(all_of(*[scalar("mod", n) for n in (0.6, -0.6, 3, -3, 0.5, 1e-3)]), one),
    "remainders_of_a_number": Jump(all_of(*[scalar("rmod", n) for n in (0.6, -0.6, 3, 0)]), one, has_gradients=False),
    "remainders_by_0": Jump(scalar("mod", 0), one, FLOATS + INTEGERS, has_gradients=False),
    "remainders_of_integers": Jump(all_of(scalar("mod", 3), scalar("rmod", 7), scalar("mod", 2.9)), one, INTEGERS),
    "remainders_of_negative_integers": Jump(all_of(scalar("mod", -3), scalar("rmod", -7)), one, (*SIGNED, "int8")),
    "remainders_of_two": Jump(all_of(lambda F, x, y: F.broadcast_mod(x, y), lambda F, x, y: x % y), pairs, ANY, False),
    "comparisons": Jump(all_of(*[scalar(word, n) for word in WORDS for n in (0, 0.5, 3)], lambda F, x: F.logical_not(
        x)), one, ANY),
    "comparisons_of_two": Jump(all_of(*[lambda F, x, y, word=word: getattr(F, f"broadcast_{word}")(x, y)
                                        for word in WORDS]), pairs, ANY),
    "extremes": Jump(all_of(*[scalar(word, n) for word in ("maximum", "minimum") for n in (0, 0.5, 3)]), one, ANY),
    "extremes_of_two": Jump(all_of(*[lambda F, x, y, name=name: getattr(F, f"broadcast_{name}")(x, y)
                                     for name in ("maximum", "minimum")]), pairs, ANY),
    "bounds": Jump(lambda F, x: [F.clip(x, -0.5, 1), F.clip(x, 0, 6), F.relu(x), F.abs(x)], one, ANY),
    "bounds_of_floats": Jump(lambda F, x: [F.hard_sigmoid(x), F.hard_sigmoid(x, alpha=0.5, beta=0.25), F.smooth_l1(
        x, scalar=2), F.LeakyReLU(x, act_type="leaky", slope=0.25)], one, ("float32",)),
    "scalars_of_integers": Jump(lambda F, x: [x + 0.6, x - 1.6, 5.6 - x, x * 2.5, x / 3, x / 2.9], finite, SIGNED),
    "quotients_of_integers": Jump(lambda F, x, y: F.broadcast_div(x, y), divisors, INTEGERS),
    "powers": Jump(lambda F, x: [x ** 2, x ** 3, 2 ** x, (-2) ** x], finite, FLOATS, False),
    "casts": Jump(lambda F, x: [F.cast(x, kind) for kind in ("int8", "int32", "int64", "bool")], finite, ANY, False),
    "choices": Jump(lambda F, x, y: F.where(x, y, -1 * y), pairs, FLOATS + SIGNED),
    "places_of_extremes": Jump(lambda F, x: [F.argmax(x, axis=1), F.argmin(x, axis=1), F.argmax(x, axis=0), F.argmin(
        x, axis=0, keepdims=True)], ties, ANY, False),
    "extremes_of_rows": Jump(lambda F, x: [F.max(x, axis=1), F.min(x, axis=0), F.max(x), F.min(x)], ties, ANY),
    "orders": Jump(lambda F, x: [F.argsort(x), F.argsort(x, is_ascend=False), F.argsort(x, axis=0)], ties, ANY, False),
    "best": Jump(lambda F, x: [F.topk(x, k=3, ret_typ="value"), F.sort(x)], ties, ANY, False),
    "one_hot": Jump(lambda F, x: [F.one_hot(x, 3), F.one_hot(x, 5, on_value=2, off_value=-1)],
                    lambda kind: indices(kind)[:1], FLOATS, False),
    "indices": Jump(flat(lambda F, x, y: [F.take(y, x, axis=1, mode=mode) for mode in ("clip", "wrap")] + [F.pick(
        F.tile(y, (18, 1)), x, mode=mode) for mode in ("clip", "wrap")]), indices, FLOATS, False),
    "lengths": Jump(flat(lambda F, x, y: [getattr(F, f"Sequence{name}")(y, x, use_sequence_length=True)
                                          for name in ("Mask", "Last", "Reverse")]), lengths, FLOATS, False),
    "pools": Jump(lambda F, x: F.Pooling(F.reshape(x, (1, 1, 5, 8)), kernel=(3, 3), pad=(1, 1), pool_type="max"), ties,
                  FLOATS, False),
    "suppression": Jump(lambda F, x: [F.contrib.box_nms(x, overlap, force_suppress=force) for overlap in (0.5, 0.25, 1)
                                      for force in (False, True)], boxes, FLOATS, False),
    "our_operators": Jump(lambda F, x: [gops.ops.abs(x), gops.ops.hard_swish(x)], finite, ("float32",)),
}


def numbers_at_jumps(rng, shape, dtype):
    """Finite numbers at which operators jump: the exports' halves, and in a third of the places other ones.

    These are multiples of 0.6, the neighbours of a half and of its negative, and the bounds 1 and 6 of activations.
    Integers are whole numbers, and not negative if the type is not.
    """
    found = jumps.halves(rng, shape, dtype)
    if found.dtype.kind != "f":
        return found
    kind = found.dtype.type
    below = float(np.nextafter(kind(0.5), kind(0)))   # A rounding that adds a half to it gives 1.
    others = [below, -below, 1.0, -1.0, 6.0, *(TENTHS * count for count in range(-jumps.WHOLE, jumps.WHOLE + 1))]
    return np.where(rng.randint(0, 3, shape) == 0, rng.choice(others, shape).astype(found.dtype), found)


def halves(*shape, classes=None):
    """Predictions that are multiples of a half, and of as many rows, or of each number, a label."""
    def draw(kind):
        rng = np.random.RandomState(0)
        labels = rng.randint(-2, 3, shape) / 2 if classes is None else rng.randint(0, classes, shape[:-1])
        return [(rng.randint(-2, 3, shape) / 2).astype(kind), labels.astype(kind)]
    return draw


def corners(kind):
    """Boxes, and their truths, whose ends coincide; some touch, and some have no area."""
    rng = np.random.RandomState(0)
    pairs_of_corners = [(rng.randint(0, 4, (20, 2)), rng.randint(0, 3, (20, 2))) for _ in range(2)]
    return [np.concatenate([corner, corner + side], axis=-1).astype(kind) for corner, side in pairs_of_corners]


# Losses, whose gradients jump where predictions and labels are equal. In float64: torch computes some otherwise.
LOSSES = {
    **{f"{kind}_loss": Jump(lambda F, x, y, kind=kind: gops.ops.iou_loss(x, y, kind=kind), corners, ("float64",))
       for kind in ("iou", "giou", "diou", "ciou")},
    **{name: Jump(lambda F, x, y, name=name: getattr(F, name)(x, y), halves(6, 5), ("float64",))
       for name in ("LinearRegressionOutput", "MAERegressionOutput", "LogisticRegressionOutput")},
    "SVMOutput": Jump(lambda F, x, y: [F.SVMOutput(x, y), F.SVMOutput(x, y, use_linear=True)],
                      halves(6, 5, classes=5), ("float64",)),
    "ohem": Jump(lambda F, x, y: [gops.ops.ohem(F.abs(x - y), keep=2), gops.ops.ohem(F.abs(x), threshold=0.5)],
                 halves(3, 8), ("float64",)),
    "lovasz": Jump(lambda F, x, y: gops.ops.lovasz_softmax(F.transpose(x, (0, 2, 1)), y), halves(2, 9, 3, classes=3),
                   ("float64",)),
    "absolute": Jump(lambda F, x, y: [F.abs(x - y), F.relu(1 - x * y), F.smooth_l1(x - y, scalar=1)], halves(6, 5),
                     ("float64",)),
}


def outputs(function, *inputs):
    found = function(*inputs)
    return list(found) if isinstance(found, (list, tuple)) else [found]


def symbol(jump, kind):
    """The case as a graph of the inputs x and y, which are cast to a type of integers."""
    names = "xy"[:len(jump.inputs(kind))]
    return mx.sym.Group(outputs(_cast(jump, kind), mx.sym, *map(mx.sym.var, names))), names


def _cast(jump, kind):
    if np.dtype(kind).kind == "f":
        return jump.function
    return lambda F, *inputs: jump.function(F, *[F.cast(x, dtype=kind) for x in inputs])


def expected(jump, kind, arrays):
    """MXNet's outputs, and the gradients of the inputs, if there are some. The head gradients are 1, 2, 3, ...."""
    inputs = [mx.nd.array(array, dtype=array.dtype) for array in arrays]
    for array in inputs:
        array.attach_grad()
    if not (jump.has_gradients and np.dtype(kind).kind == "f"):
        return [value.asnumpy() for value in outputs(_cast(jump, kind), mx.nd, *inputs)], []
    with mx.autograd.record():
        found = outputs(_cast(jump, kind), mx.nd, *inputs)
        mx.autograd.backward(found, [mx.nd.full(value.shape, 1 + place, dtype=value.dtype)
                                     for place, value in enumerate(found)])
    return [value.asnumpy() for value in found], [array.grad.asnumpy() for array in inputs]


def fed(jump, kind):
    """The inputs as they are fed. Integers are cast from floats in the graph."""
    arrays = jump.inputs(kind)
    return [array.astype("float64") if np.dtype(kind).kind != "f" else array for array in arrays]


def _saved(jump, kind, folder):
    """Files of a case, and the names of its inputs."""
    graph, names = symbol(jump, kind)
    graph.save(str(folder / "net-symbol.json"))
    mx.nd.save(str(folder / "net-0000.params"), {})
    return folder / "net", names


def in_onnxruntime(jump, kind, arrays, folder):
    """The outputs of the ONNX file of a case."""
    prefix, names = _saved(jump, kind, folder)
    feed = dict(zip(names, arrays))
    path = gops.export.onnx(prefix, folder / "net.onnx", {name: value.shape for name, value in feed.items()},
                            dtype=arrays[0].dtype.name, dynamic_batch=False)
    return session(path, "test").run(None, feed)


def in_torch(jump, kind, arrays, folder, training=False):
    """The outputs of the PyTorch net of a case, and the gradients of the inputs as in :func:`expected`."""
    import torch
    verify = importlib.import_module("gluonops.export.torch.verify")
    prefix, names = _saved(jump, kind, folder)
    with mock.patch.object(verify, "compare", lambda *args, **options: ({}, [])):   # It compares at smooth numbers.
        shapes = dict(zip(names, (array.shape for array in arrays)))
        gops.export.torch(prefix, folder, shapes, training=training)
    net = verify.load(folder).load(getattr(torch, arrays[0].dtype.name))
    inputs = [torch.from_numpy(array.copy()).requires_grad_() for array in arrays]
    found = outputs(net, *inputs)
    heads = [(value, torch.full_like(value, 1 + place)) for place, value in enumerate(found) if value.requires_grad]
    if heads:
        torch.autograd.backward(*zip(*heads))
    gradients = [np.zeros(data.shape, array.dtype) if data.grad is None else data.grad.numpy()
                 for data, array in zip(inputs, arrays)]
    own = arrays[0].dtype   # Floats of the net have its type, whatever an attribute of the graph says.
    return [value.detach().numpy().astype(own) if value.is_floating_point() else value.detach().numpy()
            for value in found], gradients


def of_types(found, wanted):
    """Outputs with the types of others where both are floats: a net of torch's has one type of floats."""
    return [value.astype(want.dtype) if value.dtype.kind == want.dtype.kind == "f" else value
            for value, want in zip(found, wanted)]


def check(found, wanted):
    """Compare numbers one by one, infinities and NaN among them."""
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=TOLERANCE.get(theirs.dtype.name, 0), atol=0)
