"""margin_softmax_cross_entropy: ArcFace's and CosFace's margins, of few and of many classes."""
import math
from collections.abc import Iterator

import gluonops as gops
import numpy as np
from gluonops.bench.cases import Case as Sizes
from gluonops.bench.cases import draw

from ..declare import ROUNDED, Case, Peer, Target, ours, torch_peer

OP = "margin_softmax_cross_entropy"
SCALE = 64.0
MANY = 100000   # classes, for which our other backends take minutes
ARCFACE, COSFACE = {"m2": 0.5}, {"m2": 0.0, "m3": 0.35}


def in_mxnet(classes: int, m2: float = 0.0, m3: float = 0.0):
    """As in InsightFace's MXNet code: the difference that the margin makes, at the label's class; a line beyond pi."""
    def run(F, data, label):
        cosine = F.pick(data, label, axis=1, keepdims=True)
        within = F.cos(F.arccos(cosine) + m2)
        target = F.where(cosine > -math.cos(m2), within, cosine - m2 * math.sin(m2)) - m3
        difference = F.one_hot(label, depth=classes)
        logits = (data + F.broadcast_mul(difference, target - cosine)) * SCALE
        return -F.pick(F.log_softmax(logits, axis=1), label, axis=1)
    return Peer("mxnet", run)


def in_torch(m2: float = 0.0, m3: float = 0.0):
    """As in InsightFace's PyTorch code, with the derivative of the margin, and the line."""
    def run(torch, data, label):
        label = label.long()[:, None]
        cosine = data.gather(1, label)
        within = torch.cos(torch.acos(cosine) + m2)
        target = torch.where(cosine > -math.cos(m2), within, cosine - m2 * math.sin(m2)) - m3
        logits = data.scatter(1, label, target) * SCALE
        return torch.nn.functional.cross_entropy(logits, label[:, 0], reduction="none")
    return torch_peer(run)


TARGETS = (
    Target(OP, ("both",), "mxnet", faster=2),
    Target(OP, ("both",), "torch", faster=1.3),
)


def cases(quick: bool) -> Iterator[Case]:
    for shape in ((16, 100),) if quick else ((8192, 1000), (128, 100000)):
        for name, margins in (("arcface", ARCFACE), ("cosface", COSFACE)):
            def function(data, label, margins=margins):
                return gops.ops.margin_softmax_cross_entropy(data, label, scale=SCALE, **margins)

            def inputs(rng: np.random.RandomState, shape=shape) -> list:
                return draw(Sizes(OP, {"data": shape, "label": shape[:1]}, {}), rng)

            mine = ours(OP, function)
            if shape[1] >= MANY:
                mine = tuple(peer for peer in mine if peer.backend == "native")
            peers = (*mine, in_mxnet(shape[1], **margins), in_torch(**margins))
            yield Case(OP, f"{OP} {name}", shape, peers, draw=inputs, tolerance=ROUNDED, reference="mxnet")
