"""Whether every cfg that Darknet ships loads, how near it comes to its program, and whether it exports to ONNX.

    python -m benchmarks.networks.darknet_cfgs CFG ... --program pjreddie=PATH --program alexeyab=PATH
    python -m benchmarks.networks.darknet_cfgs --write      # the table of docs/darknet.md, from darknet_cfgs.json

A program is tests/golden/darknet/record.c, built with one of the two Darknets; without one a net is only loaded and
exported. The folder of a cfg has the program's name, which is the dialect. Parameters are random, and batch norms fit
the input, so that numbers keep their size through a deep network. The image is small where the network takes any size.
A deviation is the largest difference of a layer's output, in that layer's standard deviations. Results of earlier runs
stay in darknet_cfgs.json.
"""
from __future__ import annotations

import argparse
import os
import pathlib
import re
import subprocess
import tempfile

import gluonops as gops
import mxnet as mx
import numpy as np
from gluonops.darknet.weighted import Weighted

from ..common import results as files

ROOT = pathlib.Path(__file__).parents[2]
RESULTS = pathlib.Path(__file__).with_suffix(".json")
PAGE = ROOT / "docs" / "darknet.md"
BEGIN, END = "<!-- cfgs: made by benchmarks.networks.darknet_cfgs -->", "<!-- end of cfgs -->"
SIZES = (96, 128, 256)   # tried in this order
SEED = 5
# The last layers of these kinds return another thing than gluonops: the loss, another order, nothing.
NOT_COMPARED = {"cost", "contrastive"}
OTHER_ORDER = {("alexeyab", "region")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cfg", type=pathlib.Path, nargs="*")
    parser.add_argument("--program", action="append", default=[], help="NAME=PATH")
    parser.add_argument("--write", action="store_true", help="write the table of docs/darknet.md")
    args = parser.parse_args()
    programs = dict(word.split("=", 1) for word in args.program)
    results = files.load(RESULTS) if RESULTS.exists() else {}
    for cfg in args.cfg:
        name = f"{cfg.parent.name}/{cfg.stem}"
        results[name] = measure(cfg, programs.get(cfg.parent.name))
        print(name, results[name], flush=True)
        files.save(RESULTS, dict(sorted(results.items())))
    if args.write:
        write(results)


def measure(cfg: pathlib.Path, program: str | None) -> dict:
    """What is known about a cfg: size, refused, deviation, layer, onnx."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            path, net = smallest(cfg, pathlib.Path(folder))
        except gops.OpError as error:
            is_recurrent = re.search(r"(?m)^\s*(inputs|time_steps)\s*=", cfg.read_text(errors="replace"))
            return {"refused": "recurrent" if is_recurrent else str(error)}
        image = np.random.RandomState(SEED).uniform(0, 1, (1, *net.input_shape)).astype("<f4")
        outputs = fill(net, mx.nd.array(image))
        row = {"size": "{2} x {1}".format(*net.input_shape)}
        if program:
            theirs = predict(program, path, net, image, pathlib.Path(folder))
            row["deviation"], row["layer"] = deviation(net, outputs, theirs, cfg.parent.name)
        row["onnx"] = export(net, pathlib.Path(folder) / "net.onnx")
    return row


def smallest(cfg: pathlib.Path, folder: pathlib.Path) -> tuple[pathlib.Path, gops.darknet.DarknetNet]:
    """The cfg at the smallest size that its network takes, in a folder, and the net."""
    net = gops.darknet.load(cfg, dialect=cfg.parent.name)
    text = cfg.read_text(errors="replace")
    path = folder / cfg.name
    for tree in cfg.parent.parent.glob("*.tree"):
        (folder / tree.name).write_bytes(tree.read_bytes())
        text = re.sub(rf"tree *= *\\S*{tree.name}", f"tree={tree.name}", text)
    sizes = [size for size in SIZES if size < min(net.input_shape[1:])] if net._detections else []
    for size in (*sizes, None):
        head, bracket, rest = text.partition("\n[")
        for key in ("width", "height"):
            head = re.sub(rf"(?m)^\s*{key}\s*=.*$", f"{key}={size}", head) if size else head
        for key in ("batch", "subdivisions"):
            head = re.sub(rf"(?m)^\s*{key}\s*=.*$", f"{key}=1", head)
        path.write_text(head + bracket + rest)
        try:
            return path, gops.darknet.load(path, dialect=cfg.parent.name)
        except gops.OpError:
            if size is None:
                raise


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
        if norm is not None and norm.name not in filled:
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
    """Means and variances near those of the data."""
    first = layer.conv if hasattr(layer, "conv") else layer.dense
    numbers = first(data).asnumpy()
    axes = tuple(i for i in range(numbers.ndim) if i != 1)
    mean, variance = numbers.mean(axes), numbers.var(axes)
    if numbers.size == numbers.shape[1]:   # one number for each channel has no variance
        variance = np.full_like(mean, numbers.var())
    spread = np.sqrt(variance.mean())
    norm.running_mean.set_data(mx.nd.array(mean + 0.1 * spread * draws.standard_normal(mean.shape)))
    norm.running_var.set_data(mx.nd.array((variance + 0.01 * spread ** 2) * draws.uniform(0.8, 1.25, mean.shape)))


def predict(program: str, cfg: pathlib.Path, net: gops.darknet.DarknetNet, image: np.ndarray,
            folder: pathlib.Path) -> list[np.ndarray]:
    """What the program computes: the output of every layer."""
    weights, data, out = (folder / name for name in ("weights", "input", "out"))
    gops.darknet.save_weights(net, weights)
    image.tofile(data)
    fold = "1" if "xnor" in cfg.stem else "0"
    subprocess.run([os.path.abspath(program), cfg.name, weights, data, out, fold], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    weights.unlink()
    numbers, at, outputs = np.fromfile(out, "<f4"), 1, []
    for _ in range(numbers.view("<i4")[0]):
        count = numbers.view("<i4")[at]
        outputs.append(numbers[at + 4:at + 4 + count])
        at += 4 + count
    return outputs


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


def export(net: gops.darknet.DarknetNet, path: pathlib.Path) -> str:
    """'detections' or 'outputs' if the net exports with them, else the error."""
    detects = bool(net._detections)
    try:
        gops.export.onnx(net.detector() if detects else net, path, (1, *net.input_shape))
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]
    path.unlink()
    return "detections" if detects else "outputs"


def write(results: dict[str, dict]) -> None:
    """Put the table into the page."""
    lines = [BEGIN, "| cfg | loads | image | worst deviation | ONNX |", "|---|---|---|---|---|"]
    for name, row in sorted(results.items()):
        if "refused" in row:
            lines.append(f"| {name} | no: {row['refused']} | | | |")
            continue
        found = f"{row['deviation']:.1e} ({row['layer']})" if "deviation" in row else "not measured"
        onnx = row.get("onnx", "not measured")
        lines.append(f"| {name} | yes | {row['size']} | {found} | {onnx} |")
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(before + "\n".join([*lines, END]) + after, encoding="utf-8")


if __name__ == "__main__":
    main()
