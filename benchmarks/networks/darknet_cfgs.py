"""Whether every cfg that Darknet ships loads, how near it comes to its program, and whether it exports to ONNX.

    python -m benchmarks.networks.darknet_cfgs CFG ... --program pjreddie=PATH --double pjreddie=PATH

A program is tests/golden/darknet/record.c, built with one of the two Darknets; its double is built with float64 for
float32 (tests/golden/README.md says how). Without them a net is only loaded and exported. The folder of a cfg has the
program's name, which is the dialect. Parameters are random, and batch norms fit the input, so that numbers keep their
size through a deep network. The image is small where the network takes any size. A deviation is the largest difference
of a layer's output, in that layer's standard deviations: of float32 from the program, and of float64 from its double,
which tells rounding from another computation. An ONNX file is run in onnxruntime; its deviation is that of the outputs,
or the largest difference of a score of the detections. The speed is that of one image in one thread, as milliseconds of
CPU time, so that it says something on a busy machine too: of the exported network in Module, in onnxruntime, and in the
program; without detections. Set OMP_NUM_THREADS=1. Results of earlier runs stay in
darknet_cfgs.json, from which `make docs` makes the table of docs/darknet.md.
"""
from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import re
import statistics
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable

import gluonops as gops
import mxnet as mx
import numpy as np
import onnxruntime
from gluonops.darknet.weighted import Weighted

from ..harness import results
from . import peers

RESULTS = pathlib.Path(__file__).with_suffix(".json")
SIZES = (96, 128, 256)   # tried in this order
SEED = 5
THRESHOLD = 0.1   # scores of detections are at least so large
# The last layers of these kinds return another thing than gluonops: the loss, another order, nothing.
NOT_COMPARED = {"cost", "contrastive"}
OTHER_ORDER = {("alexeyab", "region")}
FLOAT, DOUBLE = np.dtype("<f4"), np.dtype("<f8")
HEADER = 20       # bytes of the header of a file of weights
ROUNDS = 5        # timed calls of each peer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cfg", type=pathlib.Path, nargs="+")
    parser.add_argument("--program", action="append", default=[], help="NAME=PATH, of float32")
    parser.add_argument("--double", action="append", default=[], help="NAME=PATH, of float64")
    args = parser.parse_args()
    programs, doubles = (dict(word.split("=", 1) for word in words) for words in (args.program, args.double))
    for cfg in args.cfg:
        program = cfg.parent.name
        name = f"{program}/{cfg.stem}"
        row = measure(cfg, programs.get(program), doubles.get(program))
        print(name, row, flush=True)
        results.add(RESULTS, name, row)


def measure(cfg: pathlib.Path, program: str | None, double: str | None) -> dict:
    """What is known about a cfg: size, own_size, refused, deviation, layer, double, onnx, and the milliseconds."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        try:
            own, path, net = smallest(cfg, folder)
        except gops.OpError as error:
            is_recurrent = re.search(r"(?m)^\s*(inputs|time_steps)\s*=", cfg.read_text(errors="replace"))
            return {"refused": "recurrent" if is_recurrent else str(error)}
        image = np.random.RandomState(SEED).uniform(0, 1, (1, *net.input_shape)).astype(FLOAT)
        outputs = fill(net, mx.nd.array(image))
        shapes = {"size": net.input_shape, "own_size": own}
        row = {name: f"{width} x {height}" for name, (_, height, width) in shapes.items()}
        if program:
            theirs, row["program_ms"] = predict(program, path, net, image, folder, FLOAT)
            row["deviation"], row["layer"] = deviation(net, outputs, theirs, cfg.parent.name)
        row["onnx"], row["onnx_deviation"] = export(net, image, folder / "net.onnx")
        row.update(speed(net, image, folder))
        if double and "xnor" not in cfg.stem:   # its weights are packed into bits of float32
            theirs, _ = predict(double, path, net, image, folder, DOUBLE)
            net.cast("float64")
            outputs = [output.asnumpy() for output in net.layer_outputs(mx.nd.array(image, dtype="float64"))]
            row["double"], _ = deviation(net, outputs, theirs, cfg.parent.name)
    return row


def smallest(cfg: pathlib.Path, folder: pathlib.Path) -> tuple[tuple, pathlib.Path, gops.darknet.DarknetNet]:
    """The net's own input shape; the cfg at the smallest size that its network takes, in a folder; the net of that."""
    net = gops.darknet.load(cfg, dialect=cfg.parent.name)
    own = net.input_shape
    for size in (*[size for size in SIZES if size < min(own[1:])], None):
        path = with_size(cfg, folder, size)
        try:
            return own, path, gops.darknet.load(path, dialect=cfg.parent.name)
        except gops.OpError:
            if size is None:
                raise


