"""Times a case: checks every peer's results first, then calls the peers in turn, so that noise hits all alike."""
from __future__ import annotations

import gc
import math
from collections.abc import Callable

import gluonops as gops
import mxnet as mx
import numpy as np
from gluonops.bench import peers as mxnet_peers
from gluonops.bench.timing import CLOSE, MXNet, differs, give_back, head_gradient, interleaved, now, summary
from gluonops.contract import registry
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

PASSES = ("forward", "backward", "both")
TOLERANCE = 1e-4            # a share of an element's value
EXCHANGED = 1               # of this share of the largest gradient, what elements may differ by that exchange theirs
ONLY_GRADIENT = {"SoftmaxOutput"}   # peers whose output is another one
# So many calls in a row of one peer of a chain; the last one is timed. The first ones find the processors asleep, and
# the caches full of what the peer before has left.
STRETCH = 8


def peers_of(case: Case) -> dict[str, Callable]:
    """Name -> ``run(F, *inputs)`` with F ``mx.nd``, ``mx.sym`` or torch, of all who have the operator.

    These are our backends, MXNet's own operators, a CustomOp in NumPy, and torch.
    """
    declaration, contract = declared(case.op), registry.get(case.op).op
    attrs = contract.parse(case.attrs)._asdict()
    formulas = declaration.in_numpy(attrs)
    runs = {
        **{backend: ours(case, backend) for backend in declaration.backends(case.shape)},
        **declaration.in_mxnet(attrs, case.shape),
        **mxnet_peers.peers(case.op, case.shape, **case.attrs),
        "numpy": formulas and numpy_peer(formulas, [arg.name for arg in contract.inputs]),
        "torch": torch and declaration.in_torch(attrs, len(case.shape)),
    }
    return {name: chained(run, case.nodes) for name, run in runs.items() if run}


def ours(case: Case, backend: str) -> Callable:
    """The operator in one of our backends."""
    def run(F, *arrays):
        with gops.backend(backend):
            return getattr(gops.ops, case.op)(*arrays, **case.attrs)

    return run


def chained(run: Callable, nodes: int) -> Callable:
    """An operator that is called on its output, so many times."""
    def repeated(F, data):
        for _ in range(nodes):
            data = run(F, data)
        return data

    return run if nodes == 1 else repeated


class Net(gluon.HybridBlock):
    """``first`` (a cheap pass over the data), the operator, ``last`` (next to nothing forward, one write backward)."""

    def __init__(self, run, first, last):
        super().__init__()
        self._run, self._first, self._last = run, first, last

    def hybrid_forward(self, F, data, *others):
        data = data * 1.0 if self._first else data
        data = self._run(F, data, *others) if self._run else data
        return self._last(F, data)


def _slice(F, data):
    return data[:1] if F is torch else F.slice_axis(data, axis=0, begin=0, end=1)


def _sum(F, data):
    return data.sum().reshape(1) if F is torch else F.sum(data)   # MXNet's sum has one dimension


class InMXNet:
    """A case's inputs in MXNet, and what computes with them."""

    def __init__(self, arrays):
        self.inputs = [mx.nd.array(array) for array in arrays]
        self.inputs[0].attach_grad()

    def output(self, run: Callable) -> np.ndarray:
        return run(mx.nd, *self.inputs).asnumpy()

    def timed(self, net: Net, inputs: list) -> MXNet:
        net.hybridize(static_alloc=True, static_shape=True)
        return MXNet(net, inputs)


class InTorch:
    """The same in torch."""

    def __init__(self, arrays):
        self.inputs = [torch.from_numpy(array) for array in arrays]

    def output(self, run: Callable) -> np.ndarray:
        with torch.no_grad():
            return run(torch, *self.inputs).numpy()

    def timed(self, net: Net, inputs: list) -> Torch:
        return Torch(lambda *arrays: net.hybrid_forward(torch, *arrays), inputs)


