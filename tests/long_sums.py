"""Long sums keep their digits: every operator that reduces, in float32, against its oracle in float64.

A sum in a plain loop loses digits with its length, and most where all roundings go the same way, as they do for numbers
of few bits. ``CASES`` has the places where an operator sums: for each a function that makes the case of a length.
"""
import functools

import numpy as np
from op_suite import Case, OpSuite

LENGTHS = (2049, 20001, 200001)
DRAWS = ("normal", "few_bits")
BOUND = 1e-6          # of the largest number; more only where MXNet's own operators lose more
OF_BUILTIN = 3        # as many times the error of the builtin backend

SHAPES = {"first": (lambda n: (n, 3), 0), "middle": (lambda n: (2, n, 3), 1), "last": (lambda n: (2, n), -1)}


def rows(others=(), **attrs):
    """A long axis in front, in the middle and at the end. ``others``: what the further inputs are shaped like."""
    def case(shape_of, axis):
        def make(length):
            shape = shape_of(length)
            shapes = {"data": shape, "label": shape[:axis] + shape[axis % len(shape) + 1:], "axis": (length,)}
            return Case("", (shape, *(shapes[other] for other in others)), {**attrs, "axis": axis})
        return make

    return {name: case(*of) for name, of in SHAPES.items()}


def of(*shapes, **attrs):
    """A case whose long sizes are the letter n."""
    def make(length):
        def sized(value):
            return tuple(map(sized, value)) if isinstance(value, tuple) else length if value == "n" else value
        return Case("", sized(shapes), {name: sized(value) for name, value in attrs.items()})

    return make


NORMS = {**rows(["axis"]), "samples": of(("n", 3), (3,)), "pixels": of((2, 3, "n"), (3,), axis=1)}
ANCHOR = {"anchors": (1.5, 0.5), "classes": 2}

CASES = {
    "box_iou": {"lhs": of(("n", 4), (3, 4)), "rhs": of((3, 4), ("n", 4))},
    "center_loss": {"features": of((3, "n"), (3,), (2, "n")), "samples": of(("n", 3), ("n",), (2, 3))},
    "dice_loss": {"classes": of((1, "n", 3), (1, 3)), "pixels": of((1, 3, "n"), (1, "n"))},
    "distillation_loss": rows(["data"]),
    "gaussian_yolo_loss": {"cells": of((1, 11, 1, "n"), (1, 2, 5), **ANCHOR)},
    "group_norm": {"pixels": of((2, 4, "n"), (4,), (4,), num_groups=2),
                   "channels": of((2, "n", 3), ("n",), ("n",), num_groups=1),
                   "single": of((2, "n"), ("n",), ("n",), num_groups=1),
                   "samples": of(("n", 4), (4,), (4,), num_groups=1)},
    "l2_normalize": NORMS,
    "lovasz_softmax": {"classes": of((1, "n", 3), (1, 3)), "pixels": of((1, 3, "n"), (1, "n"))},
    "margin_softmax_cross_entropy": {"last": of((2, "n"), (2,))},
    "region_decode": {"classes": lambda n: Case("", ((1, 5 + n, 1, 3),), {"anchors": (1.5, 0.5), "classes": n})},
    "region_loss": {"cells": of((1, 7, 1, "n"), (1, 2, 5), (1,), **ANCHOR)},
    "rms_norm": NORMS,
    "softmax": rows(),
    "softmax_cross_entropy": {**rows(["label"]),
                              **{f"dense_{name}": case for name, case in rows(["data"], sparse_label=False).items()},
                              **{f"smooth_{name}": case for name, case in rows(["label"], smoothing=0.1).items()}},
    "softmax_focal_loss": rows(["label"]),
    "softmax_output": rows(["label"]),
    "tile": {"first": of((2, 3), tiles="n", axis=0), "last": of((2, 1), tiles="n"), "vector": of((3,), tiles=("n",))},
    "yolo_loss": {"cells": of((1, 7, 1, "n"), (1, 2, 5), **ANCHOR)},
}

# The order of its errors, on which a pixel's gradient depends, is that of their rounded values.
ORDERED = {("lovasz_softmax", "pixels")}

# Its sums are over a few numbers of a box or of a head, or it has none.
WITHOUT_LONG_SUMS = ("abs", "gelu", "hard_swish", "iou_loss", "mish", "ohem", "reorg", "sigmoid_cross_entropy",
                     "sigmoid_focal_loss", "swiglu", "swish")


EXACT = ("rhs", "truth", "label", "seen")   # boxes that remain boxes, and what is whole already


def few_bits(array):
    """Multiples of 1/4: sums of such are rounded the same way again and again."""
    return np.round(4 * array) / array.dtype.type(4)


def deviation(got, right):
    """The largest difference from what is right, relative to the largest number."""
    return np.abs(got - right).max() / np.abs(right).max()


def lost(deviations, of_builtin, bound=BOUND):
    """The tensors that lost digits in a sum: name -> (their deviation, that of the builtin backend)."""
    return {name: (value, of_builtin[name]) for name, value in deviations.items()
            if not value <= max(bound, OF_BUILTIN * of_builtin[name])}


class LongSums(OpSuite):
    """A case of an operator, its inputs and what is right."""

    def __init__(self, name, place, length, draw):
        self.name = name
        self.case, self.is_ordered = CASES[name][place](length), (name, place) in ORDERED
        rng = np.random.RandomState(length)
        arrays = self.draw(self.case, "float32", rng)
        self.arrays = [few_bits(array) if draw == "few_bits" and arg.name not in EXACT else array
                       for arg, array in zip(self.op.inputs, arrays)]
        self.head_gradient = self.head(self.case, self.arrays, rng).astype("float32")

    @functools.cached_property
    def right(self):
        """The output and the gradients in float64, by name."""
        output, gradients = self.expected(self.case, self.arrays, self.head_gradient)
        compared = {} if self.is_ordered else gradients
        return {"output": output, **{f"gradient of {name}": gradient for name, gradient in compared.items()}}

    def deviations(self, backend, context="cpu"):
        """Those of the output and the gradients, by name."""
        output, gradients = self.run(self.case, self.arrays, self.head_gradient, backend, context=context)
        got = {"output": output, **{f"gradient of {name}": gradient for name, gradient in gradients.items()}}
        return {name: deviation(got[name], right) for name, right in self.right.items()}

    @functools.cached_property
    def of_builtin(self):
        return self.deviations("builtin")

    def check(self, backend, context="cpu"):
        deviations = self.deviations(backend, context)
        if not max(deviations.values()) <= BOUND:
            too_large = lost(deviations, self.of_builtin)
            assert not too_large, f"name: (deviation, that of builtin): {too_large}"