def with_size(cfg: pathlib.Path, folder: pathlib.Path, size: int | None = None) -> pathlib.Path:
    """A copy of a cfg in a folder, for one image, of another height and width if ``size`` is given."""
    text = cfg.read_text(errors="replace")
    for other in (*cfg.parent.parent.glob("*.tree"), *cfg.parent.parent.glob("*.map")):
        (folder / other.name).write_bytes(other.read_bytes())
        text = re.sub(rf"= *\S*{other.name}", f"={other.name}", text)
    head, rest = re.match(r"(.*?\[net.*?)(\n\[.*)", text, re.DOTALL).groups()   # [net], the layers
    # AlexeyAB's program reads no contrastive net of less; it runs on one image all the same.
    values = {"batch": 2 if "contrastive=" in head else 1, "subdivisions": 1}
    if size:
        values.update(width=size, height=size)
    for key, value in values.items():
        head = re.sub(rf"(?m)^\s*{key}\s*=.*$", f"{key}={value}", head)
    path = folder / cfg.name
    path.write_text(head + rest)
    return path


def fill(net: gops.darknet.DarknetNet, image: mx.nd.NDArray) -> list[np.ndarray]:
    """Give a net random parameters, and its batch norms the statistics of their inputs. Return every layer's output."""
    draws = np.random.RandomState(SEED + 1)
    net.initialize()
    outputs = []
    filled = set()
    for layer, sources in zip(net, net._sources):
        inputs = [outputs[i] if i >= 0 else image for i in sources]
        if isinstance(layer, Weighted):
            _draw(layer, draws, filled)
        norm = getattr(layer, "norm", None)
        if norm is not None and norm.running_mean.name not in filled:
            _calibrate(layer, norm, inputs[0], draws)
        outputs.append(layer(*inputs))
        filled.update(parameter.name for parameter in layer.collect_params().values())
    return [output.asnumpy() for output in outputs]


def _draw(layer: Weighted, draws: np.random.RandomState, filled: set[str]) -> None:
    """Weights that keep the size of numbers, and small biases."""
    for parameter in layer.file_parameters():
        shape = parameter.shape
        if parameter.name in filled:
            continue
        if parameter.name.endswith("weight") and len(shape) > 1:
            value = draws.standard_normal(shape).astype("float32") * np.float32(np.sqrt(2 / np.prod(shape[1:])))
        elif parameter.name.endswith("gamma"):
            value = draws.uniform(0.7, 1.3, shape)
        else:
            value = 0.1 * draws.standard_normal(shape)
        parameter.set_data(mx.nd.array(np.abs(value) if parameter.name.endswith("var") else value))


def _calibrate(layer: Weighted, norm: mx.gluon.nn.BatchNorm, data: mx.nd.NDArray, draws: np.random.RandomState) -> None:
    """Means and variances near those of all data: one map may have too few numbers to tell its own."""
    first = layer.conv if hasattr(layer, "conv") else layer.dense
    numbers = first(data).asnumpy()
    mean, spread, shape = numbers.mean(), numbers.std(), norm.running_mean.shape
    norm.running_mean.set_data(mx.nd.array(mean + 0.3 * spread * draws.standard_normal(shape)))
    norm.running_var.set_data(mx.nd.array(spread ** 2 * draws.uniform(0.5, 2, shape)))


