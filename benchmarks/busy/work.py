"""What a peer computes, in a process of its own."""
from __future__ import annotations

import pathlib
from collections.abc import Callable

import numpy as np

from ..harness import turns
from ..networks import peers

LENETS = {"lenet": (20, 50), "lenet16": (16, 48)}   # channels of the first two convolutions, and of the third
Call = Callable[[], object]


def make(kind: str, what: str, shape: list[int], peer: str, folder: str) -> dict[str, Callable]:
    """``time(seconds)`` of a peer's calls."""
    data = np.random.RandomState(0).standard_normal(shape).astype("float32")
    call = MAKERS[kind, peer](what, data, pathlib.Path(folder))
    return {"time": lambda seconds: turns.timed(call, seconds)}


def our_operator(what: str, data: np.ndarray, folder: pathlib.Path) -> Call:
    """Called imperatively."""
    import gluonops as gops
    import mxnet as mx

    functions = {"reorg": lambda x: gops.ops.reorg(x, stride=2, mode="DCR"), "softmax": gops.ops.softmax}
    function, x = functions[what], mx.nd.array(data)
    return lambda: function(x).wait_to_read()


def operator_in_onnxruntime(what: str, data: np.ndarray, folder: pathlib.Path) -> Call:
    import onnx

    nodes = {"reorg": ("SpaceToDepth", {"blocksize": 2}), "softmax": ("Softmax", {"axis": -1})}
    kind, attrs = nodes[what]
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node(kind, ["x"], ["y"], **attrs)], what, ends[:1], ends[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    return peers.in_onnxruntime(model.SerializeToString(), data, "x")


def operator_in_torch(what: str, data: np.ndarray, folder: pathlib.Path) -> Call:
    import torch

    functions = {"reorg": lambda x: torch.nn.functional.pixel_unshuffle(x, 2),
                 "softmax": lambda x: torch.softmax(x, -1)}
    function, x = functions[what], torch.from_numpy(data)
    return lambda: function(x)


def our_training(what: str, data: np.ndarray, folder: pathlib.Path) -> Call:
    """Trains the LeNet with reorg."""
    import gluonops as gops
    import mxnet as mx
    from mxnet.gluon import nn

    from ..networks import training

    channels, last = LENETS[what]
    net = nn.HybridSequential()
    net.add(nn.Conv2D(channels, 5, activation="tanh"), gops.nn.Reorg(2),
            nn.Conv2D(channels, 5, activation="tanh"), nn.Conv2D(last, 5, activation="tanh"),
            nn.Dense(500, activation="tanh"), nn.Dense(10))
    net.initialize(mx.init.Xavier())
    return training.step_of(net, gops.loss.SoftmaxCELoss(), "sgd", 1e-3, data, np.arange(len(data)) % 10)


def training_in_torch(what: str, data: np.ndarray, folder: pathlib.Path) -> Call:
    from torch import nn

    from ..networks import torch_training

    channels, last = LENETS[what]
    net = nn.Sequential(nn.Conv2d(1, channels, 5), nn.Tanh(), nn.PixelUnshuffle(2),
                        nn.Conv2d(4 * channels, channels, 5), nn.Tanh(), nn.Conv2d(channels, last, 5), nn.Tanh(),
                        nn.Flatten(), nn.Linear(16 * last, 500), nn.Tanh(), nn.Linear(500, 10))
    return torch_training.step_of(net, nn.functional.cross_entropy, 1e-3, data, np.arange(len(data)) % 10)


def our_detector(what: str, data: np.ndarray, folder: pathlib.Path) -> Call:
    from ..networks import training

    images, ground_truth = training.draw(len(data), data.shape[-1])
    return training.step_of_detector(training.make(what, images), images, ground_truth)


def detector_in_torch(what: str, data: np.ndarray, folder: pathlib.Path) -> Call:
    from ..networks import torch_training

    return torch_training.detector_step(what, len(data), data.shape[-1])


MAKERS = {
    ("operator", "gluonops"): our_operator,
    ("operator", "onnxruntime"): operator_in_onnxruntime,
    ("operator", "torch"): operator_in_torch,
    ("net", "gluonops"): lambda what, data, folder: peers.module(folder, data, "split"),
    ("net", "onnxruntime"): lambda what, data, folder: peers.in_onnxruntime(str(folder / "net.onnx"), data),
    ("net", "torch"): lambda what, data, folder: peers.in_torch(folder, data),
    ("training", "gluonops"): our_training,
    ("training", "torch"): training_in_torch,
    ("detector", "gluonops"): our_detector,
    ("detector", "torch"): detector_in_torch,
}
