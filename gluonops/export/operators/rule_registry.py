"""The tables of MXNet's operators, and how a family enters its functions; :mod:`gluonops.export.operators` explains."""
from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

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
TYPES: dict[str, Callable] = {}    # operator -> the type of what it returns; others return that of their first input
READINGS: dict[str, Reading] = {}  # operator -> the indices, lengths or boxes that it reads
TRAITS: dict[str, Traits] = {}
# What a rule or a converter raises for values that the operator does not take, such as an axis that the data do not
# have. Any other error is a fault of the rule itself, and passes with its traceback.
NOT_TAKEN = (ArithmeticError, LookupError, TypeError, ValueError)


@dataclasses.dataclass(frozen=True)
class Traits:
    """What passes ask about an operator. Its functions in the tables say everything else.

    Layers and losses:

    - ``has_weights``: it reads a weight, as a convolution, a dense layer and an embedding do.
    - ``has_parameters``: all its inputs but the first are parameters of a layer.
    - ``weight_rows``: the attribute that says how many rows its weight has.
    - ``normalizes``: it subtracts a mean and divides by a deviation.
    - ``uses_statistics``: it normalizes with running statistics at inference.
    - ``has_channel_numbers``: it normalizes with numbers for each channel, which MXNet does not compare with the data.
    - ``is_linear``: its inputs are data, a weight and perhaps a bias, and it multiplies and adds them.
    - ``is_activation``: a function of each element alone, which belongs to the layer in front of it.
    - ``is_gate``: such a function, which often makes factors for another branch.
    - ``is_softmax``: its outputs are probabilities.
    - ``is_loss``: MXNet's; it makes a loss of its first input, and reads labels behind it.
    - ``predicts``: it is a loss head of MXNet's, which reads labels behind its data; the operator that computes its
      prediction from its first input.
    - ``target_labels``: it computes the targets of a loss; the positions of the labels among its inputs.
    - ``example_label``: the shape of a label that does not follow from the data's, as an example, without the batch.

    Numbers:

    - ``is_of_floats``: torch computes it with floats alone, or makes floats; MXNet's results of integers are integers.
    - ``moves``: its outputs have the numbers of its first input as they are, or some of them, perhaps in another type.
    - ``joins``: its output has the numbers of all its inputs as they are.
    - ``is_identity``: at inference it returns its first input, perhaps without a gradient.
    - ``is_elementwise``: an element of its output is computed from the elements at the same place.
    - ``of_arrays``: the operator that computes with a second array what this one computes with a scalar behind it.
    - ``adds_up``: it adds numbers up along axes, and perhaps divides by their count.
    - ``jumps``: its results jump at some numbers, such as whole ones, halves or equal ones.
    - ``ranks``: it compares numbers of its first input with one another, and returns places.
    - ``orders``: it returns the places of numbers in their order, which for equal ones MXNet chooses in any way.
    - ``ranks_rows``: it returns rows in the order of their scores.
    - ``makes_indices``: its results are indices or boxes that are in range, whatever it reads.
    - ``draws``: it draws random numbers, at inference too.
    - ``assigns``: it writes to an array that exists.

    Shapes and types:

    - ``acts_as``: one word for operators that do the same under several names.
    - ``shape_inputs``: the positions of the inputs of which it reads the shape only.
    - ``keeps_batch``: its outputs have the batch and the type of its first input.
    - ``keeps_sizes``: its output has the sizes of its only input.
    - ``may_be_open``: a size of 0 in its attribute ``shape`` follows from what else its readers read.
    - ``takes_empty``: it takes arrays without elements.
    - ``chooses_type``: an attribute chooses the type of its outputs.
    - ``reads_any_types``: behind its data it reads indices, lengths or a shape, in types of their own.

    Fusion and 8 bits:

    - ``fusion_removes``: MXNet's fusion for the CPU takes it out first, as an identity.
    - ``fuses_behind_convolution``, ``fuses_behind_dense``: MXNet's fusion computes it along with such a layer.
    - ``hides_layout``: a dense layer takes its results, whatever layout oneDNN gives to what these are computed from.
    - ``in_8_bits``: programs that run ONNX compute it in 8 bits, and its result has other bounds than its inputs.
    - ``stays_float``: MXNet's quantizer must leave it alone: it would store float32 weights, or compute wrongly.

    Pictures:

    - ``symbol``: what a picture shows in place of its name, with ``{}`` for its scalar.
    - ``shown``: the attributes that a picture shows behind its name.
    """
    has_weights: bool = False
    has_parameters: bool = False
    weight_rows: str = ""
    normalizes: bool = False
    uses_statistics: bool = False
    has_channel_numbers: bool = False
    is_linear: bool = False
    is_activation: bool = False
    is_gate: bool = False
    is_softmax: bool = False
    is_loss: bool = False
    predicts: str = ""
    target_labels: tuple[int, ...] = ()
    example_label: tuple[int, ...] = ()
    is_of_floats: bool = False
    moves: bool = False
    joins: bool = False
    is_identity: bool = False
    is_elementwise: bool = False
    of_arrays: str = ""
    adds_up: bool = False
    jumps: bool = False
    ranks: bool = False
    orders: bool = False
    ranks_rows: bool = False
    makes_indices: bool = False
    draws: bool = False
    assigns: bool = False
    acts_as: str = ""
    shape_inputs: tuple[int, ...] = ()
    keeps_batch: bool = False
    keeps_sizes: bool = False
    may_be_open: bool = False
    takes_empty: bool = False
    chooses_type: bool = False
    reads_any_types: bool = False
    fusion_removes: bool = False
    fuses_behind_convolution: bool = False
    fuses_behind_dense: bool = False
    hides_layout: bool = False
    in_8_bits: bool = False
    stays_float: bool = False
    symbol: str = ""
    shown: tuple[str, ...] = ()


