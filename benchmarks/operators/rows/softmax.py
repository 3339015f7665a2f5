"""softmax: over rows of classes."""
from collections.abc import Iterator

import gluonops as gops

from ..declare import (
    MOVES,
    ROUNDED,
    Case,
    Target,
    class_corners,
    in_mxnet,
    in_numpy,
    in_torch,
    ours,
    rows,
    rows_of_megabytes,
    sweep,
    sweep_target,
)

PEERS = (*ours("softmax", gops.ops.softmax), *in_mxnet("softmax"), in_numpy("softmax"), in_torch("softmax"))
TARGETS = (
    Target("softmax", ("forward",), "copyto", at_most=1.5),
    Target("softmax", ("forward",), "torch", faster=1),
    Target("softmax", MOVES, "copyto", at_most=1.5, kind="corner"),
    sweep_target("softmax"),
)


def cases(quick: bool) -> Iterator[Case]:
    for shape in rows(quick):
        yield Case("softmax", "softmax", shape, PEERS, tolerance=ROUNDED)
    yield from class_corners("softmax", lambda data: gops.ops.softmax(data, 1), quick)
    yield from sweep("softmax", PEERS, rows_of_megabytes, "mxnet", quick, tolerance=ROUNDED)
