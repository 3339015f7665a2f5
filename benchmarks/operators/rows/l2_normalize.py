"""l2_normalize: over the channels, with a scale."""
from collections.abc import Iterator

import gluonops as gops
import numpy as np

from ..declare import ROUNDED, Case, Target, images, ours, torch_peer

OP = "l2_normalize"
TARGETS = (
    Target(OP, ("both",), "builtin", faster=2),
    Target(OP, ("both",), "torch", faster=1.3),
)


def in_torch(torch, data, scale):
    return torch.nn.functional.normalize(data, dim=1) * scale[:, None, None]


def cases(quick: bool) -> Iterator[Case]:
    shape = images(quick)[0]

    def inputs(rng: np.random.RandomState) -> list:
        return [rng.standard_normal(shape), rng.uniform(0.5, 1.5, shape[1])]

    peers = (*ours(OP, gops.ops.l2_normalize), torch_peer(in_torch))
    yield Case(OP, OP, shape, peers, draw=inputs, tolerance=ROUNDED, reference="builtin")
