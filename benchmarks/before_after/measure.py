"""Times the cases with the gluonops that it imports, which is that of either commit.

Of gluonops it uses the operators' functions alone.
"""
from __future__ import annotations

import json
import pathlib
import sys
import time
from collections.abc import Callable

import gluonops as gops
import mxnet as mx
import numpy as np
from mxnet import autograd

PARTS = ("forward", "backward", "bound")
MIN_CALLS, MAX_CALLS = 5, 1000
WARM_UP_CALLS = 12   # The heap has its size then.


def make(folder: str, packages: str) -> dict[str, Callable]:
    """``measure(number, seconds)`` of a case in a folder, with the gluonops that is expected."""
    imported = pathlib.Path(gops.__file__).parents[1]
    if imported != pathlib.Path(packages):
        sys.exit(f"gluonops comes from {imported}; expected {packages}")
    cases = json.loads(pathlib.Path(folder, "cases.json").read_text(encoding="utf-8"))
    current = {}

    def measure(number: int, seconds: float) -> dict[str, float] | None:
        """The least seconds of every part; None if this commit cannot compute the case."""
        with gops.backend("native"):
            if number not in current:
                current.clear()   # frees the case before
                arrays = np.load(pathlib.Path(folder, f"{number}.npz"))
                current[number] = prepare(**cases[number], arrays=list(arrays.values()))
            runner = current[number]
            return runner and {part: fastest(getattr(runner, part), seconds) for part in PARTS}

    return {"measure": measure}


def prepare(op: str, attrs: dict, arrays: list[np.ndarray]) -> Runner | None:
    """The runner of a case, warm; None if this commit has no such operator or attribute."""
    try:
        runner = Runner(op, attrs, arrays)
    except (AttributeError, TypeError, ValueError) as error:
        print(f"{op}: {error}", file=sys.stderr)
        return None
    for part in PARTS:
        for _ in range(WARM_UP_CALLS):
            getattr(runner, part)()
    return runner


class Runner:
    """One case, ready to be called: its inputs, the head gradient, and a bound graph."""

    def __init__(self, op, attrs, arrays):
        self.function, self.attrs = getattr(gops.ops, op), attrs
        self.inputs = [mx.nd.array(array, dtype=array.dtype) for array in arrays]
        self.inputs[0].attach_grad()
        output = self.function(*self.inputs, **attrs)
        self.grad_out = mx.nd.array(np.random.RandomState(0).standard_normal(output.shape), dtype=output.dtype)
        names = [f"input{i}" for i in range(len(self.inputs))]
        requests = {name: "write" if name == names[0] else "null" for name in names}
        graph = self.function(*map(mx.sym.var, names), **attrs)
        self.executor = graph.bind(mx.cpu(), dict(zip(names, self.inputs)),
                                   {names[0]: mx.nd.zeros_like(self.inputs[0])}, requests)

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
        output.backward(self.grad_out)
        mx.nd.waitall()
        return time.perf_counter() - start

    def bound(self):
        """Seconds of forward and backward of the bound graph, in which no Python runs."""
        start = time.perf_counter()
        self.executor.forward(is_train=True)
        self.executor.backward(self.grad_out)
        mx.nd.waitall()
        return time.perf_counter() - start


def fastest(step, seconds):
    """The least time of a step, called for so many seconds."""
    times, end = [], time.perf_counter() + seconds
    while len(times) < MIN_CALLS or (len(times) < MAX_CALLS and time.perf_counter() < end):
        times.append(step())
    return min(times)
