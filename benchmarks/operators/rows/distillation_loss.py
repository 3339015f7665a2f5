"""distillation_loss: of rows of classes, at the default temperature."""
from collections.abc import Iterator

import gluonops as gops
import numpy as np

from ..declare import ROUNDED, Case, Target, ours, rows, torch_peer

OP = "distillation_loss"
TEMPERATURE = 4
TARGETS = (
    Target(OP, ("both",), "builtin", faster=2),
    Target(OP, ("both",), "torch", faster=1.3),
)


def in_torch(torch, data, teacher):
    functional = torch.nn.functional
    log_q = functional.log_softmax(data / TEMPERATURE, -1)
    log_p = functional.log_softmax(teacher.detach() / TEMPERATURE, -1)
    return functional.kl_div(log_q, log_p, reduction="none", log_target=True).sum(-1) * TEMPERATURE ** 2


def cases(quick: bool) -> Iterator[Case]:
    shape = rows(quick)[0]

    def inputs(rng: np.random.RandomState) -> list:
        return [rng.standard_normal(shape) * 2, rng.standard_normal(shape) * 2]

    peers = (*ours(OP, gops.ops.distillation_loss), torch_peer(in_torch))
    yield Case(OP, OP, shape, peers, draw=inputs, tolerance=ROUNDED, reference="builtin")
