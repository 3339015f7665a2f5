"""Times a case: checks every peer's results first, then calls the peers in turn, so that noise hits all alike."""
from __future__ import annotations

import contextlib
import dataclasses
import gc
import math
from collections.abc import Callable

import gluonops as gops
import mxnet as mx
import numpy as np
from gluonops.bench import peers as mxnet_peers
from gluonops.bench.timing import MXNet, differs, give_back, head, interleaved, now, summary
from gluonops.core import native, registry
from mxnet import gluon

from ..harness import inputs
from ..harness.cases import Case, declared
from ..harness.machine import threads
from .numpy_peer import peer as numpy_peer

try:
    import torch

    torch.set_num_threads(threads())
except ImportError:
    torch = None

BACKENDS = ("native", "custom", "builtin")
PASSES = ("forward", "backward", "both")
TOLERANCE = 1e-4            # a share of an element's value
ONLY_GRADIENT = {"SoftmaxOutput"}   # peers whose output is another one
# So many calls in a row of one peer of a chain; the last one is timed. The first ones find the processors asleep, and
# the caches full of what the peer before has left.
STRETCH = 8


@dataclasses.dataclass(frozen=True)
class Peer:
    """One way to compute a case: ``run(F, *inputs)`` with F ``mx.nd``, ``mx.sym`` or torch."""
    name: str
    run: Callable
    backend: str | None = None

    @property
    def in_torch(self) -> bool:
        return self.name == "torch"

    @property
    def scope(self) -> Callable:
        return (lambda: gops.backend(self.backend)) if self.backend else contextlib.nullcontext


def peers_of(case: Case) -> list[Peer]:
    """Our backends, MXNet's own operators, a CustomOp in NumPy, and torch, as far as each has the operator."""
    found, attrs = declared(case.op), registry.get(case.op).op.parse(case.attrs)._asdict()
    wanted = found.backends(case.shape) if found.backends else None
    function = getattr(gops.ops, case.op)
    runs = {"numpy": numpy_peer(case.op, case.attrs)}
    if found.in_torch:
        runs["torch"] = found.in_torch(attrs, len(case.shape))
    of_mxnet = mxnet_peers.peers(case.op, case.shape, **case.attrs)
    if found.in_mxnet:
        of_mxnet = {**found.in_mxnet(attrs, case.shape), **of_mxnet}
    ours = [Peer(backend, lambda F, *arrays: function(*arrays, **case.attrs), backend)
            for backend in wanted or BACKENDS]
    others = [Peer(name, run) for name, run in {**of_mxnet, **runs}.items() if run]
    return [chained(peer, case.nodes) for peer in ours + others]


def chained(peer: Peer, nodes: int) -> Peer:
    """A peer that is called on its output, so many times."""
    def run(F, data):
        for _ in range(nodes):
            data = peer.run(F, data)
        return data

    return peer if nodes == 1 else dataclasses.replace(peer, run=run)


class Net(gluon.HybridBlock):
    """``first`` (a cheap pass over the data), the operator, ``last`` (next to nothing forward, one write backward)."""

    def __init__(self, run, first, last):
        super().__init__()
        self._run, self._first, self._last = run, first, last

    def hybrid_forward(self, F, data, *others):
        return _net(F, self._run, self._first, self._last, data, *others)


def _net(F, run, first, last, data, *others):
    data = data * 1.0 if first else data
    data = run(F, data, *others) if run else data
    return last(F, data)


def _slice(F, data):
    return data[:1] if F is torch else F.slice_axis(data, axis=0, begin=0, end=1)


def _sum(F, data):
    return data.sum().reshape(1) if F is torch else F.sum(data)   # MXNet's sum has one dimension


