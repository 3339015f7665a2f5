"""tile: two copies along one axis."""
from collections.abc import Iterator

import gluonops as gops

from ..declare import MOVES, ROUNDED, Case, Target, in_mxnet, in_numpy, in_torch, ours

TARGETS = (
    Target("tile", MOVES, "copyto", at_most=1.3),
    Target("tile", MOVES, "torch", faster=1),
    Target("tile", MOVES, "mxnet", faster=1),
)


def cases(quick: bool) -> Iterator[Case]:
    yield twice((1, 8, 28, 28) if quick else (64, 32, 52, 52), 1)
    yield twice((32, 50) if quick else (8192, 500), -1)


def twice(shape: tuple, axis: int) -> Case:
    counts = [1] * len(shape)
    counts[axis] = 2
    larger = tuple(size * count for size, count in zip(shape, counts))
    peers = (
        *ours("tile", lambda data: gops.ops.tile(data, 2, axis)),
        *in_mxnet("tile", shape, tiles=2, axis=axis),
        in_numpy("tile", tiles=2, axis=axis),
        in_torch("tile", len(shape), tiles=2, axis=axis),
    )
    return Case("tile", f"tile axis {axis}", shape, peers, larger, tolerance=ROUNDED)
