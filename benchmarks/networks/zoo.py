"""Exports a net of each family of gluoncv's zoo in every form, and compares each form with MXNet.

    python -m benchmarks.networks.zoo                 # all families, half an hour on two cores
    python -m benchmarks.networks.zoo resnet18_v1b    # one net again

Each net has random weights, scaled layer by layer so that no output vanishes. A difference is the largest one of an
output, divided by the largest number of that output. The time is the CPU time of two images in one process, in
milliseconds: set OMP_NUM_THREADS=1. An int8 net's error is that of :func:`gluonops.export.quantize`. Results of earlier
runs stay in zoo.json, from which `make docs` makes the table of docs/zoo.md.
"""
from __future__ import annotations

import argparse
import functools
import os
import pathlib
import runpy
import tempfile
import warnings
from collections.abc import Callable

import gluonops as gops
import mxnet as mx
import numpy as np
from mxnet import gluon

from ..harness import results, turns
from . import gluoncv_nets
from .darknet_cfgs import milliseconds

RESULTS = pathlib.Path(__file__).with_suffix(".json")
SEED = 7
BATCH, CALIBRATION = 2, 10   # images


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("net", nargs="*", help="names of gluoncv's zoo (default: one of each family)")
    for name in parser.parse_args().net or gluoncv_nets.NETS:
        with turns.Peer("benchmarks.networks.zoo", os.environ) as process:   # its memory ends with it
            try:
                row = process.ask("measure", name)
            except turns.PeerEnded:
                row = {"refused": "the process ended"}
        print(name, row, flush=True)
        results.add(RESULTS, name, row)


def make() -> dict[str, Callable]:
    """What the process of a net does."""
    return {"measure": measure}


def measure(name: str) -> dict:
    """The size of the images; and a difference, milliseconds or the reason of a refusal for each form."""
    net, shape = gluoncv_nets.made(name), gluoncv_nets.NETS[name]
    draws = np.random.RandomState(SEED)
    images = draws.uniform(-1, 1, (1 if name in gluoncv_nets.TWO_STAGES else BATCH, *shape)).astype("float32")
    gluoncv_nets.scale(net, mx.nd.array(images[:1]), draws)
    expected = gluoncv_nets.outputs_of(net, images)
    folded = functools.partial(symbol, fold_batch_norm=True, pad_channels=True)
    forms = {"symbol": symbol, "folded": folded, "onnx": onnx, "int8": int8, "torch": torch}
    row = {"size": " x ".join(map(str, shape))}
    for form, run in forms.items():
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                row[form] = run(net, images, expected, pathlib.Path(folder))
            except (gops.OpError, mx.MXNetError) as error:
                row[form] = {"refused": str(error).splitlines()[0][:200]}
    return row


def compared(call: Callable, expected: list[np.ndarray]) -> dict:
    """The difference of a form, and its milliseconds."""
    return {"difference": gluoncv_nets.difference(expected, call()), "ms": milliseconds(call)}


def symbol(net, images, expected, folder, **options) -> dict:
    path, parameters = gops.export.symbol(net, folder / "net", images.shape, **options)
    imported = gluon.SymbolBlock.imports(path, ["data"], parameters)
    imported.hybridize(static_alloc=True)
    return compared(lambda: gluoncv_nets.outputs_of(imported, images), expected)


def onnx(net, images, expected, folder) -> dict:
    import onnxruntime
    gops.export.onnx(net, folder / "net.onnx", (1, *images.shape[1:]))
    session = onnxruntime.InferenceSession(str(folder / "net.onnx"), providers=["CPUExecutionProvider"])
    feeds = {session.get_inputs()[0].name: images}
    return compared(lambda: session.run(None, feeds), expected)


def int8(net, images, expected, folder) -> dict:
    """Quantized with noise; the error is of the result on batches that are held out."""
    gops.export.symbol(net, folder / "net", images.shape)
    data = np.random.RandomState(SEED + 1).uniform(-1, 1, (CALIBRATION, *images.shape[1:])).astype("float32")
    quantized = gops.export.quantize(folder / "net", folder / "small", data)
    return {"difference": max(quantized.errors.values())}


def torch(net, images, expected, folder) -> dict:
    """Export in float32. The export itself compares in float64."""
    import torch as pytorch
    gops.export.torch(net, folder / "torch", images.shape)
    loaded = runpy.run_path(str(folder / "torch" / "net.py"))["load"]()

    def call():
        with pytorch.no_grad():
            outputs = loaded(pytorch.from_numpy(images))
        return [output.numpy() for output in (outputs if isinstance(outputs, tuple) else (outputs,))]
    return compared(call, expected)


if __name__ == "__main__":
    main()
