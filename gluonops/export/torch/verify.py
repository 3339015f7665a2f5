"""Compares the written net with MXNet in float32: outputs, and in training mode a gradient for each parameter."""
from __future__ import annotations

import contextlib
import math
import pathlib
import tempfile
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ...contract.errors import OpError
from ...runtime import importing
from ...runtime.memory import available_memory
from ..graph import Entry, Graph, kind
from ..model import ExportedModel
from ..operators import traits_of
from ..operators.node_attributes import attributes_of
from ..operators.normalization import channel_axis
from ..sizes import Shapes, known_shapes, last_line
from ..warning import ExportWarning
from .prepare import packed_parts
from .step import GRADIENT, WHERE, Parted, Port, Step, explained, load, loaded, outputs_of, tensor_of, tensors_of

if importing.is_imported():
    import mxnet as mx

    from .. import passes
    from ..begin import begin_of, computed
    from ..compare import Difference, Differs, InDouble, Result, check_comparable, differences, in_range
    from ..draws import Values, smooth_inputs
    from ..jumps import has_jumps
    from ..quantization.quantizable import steady
    from ..sides import AtJumps, InMXNet, Obstacle
    from ..tolerance import differs
    from .reference import Reference

# A domain bounds the numbers of inputs, and says how many classes labels have. The later ones are for nets that have no
# number otherwise, such as a logarithm of the data, or a loss of one class.
DOMAINS = (((-2.0, 2.0), 2), ((0.0, 1.0), 2), ((-2.0, 2.0), 1))
SAMPLE = 64         # numbers of an output or a gradient that are recorded
STACK = 6           # calls between the user's and a warning
EVALUATION, TRAINING = "evaluation", "training"
Record = dict[str, np.ndarray]


def compare(port: Port, folder: pathlib.Path, force: bool = False) -> tuple[Record, list[Difference]]:
    """Compare the net in a folder with MXNet. Differs if a difference is too large; with ``force`` a warning.

    Returns what test_net.py compares with, and the differences: of each output, and of the gradient that differs most.
    """
    try:
        return Comparison(port, folder).all()
    except Obstacle as obstacle:
        warnings.warn(f"net.py is not compared with MXNet: {obstacle}", ExportWarning, stacklevel=STACK)
    except mx.MXNetError as error:
        warnings.warn(f"net.py is not compared with MXNet, which does not run the net: {last_line(error)}",
                      ExportWarning, stacklevel=STACK)
    except Differs as error:
        if not force:
            raise
        warnings.warn(error.what, ExportWarning, stacklevel=STACK)
        return {}, error.differences
    return {}, []


