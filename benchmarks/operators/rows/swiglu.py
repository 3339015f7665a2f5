"""swiglu: of rows, and of the channels of feature maps."""
from collections.abc import Iterator

import gluonops as gops

from ..declare import ROUNDED, Case, Target, images, in_torch, ours, rows

OP = "swiglu"
TARGETS = (
    Target(OP, ("both",), "builtin", faster=2),
    Target(OP, ("both",), "torch", faster=1.3),
)


def cases(quick: bool) -> Iterator[Case]:
    for axis, shape in ((-1, rows(quick)[0]), (1, images(quick)[0])):
        def function(data, axis=axis):
            return gops.ops.swiglu(data, axis=axis)

        peers = (*ours(OP, function), in_torch(OP, axis=axis))
        yield Case(OP, f"swiglu axis {axis}", shape, peers, tolerance=ROUNDED, reference="builtin")
