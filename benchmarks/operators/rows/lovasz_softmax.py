"""lovasz_softmax: of segmented images."""
from collections.abc import Iterator

import gluonops as gops
import numpy as np

from ..declare import ROUNDED, Case, Target, ours, torch_peer

OP = "lovasz_softmax"
TARGETS = (
    Target(OP, ("both",), "builtin", faster=2),
    Target(OP, ("both",), "torch", faster=1.3),
)


def lovasz_grad(torch, in_order):
    """Algorithm 1 of the paper."""
    total = in_order.sum()
    intersection = total - in_order.cumsum(0)
    union = total + (1 - in_order).cumsum(0)
    jaccard = 1 - intersection / union
    jaccard[1:] = jaccard[1:] - jaccard[:-1]
    return jaccard


def in_torch(torch, data, label):
    """As in the authors' code, behind a softmax."""
    p = torch.softmax(data, 1).transpose(0, 1).flatten(1)
    label = label.flatten().long()
    losses = []
    for c in range(len(p)):
        target = (label == c).to(p.dtype)
        if target.sum() == 0:
            continue
        errors, order = torch.sort((target - p[c]).abs(), 0, descending=True)
        losses.append(torch.dot(errors, lovasz_grad(torch, target[order])))
    return torch.stack(losses).mean().expand(len(data))


def cases(quick: bool) -> Iterator[Case]:
    shape = (2, 5, 12, 12) if quick else (2, 21, 128, 128)

    def inputs(rng: np.random.RandomState) -> list:
        return [rng.standard_normal(shape), rng.randint(0, shape[1], (shape[0], *shape[2:]))]

    peers = (*ours(OP, gops.ops.lovasz_softmax), torch_peer(in_torch))
    yield Case(OP, OP, shape, peers, draw=inputs, tolerance=ROUNDED, reference="builtin")
