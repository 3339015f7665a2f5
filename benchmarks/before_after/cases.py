"""What is measured: an operator, the shapes and dtypes of its inputs, and its attributes.

A case is data alone. So one process draws its inputs, and the processes of either commit read them.
"""
from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterable, Iterator

import gluonops as gops
import numpy as np
from gluonops.bench.cases import typical
from gluonops.core import registry
from gluonops.ops._region.contract import VOC_ANCHORS

from ..common import suites

VOC = {"anchors": VOC_ANCHORS, "classes": 20}


@dataclasses.dataclass(frozen=True)
class Row:
    """The shape of the data, attributes, and the shapes of inputs that do not follow from the data's."""
    shape: tuple
    attrs: dict = dataclasses.field(default_factory=dict)
    more: dict = dataclasses.field(default_factory=dict)
    dtype: str = "float32"


ROWS = {
    "abs": [
        Row((32, 64, 26, 26)),
        Row((32, 64, 26, 26), dtype="float16"),
        Row((32, 64, 26, 26), dtype="int8"),
    ],
    "center_loss": [
        Row((256, 128), more={"centers": (1000, 128)}),
    ],
    "region_decode": [
        Row((16, 125, 13, 13), VOC),
        Row((16, 125, 13, 13), {**VOC, "layout": "map"}),
    ],
    "region_loss": [
        Row((16, 125, 13, 13), VOC, {"truth": (16, 30, 5)}),
        Row((16, 125, 13, 13), {**VOC, "warmup_images": 0}, {"truth": (16, 30, 5)}),
        Row((16, 125, 13, 13), VOC, {"truth": (16, 30, 5)}, dtype="float64"),
    ],
    "gaussian_yolo_loss": [
        Row((16, 57, 13, 13), {"classes": 10}, {"truth": (16, 30, 5)}),
    ],
    "yolo_loss": [
        Row((16, 255, 13, 13), {}, {"truth": (16, 30, 5)}),
        Row((16, 255, 13, 13), {"dialect": "alexeyab", "box_loss": "ciou", "iou_thresh": 0.213},
            {"truth": (16, 30, 5)}),
    ],
    "reorg": [
        Row((32, 64, 26, 26)),
        Row((32, 64, 26, 26), {"mode": "DCR"}),
        Row((32, 64, 26, 26), {"mode": "CRD"}),
        Row((32, 256, 13, 13), {"reverse": True}),
        Row((32, 64, 24, 24), {"stride": 3, "mode": "DCR"}),
        Row((32, 64, 24, 24), {"stride": 4, "mode": "DCR"}),
        Row((32, 64, 26, 26), dtype="float16"),
    ],
    "softmax": [
        Row((1024, 1000)),
        Row((16, 20, 64, 64), {"axis": 1}),
        Row((16384, 20, 2), {"axis": 1}),
        Row((2048, 20, 12), {"axis": 1}),
        Row((1024, 1000), dtype="float16"),
    ],
    "softmax_cross_entropy": [
        Row((1024, 1000)),
        Row((16, 20, 64, 64), {"axis": 1}),
        Row((16384, 20, 2), {"axis": 1}),
        Row((2048, 20, 12), {"axis": 1}),
        Row((1024, 1000), {"smoothing": 0.1}),
        Row((1024, 1000), dtype="float16"),
    ],
    "softmax_output": [
        Row((1024, 1000)),
        Row((16, 20, 64, 64), {"axis": 1}),
        Row((16384, 20, 2), {"axis": 1}),
        Row((2048, 20, 12), {"axis": 1}),
        Row((1024, 1000), dtype="float16"),
    ],
    "tile": [
        Row((32, 64, 26, 26), {"tiles": 2}),
        Row((32, 64, 26, 26), {"tiles": 2, "axis": 1}),
        Row((32, 64, 26, 26), {"tiles": 2, "axis": 2}),
        Row((100000, 4), {"tiles": 3}),
        Row((100000, 2), {"tiles": (3, 2)}),
        Row((50000, 3), {"tiles": (2, 2)}),
        Row((32, 64, 26, 26), {"tiles": 2}, dtype="float16"),
        Row((32, 64, 26, 26), {"tiles": 2}, dtype="float64"),
        Row((32, 64, 26, 26), {"tiles": 2}, dtype="int8"),
    ],
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A row with the shapes of all inputs, in the order of the function's arguments."""
    op: str
    shapes: tuple
    attrs: dict
    dtype: str

    @property
    def name(self) -> str:
        """The operator, the shape of the data, the attributes, and the dtype unless it is float32."""
        words = [self.op, "x".join(map(str, self.shapes[0]))]
        words += [f"{key}={value}" for key, value in self.attrs.items() if key not in VOC]
        if self.dtype != "float32":
            words.append(self.dtype)
        return " ".join(words)

    def draw(self, folder: pathlib.Path) -> None:
        """Write the inputs into a folder: ``0.npy``, ``1.npy`` and so on."""
        suite = suites.get(self.op)
        sized = type(suite.cases[0])("drawn", self.shapes, self.attrs)
        arrays = suite().draw(sized, self.dtype, np.random.RandomState(0))
        folder.mkdir(parents=True)
        for i, array in enumerate(arrays):
            np.save(folder / f"{i}.npy", array)


def cases(ops: Iterable[str] | None = None) -> list[Case]:
    """The cases of some operators, or of all."""
    wanted = gops.ops.list() if ops is None else ops
    return [case for op in wanted for case in of_operator(op)]


def of_operator(op: str) -> Iterator[Case]:
    """The first case of the operator's suite, whose time is the cost of a call, and its rows.

    An operator without rows has a case of a typical size as well.
    """
    first = suites.get(op).cases[0]
    yield Case(op, first.shapes, dict(first.attrs), "float32")

    if op not in ROWS:
        larger = typical(op)
        yield Case(op, tuple(larger.shapes.values()), larger.attrs, "float32")
    for row in ROWS.get(op, ()):
        yield Case(op, input_shapes(op, row), row.attrs, row.dtype)


def input_shapes(op: str, row: Row) -> tuple:
    """The shape of every input; those that a row lacks follow from its data's."""
    contract = registry.get(op).op
    given = {contract.inputs[0].name: row.shape, **row.more}
    shapes = contract.infer_shape(contract.parse(row.attrs), given)
    return tuple(tuple(shapes[arg.name]) for arg in contract.inputs)
