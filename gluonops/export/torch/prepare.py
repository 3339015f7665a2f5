"""Prepares a graph for torch: what has a converter stays as it is, everything else becomes operators that have one."""
from __future__ import annotations

import math
from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from ...contract.errors import OpError
from ...io import params
from ...runtime import importing
from .. import passes
from ..constants import computed, has_open_size, is_random, parameter_only
from ..graph import VARIABLE, Entry, Graph, Node, is_ours, our_name
from ..loops import unroll, without_branches
from ..model import ExportedModel
from ..operators import traits_of
from ..operators.attributes import attributes_of
from ..operators.normalization import COUNTER, DARKNET, GAMMA_OF_DARKNET
from ..operators.recurrent import CONTINUED, STATES, parameters_of
from ..sizes import Sizes
from ..values import NodeValues
from ..warning import warn_of_losses
from .converters import WHERE, converter_of, refusal
from .loss_functions import lacks_arguments


def prepared(model: ExportedModel, training: bool) -> ExportedModel:
    """Return the model with operators that have a converter only, without losses unless it is for training.

    An OpError names a node that has no converter.
    """
    model = model if training else passes.inference(model)
    model = without_loops(model)
    model.check_shapes(WHERE)
    warn_of_losses(model.notes, stacklevel=5)
    ours = [node for node in model.graph.nodes() if is_ours(node)]
    further = {source for source, index in _reads(model.graph) if index > 0}
    lowered = {our_name(node) for node in ours
               if not converter_of(node) or node in further or lacks_arguments(node)}
    model = _lowered(model, ours, lowered)
    rename_namesakes(model.graph)
    used = set(model.graph.variables())
    model.parameters = {name: value for name, value in model.parameters.items() if name in used}
    model.inputs = {name: shape for name, shape in model.inputs.items() if name in used}
    shape = Sizes(model.graph, model.inputs, model.parameters, model.metadata["dtype"], False, WHERE).shape
    flatten_explicitly(model.graph, shape)
    unpack_recurrent(model, shape)
    return model


def without_loops(model: ExportedModel) -> ExportedModel:
    """The model with the steps of loops in place of these, and with both results of branches, of which one is chosen.

    An OpError for loops of other kinds, and of very many steps.
    """
    loops = [node for node in model.graph.nodes() if node.subgraphs]
    if not loops:
        return model
    model = model.copy()
    without_branches(model.graph, refusal)
    other = next((node for node in model.graph.nodes() if node.subgraphs and node.op != "_foreach"), None)
    if other:
        raise refusal(other, "has no converter to torch")

    def sizes() -> Sizes:
        return Sizes(model.graph, model.inputs, model.parameters, model.metadata["dtype"], False, WHERE)

    while any(node.subgraphs for node in model.graph.nodes()):
        unroll(model.graph, sizes(), refusal)
    return model


def join(graph: Graph, sizes: Sizes, parameters: dict, own: set[str]) -> None:
    """Make one node of those that torch computes as one, in place. An OpError is raised if a node has no converter.

    - ``parameters``: by name; states are among them.
    - ``own``: the types of the net's inputs and parameters.
    """
    graph.replace({(node, 0): node.inputs[0] for node in graph.nodes()
                   if node.op == "_copy" and not node.source().is_variable})
    for node in graph.nodes():   # Only the sizes of their second input count.
        while _reads_second_shape(node) and traits_of(node.source(1)).keeps_sizes:
            node.inputs[1] = node.source(1).inputs[0]
    join_darknet_norms(graph)
    join_counters(graph)
    join_recurrent(graph)
    follow_batch(graph, sizes.shape, parameters)
    follow_type(graph, sizes.dtype, own)
    check_converters(graph)


def _reads_second_shape(node: Node) -> bool:
    return 1 in traits_of(node).shape_inputs and len(node.inputs) > 1


def _lowered(model: ExportedModel, ours: list[Node], names: set[str]) -> ExportedModel:
    """Return the model with MXNet's operators for the named ones of ours."""
    if not names:
        return model.copy()
    if not importing.is_imported():
        node = next(node for node in ours if our_name(node) in names)
        raise OpError(WHERE, f"the node {node.name!r} (gluonops_{our_name(node)}) has no converter to torch itself, "
                      "and MXNet, which makes other operators of it, is not installed", "Run: gluonops install-mxnet")
    return passes.lower(model, "builtin", {our_name(node) for node in ours} - names)


def check_converters(graph: Graph) -> None:
    """Raise an OpError if a node has no converter, or if the statistics of a batch norm are read."""
    missing = [node for node in graph.nodes() if not node.is_variable and not converter_of(node)]
    if missing:
        others = sorted({node.op for node in missing[1:]} - {missing[0].op})
        raise refusal(missing[0], "has no converter to torch" + (f"; nor have {', '.join(others)}" if others else ""))
    for source, index in _reads(graph):
        if index > 0 and traits_of(source).uses_statistics:
            raise refusal(source, "has its statistics read")


