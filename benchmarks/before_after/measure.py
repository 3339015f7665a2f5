"""Times the cases with the gluonops that it imports: a file of its own, which either commit's process runs.

It is run by its path, with the commit's package in PYTHONPATH. Of gluonops it uses the operators' functions alone.
"""
import json
import pathlib
import sys
import time

import gluonops as gops
import mxnet as mx
import numpy as np
from mxnet import autograd

PARTS = ("forward", "backward", "bound")
MIN_CALLS, MAX_CALLS = 5, 1000
WARM_UP_CALLS = 12   # until the heap has its size


class Runner:
    """One case, ready to be called: its inputs, the head gradient, and a bound graph."""

    def __init__(self, op, attrs, arrays):
        self.function, self.attrs = getattr(gops.ops, op), attrs
        self.inputs = [mx.nd.array(array, dtype=array.dtype) for array in arrays]
        self.inputs[0].attach_grad()
        output = self.function(*self.inputs, **attrs)
        self.head = mx.nd.array(np.random.RandomState(0).standard_normal(output.shape), dtype=output.dtype)
        self.executor = self._bind()

    def _bind(self):
        """The graph, with the gradient of its first input."""
        names = [f"input{i}" for i in range(len(self.inputs))]
        graph = self.function(*map(mx.sym.var, names), **self.attrs)
        requests = {name: "write" if name == names[0] else "null" for name in names}
        gradients = {names[0]: mx.nd.zeros_like(self.inputs[0])}
        return graph.bind(mx.cpu(), dict(zip(names, self.inputs)), gradients, requests)

    def forward(self):
        """Seconds of an imperative call, from the call until its output is computed and freed."""
        start = time.perf_counter()
        output = self.function(*self.inputs, **self.attrs)
        output.wait_to_read()
        del output
        mx.nd.waitall()
        return time.perf_counter() - start

    def backward(self):
        """Seconds of the backward pass of an imperative call."""
        with autograd.record():
            output = self.function(*self.inputs, **self.attrs)
        output.wait_to_read()
        start = time.perf_counter()
        output.backward(self.head)
        mx.nd.waitall()
        return time.perf_counter() - start

    def bound(self):
        """Seconds of forward and backward of the bound graph, in which no Python runs."""
        start = time.perf_counter()
        self.executor.forward(is_train=True)
        self.executor.backward(self.head)
        mx.nd.waitall()
        return time.perf_counter() - start


def fastest(step, seconds):
    """The least time of a step, called for so many seconds."""
    times, end = [], time.perf_counter() + seconds
    while len(times) < MIN_CALLS or (len(times) < MAX_CALLS and time.perf_counter() < end):
        times.append(step())
    return min(times)


def prepare(case, folder):
    """The runner of a case, warm; None if this commit has no such operator or attribute."""
    arrays = [np.load(folder / f"{i}.npy") for i in range(len(case["shapes"]))]
    try:
        runner = Runner(case["op"], case["attrs"], arrays)
    except (AttributeError, TypeError, ValueError) as error:
        print(f"{case['op']}: {error}", file=sys.stderr)
        return None
    for part in PARTS:
        for _ in range(WARM_UP_CALLS):
            getattr(runner, part)()
    return runner


def serve(folder, seconds):
    """For every number of a case that comes in, print a line of JSON: the least seconds of every part, or null."""
    cases = json.loads((folder / "cases.json").read_text(encoding="utf-8"))
    current, runner = None, None
    for line in sys.stdin:
        if int(line) != current:
            current, runner = int(line), None   # frees the case before
            runner = prepare(cases[current], folder / str(current))
        times = runner and {part: fastest(getattr(runner, part), seconds) for part in PARTS}
        print(json.dumps(times), flush=True)


def main(folder, expected, seconds):
    """Serve with the gluonops that is expected."""
    imported = pathlib.Path(gops.__file__).parents[1]
    if imported != pathlib.Path(expected):
        sys.exit(f"gluonops comes from {imported}; expected {expected}")
    with gops.backend("native"):
        serve(pathlib.Path(folder), float(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
