"""Compares the written net with MXNet in float32: outputs, and in training mode a gradient for each parameter."""
from __future__ import annotations

import contextlib
import importlib.util
import math
import pathlib
import tempfile
import types
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from ...contract.errors import OpError
from ...runtime import importing
from ...runtime.memory import available_memory
from ..graph import Entry, Graph, kind
from ..model import ExportedModel
from ..sizes import Shapes, known_shapes, last_line
from ..warning import ExportWarning
from .prepare import packed_parts

if importing.is_imported():
    import mxnet as mx

    from .. import passes
    from ..begin import begin_of, computed
    from ..compare import Difference, Differs, Result, check_comparable, differences, differs, in_range
    from ..draws import Values, smooth_inputs
    from ..quantization.layers import steady
    from ..sides import InMXNet, Obstacle
    from .reference import Reference, head_gradient

WHERE = "export.torch"
# A domain bounds the numbers of inputs, and says how many classes labels have. The later ones are for nets that have no
# number otherwise, such as a logarithm of the data, or a loss of one class.
DOMAINS = (((-2.0, 2.0), 2), ((0.0, 1.0), 2), ((-2.0, 2.0), 1))
SAMPLE = 64         # numbers of an output or a gradient that are recorded
STACK = 6           # calls between the user's and a warning
EVALUATION, TRAINING = "evaluation", "training"
GRADIENT, STATE = "the gradient of ", " after a step"
Record = dict[str, np.ndarray]


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


def compare(port: Port, folder: pathlib.Path, force: bool = False) -> tuple[Record, list[Difference]]:
    """Compare the net in a folder with MXNet. Differs if a difference is too large; with ``force`` a warning.

    Returns what test_net.py compares with, and the differences: of each output, and of the gradient that differs most.
    """
    try:
        return Comparison(port, folder).all()
    except Obstacle as obstacle:
        warnings.warn(f"not compared with MXNet: {obstacle}", ExportWarning, stacklevel=STACK)
    except mx.MXNetError as error:
        warnings.warn(f"not compared with MXNet: it does not run the net: {last_line(error)}", ExportWarning,
                      stacklevel=STACK)
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
        self._net = _loaded(folder)
        self._shapes = {name: shape for name, shape in self._model.inputs.items()
                        if name in self._model.graph.variables()}
        self._numbers, self._classes = DOMAINS[0]

    def all(self) -> tuple[Record, list[Difference]]:
        """The record and the differences. Differs if one is too large."""
        self._compare_layers()
        theirs = InMXNet(self._model, self._model.graph.outputs if self._port.is_trained else None)
        result = self._evaluated(theirs)
        found, shapes = result.differences, {**self._shapes, **self._port.shapes}
        if shapes != self._shapes and shapes.keys() <= self._port.shapes.keys():
            result = self._checked(EVALUATION, theirs, self._evaluate, shapes)
        record = self._recorded(result, EVALUATION, len(theirs.entries))
        if _lacks_memory(self._model, shapes):
            return record, found
        try:
            trained, further = self._trained(shapes)
        except mx.MXNetError as error:
            warnings.warn("only the outputs in evaluation mode were compared with MXNet, which does not compute the "
                          f"gradients: {last_line(error)}", ExportWarning, stacklevel=STACK + 1)
            return record, found
        gradients = [one for one in trained.differences if one.output.startswith(GRADIENT)]
        return {**record, **further}, [*found, *sorted(gradients, key=lambda one: -one.relative)[:1]]

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
        """The comparison in evaluation mode, in the first domain in which MXNet's outputs are numbers."""
        for self._numbers, self._classes in DOMAINS:
            with contextlib.suppress(_NoNumber):
                return self._checked(EVALUATION, theirs, self._evaluate, self._shapes)
        raise OpError(WHERE, "an output in evaluation mode has numbers that are not finite in MXNet, and cannot be "
                      "compared", "Run gluonops files check, which finds such parameters")

    def _trained(self, shapes: Shapes) -> tuple[Result, Record]:
        """The comparison of outputs, gradients and states in training mode; in evaluation mode where torch refuses it.

        The second result is the record.
        """
        # The outputs of the user's own graph were compared. Its loss heads have other gradients.
        model = self._model if self._port.is_trained else passes.inference(self._model)
        refused = single_numbers(model, shapes)
        if refused:
            warnings.warn("only evaluation mode was compared with MXNet: in training mode torch refuses "
                          f"{refused!r}, a batch norm of one number per channel", ExportWarning, stacklevel=STACK + 2)
        mode = EVALUATION if refused else TRAINING
        readers = {node.name: found for node, found in model.graph.readers().items()}
        parts = packed_parts(model.graph, known_shapes(model.graph, model.shapes(shapes)), model.parameters)
        inputs = [name for name in smooth_inputs(model, shapes) if name in self._port.inputs]
        step = _Step(self._net, self._port, parts, readers, inputs)
        theirs = Reference(model, step.vectors, list(step.states.values()), mode == TRAINING)
        names = [f"{name} in {mode} mode" for name in theirs.names] + step.names
        gradients = range(len(theirs.names), len(theirs.names) + len(step.parameters) + len(inputs))
        result = self._checked(mode, _Parted(theirs, step), lambda values: step(values, mode == TRAINING), shapes,
                               names, gradients)
        if step.reordered:
            warnings.warn(f"MXNet updates in another order: {', '.join(sorted(step.reordered))}. Each is of a batch "
                          "norm that is called several times", ExportWarning, stacklevel=STACK + 2)
        return result, self._recorded(result, mode, len(theirs.entries), step.parameters)

    def _checked(self, mode: str, theirs: Any, ours: Callable, shapes: Shapes, names: list[str] | None = None,
                 gradients: range = range(0)) -> Result:
        """A comparison. Differs if a difference is too large."""
        names = theirs.names if names is None else names
        result = differences("net.py", lambda drawing: self._draw(shapes, drawing), _WithNumbers(theirs), ours, names,
                             theirs.entries, gradients)
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

    def _draw(self, shapes: Shapes, drawing: np.random.RandomState) -> Values:
        return in_range(self._model, shapes, drawing, numbers=self._numbers, classes=self._classes)

    def _evaluate(self, values: Values) -> list[np.ndarray]:
        with torch.no_grad():
            return _outputs(self._net.eval(), [_tensor(values[name]) for name in self._port.inputs])

    def _written(self, names: list[str], mode: str) -> Callable:
        """What runs a net like the written one, which returns the first outputs of some nodes."""
        def run(values: Values) -> list[np.ndarray]:
            with tempfile.TemporaryDirectory() as folder, torch.no_grad():
                self._port.convert(pathlib.Path(folder), names)
                net = _loaded(pathlib.Path(folder)).train(mode == TRAINING)
                return _outputs(net, [_tensor(values[name]) for name in self._port.inputs])
        return run

    def _recorded(self, result: Result, mode: str, outputs: int, gradients: Sequence[str] = ()) -> Record:
        """What test_net.py compares with: the inputs, and a sample of what did not jump, with its tolerance."""
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


