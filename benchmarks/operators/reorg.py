"""reorg: moves its data. MXNet and torch each know one of the three layouts; the others cost them a permutation."""
import numpy as np

from ..harness.cases import AS_FAST_AS_A_COPY, Row, Target, always

MODES = ("darknet", "DCR", "CRD")
CPU = [Row(shape, {"mode": mode}) for shape in ((16, 64, 76, 76), (64, 64, 52, 52)) for mode in MODES]
COMMITS = [
    Row((32, 256, 13, 13), {"reverse": True}),
    Row((32, 64, 24, 24), {"stride": 3, "mode": "DCR"}),
    Row((32, 64, 24, 24), {"stride": 4, "mode": "DCR"}),
    Row((32, 64, 26, 26), dtype="float16"),
]
TARGETS = [
    *(Target(part, "copy", 1 / 1.5) for part in ("forward", "backward")),
    *(Target(part, "space_to_depth", 15) for part in ("forward", "backward")),
    Target("forward", "torch", 3),
]

TYPICAL = [
    *(Row((3, 4, 6, 10), {"mode": mode}) for mode in MODES),
    Row((1, 8, 4, 514), {"mode": "CRD"}),
    Row((2, 9, 9, 6), {"stride": 3, "mode": "DCR"}),
]
SMALL = [Row((2, 4, 6, 10), {"mode": "darknet"})]
INTEGERS = [Row((2, 4, 6, 10), {"mode": "CRD"}), Row((2, 4, 6, 32), {"mode": "CRD"})]
VARIANTS = [
    Row((2, 8, 3, 5), {"mode": "darknet", "reverse": True, "stride": 2}),
    Row((1, 8, 3, 32), {"mode": "DCR", "reverse": True, "stride": 2}),
    Row((2, 4, 8, 64), {"mode": "CRD", "stride": 4}),
    Row((1, 32, 2, 16), {"mode": "CRD", "stride": 4, "reverse": True}),
    Row((2, 18, 3, 5), {"mode": "CRD", "reverse": True, "stride": 3}),
    Row((1, 1, 70, 140), {"stride": 70, "mode": "DCR"}),   # a cell larger than a block's share
]
GPU = [
    *(Row((size, 64, 64, 64), {"mode": mode}) for size in (64, 256, 1024) for mode in MODES),
    *(Row((512, 64, 64, 64), {"mode": mode}, dtype="float16") for mode in ("darknet", "CRD")),
    Row((1024, 64, 64, 64), {"mode": "CRD"}, dtype="uint8"),
    Row((512, 64, 26, 26), {"mode": "darknet"}),   # YOLOv2's
]
GPU_TARGETS = AS_FAST_AS_A_COPY
EXACT = ("output", "data_grad")
independent = always


def in_torch(attrs, ndim):
    if attrs["reverse"]:
        return None
    if attrs["mode"] == "CRD":
        return lambda torch, data: torch.nn.functional.pixel_unshuffle(data, attrs["stride"])

    def permuted(torch, data):
        output, blocks, order = layout(attrs, data.shape)
        return data.reshape(blocks).permute(order).reshape(output)

    return permuted


def in_numpy(attrs):
    def forward(data):
        output, blocks, order = layout(attrs, data.shape)
        return data.reshape(blocks).transpose(order).reshape(output)

    def backward(head, data):
        _, blocks, order = layout(attrs, data.shape)
        moved = head.reshape([blocks[axis] for axis in order])
        return moved.transpose(np.argsort(order)).reshape(data.shape)

    return forward, backward


def layout(attrs, shape):
    """The shape of the output, and the shape and the order of axes by which reshape and transpose make it."""
    stride = attrs["stride"]
    batch, channels, height, width = shape
    output = batch, channels * stride**2, height // stride, width // stride
    if attrs["mode"] == "darknet":   # reads the memory as a larger image of fewer channels
        channels, height, width = channels // stride**2, height * stride, width * stride
    blocks = batch, channels, height // stride, stride, width // stride, stride
    return output, blocks, (0, 1, 3, 5, 2, 4) if attrs["mode"] == "CRD" else (0, 3, 5, 1, 2, 4)
