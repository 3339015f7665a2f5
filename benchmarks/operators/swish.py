"""swish: of feature maps, element by element."""
from ..harness.cases import AS_FAST_AS_A_COPY, Row, always

CPU = [Row((16, 64, 76, 76))]

TYPICAL = SMALL = [Row((7, 149))]
VARIANTS = [Row((3, 5), {"beta": 2.5})]
GPU = [Row((256, 64, 64, 64)), Row((512, 64, 64, 64), dtype="float16")]
GPU_TARGETS = AS_FAST_AS_A_COPY
independent = always


def in_torch(attrs, ndim):
    """torch has it with beta 1."""
    return (lambda torch, data: torch.nn.functional.silu(data)) if attrs["beta"] == 1 else None
