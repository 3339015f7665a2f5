"""The time of each kind of layer in an exported network, in MXNet and in onnxruntime.

MXNet's convolutions, poolings and reorders are oneDNN's, which says what it runs and for how long; onnxruntime has a
profile of its own. Both run alone, one after the other, and the fastest of some calls counts.
"""
from __future__ import annotations

import collections
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable

from ..common import tables
from .cases import NAIVE

MODULE = "benchmarks.networks.layers"
ROOT = pathlib.Path(__file__).resolve().parents[2]
CALLS = 12


def main(nets: Iterable[str], batch: int, threads: int) -> int:
    """Print a table for each network; return the exit status."""
    from . import cases, peers

    environment = {**peers.environment(NAIVE, "", threads), "DNNL_VERBOSE": "1"}
    for name in nets:
        with tempfile.TemporaryDirectory() as folder:
            words = [sys.executable, "-m", MODULE, name, cases.size(name), batch, folder]
            done = subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT,
                                  env=environment)
            theirs = of_onnxruntime(next(pathlib.Path(folder).glob("profile*.json"), None))
            print(f"{name} {cases.size(name)}, batch {batch}, {threads} threads: milliseconds\n\n"
                  f"{table(of_onednn(done.stdout), theirs)}\n")
    return 0


def run(name: str, size: int, batch: int, folder: pathlib.Path) -> None:
    """Call the network in MXNet, under oneDNN's eyes, and in onnxruntime."""
    from . import nets, peers

    nets.write(name, size, folder)
    data = nets.image(batch, size)
    ours = peers.module(folder, data, "split")
    ours()
    for _ in range(CALLS):
        print("call", flush=True)
        ours()
    print("end", flush=True)
    if (folder / "net.onnx").exists() and importlib.util.find_spec("onnxruntime"):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.enable_profiling, options.profile_file_prefix = True, str(folder / "profile")
        theirs = peers.in_onnxruntime(folder, data, options)
        for _ in range(CALLS + 1):
            theirs()


def of_onednn(text: str) -> dict[str, tuple]:
    """Layer -> (milliseconds, floating-point operations, how oneDNN ran it); of the fastest call of each."""
    fastest, kinds = {}, {}
    for call in text.split("end\n")[0].split("call\n")[1:]:
        rows = [line.split(",") for line in call.splitlines() if line.startswith("dnnl_verbose,exec")]
        for position, row in enumerate(rows):
            layer, operations = _problem(row[3], row[-2])
            kinds[position] = layer, operations, row[4]
            fastest[position] = min(fastest.get(position, float("inf")), float(row[-1]))
    return _summed((*kinds[position], time) for position, time in fastest.items())


def _problem(kind, text):
    """A layer's description and floating-point operations, from oneDNN's notation (mb1_ic3oc16_ih416oh416kh3...)."""
    sizes = {key: int(value) for key, value in re.findall(r"(mb|ic|oc|ih|oh|ow|kh|kw)(\d+)", text)}
    if kind != "convolution":
        return ("pooling" if "pool" in kind else kind), 0
    operations = 2 * sizes["mb"] * sizes["ic"] * sizes["oc"] * sizes["oh"] * sizes["ow"] * sizes["kh"] * sizes["kw"]
    return _layer(sizes["kh"], sizes["ic"], sizes["oc"], sizes["ih"]), operations


def _layer(kernel, inputs, outputs, height):
    return f"conv {kernel}x{kernel}, {inputs} to {outputs}, {height} pixels"


def of_onnxruntime(path: pathlib.Path | None) -> dict[str, float]:
    """Layer -> milliseconds."""
    if path is None:
        return {}
    fastest, kinds = {}, {}
    for event in json.loads(path.read_text()):
        name = event["name"]
        if event["cat"] == "Node" and name.endswith("_kernel_time"):
            kinds[name] = _kind(event["args"])
            fastest[name] = min(fastest.get(name, float("inf")), event["dur"] / 1e3)
    sums = _summed((kinds[name], 0, "", time) for name, time in fastest.items())
    return {layer: time for layer, (time, *_) in sums.items()}


def _kind(event):
    """The layer that onnxruntime's profile describes, in the words of oneDNN's."""
    name = event["op_name"]
    if "Conv" in name:
        data, weight = (next(iter(entry.values())) for entry in event["input_type_shape"][:2])
        return _layer(kernel=weight[2], inputs=data[1], outputs=weight[0], height=data[2])
    if "Pool" in name:
        return "pooling"
    return "reorder" if "Reorder" in name else name


def _summed(rows):
    """Layer -> (milliseconds, floating-point operations, how each was run, how many)."""
    sums = collections.OrderedDict()
    for layer, operations, how, time in rows:
        before = sums.get(layer, (0, 0, set(), 0))
        sums[layer] = before[0] + time, before[1] + operations, before[2] | {how}, before[3] + 1
    return sums


def table(ours: dict[str, tuple], theirs: dict[str, float]) -> str:
    """Both beside each other in Markdown, with the speed of the convolutions."""
    lines = []
    for layer in [*ours, *(layer for layer in theirs if layer not in ours)]:
        time, operations, how, count = ours.get(layer, (0, 0, set(), 0))
        other = theirs.get(layer)
        lines.append([layer, str(count or ""), f"{time:.2f}" if count else "", _speed(operations, time),
                      "" if other is None else f"{other:.2f}", _speed(operations, other), ", ".join(sorted(how))])
    time, operations, other = (sum(row[0] for row in ours.values()), sum(row[1] for row in ours.values()),
                               sum(theirs.values()))
    lines.append(["all", "", f"{time:.2f}", _speed(operations, time), f"{other:.2f}", _speed(operations, other), ""])
    return tables.markdown(["layer", "times", "MXNet", "GFLOP/s", "onnxruntime", "GFLOP/s", "in oneDNN"], lines)


def _speed(operations, milliseconds):
    return f"{operations / milliseconds / 1e6:.0f}" if operations and milliseconds else ""


if __name__ == "__main__":
    run(sys.argv[1], *map(int, sys.argv[2:4]), pathlib.Path(sys.argv[4]))
