"""Peers in processes of their own, called in turn, so that noise hits all alike and none meets another one's threads.

``turns.py MODULE JSON`` runs in such a process. ``MODULE.make(**keywords)``, with the keywords of the JSON, returns a
dict of functions by name. Each line of the input is a list, a name and arguments, and is answered by a line of JSON.
"""
from __future__ import annotations

import contextlib
import importlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping

ROOT = pathlib.Path(__file__).resolve().parents[2]
SETTINGS = ("GLUONOPS_", "GOMP_", "KMP_", "MALLOC_", "MKL_", "MXNET_", "OMP_")


class Peer(contextlib.AbstractContextManager):
    """A process with what ``module.make(**keywords)`` makes; it ends with the context. Keywords are JSON."""

    def __init__(self, module: str, environment: Mapping[str, str], **keywords):
        path = os.pathsep.join(filter(None, [environment.get("PYTHONPATH"), str(ROOT)]))
        self.process = subprocess.Popen([sys.executable, "-W", "ignore", __file__, module, json.dumps(keywords)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**environment, "PYTHONPATH": path, "MXNET_SUBGRAPH_VERBOSE": "0"})

    def ask(self, name: str, *arguments) -> object:
        """What the function of this name returns there."""
        try:
            print(json.dumps([name, *arguments]), file=self.process.stdin, flush=True)
            return json.loads(self.process.stdout.readline())
        except (OSError, ValueError):   # it has ended
            raise PeerEnded("a measured process has ended; its message is above") from None

    def __exit__(self, *error: object) -> None:
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


class PeerEnded(Exception):
    """A peer's process has ended before it was asked to."""


def unset_environment() -> dict[str, str]:
    """This process's environment without what anybody has set of threads, memory and MXNet."""
    return {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}


def in_turns(peers: Mapping[str, Peer], turns: int, name: str, *arguments) -> dict[str, list]:
    """The answers of each peer, asked in turn. The one that goes first changes from turn to turn."""
    answers = {peer: [] for peer in peers}
    for turn in range(turns):
        order = list(peers)
        first = turn % len(order)
        for peer in order[first:] + order[:first]:
            answers[peer].append(peers[peer].ask(name, *arguments))
    return answers


def milliseconds(turns: Iterable[list[float]], share: int = 1) -> dict:
    """Quartiles over the seconds of all calls, and the median of each turn; divided by ``share``."""
    turns = [[1e3 * seconds / share for seconds in calls] for calls in turns]
    values = sum(turns, [])
    low, median, high = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3
    return {"ms": median, "low": low, "high": high, "samples": len(values),
            "turns": [statistics.median(calls) for calls in turns]}


def timed(call: Callable, seconds: float) -> list[float]:
    """The seconds of each call, as many as take so long, behind some that wake the threads and fill the caches."""
    _repeat(call, seconds / 4)
    return _repeat(call, seconds)


def _repeat(call, seconds):
    taken = []
    while not taken or sum(taken) < seconds:
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return taken


def serve(module: str, keywords: str) -> None:
    """Answer until the input ends. Libraries print to stderr meanwhile: stdout is for answers."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    functions = importlib.import_module(module).make(**json.loads(keywords))
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        print(json.dumps(functions[name](*arguments)), file=answers, flush=True)


if __name__ == "__main__":
    serve(*sys.argv[1:])
