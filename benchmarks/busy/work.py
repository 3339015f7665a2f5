"""What a peer computes, in a process of its own: ``python -m benchmarks.busy.work CASE PEER FOLDER``.

It says READY when it has called its peer once. Then each line of its input is a number of seconds. It answers with the
seconds of its calls, as many as take that long.
"""
from __future__ import annotations

import json
import os
import pathlib
import sys
import time
from collections.abc import Callable

import numpy as np

from .cases import AFTER_COPY, ARITHMETIC, BESIDE, CASES, COMPILED, LENETS, MXNET, ORT, OURS, READY, TORCH, Case

Call = Callable[[], object]


def data(case: Case) -> np.ndarray:
    return np.random.RandomState(0).standard_normal(case.shape).astype("float32")


def operator_in_mxnet(case: Case, peer: str, folder: pathlib.Path) -> Call:
    """One of our operators or of MXNet's, called imperatively."""
    import gluonops as gops
    import mxnet as mx

    functions = {
        ("reorg", True): lambda x: gops.ops.reorg(x, stride=2, mode="DCR"),
        ("reorg", False): lambda x: mx.nd.space_to_depth(x, block_size=2),
        ("softmax", True): gops.ops.softmax,
        ("softmax", False): mx.nd.softmax,
        ("abs", True): gops.ops.abs,
        ("abs", False): mx.nd.abs,
    }
    function, x = functions[case.what, peer != MXNET], mx.nd.array(data(case))
    return lambda: function(x).wait_to_read()


def operator_in_onnxruntime(case: Case, peer: str, folder: pathlib.Path) -> Call:
    import onnx

    nodes = {"reorg": ("SpaceToDepth", {"blocksize": 2}), "softmax": ("Softmax", {"axis": -1}), "abs": ("Abs", {})}
    kind, attrs = nodes[case.what]
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node(kind, ["x"], ["y"], **attrs)], case.what, ends[:1], ends[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    return session(model.SerializeToString(), "x", data(case))


def session(model: bytes | str, name: str, x: np.ndarray) -> Call:
    import onnxruntime

    run = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run
    return lambda: run(None, {name: x})


def operator_in_torch(case: Case, peer: str, folder: pathlib.Path) -> Call:
    import torch

    functions = {"reorg": lambda x: torch.nn.functional.pixel_unshuffle(x, 2),
                 "softmax": lambda x: torch.softmax(x, -1),
                 "abs": torch.abs}
    function, x = functions[case.what], torch.from_numpy(data(case))
    return lambda: function(x)


def net_in_mxnet(case: Case, peer: str, folder: pathlib.Path) -> Call:
    """The exported network in Module, as a plain script runs it."""
    from ..networks import peers

    return peers.module(folder, data(case), "split")


def net_in_onnxruntime(case: Case, peer: str, folder: pathlib.Path) -> Call:
    return session(str(folder / "net.onnx"), "data", data(case))


def net_in_torch(case: Case, peer: str, folder: pathlib.Path) -> Call:
    from ..networks import peers

    return peers.in_torch(folder, data(case), "plain")


def training_in_mxnet(case: Case, peer: str, folder: pathlib.Path) -> Call:
    """Forward, loss, backward and SGD of the LeNet with reorg."""
    import gluonops as gops
    import mxnet as mx
    from mxnet.gluon import nn

    channels, last = LENETS[case.what]
    net, loss = nn.HybridSequential(), gops.loss.SoftmaxCELoss()
    net.add(nn.Conv2D(channels, 5, activation="tanh"), gops.nn.Reorg(2),
            nn.Conv2D(channels, 5, activation="tanh"), nn.Conv2D(last, 5, activation="tanh"),
            nn.Dense(500, activation="tanh"), nn.Dense(10))
    net.initialize(mx.init.Xavier())
    for block in (net, loss):
        block.hybridize(static_alloc=True)
    x, label = mx.nd.array(data(case)), mx.nd.arange(case.shape[0]) % 10
    net(x)
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1e-3, "momentum": 0.9})

    def step():
        with mx.autograd.record():
            losses = loss(net(x), label)
        losses.backward()
        trainer.step(case.shape[0])
        mx.nd.waitall()
    return step


