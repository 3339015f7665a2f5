"""rms_norm: over rows, with a scale."""
from ..harness.cases import Row, Target

CPU = [Row((8192, 1000))]

# A thread or a few for a row, a block, and slices of the samples.
TYPICAL = [Row((37, 8)), Row((5, 1031)), Row((300, 64))]
SMALL = [Row((9, 33)), Row((130, 24))]
VARIANTS = [Row((3, 5, 2, 7), {"axis": 1}), Row((300, 5), {"axis": 0})]
GPU = [Row((8192, 1024)), Row((8192, 8192)), Row((65536, 1024), dtype="float16")]
GPU_TARGETS = [Target("both", "copy", 0.85)]


def in_torch(attrs, ndim):
    """torch normalizes over the last axes."""
    def rms_norm(torch, data, scale):
        return torch.nn.functional.rms_norm(data, data.shape[-1:], scale, attrs["eps"])

    return rms_norm if attrs["axis"] % ndim == ndim - 1 else None
