"""What is measured, who computes it, and the targets. Nothing here measures."""
from __future__ import annotations

import dataclasses

OURS, BESIDE, AFTER_COPY, MXNET, ORT, TORCH, COMPILED = PEERS = (
    "gluonops", "gluonops, called in turn with torch", "gluonops, called in turn with a copy", "MXNet", "onnxruntime",
    "torch", "torch.compile")
ARITHMETIC = "arithmetic"   # no peer: what the machine leaves to any of them
LOADS = (0, 1, 2)   # busy processes for every core
READY = "ready"     # a peer's process says so when it has called its peer once


@dataclasses.dataclass(frozen=True)
class Case:
    """One thing to compute.

    Attributes
    ----------
    name : str
        As the table has it.
    kind : {'operator', 'call', 'net', 'training', 'detector', 'arithmetic'}
        What ``work.py`` makes of it. ``call`` is an operator on so few numbers that only the call takes time.
        ``detector`` is a training step too, of a net with batch norms and region loss.
        ``arithmetic`` uses no memory: see ``arithmetic.py``.
    what : str
        The operator, or the network.
    shape : tuple of int
        Of the input. For ``arithmetic``, the milliseconds, and the number of layers if its threads wait after each.
    """
    name: str
    kind: str
    what: str
    shape: tuple[int, ...]

    @property
    def peers(self) -> tuple[str, ...]:
        """Who computes it. MXNet has no region detector of its own, and onnxruntime does not train."""
        return PEERS_OF[self.kind]


PEERS_OF = {
    "operator": (OURS, BESIDE, AFTER_COPY, MXNET, ORT, TORCH),
    "call": (OURS, MXNET, ORT, TORCH),
    "net": (OURS, ORT, TORCH),
    "training": (OURS, TORCH),
    "detector": (OURS, TORCH, COMPILED),
    "arithmetic": (ARITHMETIC,),
}


CASES = (
    Case("reorg, 23.7 MB", "operator", "reorg", (16, 64, 76, 76)),
    Case("softmax, 64 kB", "operator", "softmax", (16, 1000)),
    Case("softmax, 1 MB", "operator", "softmax", (256, 1000)),
    Case("abs, 16 numbers", "call", "abs", (16,)),
    Case("tiny_yolov2, 416 x 416", "net", "tiny_yolov2", (1, 3, 416, 416)),
    Case("yolov2, 416 x 416", "net", "yolov2", (1, 3, 416, 416)),
    Case("darknet19, 224 x 224", "net", "darknet19", (1, 3, 224, 224)),
    Case("LeNet, a training step of 32", "training", "lenet", (32, 1, 28, 28)),
    Case("LeNet of 16 and 48 channels, a training step of 32", "training", "lenet16", (32, 1, 28, 28)),
    Case("tiny_yolov2, a training step of 8 x 128 x 128", "detector", "tiny_yolov2", (8, 3, 128, 128)),
    Case("tiny_yolov2, a training step of 4 x 416 x 416", "detector", "tiny_yolov2", (4, 3, 416, 416)),
    Case("default detector, a training step of 16 x 192 x 192", "detector", "half of tiny_yolov2", (16, 3, 192, 192)),
    Case("arithmetic, 1 ms", "arithmetic", ARITHMETIC, (1,)),
    Case("arithmetic, 10 ms", "arithmetic", ARITHMETIC, (10,)),
    Case("arithmetic, 40 ms", "arithmetic", ARITHMETIC, (40,)),
    Case("arithmetic, 150 ms", "arithmetic", ARITHMETIC, (150,)),
    Case("arithmetic, 7 ms in 35 layers", "arithmetic", ARITHMETIC, (7, 35)),
    Case("arithmetic, 14 ms in 35 layers", "arithmetic", ARITHMETIC, (14, 35)),
    Case("arithmetic, 10 ms in 30 layers", "arithmetic", ARITHMETIC, (10, 30)),
    Case("arithmetic, 30 ms in 26 layers", "arithmetic", ARITHMETIC, (30, 26)),
    Case("arithmetic, 40 ms in 15 layers", "arithmetic", ARITHMETIC, (40, 15)),
    Case("arithmetic, 90 ms in 100 layers", "arithmetic", ARITHMETIC, (90, 100)),
    Case("arithmetic, 150 ms in 31 layers", "arithmetic", ARITHMETIC, (150, 31)),
)


@dataclasses.dataclass(frozen=True)
class Target:
    """A bound of one figure of ours over another figure.

    ``ours`` and ``other`` are (peer, load, percentile).
    """
    at_most: float
    ours: tuple[str, int, int]
    other: tuple[str, int, int]
    kinds: tuple[str, ...]


LENETS = {"lenet": (20, 50), "lenet16": (16, 48)}   # channels of the first two convolutions, and of the third
ALL = ("operator", "net", "training", "detector")
TARGETS = (
    Target(1.05, (OURS, 0, 50), (ORT, 0, 50), ("net",)),
    Target(2.5, (OURS, 1, 90), (OURS, 0, 50), ALL),
    Target(1, (OURS, 1, 90), (ORT, 1, 90), ALL),
    Target(1, (OURS, 1, 90), (TORCH, 1, 90), ALL),
    Target(0.77, (OURS, 0, 50), (TORCH, 0, 50), ("detector",)),   # 1.3 times as fast
    Target(1.5, (BESIDE, 0, 50), (OURS, 0, 50), ("operator",)),
)
