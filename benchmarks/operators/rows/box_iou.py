"""box_iou: anchors with the ground truth of an image."""
from collections.abc import Iterator

import gluonops as gops
import numpy as np
from gluonops.bench.cases import Case as Sizes
from gluonops.bench.cases import draw

from ..declare import ROUNDED, Case, Target, ours, torch_peer

OP = "box_iou"
GRID = 2.0 ** -15


def in_torch(torch, lhs, rhs):
    """As in torchvision, for a batch."""
    low = torch.max(lhs[..., :, None, :2], rhs[..., None, :, :2])
    high = torch.min(lhs[..., :, None, 2:], rhs[..., None, :, 2:])
    intersection = (high - low).clamp(min=0).prod(-1)
    lhs_area = (lhs[..., 2:] - lhs[..., :2]).prod(-1)
    rhs_area = (rhs[..., 2:] - rhs[..., :2]).prod(-1)
    return intersection / (lhs_area[..., :, None] + rhs_area[..., None, :] - intersection)


PEERS = (*ours(OP, gops.ops.box_iou), torch_peer(in_torch))
TARGETS = (
    Target(OP, ("forward", "both"), "builtin", faster=2),
    Target(OP, ("forward", "both"), "torch", faster=1.3),
)


def cases(quick: bool) -> Iterator[Case]:
    lhs, rhs = ((2, 30, 4), (2, 7, 4)) if quick else ((4, 8732, 4), (4, 50, 4))

    def inputs(rng: np.random.RandomState) -> list:
        """On grids that share no number, nor with halves of the first.

        torch divides the gradient between coordinates that are equal.
        """
        first, second = (np.round(boxes / GRID) for boxes in draw(Sizes(OP, {"lhs": lhs, "rhs": rhs}, {}), rng))
        return [first * GRID, (second + 0.25) * GRID]

    yield Case(OP, OP, lhs, PEERS, moved=(*lhs[:-1], rhs[-2]), draw=inputs, tolerance=ROUNDED, reference="builtin")
