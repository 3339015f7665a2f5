"""dice_loss: of segmented images."""
from ..harness.cases import Row, Target

CPU = [Row((4, 21, 256, 256))]

TYPICAL = [Row((2, 3, 5, 7)), Row((1, 4, 1031))]
SMALL = [Row((3, 5, 33))]
VARIANTS = [Row((2, 4, 37), {"squared": False, "smooth": 1.0}), Row((2, 4, 37), {"ignore_label": 1}), Row((70, 3))]
GPU = [Row((4, 21, 512, 512)), Row((4, 21, 512, 512), dtype="float16")]
GPU_TARGETS = [Target("both", "copy", 0.85)]


def in_torch(attrs, ndim):
    """MONAI's composition."""
    def dice(torch, data, label):
        p = torch.softmax(data, 1)
        with torch.no_grad():
            target = torch.zeros_like(p).scatter_(1, label.unsqueeze(1), 1)
        intersection = (p * target).flatten(2).sum(-1)
        total = (p * p).flatten(2).sum(-1) + target.flatten(2).sum(-1)
        return 1 - (2 * intersection + attrs["smooth"]) / (total + attrs["smooth"])

    return dice if attrs["squared"] and attrs["ignore_label"] is None and ndim > 2 else None
