"""The exported networks, with random weights, and their files."""
from __future__ import annotations

import importlib.util
import pathlib
import sys

import gluonops as gops
import mxnet as mx
import numpy as np
from mxnet.gluon import HybridBlock

PADDED = {"fold_batch_norm": True, "pad_channels": True}
SPLIT = {**PADDED, "split_channels": True}
# Prefix of the files: options of the export. The folded ones become PyTorch's.
FILES = {"float": {"padded": PADDED, "split": SPLIT, "folded": {"backend": "custom", "fold_batch_norm": True}},
         "int8": {"split": SPLIT}}
SMALL = {"width": 0.125, "head_channels": (16, 16)}   # a miniature of tiny_yolov2, for quick runs


def make(name: str, size: int) -> HybridBlock:
    """A network with random weights, the same in every run, that keep activations near 1."""
    mx.random.seed(0)
    rng = np.random.RandomState(0)
    net = gops.models.tiny_yolov2(**SMALL) if name == "small" else gops.models.get_model(name)
    net.initialize(mx.init.MSRAPrelu(factor_type="in", slope=0.1))
    net(mx.nd.array(image(1, size)))
    ranges = {"gamma": (0.8, 1.2), "beta": (-0.2, 0.2), "running_mean": (-0.2, 0.2), "running_var": (0.5, 1.5)}
    for parameter in net.collect_params(".*(gamma|beta|running_mean|running_var)").values():
        low, high = next(ends for word, ends in ranges.items() if parameter.name.endswith(word))
        parameter.set_data(mx.nd.array(rng.uniform(low, high, parameter.shape)))
    return net


def image(batch: int, size: int) -> np.ndarray:
    """Random pixels in NumPy, (batch, 3, size, size)."""
    return np.random.RandomState(1).uniform(size=(batch, 3, size, size)).astype(np.float32)


def write(name: str, size: str, folder: str, form: str) -> None:
    """Export a network into a folder in every form that the peers read; in 8 bits with what these are compared with."""
    shape, folder = (1, 3, int(size), int(size)), pathlib.Path(folder)
    net = make(name, int(size))
    if form == "int8":
        images = np.random.RandomState(2).uniform(size=(5, *shape[1:])).astype(np.float32)
        result = gops.export.quantize(net, folder / "int8", images, onnx=folder / "int8.onnx", method="naive",
                                      limit=0.1)   # without a warning
        print(result, flush=True)
    for prefix, options in FILES[form].items():
        gops.export.symbol(net, folder / prefix, shape, **options)
    if importlib.util.find_spec("onnx"):
        gops.export.onnx(net, folder / "net.onnx", shape, fold_batch_norm=True)
    if importlib.util.find_spec("torch") and form == "float":
        gops.export.torch(net, folder / "torch", shape)
        gops.export.torch(folder / "folded", folder / "torch_folded", shape)


if __name__ == "__main__":
    write(*sys.argv[1:])
