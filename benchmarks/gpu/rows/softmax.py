"""softmax: over rows of classes."""
from ..cases import Row, Target

# The first has a thread or a few for a row, the second a block, the last several blocks.
ROWS = [Row((37, 7)), Row((5, 1031)), Row((2, 40011))]
IMAGES = (4, 21, 512, 512)   # of which every pixel has a class
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
LARGE = SIZES
TARGETS = [Target("both", "copy", 0.85), Target("forward", "torch", 1), Target("both", "torch", 1)]


def independent(attrs: dict, ndim: int) -> bool:
    return attrs["axis"] % ndim != 0
