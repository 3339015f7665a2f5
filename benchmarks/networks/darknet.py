"""Milliseconds per image of Darknet's networks: ours, onnxruntime, torch, and Darknet itself, where installed.

    python -m benchmarks.networks.darknet                                  # yolov2 and its tiny variant at 416 x 416
    python -m benchmarks.networks.darknet --libdarknet .../libdarknet.so   # beside Darknet, built from its sources
    python -m benchmarks.networks.darknet --cfg net.cfg --size 608

Weights are random, the same for every peer; every peer's output is compared with ours before it is timed. Peers are
called in turn and the median is printed. Leave the machine alone meanwhile.
"""
from __future__ import annotations

import argparse
import ctypes
import os
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", str(len(os.sched_getaffinity(0))))   # MXNet's default is half of them

import gluonops as gops  # noqa: E402  (MXNet reads the environment when it is imported)
import mxnet as mx  # noqa: E402
import numpy as np  # noqa: E402
from gluonops.darknet import activations, layers  # noqa: E402

from . import peers as deployed  # noqa: E402

try:
    import onnxruntime
except ImportError:
    onnxruntime = None
try:
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))   # next to MXNet it would take one
except ImportError:
    torch = None

GOLDEN = pathlib.Path(__file__).parents[2] / "tests" / "golden" / "darknet"
CFGS = [GOLDEN / "yolov2-voc.cfg", GOLDEN / "yolov2-tiny-voc.cfg"]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--cfg", type=pathlib.Path, nargs="+", default=CFGS, help="networks that end in [region]")
    options.add_argument("--size", type=int, default=416, help="height and width of the image")
    options.add_argument("--runs", type=int, default=15, help="calls of every peer")
    options.add_argument("--libdarknet", help="Darknet's shared library; it runs at the cfg's size only")
    args = options.parse_args()
    print(f"{'network':<18}{'peer':<26}{'ms/image':>9}")
    for cfg in args.cfg:
        with tempfile.TemporaryDirectory() as folder:
            for peer, milliseconds in measure(cfg, args.size, args.runs, args.libdarknet, folder):
                print(f"{cfg.stem:<18}{peer:<26}{milliseconds:>9.1f}", flush=True)


def measure(cfg: pathlib.Path, size: int, runs: int, libdarknet: str | None, folder: str) -> list[tuple[str, float]]:
    """(peer, median milliseconds) of every peer."""
    net = gops.darknet.load(cfg)
    net.initialize(mx.init.Xavier())
    weights = f"{folder}/random.weights"
    gops.darknet.save_weights(net, weights)
    image = np.random.RandomState(0).rand(1, 3, size, size).astype("float32")
    expected = net(mx.nd.array(image)).asnumpy()

    peers = {
        "gluonops, hybridized": hybridized(net, image),
        "gluonops, Module": module(net, image, folder),
        "gluonops, with detections": hybridized(net.detector(), image),
    }
    if onnxruntime is not None:
        peers["onnxruntime"] = exported(net, image, folder)
    if torch is not None:
        peers["torch, eager"] = eager_torch(net, image)
    if libdarknet and net.input_shape[1:] == (size, size):
        peers["Darknet"] = darknet(libdarknet, cfg, weights, image, expected.size)

    for name, run in peers.items():
        if "detections" not in name:
            np.testing.assert_allclose(np.ravel(run()), expected.ravel(), rtol=1e-2, atol=1e-3, err_msg=name)

    times = {name: [] for name in peers}
    for _ in range(runs):
        for name, run in peers.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return [(name, 1000 * statistics.median(seconds)) for name, seconds in times.items()]


def hybridized(block: mx.gluon.HybridBlock, image: np.ndarray) -> Callable:
    block.hybridize(static_alloc=True, static_shape=True)
    data = mx.nd.array(image)

    def run():
        outputs = block(data)
        first = outputs[0] if isinstance(outputs, (list, tuple)) else outputs
        return first.asnumpy()

    return run


