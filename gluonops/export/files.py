"""Symbol JSON and parameters: read, checked against each other, and written."""
from __future__ import annotations

import numbers
import os
import pathlib
import re

import mxnet as mx

from ..core.errors import OpError
from ..core.files import replace, save_arrays
from .canonical import canonicalize_graph
from .graph import VARIABLE, Graph, Node
from .metadata import read_metadata
from .shapes import Arrays, DataShape, Shapes, input_shapes, mismatch_reason

# Layers of MXNet that have parameters: behind their first input comes nothing else. An RNN takes states as well.
LAYERS = ("BatchNorm", "Convolution", "Deconvolution", "Embedding", "FullyConnected", "GroupNorm", "InstanceNorm",
          "LayerNorm", "LeakyReLU", "RNN")


def load(where: str, prefix: str, epoch: int | None = None) -> tuple[Graph, Arrays, int]:
    """The graph, in canonical form, of ``prefix-symbol.json``, and the values of ``prefix-NNNN.params``.

    Parameters
    ----------
    where : str
        Who asks, for errors.
    prefix : str
        Path without ``-symbol.json``.
    epoch : int, optional
        The number in the parameters' name; the highest there is if left out.

    Returns
    -------
    Graph, dict of str to NDArray, int
        The last is the epoch.
    """
    path = f"{prefix}-symbol.json"
    if not os.path.isfile(path):
        raise OpError(where, f"there is no file {path}", "Pass the path of the exported net without -symbol.json")
    graph = Graph.parse(pathlib.Path(path).read_text(encoding="utf-8", errors="replace"), path)
    read_metadata(graph)
    if epoch is None:
        epoch = newest_epoch(where, prefix)
    check_epoch(where, epoch)
    path = f"{prefix}-{epoch:04d}.params"
    if not os.path.isfile(path):
        raise OpError(where, f"there is no file {path}", "Pass another epoch")
    try:
        saved = mx.nd.load(path)
    except mx.MXNetError as error:
        raise OpError(where, f"{path} is not a file of parameters, or it is cut off", "Export the net again") from error
    saved = saved or {}   # of no parameters at all, MXNet makes a list
    if not isinstance(saved, dict):
        raise OpError(where, f"{path} has no names; expected parameters saved by name", "Export the net again")
    canonicalize_graph(graph)
    values = {re.sub("^(arg|aux):", "", name): value for name, value in saved.items()}
    _check_outputs(where, graph, prefix)
    _check_values(where, graph, values, prefix, path)
    used = set(graph.variables())
    return graph, {name: value for name, value in values.items() if name in used}, epoch


def _check_outputs(where: str, graph: Graph, prefix: str) -> None:
    """Raise where something reads an output that its node does not have: MXNet would crash, or compute anything."""
    entries = {*graph.heads, *(entry for node in graph.nodes() for entry in node.inputs)}
    for node, index in sorted(entries, key=lambda entry: (entry[0].name, entry[1])):
        if index and (node.is_variable or index >= _count_outputs(node)):
            raise OpError(where, f"{os.path.basename(prefix)}-symbol.json is damaged: it reads output {index} of the "
                          f"node {node.name!r}, which does not have it", "Export the net again")


def _count_outputs(node: Node) -> int:
    variables = [Node(VARIABLE, f"input{i}") for i in range(len(node.inputs))]
    alone = Node(node.op, "node", node.attrs, [(variable, 0) for variable in variables], node.subgraphs)
    return len(Graph([(alone, 0)], {}).symbol().get_internals().list_outputs()) - len(variables)


def _check_values(where: str, graph: Graph, values: Arrays, prefix: str, path: str) -> None:
    """Raise where a parameter has no value, or one of another shape.

    Which variables are inputs, a file of ours notes; in others they are what no layer has for a parameter.
    """
    symbol, inputs = graph.symbol(), read_metadata(graph).get("inputs", {})
    variables = set(graph.variables())
    without_value = [name for name in graph.variables() if name not in values and not name.endswith("label")]
    if inputs:
        missing = [name for name in without_value if name not in inputs]
    else:
        parameters = _parameters_of_layers(graph).union(symbol.list_auxiliary_states())
        missing = [name for name in without_value if name in parameters]
    if missing or (values and not variables.intersection(values)):
        raise _without_value(where, path, missing, values)

    if not inputs:   # without them MXNet infers wrong shapes rather than none
        return
    shapes = {name: value.shape for name, value in values.items() if name in variables}
    shapes.update((name, tuple(shape)) for name, shape in inputs.items() if name in without_value)
    reason = mismatch_reason(symbol, shapes)
    if reason:
        raise OpError(where, f"{path} does not fit {os.path.basename(prefix)}-symbol.json: {reason}",
                      "Pass the parameters exported with this symbol")