class Reading(NamedTuple):
    """The indices, lengths or boxes that an operator reads: whole numbers from ``first`` to below an end.

    - ``position``: of the input that has them.
    - ``end``: the entered function that says where they end.
    - ``kind``: ``index``, ``length``, ``box`` (a row of corners behind an image's number, which is in the range) or
      ``size`` (a row of an image's height, width and scale).
    - ``takes_any``: whether MXNet takes any number there, and clips or wraps those that are out of range.
    """
    position: int
    end: Callable
    first: int
    kind: str
    takes_any: bool


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


def types(*names: str, **constants: Any) -> Callable:
    """Enter the decorated function as what tells the type of these operators' results.

    It takes the types of their inputs, and returns a type, or a list of those of all outputs.
    """
    return _enter(TYPES, names, constants)


def indices(*names: str, position: int, first: int = 0, kind: str = "index", takes_any: bool = False,
            **constants: Any) -> Callable:
    """Enter the decorated function as what tells where indices end that these operators read; see :class:`Reading`."""
    def enter(function: Callable) -> Callable:
        READINGS.update(dict.fromkeys(names, Reading(position, Entered(function, constants), first, kind, takes_any)))
        return function
    return enter


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


def traits(*names: str, **changes: Any) -> None:
    """Enter traits of operators; see :class:`Traits`."""
    for name in names:
        TRAITS[name] = dataclasses.replace(TRAITS.get(name, NONE), **changes)


def traits_of(node: Node) -> Traits:
    """The traits of a node's operator."""
    return TRAITS.get(operator_of(node), NONE)


def traits_named(name: str) -> Traits:
    """The traits of an operator of MXNet by its own name, or of gluonops as ``gluonops_<name>``."""
    return TRAITS.get(name, NONE)


def having(*words: str) -> frozenset[str]:
    """The operators that have at least one of these traits."""
    return frozenset(name for name, entered in TRAITS.items() if any(getattr(entered, word) for word in words))


def operator_of(node: Node) -> str:
    """The name of a node's operator in the tables. Those of gluonops are ``gluonops_<name>``, custom and native."""
    return PREFIX + our_name(node) if is_ours(node) else node.op


def _enter(table: dict[str, Callable], names: tuple[str, ...], constants: dict[str, Any]) -> Callable:
    def enter(function: Callable) -> Callable:
        table.update(dict.fromkeys(names, Entered(function, constants)))
        return function
    return enter
