"""gelu: of feature maps."""
from collections.abc import Iterator

import gluonops as gops

from ..declare import ROUNDED, Case, Target, images, in_mxnet, in_torch, ours

OP = "gelu"
PEERS = (*ours(OP, gops.ops.gelu), *in_mxnet(OP), in_torch(OP))
TARGETS = (
    Target(OP, ("both",), "builtin", faster=2),
    Target(OP, ("both",), "torch", faster=1.3),
)


def tanh(data):
    return gops.ops.gelu(data, "tanh")


def cases(quick: bool) -> Iterator[Case]:
    for shape in images(quick)[:1]:
        yield Case(OP, OP, shape, PEERS, tolerance=ROUNDED, reference="builtin")
        yield Case(OP, "gelu tanh", shape, (*ours(OP, tanh), in_torch(OP, approximation="tanh")), tolerance=ROUNDED,
                   reference="builtin")
