"""sigmoid_focal_loss: of rows of classes, as of an image's anchors."""
from ..harness.cases import Row, Target

CPU = [Row((8192, 1000))]

TYPICAL = SMALL = [Row((7, 149)), Row((3, 64))]
VARIANTS = [Row((9, 33), {"gamma": 1.5, "ignore_label": 1}), Row((9, 33), {"alpha": -1.0, "gamma": 0.0})]
GPU = [Row((65536, 1024)), Row((65536, 1024), dtype="float16")]
GPU_TARGETS = [Target("both", "copy", 0.85)]


def in_torch(attrs, ndim):
    """torchvision's composition."""
    alpha, gamma = attrs["alpha"], attrs["gamma"]

    def focal_loss(torch, data, label):
        p = torch.sigmoid(data)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(data, label, reduction="none")
        p_t = p * label + (1 - p) * (1 - label)
        return (alpha * label + (1 - alpha) * (1 - label)) * loss * (1 - p_t) ** gamma

    return focal_loss if alpha >= 0 and attrs["ignore_label"] is None else None
