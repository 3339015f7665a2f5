"""Reads and writes symbol JSON and parameters, and checks that they fit together."""
from __future__ import annotations

import os
import pathlib
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..contract.errors import OpError, naming
from ..io import params
from ..io.files import replace
from ..runtime import importing
from .canonical import canonicalize_graph
from .cut import cut
from .floats import Rounded, to_floats, values_of
from .graph import Graph
from .locate import SYMBOL, check_epoch, newest_epoch, paths_of, without_graph
from .metadata import read_metadata
from .operators.admission import admit
from .operators.eight_bits import is_of_8_bits
from .parameters import listed, of_layers, renamed_states, without_tags
from .sizes import Arrays, DataShape, Shapes, input_shapes, mismatch_reason, type_mismatch
from .training_parts import independent_part, labels
from .warning import ExportWarning

load_arrays = params.load_arrays if importing.is_imported() else params.read


def load(where: str, prefix: str, epoch: int | None = None,
         outputs: Iterable[str] = ()) -> tuple[Graph, Arrays, int]:
    """Read ``prefix-symbol.json`` and ``prefix-NNNN.params``; the highest number if ``epoch`` is None.

    ``outputs`` are the nodes that the graph is cut at; without them it is read as a whole. Returns the canonical graph,
    the parameters and states, and the epoch. An ExportWarning names values that nothing reads, or that have another
    name. An OpError is raised if a file is missing or damaged, or the two do not fit together.
    """
    graph, rounded = read_graph(where, f"{prefix}{SYMBOL}", outputs)
    of_whole = Graph.read(where, f"{prefix}{SYMBOL}").variables() if outputs else ()
    if epoch is None:
        epoch = newest_epoch(where, prefix)
    check_epoch(where, epoch)
    _, path = paths_of(prefix, epoch)
    if not os.path.isfile(path):
        raise OpError(where, f"there is no file {path}", "Pass another epoch")
    with graph.mode():
        values = without_tags(where, path, load_arrays(where, path, "Export the net again"))
        if rounded:
            values = values_of(rounded, values, _array)
    json_name = f"{os.path.basename(prefix)}{SYMBOL}"
    with naming(json_name):   # a node may not fit this gluonops
        canonicalize_graph(graph)
    of_graph = set(graph.variables())
    variables = of_graph.union(of_whole)
    renamed = renamed_states(variables, values)
    if renamed:
        _note(f"{path} has states under other names than the graph: "
              f"{listed(f'{name} is {renamed[name]}' for name in renamed)}")
    values = {renamed.get(name, name): value for name, value in values.items()}
    _check_values(where, graph, values, json_name, path)
    surplus = sorted(values.keys() - variables)
    if surplus:
        _note(f"{path} has values that no node reads, and that are left out: {listed(surplus)}")
    values = {name: value for name, value in values.items() if name in variables}
    check_digest(where, graph, values, epoch, path)
    values = {name: value for name, value in values.items() if name in of_graph}
    return graph, _widened(graph, values, path), epoch


def read_graph(where: str, path: str, outputs: Iterable[str] = ()) -> tuple[Graph, dict[str, Rounded]]:
    """Read symbol JSON, and cut it at the outputs, if some are named.

    An OpError is raised if the file is missing or damaged.

    Returns the graph, of floats if MXNet's ``quantize_net`` has written it, and the parameters that have to be computed
    for that.
    """
    if not os.path.isfile(path):
        raise without_graph(where, path)
    graph = Graph.read(where, path)
    with naming(path):
        if outputs:
            cut(where, graph, outputs)
        was_of_8_bits = any(is_of_8_bits(node.op) for node in graph.nodes())
        rounded = to_floats(graph)
        notes = admit(graph)
        read_metadata(graph)
        if was_of_8_bits and not any(is_of_8_bits(node.op) for node in graph.nodes()):
            notes.append("its layers of 8 bits became the float layers that they came from; weights that were stored "
                         "as integers differ from the float net's by half a step at most")
    for note in notes:
        _note(f"{path}: {note}")
    return graph, rounded


def _array(values: np.ndarray) -> Any:
    """An array as :func:`load_arrays` makes them."""
    if not importing.is_imported():
        return values
    import mxnet as mx  # here: files are read without MXNet, too

    return mx.nd.array(values)


def _note(text: str) -> None:
    warnings.warn(text, ExportWarning, stacklevel=5)


def _check_values(where: str, graph: Graph, values: Arrays, json_name: str, path: str) -> None:
    """Raise an OpError if a parameter has no value, or a value of another shape.

    The metadata of our files list the inputs. In other files the parameters are known from the layers that read them.
    """
    with naming(json_name):   # MXNet may refuse the graph
        states = graph.symbol().list_auxiliary_states() if importing.is_imported() else ()
    inputs = read_metadata(graph).get("inputs", {})
    variables, with_value = graph.variables(), {*values, *labels(graph)}
    without_value = [name for name in variables if name not in with_value]
    if inputs:
        missing = [name for name in without_value if name not in inputs]
    else:
        parameters = of_layers(graph).union(states)
        missing = [name for name in without_value if name in parameters]
    fits_nothing = bool(values) and not values.keys() & set(variables)
    if missing or fits_nothing:
        names = ", ".join(sorted(values)[:3]) + (", ..." if len(values) > 3 else "")
        raise OpError(where, f"{path} has no value for {listed(missing) or 'this graph'}; it has "
                      f"{names or 'none at all'}",
                      "Pass the parameters exported with this symbol: net.save_parameters uses other names")

    if not inputs:   # MXNet would infer wrong shapes instead of none
        return
    shapes = {name: value.shape for name, value in values.items() if name in variables}
    shapes.update((name, tuple(shape)) for name, shape in inputs.items() if name in without_value)
    with naming(json_name):   # an attribute may not fit the shapes
        reason = misfit(graph, shapes, labels(graph, values))
    if reason:
        raise OpError(where, f"{path} does not fit {json_name}: {reason}",
                      "Pass the parameters exported with this symbol")