class Comparison:
    """The comparison of a net in a folder with MXNet."""

    def __init__(self, port: Port, folder: pathlib.Path):
        check_comparable(port.model.graph)
        self._port, self._model = port, port.model.in_type("float32")
        self._net = loaded(folder)
        variables = set(self._model.graph.variables())
        self._shapes = {name: shape for name, shape in self._model.inputs.items() if name in variables}
        self._numbers, self._classes = DOMAINS[0]

    def all(self) -> tuple[Record, list[Difference]]:
        """Return the record and the differences, or raise Differs if one is too large."""
        self._compare_layers()
        theirs = InMXNet(self._model, self._model.graph.outputs if self._port.is_trained else None)
        result = self._evaluated(theirs)
        differences, shapes = result.differences, {**self._shapes, **self._port.shapes}
        others = shapes if shapes.keys() <= self._port.shapes.keys() else self._shapes
        if has_jumps(self._model.graph):
            with contextlib.suppress(_NoNumber):
                self._checked(EVALUATION, AtJumps(theirs), self._evaluate, others, at_jumps=True)
        trained, record = self._trained_if_possible(shapes)
        if trained is None and others != self._shapes:   # A step compares the other shapes, too.
            result = self._checked(EVALUATION, theirs, self._evaluate, others)
        gradients = [one for one in trained.differences if one.output.startswith(GRADIENT)] if trained else []
        return ({**self._recorded(result, EVALUATION, len(theirs.entries)), **record},
                [*differences, *sorted(gradients, key=lambda one: -one.relative)[:1]])

    def _compare_layers(self) -> None:
        """Compare the last layers in front of outputs that jump."""
        if self._port.is_trained:
            return
        lowered = passes.lower(passes.inference(self._model), "builtin")
        layers = steady(lowered)
        names = [node.name for node, _ in layers.graph.outputs if node.name in self._port.computed]
        if layers is lowered or not names:
            return
        theirs = InMXNet(self._model, [entry for entry in layers.graph.outputs if entry[0].name in names])
        if len(theirs.entries) == len(names):
            self._checked(EVALUATION, theirs, self._written(names, EVALUATION), self._shapes)

    def _evaluated(self, theirs: InMXNet) -> Result:
        """Return the comparison in evaluation mode, in the first domain in which MXNet's outputs are numbers."""
        for self._numbers, self._classes in DOMAINS:
            with contextlib.suppress(_NoNumber):
                return self._checked(EVALUATION, theirs, self._evaluate, self._shapes)
        raise OpError(WHERE, "an output in evaluation mode has numbers that are not finite in MXNet, and cannot be "
                      "compared", "Run gluonops files check, which finds such parameters")

    def _trained_if_possible(self, shapes: Shapes) -> tuple[Result | None, Record]:
        """As :meth:`_trained`; None and a warning if MXNet has no gradients, or there is too little memory for them."""
        if not _lacks_memory(self._model, shapes):
            try:
                return self._trained(shapes)
            except mx.MXNetError as error:
                warnings.warn("only the outputs in evaluation mode were compared with MXNet, which does not compute "
                              f"the gradients: {last_line(error)}", ExportWarning, stacklevel=STACK + 2)
        return None, {}

    def _trained(self, shapes: Shapes) -> tuple[Result, Record]:
        """The comparison of outputs, gradients and states in training mode; in evaluation mode where torch refuses it.

        The second result is the record.
        """
        # The outputs of the user's own graph were compared. Its loss heads have other gradients.
        model = self._model if self._port.is_trained else passes.inference(self._model)
        refused = single_numbers(model, shapes)
        if refused:
            warnings.warn("only evaluation mode was compared with MXNet: in training mode torch refuses "
                          f"{refused!r}, a batch norm of one number per channel", ExportWarning, stacklevel=STACK + 3)
        mode = EVALUATION if refused else TRAINING
        readers = {node.name: reading for node, reading in model.graph.readers().items()}
        parts = packed_parts(model.graph, known_shapes(model.graph, model.shapes(shapes)), model.parameters)
        inputs = [name for name in smooth_inputs(model, shapes) if name in self._port.inputs]
        step = Step(self._net, self._port, parts, readers, inputs, mode == TRAINING)
        theirs = Reference(model, step.vectors, list(step.states.values()), mode == TRAINING)
        names = [f"{name} in {mode} mode" for name in theirs.names] + step.names
        gradients = range(len(theirs.names), len(theirs.names) + len(step.parameters) + len(inputs))
        parted = Parted(theirs, step)
        result = self._checked(mode, parted, step, shapes, names, gradients, parted.in_double)
        if step.reordered:
            warnings.warn(f"MXNet updates {', '.join(sorted(step.reordered))} in another order. They belong to batch "
                          "norms that are called several times", ExportWarning, stacklevel=STACK + 3)
        return result, self._recorded(result, mode, len(theirs.entries), step.parameters)

    def _checked(self, mode: str, theirs: Any, ours: Callable, shapes: Shapes, names: list[str] | None = None,
                 gradients: range = range(0), in_double: InDouble | None = None, at_jumps: bool = False) -> Result:
        """Return a comparison, if wanted at whole numbers and halves, or raise Differs if a difference is too large."""
        def draw(drawing: np.random.RandomState) -> Values:
            return in_range(self._model, shapes, drawing, numbers=self._numbers, classes=self._classes,
                            at_jumps=at_jumps)

        names = theirs.names if names is None else names
        result = differences("net.py", draw, _WithNumbers(theirs), ours, names, theirs.entries, gradients, in_double)
        if result.finding is not None:
            position = result.finding.position
            if position < len(theirs.entries):
                entries = [entry for entry in computed(theirs.model.graph) if entry[0].name in self._port.computed]
                run = self._written([node.name for node, _ in entries], mode)
                begin = begin_of(theirs, entries, lambda: run(result.finding.values), position, result.finding.values,
                                 differs)
            else:
                begin = _begin_of_gradients(theirs.model.graph, result.wrong, self._port.keys)
            raise Differs(WHERE, f"net.py does not compute what MXNet does for inputs of "
                          f"{', '.join(map(str, shapes.values()))}: {result.finding}{begin}", result.differences)
        return result

    def _evaluate(self, values: Values) -> list[np.ndarray]:
        with torch.no_grad():
            return outputs_of(self._net.eval(), [tensor_of(values[name]) for name in self._port.inputs])

    def _written(self, names: list[str], mode: str) -> Callable:
        """Return what runs a net like the written one, which returns the first outputs of some nodes."""
        def run(values: Values) -> list[np.ndarray]:
            with tempfile.TemporaryDirectory() as folder, torch.no_grad():
                self._port.convert(pathlib.Path(folder), names)
                net = loaded(pathlib.Path(folder)).train(mode == TRAINING)
                return outputs_of(net, [tensor_of(values[name]) for name in self._port.inputs])
        return run

    def _recorded(self, result: Result, mode: str, outputs: int, gradients: Sequence[str] = ()) -> Record:
        """Return what test_net.py compares with: the inputs, and a sample of what did not jump, with its tolerance."""
        record = {f"{mode}.input.{number}": result.values[name].astype(np.float32)
                  for number, name in enumerate(self._port.inputs)}
        names = [*(f"output.{number}" for number in range(outputs)), *(f"gradient.{key}" for key in gradients)]
        for position, name in enumerate(names):
            if position in result.expected:
                array, tolerance = result.expected[position]
                record[f"{mode}.{name}"] = sample(array)
                record[f"{mode}.{name}.tolerance"] = np.array([tolerance], np.float64)
        return record


