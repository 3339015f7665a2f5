"""A symbol's graph as nodes that can be changed: read from JSON, rewritten by the passes, written back.

It works on the JSON itself, so a file whose operators this process does not have can be read and mended.
"""
from __future__ import annotations

import json
from collections.abc import Iterable

import mxnet as mx

from ..core.errors import OpError

VARIABLE = "null"
INSERTED = "__gluonops_inserted__"   # the mark of the nodes that the emitter puts around an operator
_OTHER_CUSTOM = {}


class Node:
    """One node. ``inputs`` are (node, output index) pairs; ``attrs`` are strings, as in the JSON."""

    __slots__ = ("attrs", "inputs", "name", "op", "subgraphs")

    def __init__(self, op: str, name: str, attrs : dict[str, str] | None= None, inputs : Iterable[Entry]= (),
                 subgraphs : list | None= None) -> None:
        self.op, self.name, self.attrs, self.inputs = op, name, dict(attrs or {}), list(inputs)
        self.subgraphs = subgraphs

    def __repr__(self) -> str:
        return f"<{self.op} {self.name}>"

    @property
    def is_variable(self) -> bool:
        return self.op == VARIABLE

    @property
    def inserted_as(self) -> str | None:
        """What the emitter inserted the node as; None where somebody else made it."""
        return self.attrs.get(INSERTED)

    def source(self, position: int = 0) -> Node:
        """The node behind an input."""
        return self.inputs[position][0]

    def flag(self, name: str, default: bool = False) -> bool:
        """A boolean attribute; None, as MXNet writes one left open, is the default."""
        text = self.attrs.get(name, "None")
        return default if text == "None" else text.lower() in ("true", "1")

    def marks(self) -> dict[str, str]:
        """The attributes that belong to no operator: ``__lr_mult__`` and its like, but not the emitter's."""
        return {name: value for name, value in self.attrs.items()
                if name.startswith("__") and name.endswith("__") and not name.startswith("__gluonops_")}


Entry = tuple[Node, int]   # an output of a node, by its number


