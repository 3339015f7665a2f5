"""reorg: moves its data. MXNet and torch each know one of the three layouts; the others cost them a permutation."""
from collections.abc import Iterator

import gluonops as gops
from gluonops.bench.peers import reorg_blocks

from ..declare import (
    MOVES,
    NODES,
    Case,
    Peer,
    Target,
    image_of_megabytes,
    images,
    in_mxnet,
    in_numpy,
    in_torch,
    node,
    node_targets,
    ours,
    sweep,
    sweep_target,
    torch_peer,
)

STRIDE = 2   # of Darknet's networks
TARGETS = (
    Target("reorg", MOVES, "copyto", at_most=1.5),
    Target("reorg", MOVES, "space_to_depth", faster=15),
    Target("reorg", ("forward",), "identity", at_most=1.3, mode="alone"),
    Target("reorg", ("forward",), "torch", faster=3, mode="alone"),
    Target("reorg", MOVES, "copyto", at_most=1.5, kind="corner"),
    *node_targets("reorg"),
    sweep_target("reorg"),
)


def cases(quick: bool) -> Iterator[Case]:
    for shape in images(quick):
        for layout in ("darknet", "DCR", "CRD"):
            yield Case("reorg", f"reorg {layout}", shape, peers(shape, layout))
    for stride in (3, 4):
        shape = (1, 16, 24, 24) if quick else (16, 64, 72, 72)
        yield Case("reorg", f"reorg stride {stride}", shape, peers(shape, "DCR", stride), kind="corner")
    yield node("reorg", there_and_back(), NODES // 2)
    yield from sweep("reorg", lambda shape: peers(shape, "CRD"), image_of_megabytes, "transpose", quick)


def peers(shape: tuple, layout: str, stride: int = STRIDE) -> tuple:
    batch, channels, height, width = shape
    larger = batch, channels * stride**2, height // stride, width // stride
    _, blocks, order = reorg_blocks(shape, stride, layout)

    def permuted(torch, data):
        """What pixel_unshuffle itself does, for the layouts that torch has no function for."""
        return data.reshape(blocks).permute(order).reshape(larger)

    attrs = {"stride": stride, "mode": layout}
    return (
        *ours("reorg", lambda data: gops.ops.reorg(data, stride, layout)),
        *in_mxnet("reorg", shape, **attrs),
        in_numpy("reorg", **attrs, reverse=False),
        in_torch("reorg", len(shape), **attrs) if layout == "CRD" else torch_peer(permuted),
    )


def there_and_back() -> tuple:
    """Peers of two operators, whose output has the shape of their input."""
    def gluonops_pair(data):
        return gops.ops.reorg(gops.ops.reorg(data, STRIDE, "DCR"), STRIDE, "DCR", True)

    def mxnet_pair(F, data):
        return F.depth_to_space(F.space_to_depth(data, block_size=STRIDE), block_size=STRIDE)

    def numpy_pair(F, data):
        for reverse in (False, True):
            data = F.Custom(data, op_type="numpy_reorg", stride=STRIDE, mode="DCR", reverse=reverse)
        return data

    return *ours("reorg", gluonops_pair), Peer("space_to_depth", mxnet_pair), Peer("numpy", numpy_pair)
