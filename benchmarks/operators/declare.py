"""The words in which rows are written: cases, peers and targets.

A peer is a function ``run(F, data, ...)`` with F ``mx.nd``, ``mx.sym`` or torch. That one function is what runs in a
net, alone, and in the check of the results.
"""
import dataclasses
import math
import typing

import numpy as np
from gluonops.bench import peers as mxnet_peers
from gluonops.core import registry

from ..common import torch_peers

NODES = 64            # operators in the chain that the cost of a node is taken from
KINDS = ("case", "corner", "call", "node", "sweep")
MODES = ("net", "alone")
PASSES = ("forward", "backward", "both")
MOVES = ("forward", "backward")
EXACT, ROUNDED = 0.0, 1e-4   # of an element's value


@dataclasses.dataclass(frozen=True)
class Peer:
    """One way to compute a case.

    ``backend`` is the gluonops backend it runs with, ``torch`` whether it takes torch's tensors. ``as_output`` turns
    its output into what the other peers put out; it is only given where they differ.
    """
    name: str
    run: typing.Callable
    backend: typing.Optional[str] = None
    torch: bool = False
    as_output: typing.Optional[typing.Callable] = None


@dataclasses.dataclass(frozen=True)
class Case:
    """One row: an operator at a shape.

    ``moved`` is the shape whose bytes ``numpy.copyto`` moves, the limit; that of the data unless given. ``nodes`` is
    how many operators ``run`` chains; times are given for one. ``kind`` is one of KINDS; a corner is
    a case that is used less often, and a call is so small that nothing but the call counts. ``label``: whether a
    class index for every row follows the data. ``draw(rng)`` gives all inputs in NumPy instead, the data first.
    """
    op: str
    name: str
    shape: tuple
    peers: tuple
    moved: typing.Optional[tuple] = None
    kind: str = "case"
    label: bool = False
    draw: typing.Optional[typing.Callable] = None
    tolerance: float = EXACT
    nodes: int = 1
    modes: tuple = MODES
    passes: tuple = PASSES
    dtype: str = "float32"
    reference: str = "numpy"

    @property
    def copied(self) -> tuple:
        """The shape that copyto copies."""
        return self.shape if self.moved is None else self.moved

    @property
    def bytes(self) -> int:
        """What copyto moves."""
        return math.prod(self.copied) * np.dtype(self.dtype).itemsize


@dataclasses.dataclass(frozen=True)
class Target:
    """A requirement on our time.

    ``at_most``: of our time over the peer's; ``faster``: of the peer's over ours; ``microseconds``: of our time;
    ``slope``: of the logarithm of time over that of size, which is 1 where time is linear: within this much of 1.
    """
    op: str
    passes: tuple
    than: str = ""
    at_most: float = math.nan
    faster: float = math.nan
    microseconds: float = math.nan
    slope: float = math.nan
    mode: str = "net"
    kind: str = "case"


def ours(op: str, function: typing.Callable) -> tuple:
    """A gluonops function, which takes NDArrays and Symbols alike, in each backend that the operator has."""
    backends = ["native", "custom", "builtin"]
    if not (registry.get(op).folder / "kernel.cc").exists():
        backends.remove("native")
    return tuple(Peer(backend, lambda F, *inputs: function(*inputs), backend=backend) for backend in backends)


def in_numpy(op: str, **attrs) -> Peer:
    """The CustomOp ``numpy_<op>`` of :mod:`benchmarks.operators.numpy_ops`."""
    return Peer("numpy", lambda F, *inputs: F.Custom(*inputs, op_type=f"numpy_{op}", **attrs))


def in_torch(op: str, ndim: int = 2, **attrs) -> Peer:
    """torch's function of :mod:`benchmarks.common.torch_peers`."""
    typed = registry.get(op).op.parse(attrs)
    return torch_peer(torch_peers.function(op, typed._asdict(), ndim))


def torch_peer(run: typing.Callable) -> Peer:
    """``run(torch, data, ...)``."""
    return Peer("torch", run, torch=True)


