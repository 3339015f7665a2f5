"""Runs the written net in torch: its outputs, and a step of it beside the same step in MXNet."""
from __future__ import annotations

import contextlib
import copy
import importlib.util
import math
import pathlib
import types
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from ...contract.errors import OpError
from ...runtime import importing
from ..model import ExportedModel
from ..sizes import Shapes
from ..tolerance import GRADIENT

if importing.is_imported():
    from ..draws import Values
    from ..tolerance import differs
    from .reference import Reference, head_gradient

WHERE = "export.torch"
STATE = " after a step"


class Port(NamedTuple):
    """A written net, and what it comes from.

    - ``model``: the user's own, with all labels if it is for training. ``is_trained``: whether it is.
    - ``inputs``: the names of its arguments. ``keys``: name in torch -> name in MXNet.
    - ``trained``: the names of the parameters that MXNet trains.
    - ``shapes``: of the inputs in training. In evaluation mode the model's own are compared as well.
    - ``computed``: the names of the nodes that it computes. ``convert``: writes the net that returns the first outputs
      of some nodes to a folder.
    """
    model: ExportedModel
    is_trained: bool
    inputs: list[str]
    keys: dict[str, str]
    trained: Collection[str]
    shapes: Shapes
    computed: set[str]
    convert: Callable[[pathlib.Path, list[str]], None]


class Step:
    """A step of the written net: it returns outputs, gradients of parameters and of inputs, and states.

    - ``is_training``: whether batch norms use the batch, or their statistics.
    - ``parameters``: the keys of those that have a gradient. ``states``: key -> name in MXNet.
    - ``vectors``: the names of the parameters in MXNet, each once. ``names``: of what follows the outputs.
    - ``reordered``: the keys of the states that MXNet updates in another order.
    """

    def __init__(self, net: Any, port: Port, parts: dict, readers: dict, inputs: list[str], is_training: bool):
        self._net, self._port, self._parts, self._inputs, self._is_training = net, port, parts, inputs, is_training
        self._dtype = torch.float32
        own = readers.keys() | parts.keys()   # The others are constants that the export has computed.
        self.parameters = [key for key, value in stored_in(net).items() if port.keys.get(key) in own
                           and (value.requires_grad or port.keys[key] in port.trained)]
        self.states = {key: port.keys[key] for key, _ in net.named_buffers() if port.keys.get(key) in readers
                       and key not in self.parameters}
        self._shared = {key for key, name in self.states.items() if len(readers[name]) > 1}
        names = [port.keys[key] for key in self.parameters]
        self.vectors = list(dict.fromkeys(parts[name].vector if name in parts else name for name in [*names, *inputs]))
        self.names = [*(f"{GRADIENT}{key}" for key in [*self.parameters, *inputs]),
                      *(f"{key}{STATE}" for key in self.states)]
        self.reordered: set[str] = set()
        self._theirs: dict[str, np.ndarray] = {}

    def parted(self, arrays: list[np.ndarray], outputs: int) -> list[np.ndarray]:
        """MXNet's results in the order of this one's."""
        gradients = dict(zip(self.vectors, arrays[outputs:]))
        parts = []
        for key in self.parameters:
            name = self._port.keys[key]
            if name in self._parts:
                _, begin, shape = self._parts[name]
                parts.append(gradients[self._parts[name].vector][begin:begin + math.prod(shape)].reshape(shape))
            else:
                parts.append(gradients[name])
        parts += [gradients[name] for name in self._inputs]
        states = arrays[outputs + len(self.vectors):]
        self._theirs = dict(zip(self.states, states))   # of the last run
        return [*arrays[:outputs], *parts, *states]

    def in_double(self, values: Values) -> list[np.ndarray] | None:
        """Return the same in float64, or None if the source has a type that does not allow it."""
        exact = copy.copy(self)
        exact._net, exact._dtype, exact.reordered = copy.deepcopy(self._net).double(), torch.float64, set()
        try:
            return exact(values)
        except (OpError, RuntimeError):   # of the net, and of its backward pass
            return None

    def __call__(self, values: Values) -> list[np.ndarray]:
        net = self._net.train(self._is_training)
        before = {key: value.clone() for key, value in net.named_buffers()}
        net.zero_grad()
        tensors = {name: tensor_of(values[name]).to(self._dtype) for name in self._port.inputs}
        for name in self._inputs:
            tensors[name].requires_grad_()
        outputs = tensors_of(net, list(tensors.values()))
        with_gradient = [output for output in outputs if output.requires_grad]
        torch.autograd.backward(with_gradient, [torch.from_numpy(head_gradient(output.shape)).to(output.dtype)
                                                for output in with_gradient])
        stored = stored_in(net)
        sources = [*(stored[key] for key in self.parameters), *(tensors[name] for name in self._inputs)]
        gradients = [torch.zeros_like(source) if source.grad is None else source.grad for source in sources]
        states = {key: stored[key].numpy().copy() for key in self.states}
        for key in self._shared:   # MXNet updates them in its backward pass: perhaps in another order
            if differs(self._theirs[key], states[key], self._theirs[key]):
                self.reordered.add(key)
                states[key] = self._theirs[key]
        with torch.no_grad():
            for key, value in net.named_buffers():
                value.copy_(before[key])
        return [*map(array_of, outputs), *(gradient.numpy().copy() for gradient in gradients), *states.values()]


