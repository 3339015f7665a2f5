"""The cases that operators are measured on: inputs of a typical size, which follow from the contract.

The names of the dimensions give the sizes, so a new operator needs no line here. ``_ATTRIBUTES`` and ``_DRAWN`` are for
the few operators whose default attributes, or plain random inputs, would show nothing.
"""
from __future__ import annotations

import dataclasses
import inspect

import numpy as np

from .. import ops
from ..contract import registry
from ..contract.dims import Fixed
from ..contract.shapes import Group

# Feature maps, and rows of a classifier. A dimension without a name is that of an image at the same place.
SIZES = {"batch": 16, "channels": 256, "height": 26, "width": 26, "classes": 1000, "features": 256, "truths": 30,
         "dim0": 16, "dim1": 256, "dim2": 26, "dim3": 26}
ROWS = 2048        # the batch, where a tensor has two dimensions
ANOTHER = 64       # the size of a dimension with any other name
IMAGE_NDIM = 4

_ATTRIBUTES = {"tile": {"tiles": 2, "axis": 1}}   # the default is one copy


@dataclasses.dataclass(frozen=True)
class Case:
    """An operator at one size: its name, the shape of every input by name, and its attributes."""
    op: str
    shapes: dict[str, tuple[int, ...]]
    attrs: dict


def typical(op: str, shape: tuple[int, ...] | None = None) -> Case:
    """The case that an operator, given by its name, is measured on.

    ``shape`` is the shape of the first input. Its default follows from the contract. An OpError is raised if the
    operator refuses the shape. Attributes without a default in the operator's function get the contract's default.
    """
    contract = registry.get(op).op
    attrs = {**required(op), **_ATTRIBUTES.get(op, {})}
    values = contract.parse(attrs)
    first = contract.inputs[0].name
    ndim = _typical_ndim(contract) if shape is None else len(shape)
    sizes = {**SIZES, "batch": ROWS} if ndim == 2 else dict(SIZES)
    if shape is not None:
        contract.infer_shape(values, {first: shape})
        sizes.update(contract.sizes(values, {first: shape}))
    patterns, _, _ = contract.expand(values, {first: ndim})
    shapes = {arg.name: tuple(_size(dim, sizes) for dim in patterns[arg.name]) for arg in contract.inputs}
    contract.infer_shape(values, shapes)
    return Case(op, shapes, attrs)


def required(op: str) -> dict:
    """The attributes without a default in the operator's function, with the contract's default."""
    parameters = inspect.signature(getattr(ops, op)).parameters
    return {attr.name: attr.default for attr in registry.get(op).op.attrs
            if parameters[attr.name].default is inspect.Parameter.empty}


def _typical_ndim(contract):
    """The number of dimensions of the first input. A group stands for those of an image, or for a batch of rows."""
    pattern = contract.rules[0].first
    single = [term for term in pattern if not isinstance(term, Group)]
    if len(single) == len(pattern):
        return len(pattern)
    return 1 + len(single) if single else IMAGE_NDIM


def _size(dim, sizes):
    if isinstance(dim, Fixed):
        return dim.value
    return dim.value(sizes.get(dim.name, ANOTHER))


def draw(case: Case, rng: np.random.RandomState) -> list[np.ndarray]:
    """Random inputs in the contract's order: class indices where the contract says so, else normal numbers."""
    contract = registry.get(case.op).op
    values = contract.parse(case.attrs)
    drawn = _DRAWN[case.op](values, case.shapes, rng) if case.op in _DRAWN else {}
    for name, classes in contract.index_sizes(values, case.shapes).items():
        drawn[name] = rng.randint(classes, size=case.shapes[name])
    for arg in contract.inputs:
        if arg.name not in drawn:
            drawn[arg.name] = rng.standard_normal(case.shapes[arg.name])
    return [drawn[arg.name] for arg in contract.inputs]


def _ground_truth(attrs, shapes, rng):
    """Boxes of a tenth to two fifths of the image, and a number of images after the warmup."""
    *rows, _ = shapes["truth"]
    centres = rng.uniform(0.2, 0.8, (*rows, 2))
    sizes = rng.uniform(0.1, 0.4, (*rows, 2))
    class_ids = rng.randint(attrs.classes, size=(*rows, 1))
    truth = np.concatenate([centres, sizes, class_ids], axis=2)
    return {name: value for name, value in {"truth": truth, "seen": np.full((1,), 20000)}.items() if name in shapes}


def _boxes(attrs, shapes, rng):
    """Boxes by their corners, a tenth to half of the image wide and high."""
    drawn = {}
    for name, shape in shapes.items():
        low = rng.uniform(0, 0.5, (*shape[:-1], 2))
        drawn[name] = np.concatenate([low, low + rng.uniform(0.1, 0.5, low.shape)], axis=-1)
    return drawn


def _positives(attrs, shapes, rng):
    """Labels of a sigmoid: positives and negatives."""
    return {"label": rng.randint(2, size=shapes["label"])}


def _cosines(attrs, shapes, rng):
    """Cosines, as between embeddings and the centres of classes."""
    return {"data": rng.uniform(-0.9, 0.9, shapes["data"])}


_DRAWN = {"box_iou": _boxes, "gaussian_yolo_loss": _ground_truth, "iou_loss": _boxes,
          "margin_softmax_cross_entropy": _cosines, "region_loss": _ground_truth, "sigmoid_cross_entropy": _positives,
          "sigmoid_focal_loss": _positives, "yolo_loss": _ground_truth}
