"""The net of a user in MXNet, in float32: what the outputs and gradients of the written net are compared with."""
from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import mxnet as mx
import numpy as np

from ...contract.errors import OpError
from .. import passes
from ..draws import Values
from ..graph import Entry, Graph, Node
from ..model import ExportedModel
from ..operators import traits_of
from ..operators.node_attributes import attributes_of
from ..sides import nudged, without_ties
from .prepare import copy_outputs

F = mx.sym
FORMULAS: dict[str, Callable] = {}   # operator -> what computes the same with a right gradient
SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def head_gradient(shape: tuple[int, ...]) -> np.ndarray:
    """Return the gradient that an output gets."""
    return np.cos(np.arange(np.prod(shape, dtype=int), dtype=np.float64)).reshape(shape)


class Reference:
    """A model in MXNet, without dropout. It returns outputs, gradients of parameters, and the states after a step.

    Operators whose gradient MXNet computes wrongly are replaced by formulas. The outputs are compared without these.

    - ``trained``: the names of the parameters and inputs that get a gradient. ``states``: those of the states.
    - ``is_training``: whether batch norms use the batch, or their statistics.
    """

    def __init__(self, model: ExportedModel, trained: list[str], states: list[str], is_training: bool,
                 entries: list[Entry] | None = None):
        self.model, self.trained, self.states, self._is_training = model, trained, states, is_training
        model, self._asked = model.copy(), entries
        if entries is not None:
            nodes = {node.name: node for node in model.graph.nodes() if not node.is_variable}
            model.graph.outputs = [(nodes[node.name], index) for node, index in entries]
        self.entries = self.model.graph.outputs if entries is None else entries
        for node, readers in model.graph.readers().items():
            if node.op == "RNN" or (node.op == "Dropout" and not _tells_whether_it_trains(readers)):
                node.attrs["p"] = "0"
            if node.op == "Embedding":
                node.attrs["sparse_grad"] = "False"
            if node.op == "sort":   # MXNet's gradient does not know the default
                node.attrs.setdefault("axis", "-1")
            # MXNet's max pooling has no gradient in evaluation mode.
            if traits_of(node).uses_statistics and not is_training:
                node.attrs["use_global_stats"] = "True"
        _mend_gradients(model.graph, model.metadata["dtype"])
        copy_outputs(model.graph)   # MXNet has no gradient of outputs that are inputs or parameters
        self._uses = _split_uses(model.graph, trained)
        lowered = passes.lower(model, "auto").graph
        symbol, self._mode = lowered.symbol(), lowered.mode
        self.names = self.model.graph.symbol().list_outputs() if entries is None else []
        self._inputs = symbol.list_inputs()
        used = {use: name for name, uses in self._uses.items() for use in uses}
        self._values = {name: model.parameters[used.get(name, name)] for name in self._inputs
                        if used.get(name, name) in model.parameters}
        self._run = mx.nd.CachedOp(symbol)
        self._exact: tuple[Values, list[np.ndarray] | None] | None = None

    def inside(self, entries: list[Entry]) -> Reference:
        """Return the same net, which returns other entries and no gradients."""
        return Reference(self.model, [], [], self._is_training, entries)

    def others(self, values: Values, drawing: np.random.RandomState) -> Iterator[list[np.ndarray]]:
        """Yield the same with other rounding errors: in float64, and then of nudged inputs and parameters."""
        if (exact := self.in_double(values)) is not None:
            yield exact
        yield self(values, drawing)
        if untied := without_ties(self.model, {name: value.shape for name, value in values.items()}, drawing):
            yield Reference(untied, self.trained, self.states, self._is_training, self._asked)(values)

    def in_double(self, values: Values) -> list[np.ndarray] | None:
        """Return the same in float64, or None if MXNet has an operator in float32 only. The last inputs are kept."""
        if self._exact is None or self._exact[0] is not values:
            exact = Reference(self.model.in_type("float64"), self.trained, self.states, self._is_training, self._asked)
            try:
                self._exact = values, exact(values)
            except (mx.MXNetError, OpError):
                self._exact = values, None
        return self._exact[1]

    def __call__(self, values: Values, drawing: np.random.RandomState | None = None) -> list[np.ndarray]:
        """Return the outputs, the gradients and the states. ``drawing``: nudges the inputs and the parameters."""
        with self._mode():
            return self._computed(values, drawing)

    def _computed(self, values: Values, drawing: np.random.RandomState | None) -> list[np.ndarray]:
        """Return what a call returns, in the graph's own mode."""
        dtype = self.model.metadata["dtype"]
        if drawing is not None:
            values = {name: nudged(value, drawing) for name, value in values.items()}
        arrays = {use: mx.nd.array(value, dtype=dtype) for name, value in values.items()
                 for use in self._uses.get(name, [name])}
        for name, value in self._values.items():   # copies: a step changes the states
            array = value.asnumpy()
            arrays[name] = mx.nd.array(array if drawing is None else nudged(array, drawing), dtype=value.dtype)
        for name in itertools.chain(*self._uses.values()):
            arrays[name].attach_grad()
        with mx.autograd.record(train_mode=True):
            results = self._run(*[arrays[name] for name in self._inputs])
            results = results if isinstance(results, list) else [results]
        if self.trained:
            # Whole numbers have no gradient, but MXNet gives a cast to them one.
            heads = [mx.nd.array(head_gradient(value.shape) * (np.dtype(value.dtype).kind == "f"), dtype=value.dtype)
                     for value in results]
            mx.autograd.backward(results, heads, train_mode=True)
        mx.nd.waitall()   # else MXNet and torch hold their memory at the same time
        return [*(value.asnumpy() for value in results), *(self._gradient(name, arrays) for name in self.trained),
                *(arrays[name].asnumpy() for name in self.states)]


    def _gradient(self, name: str, arrays: dict[str, mx.nd.NDArray]) -> np.ndarray:
        """Return the sum over all uses of a parameter. It is zeros if nothing uses it."""
        parts = [arrays[use].grad.asnumpy() for use in self._uses[name]]
        return sum(parts[1:], parts[0]) if parts else np.zeros(self.model.shapes()[name], np.float32)


