"""The axes whose size is free in a written net, and inputs of other sizes with which it is compared."""
from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ...contract.errors import OpError
from ..graph import Entry
from ..model import ExportedModel
from ..operators import traits_of
from ..operators.normalization import channel_axis
from ..rules import Misfit
from ..sizes import Shapes, Sizes, free_shapes, with_batch
from ..symbolic import FreeSize, Size, free
from .converters import WHERE

FreeShapes = dict[str, tuple[Size, ...]]
# The batch and the images with which a net is compared with MXNet, if it takes them: larger ones take longer. Where
# smaller ones leave a batch norm fewer numbers, it divides by almost nothing, and doubles rounding differences.
BATCH, DENSE_BATCH, LEAST_IMAGE, LEAST_PIXELS = 2, 5, 40, 4
IMAGES = (12, 20, 40, 56, 80, 96, 112, 128, 144, 192)   # Nets that join scales take multiples of 32 or 64 only.
# Free images are up to 4 times as large. Where a net does not take these, such as one with a table of anchors, they are
# up to twice as large, or else smaller ones of multiples of 32 pixels.
LARGER, STRIDE = (4, 2), 32


# -- free sizes -------------------------------------------------------------------------------------------------------
def free_axes(model: ExportedModel, sizes: Sizes) -> dict[Entry, set[int]]:
    """The axes of each output whose size is free, or depends on one that is.

    These are the batch, and the sides of images and the lengths of sequences, as far as the shape rules take them.
    """
    parameters = {name: value.shape for name, value in model.parameters.items()}
    axes = {entry: set() for entry in sizes.shape}

    def takes(inputs: FreeShapes) -> bool:
        try:
            shapes = free_shapes(model.graph, parameters, inputs, sizes.shape)
        except Misfit:
            return False
        for entry, shape in shapes.items():
            axes[entry] |= {axis for axis, size in enumerate(shape) if isinstance(size, FreeSize)}
        return True

    batches = with_batch(model.inputs, lambda _: free("batch"))
    inputs = batches if takes(batches) else model.inputs
    for forms in (*_free_images(inputs), _free_boxes(inputs), *_free_lengths(inputs)):
        any(map(takes, forms))   # The first one that it takes counts.
    return axes


