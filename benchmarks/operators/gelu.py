"""gelu: of feature maps, element by element."""
from ..harness.cases import AS_FAST_AS_A_COPY, Row, always

TANH = {"approximation": "tanh"}
CPU = [Row((16, 64, 76, 76)), Row((16, 64, 76, 76), TANH)]

TYPICAL = SMALL = [Row((7, 149))]
VARIANTS = [Row((3, 5), TANH)]
GPU = [Row((256, 64, 64, 64)), Row((512, 64, 64, 64), dtype="float16"), Row((256, 64, 64, 64), TANH)]
GPU_TARGETS = AS_FAST_AS_A_COPY
independent = always


def in_torch(attrs, ndim):
    name = {"erf": "none", "tanh": "tanh"}[attrs["approximation"]]
    return lambda torch, data: torch.nn.functional.gelu(data, approximate=name)