class Torch:
    """What ``timing.MXNet`` is, for torch, which runs in the calling thread and is done when it returns."""

    def __init__(self, function, inputs):
        self.function, self.inputs = function, inputs
        self.leaves = [inputs[0].detach().requires_grad_(), *inputs[1:]]
        with torch.no_grad():
            self.head = head(tuple(function(*inputs).shape), torch.from_numpy)

    def forward(self) -> dict[str, float]:
        with torch.no_grad():
            start = now()
            output = self.function(*self.inputs)
            del output
            return {"forward": now() - start}

    def train(self) -> dict[str, float]:
        start = now()
        output = self.function(*self.leaves)
        middle = now()
        gradients = torch.autograd.grad(output, self.leaves[0], self.head)
        del output, gradients
        end = now()
        return {"backward": end - middle, "both": end - start}

    def results(self, gradient: bool) -> tuple[np.ndarray, np.ndarray]:
        output = self.function(*self.leaves)
        grad, = torch.autograd.grad(output, self.leaves[0], self.head)
        return output.detach().numpy(), grad.numpy()


class Copy:
    """numpy.copyto of so many elements into memory that is already there: the limit."""

    def __init__(self, shape, dtype):
        self.source, self.target = np.ones(shape, dtype), np.zeros(shape, dtype)
        self.target[...] = 2   # zeros are mapped on first touch

    def forward(self) -> dict[str, float]:
        start = now()
        np.copyto(self.target, self.source)
        return {"forward": now() - start}


