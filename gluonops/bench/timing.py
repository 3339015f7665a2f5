"""Times the steps of all peers in turn, so that noise affects all of them alike, and compares results."""
from __future__ import annotations

import contextlib
import ctypes
import gc
import statistics
import time
from collections.abc import Hashable
from typing import Any, Callable

import mxnet as mx
import numpy as np
from mxnet import autograd

now = time.perf_counter
CLOSE = 1e-2   # of the share of the largest number, what a small number may differ by


class MXNet:
    """Times ``function`` on NDArrays: a step ends when the engine has finished all its work."""

    def __init__(self, function: Callable, inputs: list[mx.nd.NDArray]):
        self.function, self.inputs = function, inputs
        output = function(*inputs)
        self.grad_out = head_gradient(output.shape, mx.nd.array).as_in_context(output.context).astype(output.dtype)

    def forward(self) -> dict[str, float]:
        """The seconds that a call takes which is not recorded. Freeing its output counts, as in a user's loop."""
        start = now()
        output = self.function(*self.inputs)
        output.wait_to_read()
        del output
        mx.nd.waitall()
        return {"forward": now() - start}

    def train(self) -> dict[str, float]:
        """The seconds of a backward pass, and of a recorded forward and a backward pass together."""
        start = now()
        with autograd.record():
            output = self.function(*self.inputs)
        output.wait_to_read()
        middle = now()
        output.backward(self.grad_out)
        del output
        mx.nd.waitall()
        end = now()
        return {"backward": end - middle, "both": end - start}

    def results(self) -> tuple[np.ndarray, np.ndarray]:
        """The output, and the gradient of the data, in NumPy."""
        with autograd.record():
            output = self.function(*self.inputs)
        output.backward(self.grad_out)
        return output.asnumpy(), self.inputs[0].grad.asnumpy()


def head_gradient(shape: tuple[int, ...], convert: Callable) -> Any:
    """The head gradient: the gradient of the output, with which a backward pass begins.

    For images and rows it has small random integers, so that sums are exact and a wrong order is noticed. For losses it
    is 1, as SoftmaxOutput assumes.
    """
    if len(shape) < 2:
        return convert(np.ones(shape or (), np.float32))
    return convert(np.random.RandomState(1).randint(-9, 10, shape).astype(np.float32))


def interleaved(steps: list[tuple[Hashable, Callable]], samples: int, seconds: float) -> dict[tuple, list[float]]:
    """Call all steps in turn, each ``samples`` times. A step that has used up ``seconds`` is called 5 times or more.

    ``steps`` are pairs of a key and a function, which returns the seconds of each part. The result has milliseconds by
    key and part.
    """
    times = {}
    spent = [0.0] * len(steps)
    active = set(range(len(steps)))
    for _, step in steps:   # the heap of a tuned malloc grows for about ten calls
        start, calls = now(), 0
        while calls < 2 or (calls < 10 and now() - start < seconds / 4):
            step()
            calls += 1
    gc.collect()
    gc.disable()
    try:
        for turn in range(samples):
            for index in [(i + turn) % len(steps) for i in range(len(steps))]:
                if index in active:
                    key, step = steps[index]
                    start = now()
                    for part, taken in step().items():
                        times.setdefault((key, part), []).append(taken * 1e3)
                    spent[index] += now() - start
                    if turn >= 4 and spent[index] > seconds:
                        active.discard(index)
    finally:
        gc.enable()
    return times


def summary(values: list[float]) -> tuple[float, float, float, int]:
    """(median, first quartile, third quartile, count)."""
    low, median, high = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3
    return median, low, high, len(values)


def differs(got: np.ndarray, expected: np.ndarray, tolerance: float, what: str, close: float = CLOSE) -> str | None:
    """A sentence about how ``got`` differs from ``expected``, or None if it does not.

    A number may differ by ``tolerance``, a share of the number, and by ``tolerance * close``, a share of the largest.
    """
    if got.shape != expected.shape:
        return f"{what} has shape {got.shape}; expected {expected.shape}"
    largest = max(abs(float(expected.max())), abs(float(expected.min())))
    left, right, part = got.ravel(), expected.ravel(), 2**24
    for start in range(0, left.size, part):   # isclose takes several times the memory of a part
        close = np.isclose(left[start:start + part], right[start:start + part], tolerance, tolerance * close * largest)
        if not close.all():
            first = start + int(np.argmin(close))
            where = tuple(map(int, np.unravel_index(first, got.shape)))
            return f"{what} is {left[first]:.6g} at {where}; expected {right[first]:.6g}"
    return None


def give_back() -> None:
    """Give the memory that a tuned malloc keeps back to the system. The next case may need blocks of other sizes."""
    with contextlib.suppress(AttributeError):   # only glibc has malloc_trim
        ctypes.CDLL(None).malloc_trim(0)
