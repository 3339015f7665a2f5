"""The tables of MXNet's operators, and how a family enters its functions; :mod:`gluonops.export.operators` explains."""
from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

from ...contract.op import PREFIX
from ..graph import Node, is_ours, our_name

# The calls of converters and ONNX's tensors, whose modules import this package: see ``onnx.builder`` and
# ``torch.converters``.
OnnxCall = TorchCall = Tensor = Any
SHAPES: dict[str, Callable] = {}   # operator -> its shape rule; the contracts of gluonops's operators have theirs
ONNX: dict[str, Callable] = {}     # operator -> its converter to ONNX
OPSETS: dict[str, int] = {}        # operator -> the first version of ONNX's operators that has what it needs
TORCH: dict[str, Any] = {}         # operator -> its converter to torch, or the Form or the text that it always is
VALUES: dict[str, Callable] = {}   # operator -> what NumPy computes of the values of its inputs, as MXNet to the bit
TRAITS: dict[str, Traits] = {}


@dataclasses.dataclass(frozen=True)
class Traits:
    """What passes ask about an operator.

    - ``has_weights``: it reads a weight, as a convolution, a dense layer and an embedding do.
    - ``has_parameters``: all its inputs but the first are parameters of a layer.
    - ``normalizes``: it subtracts a mean and divides by a deviation.
    - ``uses_statistics``: it normalizes with running statistics at inference.
    - ``is_linear``: its inputs are data, a weight and perhaps a bias, and it multiplies and adds them.
    - ``is_activation``: a function of each element alone, which belongs to the layer in front of it.
    - ``is_gate``: such a function, which often makes factors for another branch.
    - ``is_loss``: MXNet's; it makes a loss of its first input, and reads labels behind it.
    - ``is_of_floats``: torch computes it with floats alone, or makes floats; MXNet's results of integers are integers.
    - ``moves``: its outputs have the numbers of its first input as they are, or some of them, perhaps in another type.
    - ``is_identity``: at inference it returns its first input, perhaps without a gradient.
    """
    has_weights: bool = False
    has_parameters: bool = False
    normalizes: bool = False
    uses_statistics: bool = False
    is_linear: bool = False
    is_activation: bool = False
    is_gate: bool = False
    is_loss: bool = False
    is_of_floats: bool = False
    moves: bool = False
    is_identity: bool = False


NONE = Traits()


class Entered:
    """A function of a family, with what of a call it takes: it is called with the call alone.

    - ``inputs``: whether it takes the inputs behind the call: their shapes in a shape rule, their tensors in ONNX.
    - ``attributes``: the names of the attributes that it takes.
    - ``constants``: what the decorator passes, to tell operators apart.
    """

    def __init__(self, function: Callable, constants: dict[str, Any]):
        parameters = inspect.signature(function).parameters.values()
        positional = [each for each in parameters if each.kind != each.KEYWORD_ONLY]
        own = {each.name: each.default for each in parameters if each.kind == each.KEYWORD_ONLY}
        unknown = constants.keys() - own.keys()
        if unknown:
            raise TypeError(f"{function.__qualname__} takes no {', '.join(sorted(unknown))}")
        self.function = function
        self.inputs = len(positional) > 1
        self.constants = constants
        self.attributes = tuple(name for name, default in own.items()
                                if default is inspect.Parameter.empty and name not in constants)

    def __call__(self, call: Any, *inputs: Any) -> Any:
        """What the function returns. ``inputs``: other ones than the call's, as the values of arrays."""
        record = call.attributes if self.attributes else {}
        inputs = (inputs or call.operands) if self.inputs else ()
        return self.function(call, *inputs, **{name: record[name] for name in self.attributes}, **self.constants)


def shape(*names: str, **constants: Any) -> Callable:
    """Enter the decorated function as the shape rule of these operators."""
    return _enter(SHAPES, names, constants)


def values(*names: str, **constants: Any) -> Callable:
    """Enter the decorated function as what NumPy computes of the values of these operators' inputs."""
    return _enter(VALUES, names, constants)


def onnx(*names: str, opset: int | None = None, **constants: Any) -> Callable:
    """Enter the decorated function as the converter of these operators to ONNX.

    ``opset``: the first version of ONNX's operators that has what they need.
    """
    if opset is not None:
        OPSETS.update(dict.fromkeys(names, opset))
    return _enter(ONNX, names, constants)


def torch(*names: str, **constants: Any) -> Callable:
    """Enter the decorated function as the converter of these operators to torch. It returns a Form, or its text."""
    return _enter(TORCH, names, constants)


def in_torch(names: str | tuple[str, ...], form: Any) -> None:
    """Enter what operators always are in torch: a Form, or its text."""
    TORCH.update(dict.fromkeys([names] if isinstance(names, str) else names, form))


def traits(*names: str, **given: bool) -> None:
    """Enter traits of operators."""
    for name in names:
        TRAITS[name] = dataclasses.replace(TRAITS.get(name, NONE), **given)


def traits_of(node: Node) -> Traits:
    """The traits of a node's operator."""
    return TRAITS.get(operator_of(node), NONE)


def having(*words: str) -> frozenset[str]:
    """The operators that have at least one of these traits."""
    return frozenset(name for name, found in TRAITS.items() if any(getattr(found, word) for word in words))


def operator_of(node: Node) -> str:
    """The name of a node's operator in the tables. Those of gluonops are ``gluonops_<name>``, custom and native."""
    return PREFIX + our_name(node) if is_ours(node) else node.op


def _enter(table: dict[str, Callable], names: tuple[str, ...], constants: dict[str, Any]) -> Callable:
    def enter(function: Callable) -> Callable:
        table.update(dict.fromkeys(names, Entered(function, constants)))
        return function
    return enter
