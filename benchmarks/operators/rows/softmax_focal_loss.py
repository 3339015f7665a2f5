"""softmax_focal_loss: of rows of classes, with class indices."""
from collections.abc import Iterator

import gluonops as gops

from ..declare import ROUNDED, Case, Target, ours, rows, torch_peer

OP = "softmax_focal_loss"
TARGETS = (
    Target(OP, ("both",), "builtin", faster=2),
    Target(OP, ("both",), "torch", faster=1.3),
)


def in_torch(torch, data, label):
    """The usual composition: (1 - p)^2 times the cross-entropy."""
    nll = torch.nn.functional.cross_entropy(data, label.long(), reduction="none")
    return (1 - torch.exp(-nll)) ** 2 * nll


def cases(quick: bool) -> Iterator[Case]:
    peers = (*ours(OP, gops.ops.softmax_focal_loss), torch_peer(in_torch))
    for shape in rows(quick):
        yield Case(OP, OP, shape, peers, label=True, tolerance=ROUNDED, reference="builtin")