def in_mxnet(op: str, shape: typing.Optional[tuple] = None, **attrs) -> tuple:
    """MXNet's own operators that compute the same."""
    return tuple(Peer(name, run) for name, run in mxnet_peers.peers(op, shape, **attrs).items())


def chained(peer: Peer, times: int) -> Peer:
    """A peer that calls itself on its output, so many times."""
    def run(F, data):
        for _ in range(times):
            data = peer.run(F, data)
        return data

    return dataclasses.replace(peer, run=run)


def node(op: str, peers: typing.Iterable[Peer], calls: int) -> Case:
    """The cost of a node: NODES operators on 16 kB, where ``calls`` calls of a peer make so many."""
    shape = (1, 16, 16, 16)
    chains = tuple(chained(peer, calls) for peer in peers)
    return Case(op, f"{op} per node", shape, chains, kind="node", nodes=NODES, modes=("net",))


def node_targets(op: str) -> tuple:
    return (Target(op, ("forward",), microseconds=4, kind="node"),
            Target(op, ("both",), microseconds=10, kind="node"),
            Target(op, ("forward", "both"), "custom", faster=5, kind="node"))


def class_corners(op: str, function: typing.Callable, quick: bool, label: bool = False) -> typing.Iterator[Case]:
    """Classes on an inner axis that few numbers follow, each beside rows of as many classes on the last axis.

    All have as many elements. ``function(data, ...)`` has the classes on axis 1.
    """
    elements = 40_000 if quick else 4_000_000
    for classes, inner in ((10, 1), (10, 2), (100, 1), (100, 2), (1000, 1), (1000, 2), (1000, 15)):
        batch = elements // (classes * inner)
        shape = (batch, classes) if inner == 1 else (batch, classes, inner)
        own = tuple(peer for peer in ours(op, function) if peer.name != "custom")
        peers = (*own, in_torch(op, len(shape), axis=1))
        yield Case(op, f"{op} axis 1", shape, peers, kind="corner", draw=_draw_classes(shape, label), modes=("net",),
                   tolerance=ROUNDED, reference="builtin")


def _draw_classes(shape: tuple, label: bool) -> typing.Callable:
    """Draws data, and perhaps a class id for every row along axis 1."""
    def draw(rng: np.random.RandomState) -> list:
        data = rng.standard_normal(shape).astype("float32")
        rows = (shape[0], *shape[2:])
        return [data, rng.randint(shape[1], size=rows)] if label else [data]

    return draw


def call(op: str, peers: typing.Iterable[Peer], tolerance: float = EXACT) -> Case:
    """The cost of a call: an operator on 512 bytes."""
    return Case(op, f"{op} per call", (8, 16), tuple(peers), kind="call", modes=("alone",), tolerance=tolerance)


def call_target(op: str) -> Target:
    return Target(op, ("forward", "both"), "mxnet", at_most=1.2, kind="call", mode="alone")


def sweep(op: str, peers: typing.Iterable[Peer], shape: typing.Callable, reference: str, quick: bool,
          **more) -> typing.Iterator[Case]:
    """Time against size, 1 MB to 1 GB: ``shape(megabytes)`` of the data.

    Alone and forward, ours, torch's and the reference: MXNet's own operator, for NumPy's CustomOp takes too long.
    """
    for power in range(2 if quick else 6):
        size = 4**power
        made = peers(shape(size)) if callable(peers) else peers
        few = tuple(peer for peer in made if peer.name in ("native", "torch", reference))
        yield Case(op, f"{op} {size} MB", shape(size), few, kind="sweep", modes=("alone",), passes=("forward",),
                   reference=reference, **more)


def sweep_target(op: str) -> Target:
    return Target(op, ("forward",), slope=0.1, kind="sweep", mode="alone")


def images(quick: bool) -> list:
    """Shapes of feature maps."""
    return [(1, 16, 28, 28)] if quick else [(16, 64, 76, 76), (64, 64, 52, 52)]


def rows(quick: bool) -> list:
    """Shapes of rows of classes."""
    return [(64, 100)] if quick else [(8192, 1000), (256, 32000)]


def image_of_megabytes(size: int) -> tuple:
    return size, 64, 64, 64


def rows_of_megabytes(size: int) -> tuple:
    return size * 256, 1024
