"""Who runs an exported network. Each peer has a process of its own: see ``benchmarks/harness/turns.py``."""
from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..harness import turns

if TYPE_CHECKING:   # each peer imports only what it runs
    import numpy as np

MODULE, NAIVE, FUSED = OURS = "Module", "Module, NaiveEngine", "optimize_for"
UNSPLIT, NET, AS_IT_STARTS = "Module, not split", "the net, hybridized", "Module, MXNet's own settings"
INT8, ORT_INT8 = "Module, int8", "onnxruntime, int8"
ORT, EAGER, EAGER_TUNED, COMPILED = (
    "onnxruntime", "torch eager", "torch eager, allocator tuned", "torch.compile, folded, frozen")


def make(peer: str, folder: str, net: str, size: int, batch: int, spoil: bool) -> dict[str, Callable]:
    """``time(seconds)`` of a peer's calls, and ``save(file)``, which saves its output."""
    import gluonops  # noqa: F401  (first: it makes mxnet importable, and tunes the allocator)
    import numpy as np

    from . import nets

    image = nets.image(batch, size)
    run = unexported(net, image) if peer == NET else PEERS[peer](pathlib.Path(folder), image)
    return {"time": lambda seconds: turns.timed(run, seconds), "save": lambda file: np.save(file, run() + spoil)}


def module(folder: pathlib.Path, data: np.ndarray, prefix: str) -> Callable:
    """Binding fuses layers by default: MXNET_SUBGRAPH_BACKEND is MKLDNN unless set."""
    import gluonops  # noqa: F401
    import mxnet as mx

    loaded = mx.mod.Module.load(str(folder / prefix), 0, label_names=None)
    loaded.bind([("data", data.shape)], for_training=False)
    batch = mx.io.DataBatch([mx.nd.array(data)])

    def run():
        loaded.forward(batch, is_train=False)
        return loaded.get_outputs()[0].asnumpy()
    return run


def fused(folder: pathlib.Path, data: np.ndarray, prefix: str) -> Callable:
    import mxnet as mx

    block = mx.gluon.SymbolBlock.imports(f"{folder / prefix}-symbol.json", ["data"], f"{folder / prefix}-0000.params")
    data = mx.nd.array(data)
    block.optimize_for(data, backend="MKLDNN", static_alloc=True, static_shape=True)
    return lambda: block(data).asnumpy()


def unexported(name: str, data: np.ndarray) -> Callable:
    import mxnet as mx

    from . import nets

    net, data = nets.make(name, data.shape[-1]), mx.nd.array(data)
    net.hybridize(static_alloc=True, static_shape=True)
    return lambda: net(data).asnumpy()


def in_onnxruntime(model: str | bytes, data: np.ndarray, name: str = "data") -> Callable:
    """A file or its content, with as many threads as OMP_NUM_THREADS says, or else onnxruntime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", 0))
    session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    return lambda: session.run(None, {name: data})[0]


def in_torch(folder: pathlib.Path, data: np.ndarray, name: str = "torch", compiled: bool = False) -> Callable:
    import torch
    from gluonops.export.torch.verify import load

    net, data = load(folder / name).load().eval().requires_grad_(False), torch.from_numpy(data)
    if compiled:
        net = torch.compile(net, dynamic=False)

    def run():
        with torch.no_grad():
            return net(data).numpy()
    return run


PEERS = {
    MODULE: lambda *where: module(*where, "split"),
    NAIVE: lambda *where: module(*where, "split"),
    FUSED: lambda *where: fused(*where, "split"),
    UNSPLIT: lambda *where: module(*where, "padded"),
    AS_IT_STARTS: lambda *where: module(*where, "split"),
    INT8: lambda *where: module(*where, "int8"),
    ORT: lambda folder, image: in_onnxruntime(str(folder / "net.onnx"), image),
    ORT_INT8: lambda folder, image: in_onnxruntime(str(folder / "int8.onnx"), image),
    EAGER: in_torch,
    EAGER_TUNED: in_torch,
    COMPILED: lambda *where: in_torch(*where, "torch_folded", compiled=True),
}