def training_in_torch(case: Case, peer: str, folder: pathlib.Path) -> Call:
    import torch
    from torch import nn

    channels, last = LENETS[case.what]
    net = nn.Sequential(nn.Conv2d(1, channels, 5), nn.Tanh(), nn.PixelUnshuffle(2),
                        nn.Conv2d(4 * channels, channels, 5), nn.Tanh(), nn.Conv2d(channels, last, 5), nn.Tanh(),
                        nn.Flatten(), nn.Linear(16 * last, 500), nn.Tanh(), nn.Linear(500, 10))
    x, label = torch.from_numpy(data(case)), torch.arange(case.shape[0]) % 10
    optimizer = torch.optim.SGD(net.parameters(), 1e-3, momentum=0.9)

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), label).backward()
        optimizer.step()
    return step


def detector(case: Case, peer: str, folder: pathlib.Path) -> Call:
    from ..networks import training

    batch, _, size, _ = case.shape
    if peer == OURS:
        return training.our_step(case.what, batch, size)
    return training.torch_step(case.what, batch, size, compiled=peer == COMPILED)


def arithmetic_alone(case: Case, peer: str, folder: pathlib.Path) -> Call:
    from .arithmetic import arithmetic, arithmetic_in_layers

    return arithmetic(*case.shape, folder) if len(case.shape) == 1 else arithmetic_in_layers(*case.shape, folder)


MAKERS = {
    ("operator", OURS): operator_in_mxnet, ("operator", BESIDE): operator_in_mxnet,
    ("operator", AFTER_COPY): operator_in_mxnet, ("operator", MXNET): operator_in_mxnet,
    ("operator", ORT): operator_in_onnxruntime, ("operator", TORCH): operator_in_torch,
    ("call", OURS): operator_in_mxnet, ("call", MXNET): operator_in_mxnet, ("call", ORT): operator_in_onnxruntime,
    ("call", TORCH): operator_in_torch,
    ("net", OURS): net_in_mxnet, ("net", ORT): net_in_onnxruntime, ("net", TORCH): net_in_torch,
    ("training", OURS): training_in_mxnet, ("training", TORCH): training_in_torch,
    ("detector", OURS): detector, ("detector", TORCH): detector, ("detector", COMPILED): detector,
    ("arithmetic", ARITHMETIC): arithmetic_alone,
}


def copy_in_numpy(case: Case) -> Call:
    """A copy of other data of that shape: one thread, which then takes no processor, but the caches."""
    source = data(case)
    target = np.empty_like(source)
    return lambda: np.copyto(target, source)


def called_before(case: Case, peer: str, folder: pathlib.Path) -> Call | None:
    """What is called before each call, untimed."""
    if peer == BESIDE:
        return operator_in_torch(case, TORCH, folder)
    return copy_in_numpy(case) if peer == AFTER_COPY else None


def timed(call: Call, seconds: float, before: Call | None = None) -> list[float]:
    """The seconds of each call, as many as take so long. ``before`` is called before each, untimed."""
    taken, left = [], seconds
    while left > 0:
        if before:
            before()
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
        left -= taken[-1]
    return taken


def main(name: str, peer: str, folder: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)   # libraries print to stderr: stdout is for answers
    case = next(case for case in CASES if case.name == name)
    call = MAKERS[case.kind, peer](case, peer, pathlib.Path(folder))
    before = called_before(case, peer, pathlib.Path(folder))
    call()   # torch.compile compiles now
    print(READY, file=answers, flush=True)
    for line in sys.stdin:
        timed(call, float(line) / 4, before)   # wakes the threads and fills the caches
        print(json.dumps(timed(call, float(line), before)), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