class _NoNumber(Exception):
    """MXNet's outputs are no numbers for these inputs."""


class _WithNumbers:
    """MXNet, with a _NoNumber where it returns NaN."""

    def __init__(self, theirs: Any):
        self._theirs, self.others = theirs, theirs.others

    def __call__(self, values: Values) -> list[np.ndarray]:
        try:
            arrays = self._theirs(values)
        except OpError as error:   # an operator of ours refuses labels
            raise _NoNumber from error
        if any(array.dtype.kind == "f" and np.isnan(array).any() for array in arrays[:len(self._theirs.entries)]):
            raise _NoNumber
        return arrays


def _begin_of_gradients(graph: Graph, names: list[str], keys: dict[str, str]) -> str:
    """Return the end of a message: the last node that reads a parameter whose gradient differs."""
    wrong = {keys.get(name[len(GRADIENT):], name[len(GRADIENT):]) for name in names}
    nodes = [node for node in graph.nodes() for source, _ in node.inputs if source.name in wrong]
    return f". The two begin to differ behind the node {nodes[-1].name!r} ({kind(nodes[-1])})" if nodes else ""


def _lacks_memory(model: ExportedModel, shapes: Shapes) -> bool:
    """Return whether gradients need more memory than there is, and warn of it. The system would end the process."""
    sizes = known_shapes(model.graph, model.shapes(shapes))
    outputs = sum(math.prod(shape) for (node, _), shape in sizes.items() if not node.is_variable)
    parameters = sum(math.prod(array.shape) for array in model.parameters.values())
    needed, available = 4 * (2 * outputs + 6 * parameters), available_memory()   # copies; an estimate
    if needed > available:
        warnings.warn("only the outputs in evaluation mode were compared with MXNet: gradients need about "
                      f"{needed / 1e9:.0f} GB of memory, and {available / 1e9:.0f} GB are free", ExportWarning,
                      stacklevel=STACK + 3)
    return needed > available


def single_numbers(model: ExportedModel, shapes: Shapes) -> str:
    """Return the name of a batch norm that gets one number per channel. torch refuses it in training mode."""
    sizes: dict[Entry, tuple[int, ...]] = known_shapes(model.graph, model.shapes(shapes))
    for node in model.graph.nodes():
        if traits_of(node).uses_statistics and not attributes_of(node)["use_global_stats"]:
            shape = sizes[node.inputs[0]]
            if math.prod(shape) == shape[channel_axis(node)]:
                return node.name
    return ""


def check_shapes(folder: pathlib.Path, inputs: Shapes, outputs: list[tuple[int, ...]]) -> None:
    """Run the net in a folder, in a process without MXNet. An OpError is raised if its outputs have other shapes."""
    with torch.no_grad(), explained():
        returned = tensors_of(load(folder).load().eval(), [torch.zeros(shape) for shape in inputs.values()])
    shapes = [tuple(output.shape) for output in returned]
    if shapes != outputs:
        raise OpError(WHERE, f"the outputs have the shapes {shapes}; expected {outputs}",
                      "Report it with the net; nothing was written")


def sample(array: np.ndarray) -> np.ndarray:
    """Some of the numbers of an array, evenly spaced."""
    flat = array.reshape(-1)
    return np.ascontiguousarray(flat[::max(1, flat.size // SAMPLE)][:SAMPLE])