def predict(program: str, cfg: pathlib.Path, net: gops.darknet.DarknetNet, image: np.ndarray,
            folder: pathlib.Path, dtype: np.dtype) -> tuple[list[np.ndarray], float]:
    """What the program computes: the output of every layer; the milliseconds that it took.

    A double's file of weights has float64 behind its header.
    """
    weights, data, out = (folder / name for name in ("weights", "input", "out"))
    gops.darknet.save_weights(net, weights)
    content = weights.read_bytes()
    numbers = np.frombuffer(content, FLOAT, offset=HEADER).astype(dtype)
    weights.write_bytes(content[:HEADER] + numbers.tobytes())
    image.astype(dtype).tofile(data)
    fold = "1" if "xnor" in cfg.stem else "0"
    done = subprocess.run([os.path.abspath(program), cfg.name, weights, data, out, fold], cwd=folder, check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    weights.unlink()
    recorded = out.read_bytes()
    layers, at, outputs = struct.unpack_from("<i", recorded)[0], 4, []
    for _ in range(layers):
        count, _, _, _ = struct.unpack_from("<4i", recorded, at)
        outputs.append(np.frombuffer(recorded, dtype, count, at + 16))
        at += 16 + count * dtype.itemsize
    return outputs, 1e3 * float(done.stdout.split()[-1])


def deviation(net: gops.darknet.DarknetNet, ours: list[np.ndarray], theirs: list[np.ndarray],
              program: str) -> tuple[float, str]:
    """The largest deviation of a layer, and its name."""
    worst, where = 0.0, ""
    for name, one, other in zip(net._children, ours, theirs):
        kind = name.split("_", 1)[1]
        if kind in NOT_COMPARED or (program, kind) in OTHER_ORDER:
            continue
        spread = other.std()
        difference = float(np.abs(one.ravel() - other).max() / (spread if spread > 0 else 1))
        if not difference <= worst:
            worst, where = difference, name
    return worst, where


def export(net: gops.darknet.DarknetNet, image: np.ndarray, path: pathlib.Path) -> tuple[str, float | None]:
    """'detections' or 'outputs' if the net exports with them, and their deviation in onnxruntime; else the error."""
    detects = bool(net._detections)
    block = net.detector(clear_threshold(net, image)) if detects else net
    try:
        gops.export.onnx(block, path, image.shape)
        theirs = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"data": image})
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200], None
    ours = block(mx.nd.array(image))
    path.unlink()
    if detects:
        _, scores, _ = ours
        return "detections", float(np.abs(scores.asnumpy() - theirs[1]).max())
    difference = np.abs(ours.asnumpy() - theirs[0]).max()
    return "outputs", float(difference / theirs[0].std())


def clear_threshold(net: gops.darknet.DarknetNet, image: np.ndarray) -> float:
    """A threshold of scores with less candidates above it than the detector suppresses, and none near it.

    So rounding does not decide which candidate is the last one.
    """
    _, scores, _ = net.detector(THRESHOLD, nms=1.0)(mx.nd.array(image))   # an IoU of 1 suppresses nothing
    scores = scores.asnumpy().ravel()
    if scores[-1] <= 0:
        return THRESHOLD
    later = scores[len(scores) // 2:]
    widest = np.argmin(np.diff(later))
    return float(later[widest] + later[widest + 1]) / 2


def speed(net: gops.darknet.DarknetNet, image: np.ndarray, folder: pathlib.Path) -> dict[str, float]:
    """The milliseconds of an image in the exported network."""
    calls = {}
    with contextlib.suppress(gops.OpError):   # a network that exports to neither form has no speed there
        gops.export.symbol(net, folder / "net", image.shape, fold_batch_norm=True, pad_channels=True)
        calls["gluonops"] = peers.module(folder, image, "net")
        gops.export.onnx(net, folder / "net.onnx", image.shape)
        calls["onnxruntime"] = peers.in_onnxruntime(str(folder / "net.onnx"), image)
    taken = {peer: [] for peer in calls}
    for _ in range(ROUNDS):
        for peer, call in calls.items():
            taken[peer].append(milliseconds(call))
    return {f"{peer}_ms": statistics.median(times) for peer, times in taken.items()}


def milliseconds(call: Callable) -> float:
    """CPU time of the second of two calls, of all threads: the first one finds the caches cold."""
    call()
    begin = time.process_time()
    call()
    return 1e3 * (time.process_time() - begin)


if __name__ == "__main__":
    main()
