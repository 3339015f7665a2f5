"""sigmoid_cross_entropy: of rows of classes, each of them positive or not."""
from collections.abc import Iterator

import gluonops as gops
import numpy as np
from gluonops.bench.cases import Case as Sizes
from gluonops.bench.cases import draw

from ..declare import ROUNDED, Case, Target, ours, rows, torch_peer

OP = "sigmoid_cross_entropy"
TARGETS = (
    Target(OP, ("both",), "builtin", faster=2),
    Target(OP, ("both",), "torch", faster=1.3),
)


def in_torch(torch, data, label):
    return torch.nn.functional.binary_cross_entropy_with_logits(data, label, reduction="none")


def cases(quick: bool) -> Iterator[Case]:
    shape = rows(quick)[0]

    def inputs(rng: np.random.RandomState) -> list:
        data, label = draw(Sizes(OP, {"data": shape, "label": shape}, {}), rng)
        return [data, label.astype("float32")]   # torch refuses labels of another type

    peers = (*ours(OP, gops.ops.sigmoid_cross_entropy), torch_peer(in_torch))
    yield Case(OP, OP, shape, peers, draw=inputs, tolerance=ROUNDED, reference="builtin")
