"""mish: of feature maps."""
from collections.abc import Iterator

import gluonops as gops

from ..declare import ROUNDED, Case, Target, images, in_torch, ours

OP = "mish"
PEERS = (*ours(OP, gops.ops.mish), in_torch(OP))
TARGETS = (
    Target(OP, ("both",), "builtin", faster=2),
    Target(OP, ("both",), "torch", faster=1.3),
)


def cases(quick: bool) -> Iterator[Case]:
    for shape in images(quick)[:1]:
        yield Case(OP, OP, shape, PEERS, tolerance=ROUNDED, reference="builtin")