class Graph:
    """Nodes reached from the heads, and the attributes of the whole.

    Parameters
    ----------
    heads : list of (Node, int)
        The outputs.
    attrs : dict
        The graph's own attributes: MXNet's version, and what :mod:`gluonops.export.metadata` keeps there.
    """

    def __init__(self, heads: Iterable[Entry], attrs: dict) -> None:
        self.heads, self.attrs = list(heads), attrs

    @classmethod
    def parse(cls, text: str, where: str = "the graph") -> Graph:
        """Read symbol JSON, of older versions of MXNet as well."""
        try:
            content = json.loads(text)
            nodes = []
            for item in content["nodes"]:
                attrs = {}
                for place in ("param", "attr", "attrs"):
                    attrs.update(item.get(place) or {})
                nodes.append(Node(item["op"], item["name"], attrs, subgraphs=item.get("subgraphs"),
                                  inputs=[_entry(nodes, entry) for entry in item["inputs"]]))
            if not content["heads"]:
                raise ValueError("it has no output")
            return cls([_entry(nodes, entry) for entry in content["heads"]], dict(content.get("attrs") or {}))
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            raise OpError("export", f"{where} is not a symbol in JSON ({type(error).__name__}: {error})",
                          "Pass the file that ends in -symbol.json") from error

    def copy(self) -> Graph:
        """The same graph out of nodes of its own."""
        copies = {}
        for node in self.nodes():
            copies[node] = Node(node.op, node.name, node.attrs, subgraphs=node.subgraphs,
                                inputs=[(copies[source], index) for source, index in node.inputs])
        return Graph([(copies[node], index) for node, index in self.heads], dict(self.attrs))

    @classmethod
    def of(cls, symbol: mx.sym.Symbol) -> Graph:
        """The graph of an mx.sym.Symbol."""
        return cls.parse(symbol.tojson())

    def nodes(self) -> list[Node]:
        """Every node behind the heads, inputs first, in the order in which MXNet lists arguments."""
        found, seen = [], set()
        stack = [(node, False) for node, _ in reversed(self.heads)]
        while stack:
            node, ready = stack.pop()
            if ready:
                found.append(node)
            elif node not in seen:
                seen.add(node)
                stack.append((node, True))
                stack += [(source, False) for source, _ in reversed(node.inputs)]
        return found

    def variables(self) -> list[str]:
        """The names of all variables: data, parameters, states."""
        return [node.name for node in self.nodes() if node.is_variable]

    def free_name(self, name: str) -> str:
        """``name``, or one like it that no node has."""
        taken = {node.name for node in self.nodes()}
        while name in taken:
            name += "_"
        return name

    def readers(self) -> dict[Node, list]:
        """Node -> the nodes that read it, once for every input; a head counts as None."""
        readers = {node: [] for node in self.nodes()}
        for node in list(readers):
            for source, _ in node.inputs:
                readers[source].append(node)
        for node, _ in self.heads:
            readers[node].append(None)
        return readers

    def replace(self, replacements: dict) -> None:
        """Let every reader of an output read another one.

        Parameters
        ----------
        replacements : dict of (Node, int) to (Node, int)
            Output -> the output in its place; chains are followed.
        """
        def mended(entry: Entry) -> Entry:
            while entry in replacements:
                entry = replacements[entry]
            return entry

        for node in self.nodes():
            node.inputs = [mended(entry) for entry in node.inputs]
        self.heads = [mended(entry) for entry in self.heads]

    def splice(self, symbol: mx.sym.Symbol, variables: dict[str, tuple[Node, int]]) -> tuple[Node, int]:
        """Nodes made from a symbol, reading outputs of this graph in place of its variables.

        Parameters
        ----------
        symbol : mx.sym.Symbol
            One output.
        variables : dict of str to (Node, int)
            What stands for each variable.

        Returns
        -------
        (Node, int)
            Its output.
        """
        part = Graph.of(symbol)
        part.replace({(node, 0): variables[node.name] for node in part.nodes() if node.is_variable})
        return part.heads[0]

    def text(self) -> str:
        """Symbol JSON."""
        nodes = self.nodes()
        number = {node: i for i, node in enumerate(nodes)}

        def entries(items: list[Entry]) -> list[list[int]]:
            return [[number[node], index, 0] for node, index in items]   # the version is MXNet's own affair

        listed = []
        for node in nodes:
            item = {"op": node.op, "name": node.name, "inputs": entries(node.inputs)}
            if node.attrs:
                item["attrs"] = node.attrs
            if node.subgraphs:
                item["subgraphs"] = node.subgraphs
            listed.append(item)
        return json.dumps({"nodes": listed, "arg_nodes": [i for i, node in enumerate(nodes) if node.is_variable],
                           "heads": entries(self.heads), "attrs": self.attrs}, indent=2,
                          ensure_ascii=False)   # MXNet does not read escapes

    def symbol(self) -> mx.sym.Symbol:
        """The graph as MXNet's Symbol; MXNet has to know every operator."""
        try:
            return mx.sym.load_json(self.text())
        except mx.MXNetError as error:
            reason = str(error).strip().splitlines()[-1]
            nodes = [node.name for node in self.nodes() if node.op == "Custom" and
                     reason.endswith(f"Cannot find custom operator {node.attrs.get('op_type')}")]
            raise OpError("export", f"MXNet refuses the graph{f' at the node {nodes[0]!r}' if nodes else ''}: {reason}",
                          "Import the package, or load the library, that defines an operator which it does not know; "
                          "where that is not it, export the net again") from error


def _entry(nodes: list[Node], entry: list[int]) -> Entry:
    """What an input or a head reads. MXNet looks an output up that is not there, and crashes."""
    number, index = entry[:2]
    if number < 0 or index < 0:
        raise IndexError(f"output {index} of node {number}")
    return nodes[number], index


def is_ours(node: Node) -> bool:
    """Whether a node is an operator of gluonops, custom or native."""
    return node.op.startswith("gluonops_") or (node.op == "Custom"
                                               and node.attrs.get("op_type", "").startswith("gluonops_"))


def our_name(node: Node) -> str:
    """The operator's name without ``gluonops_``."""
    return (node.attrs["op_type"] if node.op == "Custom" else node.op)[len("gluonops_"):]


def describe_custom(op_type: str, attribute: str, package: str) -> None:
    """Say how messages call the Custom nodes of a package that has one ``op_type`` for many operators.

    Parameters
    ----------
    op_type : str
    attribute : str
        Of the node: what it does.
    package : str
        What has to be imported for the nodes to run.
    """
    _OTHER_CUSTOM[op_type] = attribute, package


def kind(node: Node) -> str:
    """What a node does, for messages: its operator, or what a Custom node stands for."""
    if node.op != "Custom":
        return node.op
    op_type = node.attrs.get("op_type")
    attribute, _ = _OTHER_CUSTOM.get(op_type, ("op_type", None))
    return node.attrs.get(attribute, op_type)


def package_of(node: Node) -> str | None:
    """The package that a Custom node needs, where it has said so; else None."""
    return _OTHER_CUSTOM.get(node.attrs.get("op_type"), (None, None))[1]