def _reads(graph: Graph) -> list[Entry]:
    """Return what nodes read, and the graph's outputs."""
    return [*graph.outputs, *(entry for node in graph.nodes() for entry in node.inputs)]


def rename_namesakes(graph: Graph) -> None:
    """Give the nodes that have a variable's name another one, in place: what has a parameter's name is it."""
    names = set(graph.variables())
    for node in graph.nodes():
        if not node.is_variable and node.name in names:
            node.name = graph.free_name(node.name)


def flatten_explicitly(graph: Graph, shape: dict[Entry, tuple[int, ...]]) -> None:
    """Put a Flatten in front of the dense layers that flatten their data, in place."""
    for node in graph.nodes():
        flattens = node.op == "FullyConnected" and attributes_of(node)["flatten"] and node.source().op != "Flatten"
        if flattens and len(shape[node.inputs[0]]) != 2:
            flat = Node("Flatten", graph.free_name(f"{node.name}_flat"), inputs=node.inputs[:1])
            node.inputs[0] = flat, 0


class Packed(NamedTuple):
    """A part of the vector that has all parameters of a recurrent layer.

    ``vector`` is its name. ``begin``: where the part begins. ``shape``: of the matrix or bias.
    """
    vector: str
    begin: int
    shape: tuple[int, ...]


def packed_parts(graph: Graph, shape: dict[Entry, tuple[int, ...]], parameters: Collection[str]) -> dict[str, Packed]:
    """Return the names of the parameters that :func:`unpack_recurrent` makes -> what they are parts of."""
    parts = {}
    for node in graph.nodes():
        if node.op != "RNN" or node.source(1).name not in parameters:
            continue
        if attributes_of(node)["projection_size"] is not None:   # it has further matrices, and no converter
            continue
        vector, begin = node.source(1).name, 0
        for name, sizes in parameters_of(NodeValues(node, []), shape[node.inputs[0]][2]).items():
            parts[f"{vector}_{name}"] = Packed(vector, begin, sizes)
            begin += math.prod(sizes)
    return parts


def unpack_recurrent(model: ExportedModel, shape: dict[Entry, tuple[int, ...]]) -> None:
    """Give each recurrent layer a parameter for each matrix and bias, in place: files of Module's have one vector."""
    variables = {node.name: node for node in model.graph.nodes() if node.is_variable}
    of_vector = {}
    for name, (vector, begin, sizes) in packed_parts(model.graph, shape, model.parameters).items():
        packed = variables[vector]
        marks = {mark: value for mark, value in packed.attrs.items() if mark in ("__lr_mult__", "__wd_mult__")}
        variable = Node(VARIABLE, name, dict(marks))
        values = params.as_numpy(model.parameters[vector])
        model.parameters[name] = values[begin:begin + math.prod(sizes)].reshape(sizes)
        flat = Node("Reshape", f"{name}_flat", {"shape": "(-1,)"}, [(variable, 0)])
        of_vector.setdefault(packed, []).append((flat, 0))
    for packed in of_vector:
        del model.parameters[packed.name]
    model.graph.replace({(packed, 0): (Node("_rnn_param_concat", f"{packed.name}_packed", {
        "dim": "0", "num_args": str(len(parts))}, parts), 0) for packed, parts in of_vector.items()})


def copy_outputs(graph: Graph) -> None:
    """Let the net return copies of inputs and parameters, in place: MXNet itself has no gradient of such outputs."""
    graph.outputs = [(Node("_copy", graph.free_name(f"{node.name}_copy"), {}, [(node, index)]), 0)
                     if node.is_variable else (node, index) for node, index in graph.outputs]


def with_constants(model: ExportedModel) -> ExportedModel:
    """Return the model with a parameter in place of each part of the graph that depends on nothing, such as an arange.

    The parameters are floats of the net's own type; what reads several whole numbers, or floats of another type, gets
    them as such.
    """
    model = model.copy()
    graph, own = model.graph, model.types()
    varying = set()   # what drops or draws, or has the batch of a recurrent cell
    for node in graph.nodes():
        is_varying = node.op == "Dropout" or is_random(node) or has_open_size(node)
        if is_varying or any(source in varying for source, _ in node.inputs):
            varying.add(node)
    constant = parameter_only(graph, {}) - varying
    read = [*graph.outputs, *(entry for node in graph.nodes() if node not in constant for entry in node.inputs)]
    entries = sorted({entry for entry in read if entry[0] in constant}, key=lambda entry: entry[0].name)
    arrays = computed(entries, graph.attrs)
    dtype = Sizes(graph, model.inputs, model.parameters, model.metadata["dtype"], False, WHERE).dtype
    whole = {entry for node in graph.nodes() if len(node.inputs) > 1 for entry in node.inputs
             if all(dtype[read].kind in "iu" for read in node.inputs)}
    made = {}
    for entry, array in zip(entries, arrays):
        constant = Node(VARIABLE, f"{entry[0].name}_constant")
        is_other = dtype[entry].kind == "f" and dtype[entry].name not in own
        model.parameters[constant.name] = array.astype(dtype[entry] if dtype[entry].name in own else np.float32)
        cast = Node("Cast", f"{entry[0].name}_whole", {"dtype": dtype[entry].name}, [(constant, 0)])
        made[entry] = (cast if entry in whole or is_other else constant), 0
    graph.replace(made)
    copy_outputs(graph)
    return model


