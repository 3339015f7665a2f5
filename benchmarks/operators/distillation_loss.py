"""distillation_loss: of rows of classes, which are those of softmax."""
from ..harness.cases import Row, Target, unless_along_first

CPU = [Row((8192, 1000))]

# A few threads for a row, a block.
TYPICAL = [Row((37, 7)), Row((5, 1031))]
SMALL = [Row((9, 33))]
VARIANTS = [Row((3, 5, 7), {"axis": 1, "temperature": 1.0}), Row((2, 5, 8200), {"axis": 1})]
GPU = [Row((8192, 1000)), Row((65536, 1000), dtype="float16"), Row((8192, 32000))]
GPU_TARGETS = [Target("both", "copy", 0.85)]
independent = unless_along_first


def in_torch(attrs, ndim):
    axis, temperature = attrs["axis"], attrs["temperature"]

    def distillation(torch, data, teacher):
        functional = torch.nn.functional
        log_q = functional.log_softmax(data / temperature, axis)
        log_p = functional.log_softmax(teacher.detach() / temperature, axis)
        return functional.kl_div(log_q, log_p, reduction="none", log_target=True).sum(axis) * temperature ** 2

    return distillation
