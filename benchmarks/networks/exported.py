"""What measures an exported network: each peer's output is compared first, and then the peers are called in turn."""
from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence

import numpy as np

from ..harness import machine, turns
from .peers import AS_IT_STARTS, COMPILED, EAGER_TUNED, NAIVE, ORT, ORT_INT8

SIZES = {"yolov2": 416, "tiny_yolov2": 416, "darknet19": 224, "small": 64}   # height and width of the image
SMALL = "small"                      # a miniature for quick runs
TURNS, SECONDS = 15, 0.15            # turns of every peer, and the seconds of each
QUICK_TURNS, QUICK_SECONDS = 2, 0.01
Compare = Callable[["np.ndarray | None", "np.ndarray"], "str | None"]   # says what is wrong with an output


def add_options(parser: argparse.ArgumentParser, nets: Sequence[str]) -> None:
    """Options of the commands that measure exported networks."""
    parser.add_argument("--net", action="append", choices=nets, help="only this one; may be given several times")
    parser.add_argument("--turns", type=int, default=TURNS, help="of every peer (default: %(default)s)")
    parser.add_argument("--spoil", metavar="PEER", help="add 1 to this peer's output, to see that the check works")


def measure(net: str, batch: int, threads: int, peers: Sequence[str], form: str, compare: Compare,
            args: argparse.Namespace) -> dict:
    """Check and time a network.

    Parameters
    ----------
    net : str
    batch : int
        Images of a call.
    threads : int
        Of every peer.
    peers : sequence of str
        The output of the first one is expected of the others.
    form : {'float', 'int8'}
        The files that are exported.
    compare : callable
    args : argparse.Namespace

    Returns
    -------
    dict
        A record. Times are in milliseconds for each image.
    """
    notes, wrong, outputs = {}, {}, {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        export(net, folder, form)
        running = {}
        for peer in peers:
            lacks = missing(peer, args.quick)
            if lacks:
                notes[peer] = lacks
                continue
            running[peer] = turns.Peer("benchmarks.networks.peers", environment(peer, threads), peer=peer, net=net,
                                       folder=folder, size=SIZES[net], batch=batch, spoil=peer == args.spoil)
            stack.callback(running[peer].close)
        for peer, process in list(running.items()):
            outputs[peer] = output(process, pathlib.Path(folder, f"{peer}.npy"))
            problem = compare(outputs[peer], outputs[peers[0]])
            if problem:
                wrong[peer] = problem
                del running[peer]
        wanted = (QUICK_TURNS, QUICK_SECONDS) if args.quick else (args.turns, SECONDS)
        times = turns.in_turns(running, wanted[0], "time", wanted[1])
    return {"net": net, "size": SIZES[net], "peers": list(peers), "notes": notes, "mismatches": wrong,
            "times": [{"peer": peer, **turns.milliseconds(calls, batch)} for peer, calls in times.items()],
            "outputs": outputs}


def export(net: str, folder: str, form: str) -> None:
    """The files, in a process of its own: this one shall have no threads."""
    words = [sys.executable, "-W", "ignore", "-m", "benchmarks.networks.nets", net, str(SIZES[net]), folder, form]
    subprocess.run(words, check=True, cwd=turns.ROOT)


def missing(peer: str, quick: bool) -> str | None:
    """Why a peer cannot run, or None."""
    if peer == COMPILED and quick:
        return "left out of a quick run"
    needs = ["torch"] if peer.startswith("torch") else ["onnx", "onnxruntime"] if peer in (ORT, ORT_INT8) else []
    absent = [package for package in needs if importlib.util.find_spec(package) is None]
    return f"{absent[0]} is not installed" if absent else None


def output(process: turns.Peer, path: pathlib.Path) -> np.ndarray | None:
    """A peer's output, or None if it failed."""
    try:
        process.ask("save", str(path))
    except turns.PeerEnded:
        return None
    return np.load(path)


def environment(peer: str, threads: int) -> dict[str, str]:
    """The environment of a peer's process: threads, MXNet's engine and glibc's allocator, as its name says.

    MXNet's default is half the processors. TORCHINDUCTOR_FREEZING tells torch.compile that weights are constant, so
    that it converts them to oneDNN's layout once.
    """
    variables = {**turns.unset_environment(), "TORCHINDUCTOR_FREEZING": "1"}
    if peer == AS_IT_STARTS:
        variables["GLUONOPS_TUNE_THREADS"] = "0"
    else:
        variables["OMP_NUM_THREADS"] = str(threads)
    if peer in (EAGER_TUNED, COMPILED):   # these allocate every layer's output; the others plan memory
        variables.update(machine.KEEPING_MALLOC)
    if peer == NAIVE:
        variables["MXNET_ENGINE_TYPE"] = "NaiveEngine"
    return variables


def processors() -> int:
    return len(os.sched_getaffinity(0))

