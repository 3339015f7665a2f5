"""iou_loss: of boxes of a feature map's anchors."""
from collections.abc import Iterator

import gluonops as gops
import numpy as np
from gluonops.bench.cases import Case as Sizes
from gluonops.bench.cases import draw

from ..declare import ROUNDED, Case, Target, ours, torch_peer

OP = "iou_loss"
EPS = 1e-7


def intersection_and_union(torch, data, truth):
    """As in torchvision."""
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


TORCH = {"giou": giou, "ciou": ciou}
TARGETS = (
    Target(OP, ("both",), "builtin", faster=2),
    Target(OP, ("both",), "torch", faster=1.3),
)


def cases(quick: bool) -> Iterator[Case]:
    shape = (2, 50, 4) if quick else (16, 8732, 4)
    for kind, in_torch in TORCH.items():
        def function(data, truth, kind=kind):
            return gops.ops.iou_loss(data, truth, kind=kind)

        def inputs(rng: np.random.RandomState) -> list:
            return draw(Sizes(OP, {"data": shape, "truth": shape}, {}), rng)

        yield Case(OP, f"{OP} {kind}", shape, (*ours(OP, function), torch_peer(in_torch)), draw=inputs,
                   tolerance=ROUNDED, reference="builtin")
