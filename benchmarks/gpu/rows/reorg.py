"""reorg: moves its data."""
from ..cases import AS_FAST_AS_A_COPY, Row

MODES = ("darknet", "DCR", "CRD")
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
LARGE = [
    *(Row((size, 64, 64, 64), {"mode": mode}) for size in (64, 256, 1024) for mode in MODES),
    *(Row((512, 64, 64, 64), {"mode": mode}, dtype="float16") for mode in ("darknet", "CRD")),
    Row((1024, 64, 64, 64), {"mode": "CRD"}, dtype="uint8"),
    Row((512, 64, 26, 26), {"mode": "darknet"}),   # YOLOv2's
]
EXACT = ("output", "data_grad")
TARGETS = AS_FAST_AS_A_COPY


def independent(attrs: dict, ndim: int) -> bool:
    return True
