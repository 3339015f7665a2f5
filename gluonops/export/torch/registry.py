"""The table of converters: what each operator is in torch."""
from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.errors import OpError
from ..graph import Node, is_ours, our_name
from ..onnx.model import Call as NodeValues

CONVERTERS = {}   # operator -> function

# The classes of torch in use: their parameters in order, and the defaults of those that have one.
SIGNATURES = {
    "BatchNorm": {"channels": None, "eps": 1e-5, "momentum": 0.1, "fix_gamma": False, "use_global_stats": False},
    "DarknetBatchNorm": {"channels": None, "eps": 1e-12, "momentum": 0.01},
    "Clip": {"low": None, "high": None},
    "nn.AdaptiveAvgPool": {"output_size": None},
    "nn.AdaptiveMaxPool": {"output_size": None},
    "nn.AvgPool": {"kernel_size": None, "stride": None, "padding": 0, "ceil_mode": False, "count_include_pad": True},
    "nn.Conv": {"in_channels": None, "out_channels": None, "kernel_size": None, "stride": 1, "padding": 0,
                "dilation": 1, "groups": 1, "bias": True},
    "nn.ConvTranspose": {"in_channels": None, "out_channels": None, "kernel_size": None, "stride": 1, "padding": 0,
                         "output_padding": 0, "groups": 1, "bias": True, "dilation": 1},
    "nn.Dropout": {"p": None},
    "SharedDropout": {"p": None, "axes": None},
    "nn.ELU": {"alpha": 1.0},
    "nn.Embedding": {"num_embeddings": None, "embedding_dim": None},
    "nn.GroupNorm": {"num_groups": None, "num_channels": None, "eps": 1e-5},
    "nn.InstanceNorm": {"num_features": None, "eps": 1e-5, "momentum": 0.1, "affine": False},
    "nn.LayerNorm": {"normalized_shape": None, "eps": 1e-5},
    "nn.LeakyReLU": {"negative_slope": 0.01},
    "nn.Linear": {"in_features": None, "out_features": None, "bias": True},
    "nn.LocalResponseNorm": {"size": None, "alpha": 1e-4, "beta": 0.75, "k": 1.0},
    "nn.LogSoftmax": {"dim": None},
    "nn.MaxPool": {"kernel_size": None, "stride": None, "padding": 0, "dilation": 1, "return_indices": False,
                   "ceil_mode": False},
    "nn.PReLU": {"num_parameters": 1},
    "nn.Softmax": {"dim": None},
    "nn.Upsample": {"size": None, "scale_factor": None},
}


_RECURRENT = {"input_size": None, "hidden_size": None, "num_layers": 1, "dropout": 0.0, "bidirectional": False}
SIGNATURES.update({"nn.LSTM": _RECURRENT, "nn.GRU": _RECURRENT, "nn.RNN": {**_RECURRENT, "nonlinearity": "tanh"}})


@dataclasses.dataclass
class Form:
    """What a node is in torch.

    - ``text``: an expression of the inputs ``{0}``, ``{1}``, ...; None if only a module computes it.
    - ``module``: the class of a module that computes it from its data; None if there is none.
    - ``args``: the arguments of the module, all that SIGNATURES lists and whose value may differ from the default.
    - ``state``: the module's parameters and buffers -> the position of the variable among the node's inputs.
    - ``call``: how the module is called.
    - ``data``: the positions of the inputs that the expression or the call reads.
    - ``outputs``: how many tensors it returns; more than one is a tuple.
    """
    text: str | None = None
    module: str | None = None
    args: dict[str, Any] = dataclasses.field(default_factory=dict)
    state: dict[str, int] = dataclasses.field(default_factory=dict)
    call: str = "{self}({0})"
    data: tuple[int, ...] | None = None
    outputs: int = 1


class Call(NodeValues):
    """A node to convert, with its attributes as values.

    - ``free``: for each input the axes whose size differs between images or batches.
    - ``free_output``: those of the first output.
    """

    def __init__(self, node: Node, sizes: Any, free: dict):
        super().__init__(node, [], sizes)
        self.free = [free[entry] for entry in node.inputs]
        self.free_output = free[node, 0]

    @property
    def ndim(self) -> int:
        return len(self.shapes[0])

    def refuse(self, what: str) -> OpError:
        return refusal(self.node, what)


class Single(float):
    """A number that MXNet holds in float32, whatever the data are.

    net.py has it as it was meant. What is compared with MXNet in float64 has the rounded one: see :func:`exact`.
    """

    def __repr__(self) -> str:
        return f"single({float(self)!r})"


def plain(text: str) -> str:
    """A source with such numbers as they were meant."""
    return re.sub(r"single\(([^()]+)\)", r"\1", text)


def exact(text: str) -> str:
    """A source with such numbers as MXNet computes with them."""
    return re.sub(r"single\(([^()]+)\)", lambda match: repr(float(np.float32(match[1]))), text)


def converts(*names: str) -> Callable:
    """Enter the decorated function for these operators: ``convert(call)`` returns a Form, or its text."""
    def enter(function: Callable) -> Callable:
        CONVERTERS.update(dict.fromkeys(names, function))
        return function
    return enter


def converter_of(node: Node) -> Callable | None:
    """The converter of a node; those of our operators are entered as ``gluonops.<name>``."""
    name = f"gluonops.{our_name(node)}" if is_ours(node) else node.op
    return CONVERTERS.get(name)


def signature(module: str) -> dict[str, Any]:
    """The parameters of a class and their defaults. ``nn.Conv2d`` and its like are entered without the dimensions."""
    return SIGNATURES.get(module) or SIGNATURES.get(module.rstrip("d").rstrip("123"), {})


def refusal(node: Node, what: str) -> OpError:
    """An OpError for a node that has no converter, or that its converter does not support."""
    op = our_name(node) if is_ours(node) else node.op
    return OpError("export.torch", f"the node {node.name!r} ({op}) {what}",
                   "Replace it in the net, or export ONNX")


def one(values: tuple) -> Any:
    """A kernel, stride or padding: the number if all axes have the same."""
    return values[0] if len(set(values)) == 1 else tuple(values)