def module(net: mx.gluon.HybridBlock, image: np.ndarray, folder: str) -> Callable:
    """The exported graph in Module, where MXNet fuses convolution, batch norm and activation."""
    gops.export.symbol(net, f"{folder}/net", image.shape)
    return deployed.module(pathlib.Path(folder), image, "net")


def exported(net: mx.gluon.HybridBlock, image: np.ndarray, folder: str) -> Callable:
    """The net as an ONNX file, in onnxruntime with a thread per processor."""
    gops.export.onnx(net, f"{folder}/net.onnx", image.shape)
    return deployed.in_onnxruntime(pathlib.Path(folder), image)


def eager_torch(net: mx.gluon.HybridBlock, image: np.ndarray) -> Callable:
    """The same layers in torch, with the same weights."""
    made = [torch_layer(layer) for layer in net]
    sources, data = net._sources, torch.from_numpy(image)

    def run():
        outputs = []
        with torch.no_grad():
            for layer, inputs in zip(made, sources):
                outputs.append(layer(*[outputs[i] if i >= 0 else data for i in inputs]))
        return outputs[-1].numpy()
    return run


def torch_layer(layer: mx.gluon.Block) -> Callable:
    """A function of torch's tensors for one of our layers."""
    functional = torch.nn.functional
    if isinstance(layer, layers.Convolution):
        return torch_convolution(layer)
    if isinstance(layer, layers.MaxPool):
        size, stride = (layer._kwargs[key][0] for key in ("kernel", "stride"))
        if layer._cut:
            return lambda x: functional.max_pool2d(functional.pad(x, (0, 1, 0, 1), "replicate"), size, stride)
        return lambda x: functional.max_pool2d(x, size, stride)
    if isinstance(layer, layers.Route):
        return lambda *x: torch.cat(x, 1)
    if isinstance(layer, gops.nn.Reorg):
        def reorg(x):
            batch, channels, height, width = x.shape
            blocks = x.reshape(batch, channels * height // 4, 2, 2, width // 2, 2)
            return blocks.permute(0, 2, 5, 1, 3, 4).reshape(batch, channels * 4, height // 2, width // 2)
        return reorg

    def region(x):
        anchors, classes = len(layer._options["anchors"]) // 2, layer._options["classes"]
        cells = x.reshape(len(x), anchors, 5 + classes, -1)
        places = cells[:, :, :2].sigmoid()
        sizes = cells[:, :, 2:4]
        objectness = cells[:, :, 4:5].sigmoid()
        probabilities = cells[:, :, 5:].softmax(2)
        return torch.cat([places, sizes, objectness, probabilities], 2).reshape(x.shape)

    return region


def torch_convolution(layer: layers.Convolution) -> Callable:
    functional = torch.nn.functional

    def value(parameter):
        return torch.from_numpy(parameter.data().asnumpy())

    weight, norm = value(layer.conv.weight), layer.norm
    padding = weight.shape[2] // 2
    if norm is None:
        bias = value(layer.conv.bias)
        return lambda x: functional.conv2d(x, weight, bias, padding=padding)
    norm_values = [value(p) for p in (norm.running_mean, norm.running_var, norm.gamma, norm.beta)]

    def normalized(x):
        convolved = functional.conv2d(x, weight, padding=padding)
        return functional.leaky_relu(functional.batch_norm(convolved, *norm_values), activations.SLOPE)

    return normalized


def darknet(path: str, cfg: pathlib.Path, weights: str, image: np.ndarray, count: int) -> Callable:
    """Darknet's own library."""
    library = ctypes.CDLL(path)
    library.load_network.restype = ctypes.c_void_p
    library.network_predict.restype = ctypes.POINTER(ctypes.c_float)
    library.network_predict.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    network = library.load_network(str(cfg).encode(), str(weights).encode(), 0)
    library.set_batch_network(ctypes.c_void_p(network), 1)
    image = np.ascontiguousarray(image)

    def run():
        return np.ctypeslib.as_array(library.network_predict(network, image.ctypes.data), (count,))
    return run


if __name__ == "__main__":
    main()
