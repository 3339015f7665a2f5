"""swiglu: element by element of two halves, of rows and of the channels of feature maps."""
from ..harness.cases import Row, Target, unless_along_first

CPU = [Row((8192, 1000)), Row((16, 64, 76, 76), {"axis": 1})]

TYPICAL = SMALL = [Row((7, 2 * 149)), Row((3, 64))]
VARIANTS = [Row((2, 6, 5, 3), {"axis": 1}), Row((2, 6, 4, 4), {"axis": 1})]
GPU = [Row((65536, 2048)), Row((65536, 2048), dtype="float16"), Row((64, 128, 64, 64), {"axis": 1})]
GPU_TARGETS = [Target("forward", "torch", 1), Target("both", "torch", 1)]
independent = unless_along_first


def in_torch(attrs, ndim):
    def swiglu(torch, data):
        gate, value = data.chunk(2, attrs["axis"])
        return torch.nn.functional.silu(gate) * value

    return swiglu
