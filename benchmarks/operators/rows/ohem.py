"""ohem: of the losses of a segmentation's places, of which a tenth is ignored."""
from collections.abc import Iterator

import gluonops as gops
import numpy as np

from ..declare import ROUNDED, Case, Target, ours, torch_peer

OP = "ohem"
TARGETS = (
    Target(OP, ("both",), "builtin", faster=2),
    Target(OP, ("both",), "torch", faster=1.3),
)


def in_torch(torch, data):
    """The usual composition: topk, and a mask of what it has chosen."""
    flat = data.flatten()
    number = int(torch.ceil(0.25 * (flat != 0).sum()))
    _, places = flat.detach().topk(number, sorted=False)
    mask = torch.zeros_like(flat)
    mask[places] = 1
    return (flat * mask).view_as(data)


def cases(quick: bool) -> Iterator[Case]:
    shape = (2, 20, 20) if quick else (4, 512, 512)

    def inputs(rng: np.random.RandomState) -> list:
        return [rng.gamma(1, 1, shape) * (rng.rand(*shape) > 0.1)]

    yield Case(OP, OP, shape, (*ours(OP, gops.ops.ohem), torch_peer(in_torch)), draw=inputs, tolerance=ROUNDED,
               reference="builtin")
