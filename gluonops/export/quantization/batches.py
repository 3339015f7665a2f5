"""Calibration data as users have it, as batches by the names of a net's inputs."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import mxnet as mx
import numpy as np

from ...contract.errors import OpError, plural
from ..model import ExportedModel
from .running import Batch

WHERE = "export.quantize"
IMAGES = 4   # A batch that is cut has so many: every tensor of the net is in memory at once.
HELD_OUT = 5   # every fifth batch, where none are given


def as_arrays(what: str, data: Any, size: int | None = None) -> list[dict[str | None, np.ndarray]]:
    """Batches out of an array or an iterable of batches, cut into batches of a few images.

    An array holds examples along its first axis. Of a tuple, as a DataLoader with labels gives, the first is taken. A
    dict has the inputs by name. The name is None for what is not a dict.

    ``what``: the argument, for errors. ``size``: the only batch size that the net takes. What is left of a batch that
    is cut is then left out.
    """
    if isinstance(data, (np.ndarray, mx.nd.NDArray, dict)):
        data = [data]
    if not isinstance(data, Iterable) or isinstance(data, str):
        raise OpError(WHERE, f"{what} is {type(data).__name__}; expected an array or batches",
                      "Pass for instance a DataLoader, or images as an array (N, 3, height, width)")
    pieces = []
    for batch in data:
        batch = batch[0] if isinstance(batch, (tuple, list)) else batch
        arrays = batch if isinstance(batch, dict) else {None: batch}
        arrays = {name: _array(what, value) for name, value in arrays.items()}
        count, step = min(map(len, arrays.values())), size or IMAGES
        starts = range(0, count if size is None or count < size else count - size + 1, step)
        pieces += [{name: array[first:first + step] for name, array in arrays.items()} for first in starts]
    if not pieces:
        raise OpError(WHERE, f"{what} has no examples",
                      "Pass a few dozen examples that are like those the net will see")
    return pieces


def _array(what, value):
    value = value.asnumpy() if isinstance(value, mx.nd.NDArray) else value
    if not isinstance(value, np.ndarray) or not value.ndim:
        raise OpError(WHERE, f"{what} has a batch that is {type(value).__name__}; expected an array",
                      "Pass arrays of NumPy or MXNet, examples along the first axis")
    return value


def split(batches: list, held_out: Any, size: int | None = None) -> tuple[list, list]:
    """The batches to calibrate with, and those to check with: every fifth one unless others are given.

    ``size``: as in :func:`as_arrays`.
    """
    if held_out is not None:
        return batches, as_arrays("held_out", held_out, size)
    if len(batches) < 2:
        most = 2 * size - 1 if size else IMAGES
        count = sum(len(next(iter(batch.values()))) for batch in batches)
        raise OpError(WHERE, f"calibration has {plural(count, 'example')}; expected more than {most}, to hold some out",
                      "Pass more examples, or others as held_out")
    chosen = set(range(len(batches) - 1, -1, -HELD_OUT))
    return ([batch for i, batch in enumerate(batches) if i not in chosen],
            [batch for i, batch in enumerate(batches) if i in chosen])


def named(batches: list, model: ExportedModel) -> list[Batch]:
    """The batches as a model takes them: by the names of its inputs, and in its type."""
    names = [name for name in model.graph.variables() if name not in model.parameters]
    taken = []
    for batch in batches:
        if None in batch and len(names) == 1:
            batch = {names[0]: batch[None]}
        missing = [name for name in names if name not in batch]
        if missing:
            raise OpError(WHERE, f"a batch has no data for the input {missing[0]!r}",
                          "Pass dicts of arrays by the names of the inputs")
        taken.append({name: mx.nd.array(batch[name], dtype=model.metadata["dtype"]) for name in names})
    return taken
