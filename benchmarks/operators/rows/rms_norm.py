"""rms_norm: over the last axis, with a scale."""
from collections.abc import Iterator

import gluonops as gops
import numpy as np

from ..declare import ROUNDED, Case, Target, ours, rows, torch_peer

OP = "rms_norm"
TARGETS = (
    Target(OP, ("both",), "builtin", faster=2),
    Target(OP, ("both",), "torch", faster=1.3),
)


def in_torch(torch, data, scale):
    return torch.nn.functional.rms_norm(data, data.shape[-1:], scale, 1e-6)


def cases(quick: bool) -> Iterator[Case]:
    shape = rows(quick)[0]

    def inputs(rng: np.random.RandomState) -> list:
        return [rng.standard_normal(shape), rng.uniform(0.5, 1.5, shape[-1])]

    peers = (*ours(OP, gops.ops.rms_norm), torch_peer(in_torch))
    yield Case(OP, OP, shape, peers, draw=inputs, tolerance=ROUNDED, reference="builtin")
