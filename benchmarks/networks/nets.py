"""The exported networks, with random weights, and their files."""
from __future__ import annotations

import importlib.util
import os
import pathlib
import sys

import gluonops as gops
import mxnet as mx
import numpy as np
from gluonops.darknet import Convolution, MaxPool
from mxnet.gluon import HybridBlock

PADDED = {"fold_batch_norm": True, "pad_channels": True}
SPLIT = {**PADDED, "split_channels": True}
# Prefix of the files: options of the export. The last ones become PyTorch's.
FILES = {"padded": PADDED, "split": SPLIT, "folded": {"backend": "custom", "fold_batch_norm": True}}


class Small(HybridBlock):
    """YOLOv2 in miniature, for quick runs: every kind of layer that the networks have, with a few channels."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.fine, self.pool, self.coarse = Convolution(4, 3, 3), MaxPool(2, 2), Convolution(8, 3, 4)
            self.side, self.reorg, self.same = Convolution(4, 1, 4), gops.nn.Reorg(2), MaxPool(2, 1)
            self.output = Convolution(6, 1, 24, batch_norm=False, activation="linear")

    def hybrid_forward(self, F, data):
        fine = self.fine(data)
        merged = F.concat(self.reorg(self.side(fine)), self.same(self.coarse(self.pool(fine))), dim=1)
        return F.Flatten(F.Pooling(self.output(merged), kernel=(1, 1), global_pool=True, pool_type="avg"))


def make(name: str, size: int) -> HybridBlock:
    """A network with random weights, the same in every run, that keep activations near 1."""
    mx.random.seed(0)
    rng = np.random.RandomState(0)
    net = Small() if name == "small" else gops.models.get_model(name)
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


def write(name: str, size: int, folder: str | os.PathLike) -> None:
    """Export a network into a folder in every form that the peers read."""
    net, folder, shape = make(name, size), pathlib.Path(folder), (1, 3, size, size)
    for prefix, options in FILES.items():
        gops.export.symbol(net, folder / prefix, shape, **options)
    if importlib.util.find_spec("onnx"):
        gops.export.onnx(net, folder / "net.onnx", shape, fold_batch_norm=True)
    if importlib.util.find_spec("torch"):
        gops.export.torch(net, folder / "torch", shape)
        gops.export.torch(folder / "folded", folder / "torch_folded", shape)


def write_int8(name: str, size: int, folder: str | os.PathLike) -> None:
    """Export a network into a folder in float32 and in 8 bits, for MXNet and for onnxruntime."""
    net, folder, shape = make(name, size), pathlib.Path(folder), (1, 3, size, size)
    images = np.random.RandomState(2).uniform(size=(5, *shape[1:])).astype(np.float32)
    gops.export.symbol(net, folder / "split", shape, **SPLIT)
    gops.export.onnx(net, folder / "net.onnx", shape, fold_batch_norm=True)
    print(gops.export.quantize(net, folder / "int8", images, onnx=folder / "int8.onnx", method="naive"), flush=True)


if __name__ == "__main__":
    {"float": write, "int8": write_int8}[sys.argv[4]](sys.argv[1], int(sys.argv[2]), sys.argv[3])
