"""softmax_output: Module's loss head."""
from collections.abc import Iterator

import gluonops as gops

from ..declare import ROUNDED, Case, in_mxnet, in_numpy, ours, rows

PEERS = (*ours("softmax_output", gops.ops.softmax_output), *in_mxnet("softmax_output"), in_numpy("softmax_output"))


def cases(quick: bool) -> Iterator[Case]:
    yield Case("softmax_output", "softmax_output", rows(quick)[0], PEERS, label=True, tolerance=ROUNDED)