class Parted:
    """A reference, whose results have the order of a step's."""

    def __init__(self, reference: Reference, step: Step):
        self._reference, self._step = reference, step
        self.model, self.entries, self.inside = reference.model, reference.entries, reference.inside

    def __call__(self, values: Values) -> list[np.ndarray]:
        return self._step.parted(self._reference(values), len(self.entries))

    def others(self, values: Values, drawing: np.random.RandomState) -> Iterator[list[np.ndarray]]:
        for arrays in self._reference.others(values, drawing):
            yield self._step.parted(arrays, len(self.entries))

    def in_double(self, values: Values) -> tuple[list[np.ndarray], list[np.ndarray]] | None:
        """MXNet's results and the step's, both in float64; None if one of them has none."""
        theirs = self._reference.in_double(values)
        ours = None if theirs is None else self._step.in_double(values)
        return None if ours is None else (self._step.parted(theirs, len(self.entries)), ours)


def stored_in(net: Any) -> dict[str, torch.Tensor]:
    """All parameters and buffers."""
    return {**dict(net.named_parameters()), **dict(net.named_buffers())}


def loaded(folder: pathlib.Path) -> Any:
    """Return the net of net.py in a folder, whose dropout drops nothing, with MXNet's momentum, a float32."""
    with explained():
        net = load(folder).load()
    for module in net.modules():
        for name in {"p", "dropout"}.intersection(vars(module)):   # a dropout, or a recurrent layer
            setattr(module, name, 0.0)
        if type(module).__name__.endswith("BatchNorm"):
            module.momentum = 1 - float(np.float32(round(1 - module.momentum, 12)))
    return net


def load(folder: pathlib.Path) -> types.ModuleType:
    """Return the module of net.py in a folder."""
    spec = importlib.util.spec_from_file_location("net", folder / "net.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Make an OpError of what net.py raises."""
    try:
        yield
    except OpError:
        raise
    except Exception as error:   # the source is wrong, in whatever way
        raise OpError(WHERE, f"net.py fails: {type(error).__name__}: {error}",
                      "Report it with the net; nothing was written") from error


def tensor_of(array: np.ndarray) -> torch.Tensor:
    """Return what the written net takes: whole numbers are floats, too."""
    return torch.from_numpy(np.asarray(array, np.float32, order="C"))


def array_of(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().numpy()


def tensors_of(net: Any, arrays: list) -> list[torch.Tensor]:
    """Return the outputs of a net. An OpError is raised if it fails."""
    with explained():
        outputs = net(*arrays)
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]


def outputs_of(net: Any, arrays: list) -> list[np.ndarray]:
    return [*map(array_of, tensors_of(net, arrays))]
