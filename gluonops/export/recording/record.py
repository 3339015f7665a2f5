"""Makes the graph, the parameters and the inputs of a net from runs of it."""
from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import mxnet as mx
import numpy as np

from ...backends import numpy_mode
from ...contract.errors import OpError
from ..canonical import canonicalize_graph
from ..graph import CALL, INPUT_TYPE, Graph, Node
from ..metadata import metadata_of
from ..sizes import Shapes, type_name
from ..warning import ExportWarning
from .arguments import Arguments
from .naming import blocks_of, parameters_of
from .reads import check_reads
from .runs import Run, Runner
from .tape import BlockCall, refusal
from .variation import with_free_sizes

_wanted = threading.local()   # ``calls``: a list, while somebody wants the calls of blocks


def record(where: str, net: mx.gluon.Block, called_with: Any, dtype: str | None = None) -> tuple[
        Graph, dict[str, mx.nd.NDArray], Shapes, dict[str, Any]]:
    """The canonical graph of what a net computes from some inputs, its parameters and constants, the shapes of the
    inputs, and the metadata.

    The net is run in evaluation mode, several times: with the inputs, with other sizes, and with other numbers where
    it reads some. It is not changed, except that parameters of unknown shape are initialized.

    Parameters
    ----------
    where : str
        The caller, for errors.
    net : Block
        Initialized.
    called_with : NDArray, list, tuple or dict
        What the net is called with: arrays, None and nested lists, in the order of its ``forward``, or by name.
    dtype : str, optional
        Type of the inputs that are floats. The default is their own.

    Raises
    ------
    OpError
        The net is not initialized or fails, an input is missing or of another mode than the net, or an output depends
        on no input or on what cannot be recorded. The message has the line of the user's code.
    """
    if not isinstance(net, mx.gluon.Block):
        raise OpError(where, f"net is {type(net).__name__}; expected a Block", "Derive the net from gluon.Block")
    check_initialized(where, net)
    numpy_mode.check_one_mode(where, net)
    runner = Runner(where, net, Arguments(where, net, called_with))
    with _attributes_kept(net):
        run, notes = _recorded(runner)
    for note in notes:
        warnings.warn(note, ExportWarning, stacklevel=5)
    graph, arrays = run.graph, runner.arguments.arrays
    type_of_floats = type_name(where, dtype) if dtype else _type_of_floats(arrays, run.constants)
    _cast_inputs(graph, arrays, type_of_floats)
    _mark_calls(run)
    _describe(graph, parameters_of(net), run.constants)
    canonicalize_graph(graph)
    variables = graph.variables()
    values = {name: _copied(run.constants[name]) for name in variables if name in run.constants}
    inputs = {name: shape for name, shape in run.inputs.items() if name in variables}
    return graph, values, inputs, {**metadata_of(net), "dtype": type_of_floats}


def _recorded(runner: Runner) -> tuple[Run, list[str]]:
    """A run whose graph holds for all sizes that it takes, and what is to be said of it."""
    if any(parameter._deferred_init for parameter in parameters_of(runner.net).values()):
        runner.warm_up()
    run = runner.run()
    check_reads(runner, run)
    if run.independent is not None:
        raise refusal(runner.where, runner.name, run.independent)
    run, notes = with_free_sizes(runner, run)
    used = set(run.graph.variables())
    notes += [f"the input {name} of {runner.name} reaches no output, and is left out" for name in run.inputs
              if name not in used]
    return run, notes


@contextlib.contextmanager
def _attributes_kept(net: mx.gluon.Block) -> Iterator[None]:
    """Give the blocks of a net their attributes back, such as the weights of attention that a run has kept."""
    before = [(block, dict(vars(block))) for block in blocks_of(net)]
    try:
        yield
    finally:
        for block, attributes in before:
            vars(block).update(attributes)   # Other threads may read them.
            for name in vars(block).keys() - attributes.keys():
                del vars(block)[name]


def check_initialized(where: str, net: mx.gluon.Block) -> None:
    """Raise an OpError if a parameter has neither numbers nor a way to get them, also one that Gluon does not know."""
    numpy_mode.check_initialized(where, net, {**net.collect_params(), **parameters_of(net)}.values())


def _type_of_floats(arrays: dict[str, mx.nd.NDArray], constants: dict[str, mx.nd.NDArray]) -> str:
    """The type of the inputs that are floats; that of the parameters if none is."""
    types = [np.dtype(array.dtype) for array in (*arrays.values(), *constants.values())]
    return next((each.name for each in types if each.kind == "f"), "float32")


def _cast_inputs(graph: Graph, arrays: dict[str, mx.nd.NDArray], dtype: str) -> None:
    """Put a cast behind each input of another type, so that it may be given as floats as well."""
    for node in graph.nodes():
        if node.is_variable and node.name in arrays:
            own = np.dtype(arrays[node.name].dtype).name
            if own != dtype:
                node.attrs[INPUT_TYPE] = own
                cast = Node("Cast", graph.free_name(f"{node.name}_{own}"), {"dtype": own}, [(node, 0)])
                _reads_through(graph, node, cast)


def _reads_through(graph: Graph, node: Node, between: Node) -> None:
    """Let everything that reads a node read another one, which reads it alone."""
    for reader in graph.nodes():
        if reader is not between:
            reader.inputs = [(between, 0) if source is node else (source, index) for source, index in reader.inputs]


def _mark_calls(run: Run) -> None:
    """Mark nodes with the number of the call that has computed them, if somebody wants the calls."""
    calls = getattr(_wanted, "calls", None)
    if calls is None:
        return
    calls += run.calls
    marks = {}
    for node in reversed(run.graph.nodes()):   # Readers come first.
        if node.is_variable:
            continue
        marks[node] = run.call_of.get(node, marks.get(node, 0))
        for source, _ in node.inputs:
            is_made_later = source not in run.call_of and not source.is_variable
            if is_made_later and not any(each.is_variable for each, _ in source.inputs):
                marks.setdefault(source, marks[node])
        node.attrs[CALL] = str(marks[node])


@contextlib.contextmanager
def calls() -> Iterator[list[BlockCall]]:
    """A list that gets the calls of the blocks of the nets that this thread records inside the ``with`` block.

    The nodes then have the number of their call as a mark.
    """
    _wanted.calls = []
    try:
        yield _wanted.calls
    finally:
        _wanted.calls = None


def _describe(graph: Graph, parameters: dict[str, mx.gluon.Parameter], constants: dict[str, mx.nd.NDArray]) -> None:
    """Give the variables of parameters and constants the attributes that Gluon gives them in a trace."""
    for node in graph.nodes():
        if node.is_variable and node.name in constants:
            value, parameter = constants[node.name], parameters.get(node.name)
            options = {} if parameter is None else {
                "lr_mult": parameter.lr_mult, "wd_mult": parameter.wd_mult, "init": parameter.init}
            marks = mx.sym.var(node.name, shape=value.shape, dtype=value.dtype, **options).list_attr()
            node.attrs.update(marks)


def _copied(value: mx.nd.NDArray) -> mx.nd.NDArray:
    """A copy on the CPU, which is made when the runs have stored it: they store weights in oneDNN's order."""
    return numpy_mode.to_legacy(value).copyto(mx.cpu())
