"""abs: moves its data."""
from collections.abc import Iterator

import gluonops as gops

from ..declare import (
    MOVES,
    NODES,
    Case,
    Target,
    call,
    call_target,
    image_of_megabytes,
    images,
    in_mxnet,
    in_numpy,
    in_torch,
    node,
    node_targets,
    ours,
    rows,
    sweep,
    sweep_target,
)

PEERS = (*ours("abs", gops.ops.abs), *in_mxnet("abs"), in_numpy("abs"), in_torch("abs"))
TARGETS = (
    Target("abs", MOVES, "copyto", at_most=1.3),
    Target("abs", MOVES, "torch", faster=1),
    Target("abs", MOVES, "mxnet", faster=1),
    call_target("abs"),
    *node_targets("abs"),
    sweep_target("abs"),
)


def cases(quick: bool) -> Iterator[Case]:
    for shape in (images(quick)[-1], rows(quick)[0]):
        yield Case("abs", "abs", shape, PEERS)
    yield call("abs", PEERS)
    yield node("abs", [peer for peer in PEERS if not peer.torch], NODES)
    yield from sweep("abs", PEERS, image_of_megabytes, "mxnet", quick)
