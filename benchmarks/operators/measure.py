"""Times a case: checks every peer's results first, then calls the peers in turn, so that noise hits all alike."""
from __future__ import annotations

import contextlib
import gc
import pathlib

import gluonops as gops
import mxnet as mx
import numpy as np
from gluonops.bench.timing import MXNet, differs, give_back, head, interleaved, now, summary
from gluonops.core import native
from mxnet import gluon

from ..common.machine import threads
from .declare import Case

try:
    import torch
except ImportError:
    torch = None


# So many calls in a row of one peer; the last one is timed. The first ones find the processors asleep, and the caches
# full of what the peer before has left.
STRETCH = 8

if torch is not None:
    torch.set_num_threads(threads())


class Net(gluon.HybridBlock):
    """``first`` (a cheap pass over the data), the operator, ``last`` (next to nothing forward, one write backward)."""

    def __init__(self, run, first, last):
        super().__init__()
        self._run, self._first, self._last = run, first, last

    def hybrid_forward(self, F, data, *others):
        return _net(F, self._run, self._first, self._last, data, *others)


def _net(F, run, first, last, data, *others):
    data = data * 0.5 if first else data
    data = run(F, data, *others) if run else data
    return last(F, data)


def _slice(F, data):
    return data[:1] if F is torch else F.slice_axis(data, axis=0, begin=0, end=1)


def _sum(F, data):
    return data.sum().reshape(1) if F is torch else F.sum(data)   # MXNet's sum has one dimension


class Torch:
    """The same for torch, which runs in the calling thread and is done when it returns."""

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

    def results(self, gradient: bool) -> tuple[np.ndarray, np.ndarray | None]:
        if not gradient:
            with torch.no_grad():
                return self.function(*self.inputs).numpy(), None
        output = self.function(*self.leaves)
        grad, = torch.autograd.grad(output, self.leaves[0], self.head)
        return output.detach().numpy(), grad.numpy()


class Copy:
    """numpy.copyto of the case's bytes into memory that is already there: the limit."""

    def __init__(self, case, data):
        self.source = data if case.copied == case.shape else np.ones(case.copied, case.dtype)
        self.target = np.zeros(case.copied, case.dtype)
        self.target[...] = 2   # zeros are mapped on first touch

    def forward(self) -> dict[str, float]:
        start = now()
        np.copyto(self.target, self.source)
        return {"forward": now() - start}


