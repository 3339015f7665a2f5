"""dice_loss: of segmented images."""
from collections.abc import Iterator

import gluonops as gops
import numpy as np

from ..declare import ROUNDED, Case, Target, ours, torch_peer

OP = "dice_loss"
SMOOTH = 1e-5
TARGETS = (
    Target(OP, ("both",), "builtin", faster=2),
    Target(OP, ("both",), "torch", faster=1.3),
)


def in_torch(torch, data, label):
    """As in MONAI."""
    p = torch.softmax(data, 1)
    with torch.no_grad():
        target = torch.zeros_like(p).scatter_(1, label.long().unsqueeze(1), 1)
    intersection = (p * target).flatten(2).sum(-1)
    total = (p * p).flatten(2).sum(-1) + target.flatten(2).sum(-1)
    return 1 - (2 * intersection + SMOOTH) / (total + SMOOTH)


def cases(quick: bool) -> Iterator[Case]:
    shape = (2, 5, 20, 20) if quick else (4, 21, 256, 256)

    def inputs(rng: np.random.RandomState) -> list:
        return [rng.standard_normal(shape), rng.randint(0, shape[1], (shape[0], *shape[2:]))]

    peers = (*ours(OP, gops.ops.dice_loss), torch_peer(in_torch))
    yield Case(OP, OP, shape, peers, draw=inputs, tolerance=ROUNDED, reference="builtin")