def misfit(graph: Graph, shapes: Shapes, names: set[str]) -> str | None:
    """Why variables cannot have these shapes; None if they can.

    ``names`` are the labels, which may have any that fit.
    """
    reason = mismatch_reason(graph, shapes)
    if not reason or names <= shapes.keys():
        return reason
    part = independent_part(graph, names - shapes.keys())   # MXNet may want to know the shape of a label
    return part and mismatch_reason(part, shapes)


def _widened(graph: Graph, values: Arrays, path: str) -> Arrays:
    """The values; in float32 if some are float16, and the graph takes no input of float16 with them.

    Such files are small, or are what Module has trained in several types. Module makes float32 of all that it reads.
    """
    halves = {name for name, value in values.items() if value.dtype == np.float16}
    types = {name: value.dtype for name, value in values.items()}
    inputs = set(graph.variables()) - values.keys() - labels(graph, values)
    types.update(dict.fromkeys(inputs, "float16"))
    if not halves or "dtype" in read_metadata(graph) or not type_mismatch(graph, types):
        return values
    _note(f"{path} has values of float16 for a graph of float32, and they become float32")
    return {name: value.astype("float32") if name in halves else value for name, value in values.items()}


def check_digest(where: str, graph: Graph, values: Arrays, epoch: int, path: str) -> None:
    """Raise an OpError if the parameters are others than those that were written with this JSON.

    A process that is killed between the two renames leaves such a pair, and so do two exporters at once. Parameters
    under another epoch, such as a fine-tuned net's, are not compared.
    """
    written = read_metadata(graph).get("parameters", {})
    if written.get("epoch") == epoch and written.get("sha256") != params.digest(values):
        raise OpError(where, f"{path} is not the file that was written with its symbol JSON: the values differ",
                      "Export the net again, or save other parameters under another epoch")


def shapes_of_inputs(where: str, graph: Graph, values: Arrays, stored: Shapes, data_shape: DataShape | None) -> Shapes:
    """The shapes of the inputs: those in ``data_shape``, and for the others those that the file has ``stored``.

    ``data_shape`` is the shape of the only input, whatever its name is, or those of some inputs by name. An OpError
    if it names an input that does not exist, the shape of an input is unknown, or the graph has no input.
    """
    inputs = [name for name in graph.variables() if name not in values]
    if not inputs:
        raise OpError(where, "no output of the file depends on an input: all that its graph reads are parameters",
                      "Remove the data from the parameter file if it is in there, or export a net that computes its "
                      "outputs from what it is called with")
    label_names = labels(graph, values)
    wanted = [name for name in inputs if name not in label_names]
    typed = _given_shapes(where, inputs, wanted, data_shape)
    shapes = {name: shape for name, shape in stored.items() if name in inputs}
    shapes.update(typed)
    missing = [name for name in wanted if name not in shapes]
    if missing:
        raise OpError(where, f"the shape of the input {missing[0]} is not known", "Pass data_shape, or --data-shape")
    return shapes


def _given_shapes(where: str, inputs: list[str], wanted: list[str], data_shape: DataShape | None) -> Shapes:
    """The shapes in ``data_shape`` by name. ``wanted`` are the inputs without the labels."""
    if data_shape is None:
        return {}
    if not isinstance(data_shape, dict):
        if len(wanted) != 1:
            raise OpError(where, f"data_shape is {data_shape!r}, one shape, and the file has the inputs "
                          f"{', '.join(inputs)}", "Name each: a dict such as {'data': (1, 3, 224, 224)}, or "
                          "--data-shape data=1,3,224,224, several times")
        data_shape = {wanted[0]: data_shape}
    shapes = input_shapes(where, data_shape)
    unknown = [name for name in shapes if name not in inputs]
    if unknown:
        raise OpError(where, f"data_shape names {unknown[0]!r}; expected {' or '.join(map(repr, inputs))}",
                      "Use the names that the file has")
    return shapes


def write(graph: Graph, values: Arrays, paths: tuple[str, str]) -> tuple[str, str]:
    """Write the JSON and the parameters, both or none. Returns the paths."""
    states = set(graph.symbol().list_auxiliary_states())
    tagged = {f"{'aux' if name in states else 'arg'}:{name}": value for name, value in values.items()}
    replace("export", {paths[0]: lambda path: pathlib.Path(path).write_text(graph.text(), encoding="utf-8"),
                       paths[1]: lambda path: params.write(path, tagged, graph.is_numpy)})
    return paths
