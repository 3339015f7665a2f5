"""What a node is in torch, and how numbers are written in its source. It needs no torch."""
from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np

# The defaults of the arguments of torch's classes and of those in snippets.txt, by class where they differ. An argument
# without a default is written by its position.
DEFAULTS = {
    "affine": False, "bias": True, "bidirectional": False, "ceil_mode": False, "count_include_pad": True, "dilation": 1,
    "dropout": 0.0, "eps": 1e-5, "fix_gamma": False, "groups": 1, "momentum": 0.1, "negative_slope": 0.01,
    "nonlinearity": "tanh", "num_layers": 1, "num_parameters": 1, "output_padding": 0, "padding": 0, "stride": 1,
    "use_global_stats": False,
    "nn.ELU.alpha": 1.0, "nn.LocalResponseNorm.alpha": 1e-4, "nn.LocalResponseNorm.beta": 0.75,
    "nn.LocalResponseNorm.k": 1.0, "nn.MaxPool.stride": None, "nn.AvgPool.stride": None, "nn.Upsample.scale_factor": 0,
    "DarknetBatchNorm.eps": 1e-12, "DarknetBatchNorm.momentum": 0.01,
}


@dataclasses.dataclass
class Form:
    """What a node is in torch.

    - ``text``: an expression of the inputs ``{0}``, ``{1}``, ..., of which ``*{inputs}`` are all; None if only a module
      computes it. Any other word in braces is an attribute of the node. Of a node with a state it is for parameters
      that are computed.
    - ``module``: the class of a module that computes it from its data; None if there is none.
    - ``args``: the arguments of the module, all whose value may differ from the default.
    - ``state``: the module's parameters and buffers -> the position of the variable among the node's inputs.
    - ``call``: how the module is called, with the inputs that are none of its state.
    - ``outputs``: how many tensors it returns; more than one is a tuple.
    """
    text: str | None = None
    module: str | None = None
    args: dict[str, Any] = dataclasses.field(default_factory=dict)
    state: dict[str, int] = dataclasses.field(default_factory=dict)
    call: str = "{self}(*{inputs})"
    outputs: int = 1


class Single(float):
    """A number that MXNet holds in float32, whatever the data are.

    net.py has it as it was meant. The tests, which compare in float64, write what float32 makes of it.
    """

    @classmethod
    def meant(cls, number: float) -> float:
        """A number that float32 holds exactly as the short one that was meant: 0.001 for MXNet's 1e-3f."""
        return cls(float(str(np.float32(number)))) if float(np.float32(number)) == number else number

    def __repr__(self) -> str:
        return repr(float(self))


def number(value: object) -> str:
    """An attribute as an engineer writes it: 2, and not 2.0."""
    if isinstance(value, float) and not np.isfinite(value):
        return f"float('{value}')"
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e6
    return str(int(value)) if is_whole else repr(value)


def default_of(module: str, name: str) -> Any:
    """The default of an argument of a class; None if it has none."""
    module = re.sub(r"\dd$", "", module)
    return DEFAULTS.get(f"{module}.{name}", DEFAULTS.get(name))


def one(values: tuple) -> Any:
    """A kernel, stride or padding: the number if all axes have the same."""
    return values[0] if len(set(values)) == 1 else tuple(values)
