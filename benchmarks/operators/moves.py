"""Operators that move their data."""
import numpy as np

from ..harness.declaration import AS_FAST_AS_A_COPY, Declaration, OfSamples, Row, Target

MODES = ("darknet", "DCR", "CRD")
PASSES = ("forward", "backward")


class abs(OfSamples):
    CPU = [Row((64, 64, 52, 52)), Row((8192, 1000))]
    CHAINED = [Row((1, 16, 16, 16))]
    COMMITS = [Row((32, 64, 26, 26), dtype="float16"), Row((32, 64, 26, 26), dtype="int8")]
    TARGETS = [
        *(Target(part, "copy", 1 / 1.3) for part in PASSES),
        *(Target(part, than, 1) for than in ("torch", "mxnet") for part in PASSES),
    ]
    TYPICAL = SMALL = [Row((7, 149))]
    GPU = [*(Row((size, 64, 64, 64)) for size in (64, 256)), Row((512, 64, 64, 64), dtype="float16")]
    GPU_TARGETS = AS_FAST_AS_A_COPY
    EXACT = ("output", "data_grad")

    def in_torch(self, attrs, ndim):
        return lambda torch, data: torch.abs(data)

    def in_numpy(self, attrs):
        return np.abs, lambda head, data: head * np.sign(data)


class reorg(OfSamples):
    """MXNet and torch each know one of the three layouts; the others cost them a permutation."""
    CPU = [Row(shape, {"mode": mode}) for shape in ((16, 64, 76, 76), (64, 64, 52, 52)) for mode in MODES]
    COMMITS = [
        Row((32, 256, 13, 13), {"reverse": True}),
        Row((32, 64, 24, 24), {"stride": 3, "mode": "DCR"}),
        Row((32, 64, 24, 24), {"stride": 4, "mode": "DCR"}),
        Row((32, 64, 26, 26), dtype="float16"),
    ]
    TARGETS = [
        *(Target(part, "copy", 1 / 1.5) for part in PASSES),
        *(Target(part, "space_to_depth", 15) for part in PASSES),
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
        *(Row((size, 64, 64, 64), {"mode": mode}) for size in (64, 256) for mode in MODES),
        *(Row((512, 64, 64, 64), {"mode": mode}, dtype="float16") for mode in ("darknet", "CRD")),
        Row((1024, 64, 64, 64), {"mode": "CRD"}, dtype="uint8"),
        Row((512, 64, 26, 26), {"mode": "darknet"}),   # YOLOv2's
    ]
    GPU_TARGETS = AS_FAST_AS_A_COPY
    EXACT = ("output", "data_grad")

    def in_torch(self, attrs, ndim):
        def permuted(torch, data):
            output, blocks, order = layout(attrs, data.shape)
            return data.reshape(blocks).permute(order).reshape(output)

        def unshuffled(torch, data):
            return torch.nn.functional.pixel_unshuffle(data, attrs["stride"])

        if attrs["reverse"]:
            return None
        return unshuffled if attrs["mode"] == "CRD" else permuted

    def in_numpy(self, attrs):
        def forward(data):
            output, blocks, order = layout(attrs, data.shape)
            return data.reshape(blocks).transpose(order).reshape(output)

        def backward(head, data):
            _, blocks, order = layout(attrs, data.shape)
            moved = head.reshape([blocks[axis] for axis in order])
            return moved.transpose(np.argsort(order)).reshape(data.shape)

        return forward, backward


def layout(attrs: dict, shape: tuple) -> tuple[tuple, tuple, tuple]:
    """The shape of reorg's output, and the shape and the order of axes by which reshape and transpose make it."""
    stride = attrs["stride"]
    batch, channels, height, width = shape
    output = batch, channels * stride**2, height // stride, width // stride
    if attrs["mode"] == "darknet":   # reads the memory as a larger image of fewer channels
        channels, height, width = channels // stride**2, height * stride, width * stride
    blocks = batch, channels, height // stride, stride, width // stride, stride
    return output, blocks, (0, 1, 3, 5, 2, 4) if attrs["mode"] == "CRD" else (0, 3, 5, 1, 2, 4)


class tile(Declaration):
    CPU = [Row((64, 32, 52, 52), {"tiles": 2, "axis": 1}), Row((8192, 500), {"tiles": 2})]
    COMMITS = [
        Row((32, 64, 26, 26), {"tiles": 2}),
        Row((32, 64, 26, 26), {"tiles": 2, "axis": 2}),
        Row((100000, 4), {"tiles": 3}),
        Row((100000, 2), {"tiles": (3, 2)}),
        Row((50000, 3), {"tiles": (2, 2)}),
        *(Row((32, 64, 26, 26), {"tiles": 2}, dtype=dtype) for dtype in ("float16", "float64", "int8")),
    ]
    TARGETS = abs.TARGETS
    TYPICAL = [
        Row((7, 13), {"tiles": 3}),
        Row((5, 3, 7), {"tiles": 2, "axis": 1}),
        Row((1, 48), {"tiles": 300, "axis": 0}),   # threads share the copies
    ]
    SMALL = [Row((7, 13), {"tiles": 3})]
    VARIANTS = [
        Row((2, 3, 2, 5), {"tiles": (2, 1, 3, 1)}),
        Row((2, 3, 2, 8), {"tiles": (2, 1, 3, 1)}),
        Row((1, 100), {"tiles": 3000, "axis": 0}),   # several blocks share the copies
    ]
    GPU = [
        *(Row((size, 64, 64, 64), {"tiles": 2, "axis": axis}) for size in (64, 256) for axis in (1, -1)),
        Row((1, 1000), {"tiles": 65536, "axis": 0}),
        Row((1 << 22, 7), {"tiles": 3}),
        *(Row((512, 64, 64, 64), {"tiles": 2, "axis": axis}, dtype="float16") for axis in (1, -1)),
    ]
    GPU_TARGETS = AS_FAST_AS_A_COPY
    EXACT = ("output",)

    def independent(self, attrs, ndim):
        return isinstance(attrs["tiles"], int) and attrs["axis"] % ndim != 0

    def in_torch(self, attrs, ndim):
        if not isinstance(attrs["tiles"], int):
            return None
        counts = [1] * ndim
        counts[attrs["axis"]] = attrs["tiles"]
        return lambda torch, data: torch.tile(data, counts)

    def in_numpy(self, attrs):
        """Along one axis."""
        tiles, axis = attrs["tiles"], attrs["axis"]

        def backward(head, data):
            split = axis % data.ndim
            return head.reshape(*data.shape[:split], tiles, *data.shape[split:]).sum(axis=split)

        return lambda data: np.concatenate([data] * tiles, axis), backward
