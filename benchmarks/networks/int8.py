"""Time 8-bit networks on the CPU: MXNet and onnxruntime, each in float32 and in int8, called in turn.

All run in one process, with random weights. The ratios are to onnxruntime's float32, of the fastest calls: others may
use the machine.
"""
import argparse
import dataclasses
import os
import pathlib
import statistics
import sys
import tempfile
import time

FLOAT, INT8, ORT, ORT_INT8 = "MXNet", "MXNet int8", "onnxruntime", "onnxruntime int8"


@dataclasses.dataclass(frozen=True)
class Target:
    """How many times as fast as a peer MXNet's int8 has to be."""
    at_least: float
    than: str


NETS = {"tiny_yolov2": 416, "yolov2": 416, "small": 64}
TARGETS = (Target(2.5, ORT), Target(1, ORT_INT8))


def options():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.networks.int8", description=__doc__)
    parser.add_argument("--net", action="append", choices=list(NETS), help="only this one (default: the first two)")
    parser.add_argument("--threads", type=int, default=1, help="of each (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=15, help="calls of each (default: %(default)s)")
    return parser


def peers(name: str, size: int, folder: str, threads: int) -> dict:
    """Name -> function that computes the network's output."""
    import gluonops as gops
    import numpy as np
    import onnxruntime

    from . import nets
    from .peers import module

    net = nets.make(name, size)
    data = np.random.RandomState(2).uniform(size=(5, 3, size, size)).astype(np.float32)
    gops.export.symbol(net, f"{folder}/float", (1, 3, size, size), fold_batch_norm=True, pad_channels=True)
    gops.export.onnx(net, f"{folder}/float.onnx", (1, 3, size, size), fold_batch_norm=True)
    print(gops.export.quantize(net, f"{folder}/int8", data, onnx=f"{folder}/int8.onnx", method="naive"))

    def session(file):
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = threads
        made = onnxruntime.InferenceSession(f"{folder}/{file}.onnx", settings, ["CPUExecutionProvider"])
        return lambda: made.run(None, {"data": data[:1]})[0]

    place = pathlib.Path(folder)
    return {FLOAT: module(place, data[:1], "float"), INT8: module(place, data[:1], "int8"),
            ORT: session("float"), ORT_INT8: session("int8")}


def measure(runs: dict, turns: int) -> dict:
    """Peer -> seconds of its calls. Each call that counts follows one that does not."""
    times = {peer: [] for peer in runs}
    for _ in range(turns):
        for peer, run in runs.items():
            run()
            start = time.perf_counter()
            run()
            times[peer].append(time.perf_counter() - start)
    return times


def main(arguments) -> int:
    args = options().parse_args(arguments)
    for name in args.net or list(NETS)[:2]:
        with tempfile.TemporaryDirectory() as folder:
            times = measure(peers(name, NETS[name], folder, args.threads), args.turns)
        print(f"{name} {NETS[name]}, {args.threads} threads: fastest and median in ms, times as fast as {ORT}")
        for peer, seconds in times.items():
            ratio = min(times[ORT]) / min(seconds)
            print(f"  {peer:18s} {1e3 * min(seconds):8.2f} {1e3 * statistics.median(seconds):8.2f} {ratio:6.2f} x")
        for target in TARGETS:
            ratio = min(times[target.than]) / min(times[INT8])
            verdict = "passed" if ratio >= target.at_least else "missed"
            print(f"  {target.at_least} x {target.than}: {ratio:.2f} x, {verdict}", flush=True)
    return 0


if __name__ == "__main__":
    if "OMP_NUM_THREADS" not in os.environ:   # MXNet reads it when it is imported
        os.environ["OMP_NUM_THREADS"] = str(options().parse_args().threads)
    sys.exit(main(sys.argv[1:]))
