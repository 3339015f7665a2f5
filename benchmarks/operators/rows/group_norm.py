"""group_norm: of feature maps, in 32 groups."""
from collections.abc import Iterator

import gluonops as gops
import numpy as np

from ..declare import ROUNDED, Case, Target, images, ours, torch_peer

OP = "group_norm"
GROUPS = 32
TARGETS = (
    Target(OP, ("both",), "builtin", faster=2),
    Target(OP, ("both",), "torch", faster=1.3),
)


def in_torch(torch, data, gamma, beta):
    return torch.nn.functional.group_norm(data, GROUPS, gamma, beta)


def cases(quick: bool) -> Iterator[Case]:
    batch, channels, *places = images(quick)[0]
    shape = (batch, -(-channels // GROUPS) * GROUPS, *places)

    def inputs(rng: np.random.RandomState) -> list:
        return [rng.standard_normal(shape), rng.uniform(0.5, 1.5, shape[1]), rng.standard_normal(shape[1])]

    peers = (*ours(OP, gops.ops.group_norm), torch_peer(in_torch))
    yield Case(OP, OP, shape, peers, draw=inputs, tolerance=ROUNDED, reference="builtin")