def _tells_whether_it_trains(readers: list[Node | None]) -> bool:
    """Return whether a dropout drops nothing. A counter of images reads one to see whether ones are still ones."""
    return any(reader is not None and reader.op == "_not_equal_scalar" for reader in readers)


def _split_uses(graph: Graph, names: list[str]) -> dict[str, list[str]]:
    """Give each use of these variables a variable of its own, in place. Returns the names of all of a variable.

    oneDNN cannot add up the gradients of all weights that a convolution and a deconvolution share, and after that fails
    in the whole process.
    """
    uses = {name: [] for name in names}
    for node in graph.nodes():
        for position, (source, _) in enumerate(node.inputs):
            if source.is_variable and source.name in uses:
                uses_of_name = uses[source.name]
                uses_of_name.append(f"{source.name}__use{len(uses_of_name)}" if uses_of_name else source.name)
                if len(uses_of_name) > 1:
                    node.inputs[position] = Node(source.op, uses_of_name[-1], source.attrs), 0
    return uses


def _mend_gradients(graph: Graph, dtype: str) -> None:
    """Replace, in place, what MXNet 1.9.1 gives a wrong gradient, or whose gradient writes outside of its array."""
    for node in graph.nodes():
        formula = FORMULAS.get(node.op) if node.op != "Pooling" or dtype == "float32" else None   # it is oneDNN's
        replacement = formula and formula(node, *(F.var(f"input{number}") for number in range(len(node.inputs))))
        if replacement is not None:
            made = graph.splice(replacement, {f"input{number}": entry for number, entry in enumerate(node.inputs)})
            graph.replace({(node, number): entry for number, entry in enumerate(made)})


def _formula(*names: str) -> Callable:
    """Enter what computes the same as these operators with a right gradient.

    It takes the node and symbols of its inputs, and returns None for a node whose gradient is right.
    """
    def enter(function: Callable) -> Callable:
        FORMULAS.update(dict.fromkeys(names, function))
        return function
    return enter


@_formula("LeakyReLU")
def _activation(node: Node, x, slope=None):
    """MXNet's gradient of the slopes of a PReLU in a CachedOp reads what that of the data has overwritten."""
    kind = attributes_of(node)["act_type"]
    if kind == "selu":
        return SELU_SCALE * F.where(x > 0, x, SELU_ALPHA * F.expm1(x))
    if kind == "prelu":
        return F.where(x > 0, x, F.swapaxes(F.broadcast_mul(F.swapaxes(x, dim1=1, dim2=-1), slope), dim1=1, dim2=-1))
    return None


@_formula("SequenceLast")
def _last(node: Node, x, lengths=None):
    """Return the last element of each sequence."""
    if lengths is not None:
        return None
    return F.squeeze(F.slice_axis(x, axis=(axis := attributes_of(node)["axis"]), begin=-1, end=None), axis=axis)


@_formula("Pooling")
def _pooled(node: Node, x):
    """oneDNN's gradient of a mean divides by whole windows at the border, where ``full`` makes smaller ones."""
    attributes = attributes_of(node)
    if (attributes["pool_type"], attributes["pooling_convention"]) != ("avg", "full"):
        return None
    return F.cast(F.Pooling(F.cast(x, dtype="float64"), **node.options()), dtype="float32")


@_formula("Concat")
def _joined(node: Node, *inputs):
    """oneDNN's gradient of maps that are joined fails in front of a convolution, unless a copy is in between."""
    return F.slice_axis(F.concat(*inputs, dim=attributes_of(node)["dim"]), axis=0, begin=0, end=None)


@_formula("_npi_where_lscalar")
@_formula("_npi_where_rscalar")
def _with_number(node: Node, condition, array):
    """MXNet gives the gradient of a choice between an array and a number to the elements that were not chosen."""
    condition, array = condition.as_np_ndarray(), array.as_np_ndarray()
    parts = [F.np.full_like(array, attributes_of(node)["scalar"]), array]
    if node.op == "_npi_where_rscalar":
        parts.reverse()
    return F.np.where(condition, *parts).as_nd_ndarray()


@_formula("_npi_std")
@_formula("_npi_var")
def _spread(node: Node, x):
    """MXNet has no gradient of a variance."""
    axis, keeps, freedom = (attributes_of(node)[name] for name in ("axis", "keepdims", "ddof"))
    x = x.as_np_ndarray()
    squares = F.np.square(x - F.np.mean(x, axis=axis, keepdims=True))
    count = F.np.sum(F.np.ones_like(x), axis=axis, keepdims=keeps)
    variance = F.np.sum(squares, axis=axis, keepdims=keeps) / (count - freedom)
    return (F.np.sqrt(variance) if node.op == "_npi_std" else variance).as_nd_ndarray()


@_formula("batch_take")
def _picked(node: Node, x, indices):
    """It has no gradient in MXNet, not even one of 0."""
    return F.pick(x, indices)


@_formula("SoftmaxActivation")
def _softmax(node: Node, x):
    return F.softmax(x, axis=1 if attributes_of(node)["mode"] == "channel" else -1)