def join_recurrent(graph: Graph) -> None:
    """Let recurrent layers read their parameters, which Gluon packs for them, and then their states, in place.

    States of zero are left out. The lengths of sequences stand behind the states.
    """
    continued = {source for source, index in _reads(graph) if index > 0}
    for node in graph.nodes():
        if node.op != "RNN" or node.source(1).op != "_rnn_param_concat":
            continue
        packed = node.source(1).inputs
        parameters = [source.inputs[0] if source.op == "Reshape" else (source, 0) for source, _ in packed]
        if all(source.is_variable for source, _ in parameters):
            end = -1 if attributes_of(node)["use_sequence_length"] else len(node.inputs)
            states, lengths = node.inputs[2:end], node.inputs[end:]
            if all(has_open_size(source) for source, _ in states):
                states = []
            node.inputs = [node.inputs[0], *parameters, *states, *lengths]
            node.attrs.update({STATES: str(len(states)), CONTINUED: str(node in continued)})


def follow_batch(graph: Graph, shape: dict[Entry, tuple[int, ...]], parameters: dict) -> None:
    """Let states of a recurrent cell whose batch MXNet infers read data that have this batch, in place."""
    for node in graph.nodes():
        if has_open_size(node):
            entry = _met(node, graph, shape, parameters)
            # It is computed in the cell from data in front of the cell, which have the same batch.
            while traits_of(entry[0]).keeps_batch and shape[entry[0].inputs[0]][0] == shape[entry][0]:
                entry = entry[0].inputs[0]
            node.inputs = [entry]


def follow_type(graph: Graph, dtype: dict[Entry, np.dtype], own: set[str]) -> None:
    """Let what makes the net's own type of another one read something that has it, in place.

    ``own`` are the types of the net's inputs and parameters.
    """
    for node in graph.nodes():
        if traits_of(node).chooses_type and dtype[node, 0].name in own and dtype[node.inputs[0]].name not in own:
            entry = _of_type(node.inputs[0], dtype, own)
            node.inputs += [] if entry is None else [entry]


def _of_type(entry: Entry, dtype: dict[Entry, np.dtype], own: set[str]) -> Entry | None:
    """The nearest entry of the net's own type that another one is computed from; a variable of whole numbers if none.

    The written net takes whole numbers as floats of its type.
    """
    waiting, visited, variable = [entry], set(), None
    while waiting:
        entry_read = waiting.pop(0)
        if entry_read in visited:
            continue
        visited.add(entry_read)
        if dtype[entry_read].name in own:
            return entry_read
        if entry_read[0].is_variable and dtype[entry_read].kind in "iub":
            variable = variable or entry_read
        waiting += entry_read[0].inputs
    return variable


def _met(node: Node, graph: Graph, shape: dict[Entry, tuple[int, ...]], parameters: dict) -> Entry:
    """Return the first data that a step combines, element by element, with what is computed from a node."""
    computed_from = {node}
    for reader in graph.nodes():
        if any(source in computed_from for source, _ in reader.inputs):
            computed_from.add(reader)
            for entry in reader.inputs:
                is_data = entry[0] not in computed_from and entry[0].name not in parameters
                if is_data and shape[entry] == shape[reader, 0]:
                    return entry
    raise refusal(node, "has a batch that does not follow from data that it is combined with")


def join_counters(graph: Graph) -> None:
    """Make one node of each counter of images, which reads how many it adds and its state, in place.

    It is the step of an optimizer with the gradient ``(Dropout(1) != 1) * -images``; see ``CountingLoss``.
    """
    for node in graph.nodes():
        if node.op == "sgd_mom_update" and (node.source(1).op, node.source(2).op) == ("broadcast_mul", VARIABLE):
            images = node.source(1).source(1)
            node.op, node.inputs = COUNTER, [images.inputs[0], node.inputs[2]]


def join_darknet_norms(graph: Graph) -> None:
    """Make one node of each batch norm that divides by ``sqrt(variance) + 1e-6``, as Darknet does, in place.

    Its gamma is ``gamma * sqrt(variance + eps) / (sqrt(variance) + 1e-6)``. Such a node is for the converters only:
    MXNet does not know it.
    """
    for node in graph.nodes():
        made = Graph(node.inputs[1:2], {}).nodes() if node.op == "BatchNorm" else []
        if tuple(each.op for each in made) == GAMMA_OF_DARKNET:
            gamma, variance, _, _, _, offset, *_ = made
            if variance is node.source(4) and attributes_of(offset)["scalar"] == 1e-06:
                node.op = DARKNET
                node.inputs[1] = gamma, 0
