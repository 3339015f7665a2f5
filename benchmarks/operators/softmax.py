"""softmax: over rows of classes."""
import numpy as np

from ..harness.cases import Row, Target, unless_along_first

CPU = [Row((8192, 1000)), Row((256, 32000))]
AXIS_1 = [Row(shape, {"axis": 1}) for shape in ((16, 20, 64, 64), (16384, 20, 2), (2048, 20, 12))]
COMMITS = [*AXIS_1, Row((1024, 1000), dtype="float16")]
TARGETS = [Target("forward", "copy", 1 / 1.5), Target("forward", "torch", 1)]

# The first has a thread or a few for a row, the second a block, the last several blocks.
ROWS = [Row((37, 7)), Row((5, 1031)), Row((2, 40011))]
IMAGES = (4, 21, 512, 512)   # every pixel has a class
SIZES = [
    Row((8192, 1000)),
    Row((65536, 1000)),
    Row((65536, 1000), dtype="float16"),
    Row((1048576, 64)),
    Row((8192, 32000)),
    Row((8192, 32000), dtype="float16"),
    Row((64, 128256), dtype="float16"),
    Row((256, 131072)),
    Row((16, 1048576)),
    Row(IMAGES, {"axis": 1}),
    Row(IMAGES, {"axis": 1}, dtype="float16"),
]

TYPICAL = ROWS
SMALL = [Row((9, 33)), Row((2, 33001))]
VARIANTS = [
    Row((3, 5), {"temperature": 0.5, "axis": 0}),
    Row((2, 1031, 5), {"axis": 1}),
    Row((4, 5, 4096), {"axis": 1}),    # so many rows that each has one thread
    Row((2, 40, 8200), {"axis": 1}),   # or four
    Row((6, 1000)),                    # a warp
    Row((3, 9000)),                    # two parts
]
GPU = SIZES
GPU_TARGETS = [Target("both", "copy", 0.85), Target("forward", "torch", 1), Target("both", "torch", 1)]
independent = unless_along_first


def in_torch(attrs, ndim):
    return (lambda torch, data: torch.softmax(data, attrs["axis"])) if attrs["temperature"] == 1 else None


def in_numpy(attrs):
    def backward(head, data):
        output = probabilities(data)
        return (head - (head * output).sum(axis=-1, keepdims=True)) * output

    return probabilities, backward


def probabilities(data: np.ndarray) -> np.ndarray:
    """The softmax of rows in NumPy."""
    powers = np.exp(data - data.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def minus_one_hot(data: np.ndarray, label: np.ndarray) -> np.ndarray:
    """The gradient of the cross-entropy of rows in NumPy."""
    grad = probabilities(data)
    grad[np.arange(len(label)), label.astype(int)] -= 1
    return grad
