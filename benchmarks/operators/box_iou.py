"""box_iou: every box of one set with every box of another, as anchors with the ground truth of an image."""
from ..harness.cases import Row

CPU = [Row((4, 8732, 4), more={"rhs": (4, 50, 4)})]

TYPICAL = [Row((2, 19, 4), more={"rhs": (2, 37, 4)})]
SMALL = [Row((3, 4), more={"rhs": (5, 4)})]
VARIANTS = [Row((2, 9, 4), {"format": "center"}, {"rhs": (2, 7, 4)})]
GPU = [Row((32, 8732, 4), more={"rhs": (32, 50, 4)})]


def in_torch(attrs, ndim):
    """torchvision's composition, for a batch."""
    def box_iou(torch, lhs, rhs):
        low = torch.max(lhs[..., :, None, :2], rhs[..., None, :, :2])
        high = torch.min(lhs[..., :, None, 2:], rhs[..., None, :, 2:])
        intersection = (high - low).clamp(min=0).prod(-1)
        lhs_area = (lhs[..., 2:] - lhs[..., :2]).prod(-1)
        rhs_area = (rhs[..., 2:] - rhs[..., :2]).prod(-1)
        return intersection / (lhs_area[..., :, None] + rhs_area[..., None, :] - intersection)

    return box_iou if attrs["format"] == "corner" else None
