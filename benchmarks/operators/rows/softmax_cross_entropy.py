"""softmax_cross_entropy: of rows of classes, with class indices."""
from collections.abc import Iterator

import gluonops as gops
import numpy as np

from ..declare import (
    MOVES,
    ROUNDED,
    Case,
    Peer,
    Target,
    class_corners,
    in_mxnet,
    in_numpy,
    in_torch,
    ours,
    rows,
    rows_of_megabytes,
    sweep,
    sweep_target,
)

OP = "softmax_cross_entropy"


def loss_of_probabilities(output: np.ndarray, label: np.ndarray) -> np.ndarray:
    return -np.log(output[np.arange(len(label)), label.astype(int)])


PEERS = (
    *ours(OP, gops.ops.softmax_cross_entropy),
    Peer("SoftmaxOutput", lambda F, data, label: F.SoftmaxOutput(data, label), as_output=loss_of_probabilities),
    *in_mxnet(OP),
    in_numpy(OP),
    in_torch(OP),
)
TARGETS = (
    Target(OP, ("both",), "copyto", at_most=2.5),
    Target(OP, ("both",), "torch", faster=2),
    Target(OP, ("both",), "SoftmaxOutput", faster=10),
    Target(OP, ("both",), "numpy", faster=20),
    Target(OP, MOVES, "copyto", at_most=1.5, kind="corner"),
    sweep_target(OP),
)


def cases(quick: bool) -> Iterator[Case]:
    for shape in rows(quick):
        yield Case(OP, OP, shape, PEERS, label=True, tolerance=ROUNDED)
    yield from class_corners(OP, lambda data, label: gops.ops.softmax_cross_entropy(data, label, 1), quick, label=True)
    yield from sweep(OP, PEERS, rows_of_megabytes, "gluon loss", quick, label=True, tolerance=ROUNDED)