class _Step:
    """A step of the written net: it returns outputs, gradients of parameters and of inputs, and states.

    - ``parameters``: the keys of those that have a gradient. ``states``: key -> name in MXNet.
    - ``vectors``: the names of the parameters in MXNet, each once. ``names``: of what follows the outputs.
    - ``reordered``: the keys of the states that MXNet updates in another order.
    """

    def __init__(self, net: Any, port: Port, parts: dict, readers: dict, inputs: list[str]):
        self._net, self._port, self._parts, self._inputs = net, port, parts, inputs
        own = readers.keys() | parts.keys()   # The others are constants that the export has computed.
        self.parameters = [key for key, value in _stored(net).items() if port.keys.get(key) in own
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
        found = []
        for key in self.parameters:
            name = self._port.keys[key]
            if name in self._parts:
                _, begin, shape = self._parts[name]
                found.append(gradients[self._parts[name].vector][begin:begin + math.prod(shape)].reshape(shape))
            else:
                found.append(gradients[name])
        found += [gradients[name] for name in self._inputs]
        states = arrays[outputs + len(self.vectors):]
        self._theirs = dict(zip(self.states, states))   # of the last run
        return [*arrays[:outputs], *found, *states]

    def __call__(self, values: Values, is_training: bool) -> list[np.ndarray]:
        net = self._net.train(is_training)
        before = {key: value.clone() for key, value in net.named_buffers()}
        net.zero_grad()
        tensors = {name: _tensor(values[name]) for name in self._port.inputs}
        for name in self._inputs:
            tensors[name].requires_grad_()
        outputs = _tensors(net, list(tensors.values()))
        with_gradient = [output for output in outputs if output.requires_grad]
        torch.autograd.backward(with_gradient, [torch.from_numpy(head_gradient(output.shape)).to(output.dtype)
                                                for output in with_gradient])
        stored = _stored(net)
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
        return [*map(_array, outputs), *(gradient.numpy().copy() for gradient in gradients), *states.values()]


def _stored(net: Any) -> dict[str, torch.Tensor]:
    """All parameters and buffers."""
    return {**dict(net.named_parameters()), **dict(net.named_buffers())}


class _Parted:
    """A reference, whose results have the order of a step's."""

    def __init__(self, reference: Reference, step: _Step):
        self._reference, self._step = reference, step
        self.model, self.entries, self.inside = reference.model, reference.entries, reference.inside

    def __call__(self, values: Values) -> list[np.ndarray]:
        return self._step.parted(self._reference(values), len(self.entries))

    def others(self, values: Values, drawing: np.random.RandomState) -> Iterator[list[np.ndarray]]:
        for arrays in self._reference.others(values, drawing):
            yield self._step.parted(arrays, len(self.entries))


def _begin_of_gradients(graph: Graph, names: list[str], keys: dict[str, str]) -> str:
    """The end of a message: the last node that reads a parameter whose gradient differs."""
    wrong = {keys.get(name[len(GRADIENT):], name[len(GRADIENT):]) for name in names}
    nodes = [node for node in graph.nodes() for source, _ in node.inputs if source.name in wrong]
    return f". The two begin to differ behind the node {nodes[-1].name!r} ({kind(nodes[-1])})" if nodes else ""


def _lacks_memory(model: ExportedModel, shapes: Shapes) -> bool:
    """Whether gradients need more memory than there is, for which the system would end the process. Warns of it."""
    sizes = known_shapes(model.graph, model.shapes(shapes))
    outputs = sum(math.prod(shape) for (node, _), shape in sizes.items() if not node.is_variable)
    parameters = sum(math.prod(array.shape) for array in model.parameters.values())
    needed, available = 4 * (2 * outputs + 6 * parameters), available_memory()   # copies; an estimate
    if needed > available:
        warnings.warn("only the outputs in evaluation mode were compared with MXNet: gradients need about "
                      f"{needed / 1e9:.0f} GB of memory; there are {available / 1e9:.0f}", ExportWarning,
                      stacklevel=STACK + 2)
    return needed > available


def single_numbers(model: ExportedModel, shapes: Shapes) -> str:
    """The name of a batch norm that gets one number per channel, which torch refuses in training mode; or empty."""
    sizes: dict[Entry, tuple[int, ...]] = known_shapes(model.graph, model.shapes(shapes))
    for node in model.graph.nodes():
        if "BatchNorm" in node.op and not node.flag("use_global_stats"):
            shape = sizes[node.inputs[0]]
            if math.prod(shape) == shape[int(node.attrs.get("axis", 1))]:
                return node.name
    return ""


def check_shapes(folder: pathlib.Path, inputs: Shapes, outputs: list[tuple[int, ...]]) -> None:
    """Run the net in a folder, in a process without MXNet. An OpError if its outputs have other shapes."""
    with torch.no_grad(), _explained():
        found = _tensors(load(folder).load().eval(), [torch.zeros(shape) for shape in inputs.values()])
    shapes = [tuple(output.shape) for output in found]
    if shapes != outputs:
        raise OpError(WHERE, f"the outputs have the shapes {shapes}; expected {outputs}",
                      "Report it with the net; nothing was written")


def _loaded(folder: pathlib.Path) -> Any:
    """The net of net.py in a folder, whose dropout drops nothing, with MXNet's momentum, a float32."""
    with _explained():
        net = load(folder).load()
    for module in net.modules():
        for name in {"p", "dropout"}.intersection(vars(module)):   # a dropout, or a recurrent layer
            setattr(module, name, 0.0)
        if type(module).__name__.endswith("BatchNorm"):
            module.momentum = 1 - float(np.float32(round(1 - module.momentum, 12)))
    return net


def load(folder: pathlib.Path) -> types.ModuleType:
    """The module of net.py in a folder."""
    spec = importlib.util.spec_from_file_location("net", folder / "net.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Make an OpError of what net.py raises."""
    try:
        yield
    except OpError:
        raise
    except Exception as error:   # the source is wrong, in whatever way
        raise OpError(WHERE, f"net.py fails: {type(error).__name__}: {error}",
                      "Report it with the net; nothing was written") from error


def _tensor(array: np.ndarray) -> torch.Tensor:
    """What the written net takes: whole numbers are floats, too."""
    return torch.from_numpy(np.ascontiguousarray(array, np.float32))


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().numpy()


def _tensors(net: Any, arrays: list) -> list[torch.Tensor]:
    """The outputs of a net. An OpError if it fails."""
    with _explained():
        outputs = net(*arrays)
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]


def _outputs(net: Any, arrays: list) -> list[np.ndarray]:
    return [*map(_array, _tensors(net, arrays))]


def sample(array: np.ndarray) -> np.ndarray:
    """Some of the numbers of an array, evenly spaced."""
    flat = array.reshape(-1)
    return np.ascontiguousarray(flat[::max(1, flat.size // SAMPLE)][:SAMPLE])
