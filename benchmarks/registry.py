"""What is measured: one row per case, and the targets. Nothing here measures.

A case is an operator at one shape with its peers. A peer is a function ``run(F, data)`` or ``run(F, data, label)`` with
F ``mx.nd``, ``mx.sym`` or torch, and that one function is what runs in a net, alone, and in the check of the results.
"""
import dataclasses
import math
import typing

import gluonops as gops
import numpy as np
from gluonops.bench import peers

NODES = 20            # operators in the chain that the cost of a node is taken from
WAYS = ("net", "alone")
PASSES = ("forward", "backward", "both")
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

    ``moved`` is the shape whose bytes ``numpy.copyto`` moves, the limit. ``nodes`` is how many operators ``run``
    chains; times are given for one. ``kind`` is case, node or sweep.
    """
    op: str
    name: str
    shape: tuple
    peers: tuple
    moved: tuple
    kind: str = "case"
    label: bool = False
    tolerance: float = EXACT
    nodes: int = 1
    ways: tuple = WAYS
    passes: tuple = PASSES
    dtype: str = "float32"
    reference: str = "numpy"

    @property
    def bytes(self):
        """What copyto moves."""
        return math.prod(self.moved) * np.dtype(self.dtype).itemsize


@dataclasses.dataclass(frozen=True)
class Target:
    """What is asked of our time.

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
    way: str = "net"
    kind: str = "case"


_MOVES = ("forward", "backward")
TARGETS = (
    Target("reorg", _MOVES, "copyto", at_most=1.5),
    Target("reorg", _MOVES, "space_to_depth", faster=15),
    Target("reorg", ("forward",), "identity", at_most=1.3, way="alone"),
    Target("reorg", ("forward",), "torch", faster=3, way="alone"),
    Target("softmax_cross_entropy", ("both",), "copyto", at_most=2.5),
    Target("softmax_cross_entropy", ("both",), "torch", faster=2),
    Target("softmax_cross_entropy", ("both",), "SoftmaxOutput", faster=10),
    Target("softmax_cross_entropy", ("both",), "numpy", faster=20),
    Target("softmax", ("forward",), "copyto", at_most=1.5),
    Target("softmax", ("forward",), "torch", faster=1),
    *(Target(op, _MOVES, than, **goal) for op in ("tile", "abs") for than, goal in (
        ("copyto", {"at_most": 1.3}), ("torch", {"faster": 1}), ("mxnet", {"faster": 1}))),
    *(target for op in ("abs", "reorg") for target in (
        Target(op, ("forward",), microseconds=8, kind="node"),
        Target(op, ("both",), microseconds=16, kind="node"),
        Target(op, ("forward", "both"), "custom", faster=5, kind="node"))),
    *(Target(op, ("forward",), slope=0.1, kind="sweep", way="alone")
      for op in ("reorg", "abs", "softmax", "softmax_cross_entropy")),
)


def _ours(function):
    """The three backends of a gluonops function, which takes NDArrays and Symbols alike."""
    return tuple(Peer(backend, lambda F, *inputs: function(*inputs), backend=backend)
                 for backend in ("native", "custom", "builtin"))


def _numpy(op, **attrs):
    return Peer("numpy", lambda F, *inputs: F.Custom(*inputs, op_type=f"numpy_{op}", **attrs))


def _torch(run):
    return Peer("torch", run, torch=True)


def _chain(run, times):
    def chained(F, data):
        for _ in range(times):
            data = run(F, data)
        return data
    return chained


def _mxnet(op, shape, **attrs):
    return tuple(Peer(name, run) for name, run in peers.peers(op, shape, **attrs).items())


def _reorg_peers(shape, mode, stride=2):
    """MXNet and torch each know one of the three layouts; the others cost them a permutation more."""
    batch, channels, height, width = shape
    larger = batch, channels * stride**2, height // stride, width // stride
    _, blocks, order = peers.reorg_blocks(shape, stride, mode)

    def torch_reorg(F, data):
        if mode == "CRD":
            return F.nn.functional.pixel_unshuffle(data, stride)
        return data.reshape(blocks).permute(order).reshape(larger)   # what pixel_unshuffle itself does

    return (*_ours(lambda data: gops.ops.reorg(data, stride, mode)), *_mxnet("reorg", shape, stride=stride, mode=mode),
            _numpy("reorg", stride=stride, mode=mode, reverse=False), _torch(torch_reorg))


def _reorg_case(shape, mode):
    return Case("reorg", f"reorg {mode}", shape, _reorg_peers(shape, mode), shape)


