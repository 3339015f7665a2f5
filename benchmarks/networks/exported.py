"""What measures an exported network: each peer's output is compared first, and then the peers are called in turn."""
from __future__ import annotations

import argparse
import contextlib
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import numpy as np

from ..harness import machine, turns
from ..harness.command import Benchmark
from .peers import AS_IT_STARTS, COMPILED, EAGER_TUNED, NAIVE, ORT, ORT_INT8

SIZES = {"yolov2": 416, "tiny_yolov2": 416, "darknet19": 224, "small": 64}   # height and width of the image
SMALL = "small"                      # a miniature for quick runs
TURNS, SECONDS = 15, 0.15            # turns of every peer, and the seconds of each


class Exported(Benchmark):
    """A command that times exported networks, in milliseconds for each image.

    ``nets``: their names. ``form``: the files that are exported, "float" or "int8". ``peers`` is the output of the
    first one is expected of the others, within ``tolerance`` of its largest value. ``ways``: of each the ``batch`` of
    images of a call, the ``threads`` of every peer, or the instruction set ``isa`` that MXNet's oneDNN is limited to.
    Nothing limits onnxruntime, which is left out then.
    """
    columns = {"each image": {}}

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--net", action="append", choices=self.nets, help="only this one; may be given several "
                            "times")
        parser.add_argument("--turns", type=int, default=TURNS, help="of every peer (default: %(default)s)")
        parser.add_argument("--spoil", metavar="PEER", help="add 1 to this peer's output, to see that the check works")

    def records(self, args: argparse.Namespace) -> Iterator[dict]:
        for net in [SMALL] if args.quick else args.net or self.nets:
            for way in self.ways:
                yield {**self.measure(net, args, **way), **way}

    def measure(self, net: str, args: argparse.Namespace, batch: int = 1, threads: int | None = None,
                isa: str | None = None) -> dict:
        """Check and time a network."""
        wrong, running = {}, {}
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            export(net, folder, self.form)
            for peer in self.peers:
                package = "torch" if peer.startswith("torch") else "onnxruntime" if peer in (ORT, ORT_INT8) else "mxnet"
                is_left_out = (args.quick and peer == COMPILED) or (isa and package == "onnxruntime")
                if importlib.util.find_spec(package) and not is_left_out:
                    variables = environment(peer, threads or machine.threads(), isa)
                    process = turns.Peer("benchmarks.networks.peers", variables, peer=peer, net=net, folder=folder,
                                         size=SIZES[net], batch=batch, spoil=peer == args.spoil)
                    running[peer] = stack.enter_context(process)
            outputs = {peer: output(process, pathlib.Path(folder, f"{peer}.npy")) for peer, process in running.items()}
            for peer, got in outputs.items():
                problem = differs(got, outputs[self.peers[0]], self.tolerance)
                if problem:
                    wrong[peer] = problem
                    del running[peer]
            wanted, seconds = (2, 0.01) if args.quick else (args.turns, SECONDS)
            times = turns.in_turns(running, wanted, "time", seconds)
        return {"net": net, "size": SIZES[net], "mismatches": wrong,
                "times": [{"peer": peer, **turns.milliseconds(calls, batch)} for peer, calls in times.items()]}


def differs(got: np.ndarray | None, expected: np.ndarray | None, tolerance: float) -> str | None:
    """What is wrong with an output, or None."""
    if got is None or expected is None:
        return "it failed"
    if got.size != expected.size:
        return f"output has shape {got.shape}; expected {expected.shape}"
    difference = abs(got.reshape(expected.shape) - expected).max() / abs(expected).max()
    return None if difference <= tolerance else f"output is off by {difference:.1e} of the largest value"


def export(net: str, folder: str, form: str) -> None:
    """The files, in a process of its own: this one shall have no threads."""
    words = [sys.executable, "-W", "ignore", "-m", "benchmarks.networks.nets", net, str(SIZES[net]), folder, form]
    subprocess.run(words, check=True, cwd=turns.ROOT)


def output(process: turns.Peer, path: pathlib.Path) -> np.ndarray | None:
    """A peer's output, or None if it failed."""
    try:
        process.ask("save", str(path))
    except turns.PeerEnded:
        return None
    return np.load(path)


def environment(peer: str, threads: int, isa: str | None = None) -> dict[str, str]:
    """The environment of a peer's process: threads, MXNet's engine and glibc's allocator, as its name says.

    ``isa`` is the instruction set that MXNet's oneDNN is limited to, by its name there.

    MXNet's default is half the processors. TORCHINDUCTOR_FREEZING tells torch.compile that weights are constant, so
    that it converts them to oneDNN's layout once.
    """
    variables = {**turns.unset_environment(), "TORCHINDUCTOR_FREEZING": "1"}
    if peer == AS_IT_STARTS:
        variables["GLUONOPS_TUNE_THREADS"] = "0"
    else:
        variables["OMP_NUM_THREADS"] = str(threads)
    if isa:
        from gluonops.runtime.processor import LIMIT

        variables[LIMIT] = isa
    if peer in (EAGER_TUNED, COMPILED):   # these allocate every layer's output; the others plan memory
        variables.update(machine.KEEPING_MALLOC)
    if peer == NAIVE:
        variables["MXNET_ENGINE_TYPE"] = "NaiveEngine"
    return variables
