"""The float net that a file of MXNet's ``quantize_net`` came from.

Such a file has layers of 8 bits, each with the float layers that it replaces inside, and ranges. Its weights are
floats, or integers with the range that they were rounded within: those become floats again, and differ from the net's
own by half a step at most. It needs no MXNet.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from .graph import VARIABLE, Entry, Graph, Node, is_mark
from .metadata import read_metadata
from .operators import schema
from .operators.attributes import attributes_of
from .operators.eight_bits import CHANGES, FUSED, NAMES, is_of_8_bits

SUFFIX = "_quantize"   # of the names of rounded parameters, and between the names of their ranges
STEPS = {"int8": 127, "uint8": 255, "int32": 2 ** 31 - 1}   # from 0 to the end of the range


class Rounded(NamedTuple):
    """The names of the arrays that a float parameter is computed from."""
    integers: str
    lowest: str
    highest: str


class _Unknown(Exception):
    """A part of the file does not tell what its float net is."""


def to_floats(graph: Graph) -> dict[str, Rounded]:
    """Replace the layers of 8 bits of ``quantize_net`` by the float layers that they came from, in place.

    A graph that gluonops has quantized, and one that does not tell what its float layers are, stays as it is. Returns
    the parameters whose values have to be computed; see :func:`values_of`.
    """
    if "quantized" in read_metadata(graph) or not any(is_of_8_bits(node.op) for node in graph.nodes()):
        return {}
    rewriting = _Rewriting(graph.copy())
    try:
        outputs = rewriting.outputs()
    except _Unknown:
        return {}
    graph.outputs = outputs
    return rewriting.rounded


def values_of(rounded: Mapping[str, Rounded], values: dict[str, Any], make: Callable[[np.ndarray], Any]) -> dict:
    """The values of a file with the float parameters that :func:`to_floats` names, in place of the integers.

    ``make`` makes an array of the file's kind. A parameter whose arrays are missing stays missing.
    """
    result = dict(values)
    for name, arrays in rounded.items():
        if all(array in values for array in arrays):
            integers, lowest, highest = (_as_numpy(result.pop(array)) for array in arrays)
            largest = max(abs(float(lowest.reshape(-1)[0])), abs(float(highest.reshape(-1)[0])))
            steps = STEPS[integers.dtype.name]
            result[name] = make((integers.astype(np.float64) * (largest / steps)).astype(np.float32))
    return result


def _as_numpy(array: Any) -> np.ndarray:
    return array if isinstance(array, np.ndarray) else array.asnumpy()


class _Rewriting:
    """The nodes of the float net, made one after the other."""

    def __init__(self, graph: Graph):
        self.rounded: dict[str, Rounded] = {}
        self._made: dict[Entry, Entry] = {}   # what a graph of 8 bits reads -> the same in floats
        self._graph = graph

    def outputs(self) -> list[Entry]:
        """The outputs in floats."""
        for node in self._graph.nodes():
            if is_of_8_bits(node.op):
                self._made[node, 0] = self._in_floats(node)
            else:
                node.inputs = [self._made.get(entry, entry) for entry in node.inputs]
        self._check()
        return [self._made.get(entry, entry) for entry in self._graph.outputs]

    def _check(self) -> None:
        """Raise _Unknown if something else than a layer of 8 bits reads integers or a range, as an output may do."""
        whole = Graph([self._made.get(entry, entry) for entry in self._graph.outputs], {})
        if any(is_of_8_bits(node.op) for node in whole.nodes()):
            raise _Unknown
        for node, _ in self._graph.outputs:
            if node.op in CHANGES[:3]:
                raise _Unknown

    def _in_floats(self, node: Node) -> Entry:
        if node.op in CHANGES:
            return self._input(node, 0)
        if node.op in FUSED:
            return self._inside(node)
        if node.op not in NAMES:
            raise _Unknown
        return Node(NAMES[node.op], node.name, self._attributes(node), self._inputs(node, NAMES[node.op])), 0

    def _inputs(self, node: Node, op: str) -> list[Entry]:
        """What the float operator reads: the inputs in front of the ranges."""
        known = schema.find(op)
        if known.variadic:
            count = attributes_of(node)["num_args"]
        else:
            count = len(known.inputs) - ("no_bias" in known.attributes and attributes_of(node)["no_bias"])
        if count > len(node.inputs):
            raise _Unknown
        return [self._input(node, position) for position in range(count)]

    def _attributes(self, node: Node) -> dict[str, str]:
        """The attributes that the float operator has, too."""
        declared = schema.find(NAMES[node.op]).attributes
        return {name: text for name, text in node.attrs.items() if name in declared or is_mark(name)}

    def _inside(self, node: Node) -> Entry:
        """The float layers inside of a fused one."""
        if len(node.subgraphs) != 1:
            raise _Unknown
        inner = node.subgraphs[0]
        variables = [each for each in inner.nodes() if each.is_variable]
        if len(variables) > len(node.inputs) or len(inner.outputs) != 1:
            raise _Unknown
        inner.replace({(variable, 0): self._input(node, position)
                       for variable, position in zip(variables, _positions(variables, node))})
        return inner.outputs[0]

    def _input(self, node: Node, position: int) -> Entry:
        """An input in floats. A parameter of integers becomes the variable of its float values."""
        source, index = node.inputs[position]
        if not source.is_variable or not source.name.endswith(SUFFIX):
            return self._made.get((source, index), (source, index))
        name = source.name[:-len(SUFFIX)]
        if (source, 0) not in self._made:
            self.rounded[name] = Rounded(source.name, f"{source.name}_min", f"{source.name}_max")
            self._made[source, 0] = Node(VARIABLE, name), 0
        return self._made[source, 0]


def _positions(variables: list[Node], node: Node) -> list[int]:
    """Which input of a fused node each variable inside of it stands for.

    MXNet names a variable after what the float layer read, such as ``data0`` and ``conv0_fwd_output0``. Otherwise they
    have the order of the inputs, of which MXNet moves that of a sum to the end.
    """
    names = [_name_inside(*entry) for entry in node.inputs[:len(variables)]]
    wanted = [variable.name for variable in variables]
    if sorted(names) == sorted(wanted) and len(set(names)) == len(names):
        return [names.index(name) for name in wanted]
    return list(range(len(variables)))


def _name_inside(source: Node, index: int) -> str:
    """What MXNet calls an input inside of a fused node."""
    while source.op in CHANGES:
        source, index = source.inputs[0]
    name = source.name.removeprefix("quantized_")
    if source.is_variable:
        return f"{name.removesuffix(SUFFIX)}{index}"
    return f"{name}_output{index}"