def _free_images(inputs: FreeShapes) -> Iterator[list[FreeShapes]]:
    """Images of another size with labels for them, and with the same labels: see ``LARGER``."""
    rank = max(map(len, inputs.values()))   # Images have so many dimensions, if there are any; labels have fewer.
    sides = {size for shape in inputs.values() if len(shape) == rank for size in shape[2:]}

    def of_images(resized: Callable[[int], Size]) -> FreeShapes:
        return {name: (*shape[:2], *map(resized, shape[2:])) for name, shape in inputs.items() if len(shape) == rank}

    def of_labels(resized: Callable[[int], Size]) -> FreeShapes:
        return {name: (*shape[:1], *(resized(size) if size in sides else size for size in shape[1:]))
                for name, shape in inputs.items() if len(shape) < rank}

    ways = [lambda size, most=most: size * free("images", most) for most in LARGER]
    if len(set(sides)) == 1 and max(sides) > STRIDE:
        ways.append(lambda size: STRIDE * free("images", size // STRIDE))
    if sides:
        yield [{**inputs, **of_images(way), **of_labels(way)} for way in ways]
        yield [{**inputs, **of_images(way)} for way in ways]


def _free_boxes(inputs: FreeShapes) -> list[FreeShapes]:
    """Another number of boxes as labels of images."""
    rank = max(map(len, inputs.values()))
    boxes = {name: (shape[0], free("boxes"), *shape[2:]) for name, shape in inputs.items() if len(shape) == 3 < rank}
    return [{**inputs, **boxes}] if boxes else []


def _free_lengths(inputs: FreeShapes) -> Iterator[list[FreeShapes]]:
    """Other lengths of sequences, all of them or each: shorter ones, or else longer ones."""
    lengths = tuple(dict.fromkeys(shape[1] for shape in inputs.values() if len(shape) > 1 and shape[1] > 2))
    for changed in dict.fromkeys([lengths, *((length,) for length in lengths)]):   # a mask may have one twice
        shorter = {length: free(f"length{length}", length) for length in changed}
        longer = {length: length * free(f"length{length}", max(LARGER)) for length in changed}
        yield [{name: (*shape[:1], *(others.get(size, size) for size in shape[1:])) for name, shape in inputs.items()}
               for others in (shorter, longer)]


# -- what is compared -------------------------------------------------------------------------------------------------
def compared_inputs(model: ExportedModel, sizes: Sizes) -> Shapes:
    """Shapes of the inputs that the net takes as well, with small images if possible."""
    graph, inputs = model.graph, model.inputs
    norms = [(node.inputs[0], channel_axis(node)) for node in graph.nodes() if traits_of(node).has_channel_numbers]
    slopes = [(node.inputs[0], 1) for node in graph.nodes() if node.op == "LeakyReLU" and len(node.inputs) > 1
              and sizes.shape[node.inputs[1]] != (1,)]
    has_dense_norms = any(np.prod(sizes.shape[entry][2:]) == 1 for entry, _ in norms)
    for other in _other_shapes(inputs, DENSE_BATCH if has_dense_norms else BATCH):
        try:
            shapes = Sizes(graph, other, model.parameters, model.metadata["dtype"], False, WHERE).shape
        except OpError:
            continue
        if any(shapes[entry][axis] != sizes.shape[entry][axis] for entry, axis in norms + slopes):
            continue   # MXNet does not check it
        if all(np.prod(shapes[entry][2:]) >= min(LEAST_PIXELS, np.prod(sizes.shape[entry][2:])) for entry, _ in norms):
            return other
    return inputs


def _other_shapes(inputs: Shapes, batch: int) -> Iterator[Shapes]:
    """Shapes with another batch and other sizes, with another batch alone, and with other sizes alone."""
    batches = with_batch(inputs, lambda size: batch if size != batch else batch + 1)
    yield from _other_sizes(batches)
    yield batches
    yield from _other_sizes(inputs)


def _other_sizes(inputs: Shapes) -> Iterator[Shapes]:
    """Shapes with small images, and with shorter sequences: with all of them, and with those of each length.

    A video has twice as many frames where its images are small: half as many may be too few.
    """
    rank = max(map(len, inputs.values()))   # Images have so many dimensions, if there are any; labels have fewer.
    images = [size for shape in inputs.values() if len(shape) == rank for size in shape[2:][-2:]]
    for size in IMAGES:
        if images and size >= min(LEAST_IMAGE, *images) and size not in images:   # else their axes would seem fixed
            small = {name: (*shape[:2], *[2 * frames for frames in shape[2:-2]], *[size for _ in shape[2:][-2:]])
                     for name, shape in inputs.items() if len(shape) == rank}
            labels = {name: _of_small_images(shape, images, size) for name, shape in inputs.items()
                      if name not in small}
            yield {**inputs, **small, **labels}
            if labels:
                yield {**inputs, **small}
    lengths = tuple(dict.fromkeys(shape[1] for shape in inputs.values() if len(shape) > 1 and shape[1] > 2))
    for changed in dict.fromkeys([lengths, *((length,) for length in lengths)]):   # a mask may have one twice
        yield {name: (*shape[:1], *[(old + 1) // 2 if old in changed else old for old in shape[1:]])
               for name, shape in inputs.items()}


def _of_small_images(shape: tuple[int, ...], images: list[int], size: int) -> tuple[int, ...]:
    """The shape of labels of images that get another size: of maps of their pixels, or of boxes, here one more."""
    sizes = [size if old in images else old for old in shape[1:]]
    if len(shape) == 3 and sizes == [*shape[1:]]:
        sizes[0] += 1
    return (*shape[:1], *sizes)
