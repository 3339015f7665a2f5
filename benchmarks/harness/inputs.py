"""The inputs of an operator: those that its declaration or its oracle draws, class indices, or random numbers."""
from __future__ import annotations

import math
import types
from collections.abc import Iterable

import numpy as np

from . import suites
from .cases import declared

PERIOD = 8388593   # a prime: large tensors repeat so many random numbers, out of step with every row


def draw(op: str, attrs: dict, arrays: dict, classes: dict, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Inputs by name, the same in every process, as far as ``names`` asks for them and in its order.

    ``attrs``: all. ``arrays``: name -> (shape, dtype). ``classes``: input of class indices -> how many there are.
    """
    rng, attrs = np.random.RandomState(0), types.SimpleNamespace(**attrs)
    shapes = {name: tuple(arrays[name][0]) for name in names if name in arrays}
    oracles = suites.from_tests("oracles")
    oracle = oracles.get(op)
    drawn = oracle.draw(attrs, shapes, rng) if hasattr(oracle, "draw") else {}
    drawn.update(declared(op).draw(attrs, shapes, rng))
    inputs = {}
    for name in shapes:
        shape, dtype = arrays[name]
        if name in drawn:
            inputs[name] = drawn[name].astype(dtype)
        elif name in classes:
            ignored = getattr(attrs, "ignore_label", None)
            inputs[name] = oracles.draw_labels(rng, shape, classes[name], ignored).astype(dtype)
        elif np.dtype(dtype).kind != "f":
            inputs[name] = rng.randint(0 if dtype == "uint8" else -100, 100, shape).astype(dtype)
        else:
            inputs[name] = np.resize(rng.standard_normal(min(math.prod(shape), PERIOD)).astype(dtype), shape)
    return inputs


def of_case(case) -> dict[str, np.ndarray]:
    """The inputs of a case in the contract's order, class indices in int64; needs gluonops."""
    from gluonops.contract import registry

    op = registry.get(case.op).op
    attrs = op.parse(case.attrs)
    shapes = op.infer_shape(attrs, {op.inputs[0].name: case.shape, **case.more})
    variables, classes = op.type_vars(attrs), op.index_sizes(attrs, shapes)
    arrays = {}
    for arg in op.inputs:
        dtype = case.dtype if variables[arg.name] == "T" else "float32"
        arrays[arg.name] = shapes[arg.name], "int64" if arg.name in classes else dtype
    return draw(case.op, attrs._asdict(), arrays, classes, arrays)
