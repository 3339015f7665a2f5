"""MXNet's identity against a copy into memory that is there: what an operator waits for its output's memory.

    python -m benchmarks.memory                       # seven fresh processes, with nothing set
    GLUONOPS_TUNE_MEMORY=0 python -m benchmarks.memory

Every process computes the sizes in another order, and every second one imports onnxruntime and scikit-learn first, and
torch if it is installed. The target is at most twice the copy, at every size, in every process.
"""
from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence

from .harness import report, turns

SIZES = (1, 4, 23.7, 44.3, 100, 256)   # MB
OTHERS = ("torch", "onnxruntime", "sklearn.linear_model")
AT_MOST = 2


def make(seed: int) -> dict[str, Callable]:
    """``ratios()``: the ratio at every size, in this process."""
    if seed % 2:
        for name in OTHERS:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    import gluonops  # noqa: F401  (first: it makes mxnet importable)

    return {"ratios": lambda: {str(size): ratio(size) for size in random.Random(seed).sample(SIZES, len(SIZES))}}


def ratio(size: float) -> float:
    """Median time of an identity of so many MB over that of a copy."""
    import mxnet as mx

    x = mx.nd.ones((int(size * 1e6 / 4),))
    y = mx.nd.zeros_like(x)
    identity, copy = [], []
    for _ in range(25):
        copy.append(seconds(lambda: x.copyto(y)))
        identity.append(seconds(lambda: mx.nd.identity(x)))
    return statistics.median(identity) / statistics.median(copy)


def seconds(call: Callable) -> float:
    start = time.perf_counter()
    call().wait_to_read()
    return time.perf_counter() - start


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=7)
    args = parser.parse_args(arguments)
    found = []
    for seed in range(args.processes):
        with contextlib.closing(turns.Peer("benchmarks.memory", os.environ, seed=seed)) as process:
            found.append(process.ask("ratios"))
    lines = [[f"{size} MB", *(f"{ratios[str(size)]:.2f}" for ratios in found)] for size in SIZES]
    print("\n".join(report.aligned([["identity / copy", *(f"process {i + 1}" for i in range(len(found)))], *lines])))
    within = sum(max(ratios.values()) <= AT_MOST for ratios in found)
    print(f"{within} of {len(found)} processes are within {AT_MOST} x the copy at every size")
    return within < len(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
