"""What is measured, who computes it, and the targets. Nothing here measures."""
from __future__ import annotations

import dataclasses

OURS, BESIDE, MXNET, ORT, TORCH = PEERS = (
    "gluonops", "gluonops, called in turn with torch", "MXNet", "onnxruntime", "torch")
LOADS = (0, 1, 2)   # busy processes for every core


@dataclasses.dataclass(frozen=True)
class Case:
    """One thing to compute.

    Attributes
    ----------
    name : str
        As the table has it.
    kind : {'operator', 'net', 'training'}
        What ``work.py`` makes of it.
    what : str
        The operator, or the network.
    shape : tuple of int
        Of the input.
    """
    name: str
    kind: str
    what: str
    shape: tuple[int, ...]

    @property
    def peers(self) -> tuple[str, ...]:
        """Who computes it. MXNet has no region detector of its own, and onnxruntime does not train."""
        return {"operator": PEERS, "net": (OURS, ORT, TORCH), "training": (OURS, TORCH)}[self.kind]


CASES = (
    Case("reorg, 23.7 MB", "operator", "reorg", (16, 64, 76, 76)),
    Case("softmax, 64 kB", "operator", "softmax", (16, 1000)),
    Case("softmax, 1 MB", "operator", "softmax", (256, 1000)),
    Case("tiny_yolov2, 416 x 416", "net", "tiny_yolov2", (1, 3, 416, 416)),
    Case("yolov2, 416 x 416", "net", "yolov2", (1, 3, 416, 416)),
    Case("darknet19, 224 x 224", "net", "darknet19", (1, 3, 224, 224)),
    Case("LeNet, a training step of 32", "training", "lenet_reorg", (32, 1, 28, 28)),
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


ALL = ("operator", "net", "training")
TARGETS = (
    Target(1.05, (OURS, 0, 50), (ORT, 0, 50), ("net",)),
    Target(2.5, (OURS, 1, 90), (OURS, 0, 50), ALL),
    Target(1, (OURS, 1, 90), (ORT, 1, 90), ALL),
    Target(1, (OURS, 1, 90), (TORCH, 1, 90), ALL),
    Target(1.5, (BESIDE, 0, 50), (OURS, 0, 50), ("operator",)),
)