class Torch:
    """What ``timing.MXNet`` is, for torch, which runs in the calling thread and is done when it returns."""

    def __init__(self, function, inputs):
        self.function, self.inputs = function, inputs
        self.leaves = [inputs[0].detach().requires_grad_(), *inputs[1:]]
        with torch.no_grad():
            self.grad_out = head_gradient(tuple(function(*inputs).shape), torch.from_numpy)

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
        gradients = torch.autograd.grad(output, self.leaves[0], self.grad_out)
        del output, gradients
        end = now()
        return {"backward": end - middle, "both": end - start}

    def results(self) -> tuple[np.ndarray, np.ndarray]:
        output = self.function(*self.leaves)
        grad, = torch.autograd.grad(output, self.leaves[0], self.grad_out)
        return output.detach().numpy(), grad.numpy()


class Bench:
    """The runners of one case: each peer in a net, and the nets without the operator.

    The operator's time is that of ``first, operator, last`` less ``first, last``. Where the operator's output has
    another shape than its input, ``last`` is another one too: the difference between the two is taken off as well.
    """

    def __init__(self, case: Case, spoil: str | None = None):
        self.case, self.peers, self.spoil = case, peers_of(case), spoil
        self.wrong, self.runners, self.without, self.less = {}, {}, {}, {}
        arrays = list(inputs.of_case(case).values())
        self.libraries = {"mxnet": InMXNet(arrays), "torch": torch and InTorch(arrays)}
        self.copied = case.shape   # the larger one of the data's and the output's
        reference = declared(case.op).REFERENCE
        self.expected = None       # the reference's output and gradient
        for name in sorted(self.peers, key=lambda name: name != reference):
            try:
                difference = self._prepare(name)
            except (mx.MXNetError, ValueError, RuntimeError) as error:
                difference = f"failed: {str(error).strip().splitlines()[-1]}"
            if difference:
                self.wrong[name] = difference
            if self.expected is None:
                raise RuntimeError(f"{case.title}: the reference {reference} does not run: {self.wrong}")
        self.expected = None
        self.runners = {name: self.runners[name] for name in self.peers if name not in self.wrong}

    def _prepare(self, name):
        """Make a peer's runner; returns how its results differ, or None."""
        kind = "torch" if name == "torch" else "mxnet"
        library, run = self.libraries[kind], self.peers[name]
        output = library.output(run) + (name == self.spoil)
        self.copied = max(self.copied, output.shape, key=math.prod)
        last = _slice if output.ndim > 1 else _sum
        self.less[name] = [(1, self._net_without(kind, True, _slice, self.case.shape))]
        if output.shape != self.case.shape:
            self.less[name] += [(1, self._net_without(kind, False, last, output.shape)),
                                (-1, self._net_without(kind, False, _slice, self.case.shape))]
        self.runners[name] = library.timed(Net(run, True, last), library.inputs)
        _, grad = self.runners[name].results()
        if self.expected is None:
            self.expected = output, grad
        if name in ONLY_GRADIENT:
            output = self.expected[0]
        close = EXCHANGED if declared(self.case.op).EXCHANGES else CLOSE
        return (differs(output, self.expected[0], TOLERANCE, "output")
                or differs(grad, self.expected[1], TOLERANCE, "gradient", close))

    def _net_without(self, kind, first, last, shape):
        """The key of the net without the operator; made on first use."""
        key = kind, first, last, shape
        if key not in self.without:
            library = self.libraries[kind]
            if shape != self.case.shape:
                library = type(library)([np.ones(shape, np.float32)])
            self.without[key] = library.timed(Net(None, first, last), library.inputs[:1])
        return key

    def measure(self, samples: int, seconds: float) -> list[dict]:
        """Medians and quartiles in milliseconds by peer and pass, the nets without the operator taken off.

        Each runner is called ``samples`` times, or fewer (at least 5) once it has used up ``seconds``.
        """
        source, target = np.ones(self.copied, self.case.dtype), np.full(self.copied, 2, self.case.dtype)

        def copy():
            start = now()
            np.copyto(target, source)
            return {"forward": now() - start}

        steps = [("copy", copy)]
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
    """Check and time a case, or only show that it runs if ``quick``; the output of the peer ``spoil`` is made wrong."""
    bench = Bench(case, spoil)
    times = bench.measure(*((5, 0.02) if quick else (200 if case.nodes > 1 else 25, 0.6)))
    record = {"op": case.op, "name": case.name, "shape": list(case.shape), "dtype": case.dtype, "nodes": case.nodes,
              "peers": list(bench.peers), "mismatches": bench.wrong, "times": times}
    del bench
    gc.collect()
    mx.nd.waitall()
    give_back()
    return record
