"""tile: two copies along one axis; and copies along two short axes."""
from collections.abc import Iterator

import gluonops as gops

from ..declare import MOVES, ROUNDED, Case, Peer, Target, in_mxnet, in_numpy, in_torch, ours, torch_peer

TARGETS = (
    Target("tile", MOVES, "copyto", at_most=1.3),
    Target("tile", MOVES, "torch", faster=1),
    Target("tile", MOVES, "mxnet", faster=1),
    Target("tile", MOVES, "copyto", at_most=1.5, kind="corner"),
)


def cases(quick: bool) -> Iterator[Case]:
    yield twice((1, 8, 28, 28) if quick else (64, 32, 52, 52), 1)
    yield twice((32, 50) if quick else (8192, 500), -1)
    for last_axes, counts in (((3, 2), (1, 3, 2)), ((2, 2), (1, 2, 2)), ((20, 2), (1, 3, 2))):
        yield short_axes((50 if quick else 100_000, *last_axes), counts)


def short_axes(shape: tuple, counts: tuple) -> Case:
    """Both last axes are short, and are repeated."""
    larger = tuple(size * count for size, count in zip(shape, counts))
    peers = (
        *(peer for peer in ours("tile", lambda data: gops.ops.tile(data, counts)) if peer.name != "custom"),
        Peer("mxnet", lambda F, data: F.tile(data, reps=counts)),
        torch_peer(lambda torch, data: torch.tile(data, counts)),
    )
    return Case("tile", f"tile {counts}", shape, peers, larger, kind="corner", modes=("net",), tolerance=ROUNDED,
                reference="builtin")


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