def _cross_entropy_peers():
    def probability_to_loss(output, label):
        return -np.log(output[np.arange(len(label)), label.astype(int)])

    return (*_ours(gops.ops.softmax_cross_entropy),
            Peer("SoftmaxOutput", lambda F, data, label: F.SoftmaxOutput(data, label), as_output=probability_to_loss),
            *_mxnet("softmax_cross_entropy", None), _numpy("softmax_cross_entropy"),
            _torch(lambda F, data, label: F.nn.functional.cross_entropy(data, label, reduction="none")))


def _softmax_peers():
    return (*_ours(gops.ops.softmax), *_mxnet("softmax", None), _numpy("softmax"),
            _torch(lambda F, data: F.softmax(data, -1)))


def _abs_peers():
    return (*_ours(gops.ops.abs), *_mxnet("abs", None), _numpy("abs"),
            _torch(lambda F, data: F.abs(data)))


def _tile_case(shape, axis):
    reps = [1] * len(shape)
    reps[axis] = 2
    ways = (*_ours(lambda data: gops.ops.tile(data, 2, axis)), *_mxnet("tile", shape, tiles=2, axis=axis),
            _numpy("tile", tiles=2, axis=axis), _torch(lambda F, data: F.tile(data, reps)))
    return Case("tile", f"tile axis {axis}", shape, ways, tuple(n * r for n, r in zip(shape, reps)), tolerance=ROUNDED)


def _node_cases():
    shape = (1, 64, 26, 26)   # 173 kB
    abs_peers = tuple(dataclasses.replace(peer, run=_chain(peer.run, NODES)) for peer in _abs_peers())

    def there_and_back(F, data):
        return gops.ops.reorg(gops.ops.reorg(data, 2, "DCR"), 2, "DCR", True)

    def s2d(F, data):
        return F.depth_to_space(F.space_to_depth(data, block_size=2), block_size=2)

    def in_numpy(F, data):
        for reverse in (False, True):
            data = F.Custom(data, op_type="numpy_reorg", stride=2, mode="DCR", reverse=reverse)
        return data

    pairs = (*_ours(lambda data: there_and_back(None, data)), Peer("space_to_depth", s2d), Peer("numpy", in_numpy))
    reorg_peers = tuple(dataclasses.replace(peer, run=_chain(peer.run, NODES // 2)) for peer in pairs)
    for op, ways in (("abs", abs_peers), ("reorg", reorg_peers)):
        yield Case(op, f"{op} per node", shape, ways, shape, kind="node", nodes=NODES, ways=("net",))


def _sweep_cases(quick):
    """1 MB to 1 GB, alone and forward; MXNet's own operator is the reference, for NumPy's CustomOp takes too long."""
    for power in range(2 if quick else 6):
        size = 4**power
        image, rows = (size, 64, 64, 64), (size * 256, 1024)
        for op, shape, every, reference, more in (
                ("reorg", image, _reorg_peers(image, "CRD"), "transpose", {}),
                ("abs", image, _abs_peers(), "mxnet", {}),
                ("softmax", rows, _softmax_peers(), "mxnet", {"tolerance": ROUNDED}),
                ("softmax_cross_entropy", rows, _cross_entropy_peers(), "gluon loss",
                 {"tolerance": ROUNDED, "label": True})):
            few = tuple(peer for peer in every if peer.name in ("native", "torch", reference))
            yield Case(op, f"{op} {size} MB", shape, few, shape, kind="sweep", ways=("alone",), passes=("forward",),
                       reference=reference, **more)


def cases(quick=False):
    """Every row.

    Parameters
    ----------
    quick : bool, default False
        Small shapes that say nothing about speed, to see that everything runs.

    Returns
    -------
    list of Case
    """
    images = [(1, 16, 28, 28)] if quick else [(16, 64, 76, 76), (64, 64, 52, 52)]
    halves = [(1, 8, 28, 28), (32, 50)] if quick else [(64, 32, 52, 52), (8192, 500)]
    rows = [(64, 100)] if quick else [(8192, 1000), (256, 32000)]
    return [
        *(_reorg_case(shape, mode) for shape in images for mode in ("darknet", "DCR", "CRD")),
        *(Case("softmax_cross_entropy", "softmax_cross_entropy", shape, _cross_entropy_peers(), shape, label=True,
               tolerance=ROUNDED) for shape in rows),
        *(Case("softmax_output", "softmax_output", shape, (
            *_ours(gops.ops.softmax_output), *_mxnet("softmax_output", shape), _numpy("softmax_output")), shape,
            label=True, tolerance=ROUNDED) for shape in rows[:1]),
        *(Case("softmax", "softmax", shape, _softmax_peers(), shape, tolerance=ROUNDED) for shape in rows),
        *(_tile_case(shape, 1 if len(shape) == 4 else -1) for shape in halves),
        *(Case("abs", "abs", shape, _abs_peers(), shape) for shape in (images[-1], rows[0])),
        *_node_cases(),
        *_sweep_cases(quick),
    ]