def _parameters_of_layers(graph: Graph) -> set[str]:
    """The names of the variables that a layer has for a parameter."""
    names = set()
    for node in graph.nodes():
        if node.op in LAYERS:
            parameters = node.inputs[1:2] if node.op == "RNN" else node.inputs[1:]
            names.update(source.name for source, _ in parameters)
    return names


def _without_value(where: str, path: str, missing: list[str], values: Arrays) -> OpError:
    lost = missing[0] if missing else "this graph"
    if len(missing) > 1:
        lost += f" (and {len(missing) - 1} more)"
    names = ", ".join(sorted(values)[:3])
    if len(values) > 3:
        names += ", ..."
    return OpError(where, f"{path} has no value for {lost}; it has {names or 'none at all'}",
                   "Pass the parameters exported with this symbol: net.save_parameters names them otherwise")


def shapes_of_inputs(where: str, graph: Graph, values: Arrays, noted: Shapes, data_shape: DataShape | None) -> Shapes:
    """Name -> shape of the inputs: what the file notes, or what is given in its place.

    Parameters
    ----------
    where : str
        Who asks, for errors.
    graph : Graph
    values : dict of str to NDArray
    noted : dict of str to tuple of int
        The shapes that the file notes.
    data_shape : tuple of int, dict of str to tuple of int, or None
        Shape of the only input, whatever its name; or of some inputs by name.
    """
    inputs = [name for name in graph.variables() if name not in values]
    wanted = [name for name in inputs if not name.endswith("label")]
    if data_shape is not None and not isinstance(data_shape, dict):
        if len(wanted) != 1:
            raise OpError(where, f"data_shape is {data_shape!r}, one shape, and the file has the inputs "
                          f"{', '.join(inputs) or 'none'}", "Name each: a dict such as {'data': (1, 3, 224, 224)}, or "
                          "--data-shape data=1,3,224,224, several times")
        data_shape = {wanted[0]: data_shape}
    given = input_shapes(where, data_shape or {})
    unknown = [name for name in given if name not in inputs]
    if unknown:
        expected = " or ".join(map(repr, inputs)) or "none, for the file has no input"
        raise OpError(where, f"data_shape names {unknown[0]!r}; expected {expected}", "Use the names that the file has")
    shapes = {name: shape for name, shape in noted.items() if name in inputs}
    shapes.update(given)
    missing = [name for name in wanted if name not in shapes]
    if missing:
        raise OpError(where, f"the shape of the input {missing[0]} is not known", "Pass data_shape, or --data-shape")
    return shapes


def newest_epoch(where: str, prefix: str) -> int:
    """The highest number of a parameter file."""
    folder, name = os.path.split(prefix)
    pattern = re.compile(re.escape(name) + r"-(\d{4,})\.params")
    matches = [pattern.fullmatch(entry) for entry in os.listdir(folder or ".")]
    epochs = [int(match.group(1)) for match in matches if match]
    if not epochs:
        raise OpError(where, f"there is no file {prefix}-NNNN.params", "Save the parameters beside the symbol")
    return max(epochs)


def paths_of(prefix: str, epoch: int) -> tuple[str, str]:
    """The paths of a symbol and of its parameters."""
    return f"{prefix}-symbol.json", f"{prefix}-{epoch:04d}.params"


def write(graph: Graph, values: Arrays, paths: tuple[str, str]) -> tuple[str, str]:
    """Write the files of a symbol, both or none.

    Parameters
    ----------
    graph : Graph
    values : dict of str to NDArray
    paths : tuple of str
        Of the JSON and of the parameters.

    Returns
    -------
    tuple of str
        The paths.
    """
    symbol = graph.symbol()
    states = set(symbol.list_auxiliary_states())
    tagged = {f"{'aux' if name in states else 'arg'}:{name}": value for name, value in values.items()}

    def write_graph(path: str) -> None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(graph.text())

    replace("export", {paths[0]: write_graph, paths[1]: lambda path: save_arrays(path, tagged)})
    return paths


def check_epoch(where: str, epoch: int) -> None:
    """Raise where it is no number that a file of parameters can have."""
    if isinstance(epoch, bool) or not isinstance(epoch, numbers.Integral) or epoch < 0:
        raise OpError(where, f"epoch is {epoch!r}; expected an integer of at least 0", "Pass one such as 0")
