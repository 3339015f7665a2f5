"""iou_loss: a number per box, of a feature map's anchors."""
from ..harness.cases import Row

EPS = 1e-7
KINDS = ("iou", "giou", "diou", "ciou")
CPU = [Row((16, 8732, 4), {"kind": "giou"}), Row((16, 8732, 4), {"kind": "ciou"})]

TYPICAL = [Row((37, 19, 4))]
SMALL = [Row((7, 4))]
VARIANTS = [Row((7, 4), {"kind": kind, "format": box_format}) for kind in KINDS for box_format in ("corner", "center")]
GPU = [Row((256, 8732, 4)), Row((256, 8732, 4), {"kind": "ciou"})]


def in_torch(attrs, ndim):
    functions = {"giou": giou, "ciou": ciou}
    return functions.get(attrs["kind"]) if attrs["format"] == "corner" else None


def intersection_and_union(torch, data, truth):
    """torchvision's composition."""
    low = torch.max(data[..., :2], truth[..., :2])
    high = torch.min(data[..., 2:], truth[..., 2:])
    intersection = (high - low).clamp(min=0).prod(-1)
    areas = (data[..., 2:] - data[..., :2]).prod(-1) + (truth[..., 2:] - truth[..., :2]).prod(-1)
    return intersection, areas - intersection


def hull_sides(torch, data, truth):
    return torch.max(data[..., 2:], truth[..., 2:]) - torch.min(data[..., :2], truth[..., :2])


def giou(torch, data, truth):
    intersection, union = intersection_and_union(torch, data, truth)
    hull = hull_sides(torch, data, truth).prod(-1)
    return 1 - intersection / (union + EPS) + (hull - union) / (hull + EPS)


def ciou(torch, data, truth):
    intersection, union = intersection_and_union(torch, data, truth)
    iou = intersection / (union + EPS)
    diagonal = (hull_sides(torch, data, truth) ** 2).sum(-1) + EPS
    distance = (data[..., :2] + data[..., 2:] - truth[..., :2] - truth[..., 2:]) / 2
    width, height = (data[..., 2:] - data[..., :2]).unbind(-1)
    truth_width, truth_height = (truth[..., 2:] - truth[..., :2]).unbind(-1)
    angles = torch.atan(truth_width / truth_height) - torch.atan(width / height)
    v = 4 / torch.pi ** 2 * angles ** 2
    with torch.no_grad():
        alpha = v / (1 - iou + v + EPS)
    return 1 - iou + (distance ** 2).sum(-1) / diagonal + alpha * v