class Bench:
    """The runners of one case: each peer in a net, and the nets without the operator.

    The operator's time is that of ``first, operator, last`` less ``first, last``. Where the operator's output has
    another shape than its input, ``last`` is another one too: the difference between the two is taken off as well.
    """

    def __init__(self, case: Case, spoil: str | None = None):
        self.case, self.peers = case, peers_of(case)
        self.notes, self.wrong, self.runners, self.without, self.less = {}, {}, {}, {}, {}
        arrays = list(inputs.of_case(case).values())
        self.inputs = {"mxnet": [mx.nd.array(array) for array in arrays],
                       "torch": [torch.from_numpy(array) for array in arrays] if torch else []}
        self.inputs["mxnet"][0].attach_grad()
        self.copied = case.shape   # the larger one of the data's and the output's
        for peer in self.peers:
            self._add(peer)
        self._check(spoil)
        self.copy = Copy(self.copied, case.dtype)

    def _add(self, peer):
        if peer.in_torch and torch is None:
            self.notes[peer.name] = "left out: torch is not installed"
        elif peer.backend == "native" and not native.loaded():
            self.notes[peer.name] = f"left out: {native.reason()}"
        else:
            try:
                self.runners[peer.name] = self._runner(peer)
            except (mx.MXNetError, ValueError, RuntimeError) as error:
                self.wrong[peer.name] = f"failed: {str(error).strip().splitlines()[-1]}"

    def _runner(self, peer):
        kind = "torch" if peer.in_torch else "mxnet"
        shape = self._shape(peer, self.inputs[kind])
        self.copied = max(self.copied, shape, key=math.prod)
        last = _slice if len(shape) > 1 else _sum
        less = [(1, True, _slice, self.case.shape)]
        if shape != self.case.shape:
            less += [(1, False, last, shape), (-1, False, _slice, self.case.shape)]
        self.less[peer.name] = [(sign, self._net_without(kind, *key)) for sign, *key in less]
        return self._net(kind, peer.run, True, last, self.inputs[kind], peer.scope)

    @staticmethod
    def _shape(peer, inputs):
        if peer.in_torch:
            with torch.no_grad():
                return tuple(peer.run(torch, *inputs).shape)
        with peer.scope():
            return peer.run(mx.nd, *inputs).shape

    @staticmethod
    def _net(kind, run, first, last, inputs, scope=contextlib.nullcontext):
        if kind == "torch":
            return Torch(lambda *arrays: _net(torch, run, first, last, *arrays), inputs)
        net = Net(run, first, last)
        net.hybridize(static_alloc=True, static_shape=True)
        return MXNet(net, inputs, scope)

    def _net_without(self, kind, first, last, shape):
        """The key of the net without the operator; made on first use."""
        key = kind, first, last, shape
        if key not in self.without:
            data = self.inputs[kind][0]
            if shape != self.case.shape:
                data = torch.ones(shape) if kind == "torch" else mx.nd.ones(shape)
                if kind == "mxnet":
                    data.attach_grad()
            self.without[key] = self._net(kind, None, first, last, [data])
        return key

    def _check(self, spoil):
        """Compare every peer with the reference, and stop measuring those that differ."""
        reference = declared(self.case.op).REFERENCE
        if reference not in self.runners:
            raise RuntimeError(f"{self.case.title}: the reference {reference} does not run: {self.wrong}")
        expected = self._results(reference)
        for name in list(self.runners):
            if name != reference:
                output, grad = self._results(name)
                if name in ONLY_GRADIENT:
                    output = expected[0]
                difference = (differs(output + (name == spoil), expected[0], TOLERANCE, "output")
                              or differs(grad, expected[1], TOLERANCE, "gradient"))
                if difference:
                    self.wrong[name] = difference
                    del self.runners[name]

    def _results(self, name):
        """A peer's output, all of it, and its gradient in the net."""
        peer = next(peer for peer in self.peers if peer.name == name)
        _, grad = self.runners[name].results(True)
        if peer.in_torch:
            with torch.no_grad():
                return peer.run(torch, *self.inputs["torch"]).numpy(), grad
        with peer.scope():
            return peer.run(mx.nd, *self.inputs["mxnet"]).asnumpy(), grad

    def measure(self, samples: int, seconds: float) -> list[dict]:
        """Medians and quartiles in milliseconds by peer and pass, the nets without the operator taken off.

        Each runner is called ``samples`` times, or fewer (at least 5) once it has used up ``seconds``.
        """
        steps = [("copy", self.copy.forward)]
        for key, runner in {**self.without, **self.runners}.items():
            steps += [(key, self._step(runner.forward)), (key, self._step(runner.train))]
        times = {key: summary(values) for key, values in interleaved(steps, samples, seconds).items()}
        rows = [self._row("copy", "forward", times["copy", "forward"], 0, 1)]
        for name in self.runners:
            for part in PASSES:
                without = sum(sign * times[key, part][0] for sign, key in self.less[name])
                rows.append(self._row(name, part, times[name, part], without, self.case.nodes))
        return rows

    def _step(self, run):
        """``run``; for the cost of a node, the last of a stretch."""
        if self.case.nodes == 1:
            return run

        def last_call():
            for _ in range(STRETCH - 1):
                run()
            return run()

        return last_call

    @staticmethod
    def _row(peer, part, times, without, nodes):
        median, low, high, count = times
        return {"peer": peer, "pass": part, "ms": (median - without) / nodes, "low": (low - without) / nodes,
                "high": (high - without) / nodes, "samples": count}


def run(case: Case, quick: bool = False, spoil: str | None = None) -> dict:
    """Check and time a case.

    Parameters
    ----------
    case : Case
    quick : bool, default False
        Whether it is enough that it runs.
    spoil : str, optional
        The peer whose output is made wrong, to see that the check works.

    Returns
    -------
    dict
        Goes into the JSON as it is.
    """
    bench = Bench(case, spoil)
    times = bench.measure(*((5, 0.02) if quick else (200 if case.nodes > 1 else 25, 0.6)))
    record = {"op": case.op, "name": case.name, "shape": list(case.shape), "dtype": case.dtype, "nodes": case.nodes,
              "bytes": math.prod(bench.copied) * np.dtype(case.dtype).itemsize,
              "peers": [peer.name for peer in bench.peers], "notes": bench.notes, "mismatches": bench.wrong,
              "times": times}
    del bench
    gc.collect()
    mx.nd.waitall()
    give_back()
    return record
