"""The clock: a step, the steps of all peers called in turn so that noise hits them alike, and comparing results."""
import contextlib
import ctypes
import gc
import statistics
import time

import mxnet as mx
import numpy as np
from mxnet import autograd

__all__ = ["MXNet", "differs", "give_back", "head", "interleaved", "summary"]

now = time.perf_counter


class MXNet:
    """Times ``function`` on MXNet's arrays, as ``scope`` has it: a step ends when the engine has nothing left to do."""

    def __init__(self, function, inputs, scope=contextlib.nullcontext):
        self.function, self.inputs, self.scope = function, inputs, scope
        with scope():
            output = function(*inputs)
            self.head = head(output.shape, mx.nd.array).as_in_context(output.context).astype(output.dtype)

    def forward(self):
        """Seconds of a call that is not recorded; its output is freed within them, as in a user's loop."""
        with self.scope():
            start = now()
            output = self.function(*self.inputs)
            output.wait_to_read()
            del output
            mx.nd.waitall()
            return {"forward": now() - start}

    def train(self):
        """Seconds of backward, and of a recorded forward and backward."""
        with self.scope():
            start = now()
            with autograd.record():
                output = self.function(*self.inputs)
            output.wait_to_read()
            middle = now()
            output.backward(self.head)
            del output
            mx.nd.waitall()
            end = now()
            return {"backward": end - middle, "both": end - start}

    def results(self, gradient):
        """(output, gradient of the data) in NumPy; a gradient of None if it is not wanted."""
        with self.scope():
            if not gradient:
                return self.function(*self.inputs).asnumpy(), None
            with autograd.record():
                output = self.function(*self.inputs)
            output.backward(self.head)
            return output.asnumpy(), self.inputs[0].grad.asnumpy()


def head(shape, convert):
    """The head gradient: for images and rows small whole numbers, so that sums of them are exact, and without a period
    that a wrong order could hide behind; for losses 1, which is what SoftmaxOutput takes it to be."""
    if len(shape) < 2:
        return convert(np.ones(shape or (), np.float32))
    return convert(np.random.RandomState(1).randint(-9, 10, shape).astype(np.float32))


def interleaved(steps, samples, seconds):
    """Call every step ``samples`` times, in turn, or fewer (at least 5) once it has used up ``seconds``.

    Parameters
    ----------
    steps : list of (hashable, callable)
        A key, and what returns a dict of part -> seconds.
    samples : int
    seconds : float

    Returns
    -------
    dict of (hashable, str) to list of float
        Milliseconds by key and part.
    """
    times, spent, open_steps = {}, [0.0] * len(steps), set(range(len(steps)))
    for _, step in steps:   # the heap of a tuned malloc takes about ten calls to settle
        start, calls = now(), 0
        while calls < 2 or (calls < 10 and now() - start < seconds / 4):
            step()
            calls += 1
    gc.collect()
    gc.disable()
    try:
        for turn in range(samples):
            for index in [(i + turn) % len(steps) for i in range(len(steps))]:
                if index in open_steps:
                    key, step = steps[index]
                    start = now()
                    for part, taken in step().items():
                        times.setdefault((key, part), []).append(taken * 1e3)
                    spent[index] += now() - start
                    if turn >= 4 and spent[index] > seconds:
                        open_steps.discard(index)
    finally:
        gc.enable()
    return times


def summary(values):
    """(median, first quartile, third quartile, how many)."""
    low, median, high = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3
    return median, low, high, len(values)


def differs(got, expected, tolerance, what):
    """What is wrong with ``got``, or None."""
    if got.shape != expected.shape:
        return f"{what} has shape {got.shape}; expected {expected.shape}"
    largest = max(abs(float(expected.max())), abs(float(expected.min())))
    left, right, part = got.ravel(), expected.ravel(), 2**24
    for start in range(0, left.size, part):   # in parts, because isclose takes several times the memory
        close = np.isclose(left[start:start + part], right[start:start + part], tolerance, tolerance * 1e-2 * largest)
        if not close.all():
            first = start + int(np.argmin(close))
            where = tuple(map(int, np.unravel_index(first, got.shape)))
            return f"{what} is {left[first]:.6g} at {where}; expected {right[first]:.6g}"
    return None


def give_back():
    """Return to the system what a tuned malloc keeps: the next case may need it in other pieces."""
    with contextlib.suppress(AttributeError):   # glibc's alone
        ctypes.CDLL(None).malloc_trim(0)