class Bench:
    """The runners of one case: each peer in a net and alone, and the nets without the operator.

    The operator's time in a net is that of ``first, operator, last`` less ``first, last``. Where the operator's output
    has another shape than its input, ``last`` is another one too: the difference between the two is taken off as well.
    """

    def __init__(self, case, spoil=None):
        self.case, self.notes, self.wrong, self.runners, self.less = case, {}, {}, {}, {}
        data, *others = arrays = _draw(case)
        self.label = others[0] if case.label else None
        self.inputs = {"mxnet": [mx.nd.array(array) for array in arrays],
                       "torch": [] if torch is None else [torch.from_numpy(array) for array in arrays]}
        if "backward" in case.passes:
            self.inputs["mxnet"][0].attach_grad()
        self.runners["copyto", "alone"] = Copy(case, data)
        if "alone" in case.modes:
            self.runners["identity", "alone"] = MXNet(mx.nd.identity, self.inputs["mxnet"][:1])
        for peer in case.peers:
            self._add(peer, spoil)
        self._check(spoil)

    def _add(self, peer, spoil):
        if peer.torch and torch is None:
            self.notes[peer.name] = "left out: torch is not installed (pip install torch==2.13.0)"
        elif peer.backend == "native" and not native.loaded():
            self.notes[peer.name] = f"left out: {native.reason()}"
        else:
            for mode in self.case.modes:
                kind = "torch" if peer.torch else "mxnet"
                try:
                    self.runners[peer.name, mode] = self._runner(peer, mode, kind)
                except (mx.MXNetError, ValueError, RuntimeError) as error:
                    self.wrong[peer.name] = f"failed: {str(error).strip().splitlines()[-1]}"

    def _runner(self, peer, mode, kind):
        inputs = self.inputs[kind]
        if mode == "alone":
            F = torch if peer.torch else mx.nd
            function = lambda *arrays: peer.run(F, *arrays)   # noqa: E731
            return Torch(function, inputs) if peer.torch else MXNet(function, inputs, _scope(peer))
        shape = self._shape(peer, kind)
        last = _slice if len(shape) > 1 else _sum
        less = [(1, kind, True, _slice, self.case.shape)]
        if shape != self.case.shape:
            less += [(1, kind, False, last, shape), (-1, kind, False, _slice, self.case.shape)]
        self.less[peer.name] = [(sign, self._without(*key)) for sign, *key in less]
        return self._net(kind, peer.run, True, last, inputs, _scope(peer))

    def _shape(self, peer, kind):
        if kind == "torch":
            with torch.no_grad():
                return tuple(peer.run(torch, *self.inputs[kind]).shape)
        with _scope(peer)():
            return peer.run(mx.nd, *self.inputs[kind]).shape

    @staticmethod
    def _net(kind, run, first, last, inputs, scope=contextlib.nullcontext):
        if kind == "torch":
            return Torch(lambda *arrays: _net(torch, run, first, last, *arrays), inputs)
        net = Net(run, first, last)
        net.hybridize(static_alloc=True, static_shape=True)
        return MXNet(net, inputs, scope)

    def _without(self, kind, first, last, shape):
        """The name of the net without the operator; made on first use."""
        name = f"{kind} {'first ' if first else ''}{last.__name__.strip('_')} {shape}"
        if (name, "without") not in self.runners:
            if shape == self.case.shape:
                data = self.inputs[kind][0]
            else:
                data = torch.ones(shape) if kind == "torch" else mx.nd.ones(shape)
                if kind == "mxnet":
                    data.attach_grad()
            self.runners[name, "without"] = self._net(kind, None, first, last, [data])
        return name

    def _check(self, spoil):
        """Compare every peer with the reference in every mode, and stop measuring those that differ."""
        gradient = "backward" in self.case.passes
        for mode in self.case.modes:
            reference = self.case.reference, mode
            if reference not in self.runners:
                raise RuntimeError(f"{self.case.name}: the reference {self.case.reference} does not run: {self.wrong}")
            expected = self.runners[reference].results(gradient)
            for peer in self.case.peers:
                if (peer.name, mode) in self.runners and peer.name != self.case.reference:
                    difference = self._difference(peer, mode, expected, gradient, peer.name == spoil)
                    if difference:
                        self.wrong[peer.name] = f"{mode}: {difference}"
        self.runners = {key: runner for key, runner in self.runners.items() if key[0] not in self.wrong}

    def _difference(self, peer, mode, expected, gradient, spoilt):
        """How a peer's output or gradient differs from the expected ones, or None."""
        output, grad = self.runners[peer.name, mode].results(gradient)
        expected_output, expected_grad = expected
        if peer.as_output:   # in the net only one row of it is put out
            output = peer.as_output(output, self.label) if mode == "alone" else expected_output
        if spoilt:
            output = output + 1
        difference = differs(output, expected_output, self.case.tolerance, "output")
        if difference or not gradient:
            return difference
        return differs(grad, expected_grad, self.case.tolerance, "gradient")

    def measure(self, samples: int, seconds: float) -> list[dict]:
        """Medians and quartiles in milliseconds by peer, mode and pass, the nets without the operator taken off.

        Each runner is called ``samples`` times, or fewer (at least 5) once it has used up ``seconds``.
        """
        steps = []
        for (name, mode), runner in self.runners.items():
            steps.append(((name, mode), self._step(runner.forward)))
            if "backward" in self.case.passes and hasattr(runner, "train"):
                steps.append(((name, mode), self._step(runner.train)))
        times = interleaved(steps, samples, seconds)
        return self._operator_alone({(*key, part): summary(values) for (key, part), values in times.items()})

    def _step(self, run):
        """``run``; for the cost of a node or a call, the last of a stretch."""
        if self.case.kind not in ("node", "call"):
            return run

        def last_call():
            for _ in range(STRETCH - 1):
                run()
            return run()

        return last_call

    def _operator_alone(self, times):
        rows = []
        for (name, mode, part), (median, low, high, count) in times.items():
            if mode == "without" or part not in self.case.passes:
                continue
            if mode == "net":
                without = sum(sign * times[key, "without", part][0] for sign, key in self.less[name])
                median, low, high = median - without, low - without, high - without
            nodes = 1 if name == "copyto" else self.case.nodes
            rows.append({"peer": name, "mode": mode, "pass": part, "ms": median / nodes, "low": low / nodes,
                         "high": high / nodes, "samples": count})
        return rows


def _draw(case):
    """Every input in NumPy, the data first."""
    rng = np.random.RandomState(0)
    if case.draw:
        return case.draw(rng)
    data = rng.standard_normal(case.shape).astype(case.dtype)
    return [data, rng.randint(case.shape[-1], size=case.shape[:-1])] if case.label else [data]


def _scope(peer):
    return (lambda: gops.backend(peer.backend)) if peer.backend else contextlib.nullcontext


def fits(case: Case) -> bool:
    """Whether the memory that is free holds the case: data, output, their copies for the check, and the nets."""
    try:
        lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return True
    free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    return case.bytes * (8 if case.kind == "sweep" else 60) < free


def _samples(case):
    """How often a runner is timed. A call of some microseconds varies more than one of a millisecond."""
    return 200 if case.kind in ("node", "call") else 25


def run(case: Case, quick: bool, spoil: str | None = None) -> dict:
    """Check and time a case.

    Returns
    -------
    dict
        Goes into the JSON as it is.
    """
    record = {"kind": case.kind, "op": case.op, "name": case.name, "shape": list(case.shape), "dtype": case.dtype,
              "bytes": case.bytes, "peers": [peer.name for peer in case.peers], "reference": case.reference,
              "notes": {}, "mismatches": {}, "times": []}
    if not fits(case):
        record["notes"]["case"] = "left out: not enough free memory"
        return record
    bench = Bench(case, spoil)
    record.update(notes=bench.notes, mismatches=bench.wrong)
    record["times"] = bench.measure(*((5, 0.05) if quick else (_samples(case), 0.6)))
    del bench
    gc.collect()
    mx.nd.waitall()
    give_back()
    return record
