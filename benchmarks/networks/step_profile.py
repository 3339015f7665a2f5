"""What a training step spends in oneDNN, by kind of primitive.

``python -m benchmarks.networks.step_profile`` runs the steps of ``benchmarks.busy`` that have batch norms, each in a
process of its own, and prints a table. oneDNN says what it runs and for how long. The batch norms are not oneDNN's.
"""
from __future__ import annotations

import collections
import os
import statistics
import subprocess
import sys

from gluonops.bench.timing import now

from ..busy import cases
from ..common import tables

MODULE = "benchmarks.networks.step_profile"
STEPS = 12
KINDS = {"convolution": "convolutions and their gradients", "reorder": "reorders",
         "eltwise": "leaky ReLU and its gradient", "pooling_v2": "pooling and its gradient"}
ALL, STEP = "all of oneDNN", "the step"


def main() -> None:
    """Print the table."""
    profiles = {case.name: profile(case) for case in cases.CASES if case.kind == "detector"}
    rows = [[words, *(f"{times[words]:.1f}" for times in profiles.values())] for words in (*KINDS.values(), ALL, STEP)]
    print(tables.markdown(["milliseconds", *profiles], rows))


def profile(case: cases.Case) -> dict[str, float]:
    """Median milliseconds of a step by kind of primitive, of all primitives and of the step."""
    batch, _, size, _ = case.shape
    done = subprocess.run([sys.executable, "-m", MODULE, case.what, str(batch), str(size)], text=True, check=True,
                          stdout=subprocess.PIPE, env={**os.environ, "DNNL_VERBOSE": "1"})
    steps = [_times(text) for text in done.stdout.split("step\n")[1:]]
    return {words: statistics.median(step[words] for step in steps) for words in (*KINDS.values(), ALL, STEP)}


def _times(text: str) -> collections.Counter:
    """Milliseconds by kind of primitive, from what one step printed."""
    times = collections.Counter()
    for line in text.splitlines():
        if line.startswith("took "):
            times[STEP] = float(line.split()[1])
        elif line.startswith("dnnl_verbose,exec"):
            _, _, _, kind, *_, took = line.split(",")
            times[ALL] += float(took)
            if kind in KINDS:
                times[KINDS[kind]] += float(took)
    return times


def run(name: str, batch: int, size: int) -> None:
    """Train a net of ``training.TRAINED`` for some steps, under oneDNN's eyes."""
    from . import training

    step = training.our_step(name, batch, size)
    for _ in range(3):
        step()
    for _ in range(STEPS):
        print("step", flush=True)
        start = now()
        step()
        print("took", (now() - start) * 1e3, flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run(sys.argv[1], *map(int, sys.argv[2:4]))
    else:
        main()
