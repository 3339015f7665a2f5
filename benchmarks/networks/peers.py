"""Who runs an exported network. Each peer has a process of its own, so that none meets another one's threads."""
from __future__ import annotations

import json
import os
import pathlib
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..common import machine
from .cases import (
    AS_IT_STARTS,
    COMPILED,
    EAGER,
    EAGER_TUNED,
    FUSED,
    INT8,
    LAST,
    MODULE,
    NAIVE,
    NATIVE,
    NET,
    ORT,
    ORT_INT8,
    UNFOLDED,
    UNPADDED,
    UNSPLIT,
)

if TYPE_CHECKING:   # each peer imports only what it runs
    import numpy as np
    import onnxruntime


def module(folder: pathlib.Path, data: np.ndarray, prefix: str) -> Callable:
    """Binding fuses layers by default: MXNET_SUBGRAPH_BACKEND is MKLDNN unless set."""
    import gluonops  # noqa: F401  (first: it makes mxnet importable)
    import mxnet as mx

    loaded = mx.mod.Module.load(str(folder / prefix), 0, label_names=None)
    loaded.bind([("data", data.shape)], for_training=False)
    batch = mx.io.DataBatch([mx.nd.array(data)])

    def run():
        loaded.forward(batch, is_train=False)
        return loaded.get_outputs()[0].asnumpy()
    return run


def fused(folder: pathlib.Path, data: np.ndarray, prefix: str) -> Callable:
    import gluonops  # noqa: F401
    import mxnet as mx

    block = mx.gluon.SymbolBlock.imports(f"{folder / prefix}-symbol.json", ["data"], f"{folder / prefix}-0000.params")
    data = mx.nd.array(data)
    block.optimize_for(data, backend="MKLDNN", static_alloc=True, static_shape=True)
    return lambda: block(data).asnumpy()


def unexported(folder: pathlib.Path, data: np.ndarray, name: str) -> Callable:
    import mxnet as mx

    from . import nets

    net, data = nets.make(name, data.shape[-1]), mx.nd.array(data)
    net.hybridize(static_alloc=True, static_shape=True)
    return lambda: net(data).asnumpy()


def in_onnxruntime(folder: pathlib.Path, data: np.ndarray, options: onnxruntime.SessionOptions | None = None,
                   file: str = "net.onnx") -> Callable:
    import onnxruntime

    options = options or onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
    session = onnxruntime.InferenceSession(str(folder / file), options, ["CPUExecutionProvider"])
    return lambda: session.run(None, {"data": data})[0]


def in_torch(folder: pathlib.Path, data: np.ndarray, prefix: str, channels_last: bool = False,
             compiled: bool = False) -> Callable:
    import torch

    from . import torch_net

    net, data = torch_net.in_torch(str(folder / prefix)), torch.from_numpy(data)
    if channels_last:
        net, data = net.to(memory_format=torch.channels_last), data.to(memory_format=torch.channels_last)
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
    NATIVE: lambda *where: fused(*where, "native"),
    UNSPLIT: lambda *where: module(*where, "padded"),
    UNPADDED: lambda *where: module(*where, "folded"),
    UNFOLDED: lambda *where: module(*where, "unfolded"),
    NET: lambda *where: unexported(*where, os.environ["GLUONOPS_DEPLOY_NET"]),
    AS_IT_STARTS: lambda *where: module(*where, "split"),
    INT8: lambda *where: module(*where, "int8"),
    ORT: in_onnxruntime,
    ORT_INT8: lambda *where: in_onnxruntime(*where, file="int8.onnx"),
    EAGER: lambda *where: in_torch(*where, "plain"),
    EAGER_TUNED: lambda *where: in_torch(*where, "plain"),
    LAST: lambda *where: in_torch(*where, "bare", channels_last=True),
    COMPILED: lambda *where: in_torch(*where, "bare", compiled=True),
}


def environment(peer: str, net: str, threads: int) -> dict:
    """The environment of a peer's process: threads, MXNet's engine and glibc's allocator, as its name says.

    MXNet's default is half the processors. TORCHINDUCTOR_FREEZING tells torch.compile that weights are constant, so
    that it converts them to oneDNN's layout once.
    """
    variables = {key: value for key, value in os.environ.items()
                 if not key.startswith(("MALLOC_", "GLUONOPS_", "OMP_", "MXNET_"))}
    variables.update(PYTHONWARNINGS="ignore", MXNET_SUBGRAPH_VERBOSE="0", TORCHINDUCTOR_FREEZING="1",
                     GLUONOPS_DEPLOY_NET=net)
    if peer == AS_IT_STARTS:
        variables["GLUONOPS_TUNE_THREADS"] = "0"
    else:
        variables["OMP_NUM_THREADS"] = str(threads)
    if peer in (EAGER_TUNED, LAST, COMPILED):   # these allocate every layer's output; the others plan memory
        variables.update(machine.KEEPING_MALLOC)
    if peer == NAIVE:
        variables["MXNET_ENGINE_TYPE"] = "NaiveEngine"
    return variables


def serve(peer: str, folder: str, size: int, batch: int, spoil: bool) -> None:
    """Answer orders from standard input, in JSON on standard output, until it ends.

    ``save FILE`` saves the output there; ``time SECONDS`` answers with the seconds of calls, as many as take that long.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)   # libraries print to stderr: stdout is for answers
    import gluonops  # noqa: F401  (tunes the allocator if the environment asks for it)
    import numpy as np

    from . import nets

    run = PEERS[peer](pathlib.Path(folder), nets.image(batch, size))
    for line in sys.stdin:
        order, word = line.strip().split(" ", 1)
        answer = None
        if order == "save":
            np.save(word, run() + spoil)
        else:
            run()   # wakes the threads and fills the caches
            answer = []
            while sum(answer) < float(word) or not answer:
                start = time.perf_counter()
                run()
                answer.append(time.perf_counter() - start)
        print(json.dumps(answer), file=answers, flush=True)
