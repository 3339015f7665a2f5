"""A symbol's graph as nodes that passes can change.

It is read from JSON and written as JSON, so it may have operators that this process does not have. That needs no MXNet.
"""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from ..contract.errors import OpError, quoted, shortened
from ..contract.op import PREFIX
from ..io.files import check_downloaded
from ..runtime import importing

if TYPE_CHECKING:
    import mxnet as mx

VARIABLE = "null"
OLDEST = 800   # the version of MXNet whose files do not say it
CURRENT = 10901
# What an operator on 8 bits is, and what a caller needs that converts them.
OF_8_BITS = "which computes with 8 bits, as MXNet's quantize_net writes it; expected a net of floats"
FLOATS_NEEDED = "Pass the float files that it was quantized from"
INPUT_TYPE = "__gluonops_input_type__"   # the type of an input that differs from the others'; a cast reads it
CALL = "__call__"   # marks a node with the number of the call of a block that has made it
FIXED_AXES = "__gluonops_fixed_axes__"   # marks a node that refuses other sizes of these axes of an input
SHOWN = 400   # characters of a reason in an error
# How MXNet before 0.9 spelled __lr_mult__ and its like, also behind the name of an input.
OLD_MARK = re.compile("(?:(.+)_)?(ctx_group|lr_mult|wd_mult|force_mirroring|mirror_stage)")
INSERTED = "__gluonops_inserted__"   # marks the nodes that the emitter inserts around an operator


class Node:
    """A node.

    - ``attrs``: as in the JSON.
    - ``inputs``: the outputs that it reads, as node and number.
    - ``subgraphs``: what a loop, a branch, or a layer of 8 bits runs.
    """

    __slots__ = ("attrs", "inputs", "name", "op", "subgraphs")

    def __init__(self, op: str, name: str, attrs: dict[str, str] | None = None, inputs: Iterable[Entry] = (),
                 subgraphs: Iterable[Graph] = ()):
        self.op = op
        self.name = name
        self.attrs = dict(attrs or {})
        self.inputs = list(inputs)
        self.subgraphs = list(subgraphs)

    def __repr__(self) -> str:
        return f"<{self.op} {self.name}>"

    @property
    def is_variable(self) -> bool:
        """Whether it is an input, a parameter or a state."""
        return self.op == VARIABLE

    @property
    def is_foreign(self) -> bool:
        """Whether a class that is not gluonops's computes it, a user's ``mx.operator.CustomOp``."""
        return self.op == "Custom" and not is_ours(self)

    @property
    def inserted_as(self) -> str | None:
        """The kind of node that the emitter inserted (``guard``, ``copy``, ...); None for all other nodes."""
        return self.attrs.get(INSERTED)

    def source(self, position: int = 0) -> Node:
        """The node that an input reads."""
        return self.inputs[position][0]

    def origin(self, passing: Collection[str]) -> Node:
        """The node whose output this one has, where operators ``passing`` pass on what they read."""
        node = self
        while node.op in passing:
            node = node.source()
        return node

    def has(self, name: str) -> bool:
        """Whether an attribute that MXNet's registry does not describe is there and true.

        These are our own marks, and the attributes of oneDNN's layers with graphs inside. All others have types and
        defaults: see :func:`gluonops.export.operators.node_attributes.attributes_of`.
        """
        return self.attrs.get(name, "").lower() in ("true", "1")

    def options(self) -> dict[str, str]:
        """The attributes that are the operator's."""
        return {name: value for name, value in self.attrs.items() if name != "op_type" and not is_mark(name)}

    def marks(self) -> dict[str, str]:
        """The attributes that are no operator's, such as ``__lr_mult__``, without the emitter's own."""
        return {name: value for name, value in self.attrs.items()
                if is_mark(name) and not name.startswith("__gluonops_")}


Entry = tuple[Node, int]   # an output of a node, by its number


def is_mark(name: str) -> bool:
    """Whether an attribute of this name is no operator's: ``__lr_mult__``, or what files before MXNet 0.9 called so."""
    return (name.startswith("__") and name.endswith("__")) or OLD_MARK.fullmatch(name) is not None


class Graph:
    """The nodes that the outputs depend on. JSON calls the outputs heads.

    ``attrs`` are the graph's attributes: MXNet's version, and the entry of :mod:`gluonops.export.metadata`.
    """

    def __init__(self, outputs: Iterable[Entry], attrs: dict):
        self.outputs = list(outputs)
        self.attrs = attrs

    @classmethod
    def parse(cls, text: str, where: str = "the graph") -> Graph:
        """Read symbol JSON. :mod:`gluonops.export.operators` checks and completes what comes from a file.

        An OpError is raised if the text is not symbol JSON.
        """
        try:
            content = json.loads(text)
            json.dumps(content, ensure_ascii=False).encode("utf-8")   # MXNet takes no name with half a character
            return cls._of_content(content)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
            raise OpError("export", f"{where} is not a symbol in JSON ({type(error).__name__}: "
                          f"{shortened(str(error), SHOWN)})", "Pass the file that ends in -symbol.json") from error

    @classmethod
    def read(cls, where: str, path: str | os.PathLike) -> Graph:
        """Read a file of symbol JSON, as :meth:`parse` does. ``where`` is the caller, for errors."""
        text = pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
        try:
            return cls.parse(text, os.fspath(path))
        except OpError:
            check_downloaded(where, path)
            raise

    @classmethod
    def _of_content(cls, content: dict) -> Graph:
        nodes = []
        for item in content["nodes"]:
            nodes.append(_parse_node(item, nodes))
        if not content["heads"]:
            raise ValueError("it has no output")
        return cls([_entry(nodes, entry) for entry in content["heads"]], dict(content.get("attrs") or {}))

    @property
    def is_numpy(self) -> bool:
        """Whether MXNet has to run it with NumPy's shapes: ``()`` is a number, and a size of 0 is none that is open."""
        return self.attrs.get("is_np_shape", ["int", 0])[1:] == [1]

    @contextlib.contextmanager
    def mode(self) -> Iterator[None]:
        """The mode in which MXNet runs the graph, with legacy arrays, whatever is in force outside of ``with``."""
        if not importing.is_imported():
            yield
            return
        from mxnet.util import np_array, np_shape  # here: graphs are read without MXNet, too

        with np_array(False), np_shape(self.is_numpy):   # MXNet refuses NumPy's arrays without its shapes
            yield

    def copy(self) -> Graph:
        """The same graph with its own nodes."""
        own = {}
        for node in self.nodes():
            own[node] = Node(node.op, node.name, node.attrs, [(own[source], index) for source, index in node.inputs],
                             [subgraph.copy() for subgraph in node.subgraphs])
        return Graph([(own[node], index) for node, index in self.outputs], dict(self.attrs))

    @classmethod
    def of(cls, symbol: mx.sym.Symbol) -> Graph:
        """The graph of a Symbol."""
        return cls.parse(symbol.tojson())

    def nodes(self) -> list[Node]:
        """Every node that the outputs depend on, inputs first, in the order in which MXNet lists arguments."""
        ordered = []
        visited = set()
        stack = [(node, False) for node, _ in reversed(self.outputs)]
        while stack:
            node, has_inputs = stack.pop()   # whether its inputs are in ``ordered``
            if has_inputs:
                ordered.append(node)
            elif node not in visited:
                visited.add(node)
                if not node.inputs:
                    ordered.append(node)
                    continue
                stack.append((node, True))
                stack += [(source, False) for source, _ in reversed(node.inputs) if source not in visited]
        return ordered

    def variables(self) -> list[str]:
        """The names of all variables: inputs, parameters, states."""
        return [node.name for node in self.nodes() if node.is_variable]

    def free_name(self, name: str) -> str:
        """``name``, with underscores appended if a node has it."""
        taken = {node.name for node in self.nodes()}
        while name in taken:
            name += "_"
        return name

    def has_fixed_batch(self) -> bool:
        """Whether a recorded net computes something else for other batches, so that its graph refuses them."""
        return any("0" in re.findall(r"\d+", node.attrs.get(FIXED_AXES, "")) for node in self.nodes())

    def readers(self) -> dict[Node, list]:
        """Node -> the nodes that read it, once for each input. None reads the graph's outputs."""
        readers = {node: [] for node in self.nodes()}
        for node in list(readers):
            for source, _ in node.inputs:
                readers[source].append(node)
        for node, _ in self.outputs:
            readers[node].append(None)
        return readers

    def chain(self, node: Node, operators: Collection[str]) -> list[Node]:
        """A node, and those of some operators behind it: each reads the one before alone, and is its only reader."""
        readers, chain = self.readers(), [node]
        while len(readers[chain[-1]]) == 1:
            following, = readers[chain[-1]]
            if following is None or following.op not in operators or len(following.inputs) > 1:
                break
            chain.append(following)
        return chain

    def replace(self, replacements: dict) -> None:
        """Let all readers of an output read the one that replaces it, in place. Chains are followed."""
        def replaced(entry: Entry) -> Entry:
            while entry in replacements:
                entry = replacements[entry]
            return entry

        for node in self.nodes():
            node.inputs = [replaced(entry) for entry in node.inputs]
        self.outputs = [replaced(entry) for entry in self.outputs]

    def splice(self, symbol: mx.sym.Symbol, variables: dict[str, Entry]) -> list[Entry]:
        """The outputs of a symbol as nodes, which read outputs of this graph in place of the symbol's variables."""
        part = Graph.of(symbol)
        part.replace({(node, 0): variables[node.name] for node in part.nodes() if node.is_variable})
        return part.outputs

    def text(self) -> str:
        """The graph as symbol JSON."""
        return json.dumps(self._content(), indent=2, ensure_ascii=False)   # MXNet does not read escapes

    def _content(self) -> dict:
        nodes = self.nodes()
        number = {node: i for i, node in enumerate(nodes)}

        def numbered(entries: list[Entry]) -> list[list[int]]:
            return [[number[node], index, 0] for node, index in entries]   # 0 is the version of a variable

        items = []
        for node in nodes:
            item = {"op": node.op, "name": node.name, "inputs": numbered(node.inputs)}
            if node.attrs:
                item["attrs"] = node.attrs
            if node.subgraphs:
                item["subgraphs"] = [subgraph._content() for subgraph in node.subgraphs]
            items.append(item)
        return {
            "nodes": items,
            "arg_nodes": [i for i, node in enumerate(nodes) if node.is_variable],
            "heads": numbered(self.outputs),
            "attrs": self.attrs,
        }

    def symbol(self) -> mx.sym.Symbol:
        """The graph as a Symbol.

        An OpError is raised if MXNet refuses the graph, as if it does not know an operator.
        """
        import mxnet as mx  # here: graphs are read without MXNet, too

        graph = self
        if any(node.is_foreign and node.marks() for node in self.nodes()):
            graph = self.copy()
            for node in graph.nodes():
                if node.is_foreign:   # MXNet hands all attributes to the user's class, which may not take the marks
                    node.attrs = {"op_type": node.attrs.get("op_type", ""), **node.options()}
        try:
            return mx.sym.load_json(json.dumps(graph._content(), ensure_ascii=False))   # Python indents slowly.
        except mx.MXNetError as error:
            raise refusal("", error) from error


def _parse_node(item: dict, nodes: list[Node]) -> Node:
    attrs = {}
    for key in ("param", "attr", "attrs"):   # versions of MXNet name it differently
        attrs.update(item.get(key) or {})
    texts = (item["op"], item["name"], *attrs, *attrs.values())
    wrong = [text for text in texts if not isinstance(text, str)]
    if wrong:
        raise TypeError(f"{wrong[0]!r} is not text")
    inputs = [_entry(nodes, entry) for entry in item["inputs"]]
    subgraphs = [Graph._of_content(content) for content in item.get("subgraphs") or ()]
    return Node(item["op"], item["name"], attrs, inputs, subgraphs)


def _entry(nodes: list[Node], entry: list[int]) -> Entry:
    """The output of a node that an entry names. An IndexError is raised if it does not exist: MXNet would crash."""
    number, index = entry[:2]
    if type(number) is not int or type(index) is not int:   # True is an int, and would be node 1
        raise TypeError(f"{entry!r} is not an output of a node")
    if number < 0 or index < 0:
        raise IndexError(f"output {index} of node {number}")
    return nodes[number], index


def version(graph: Graph) -> int:
    """The number of the MXNet that wrote a graph."""
    stored = graph.attrs.get("mxnet_version", ["int", OLDEST])
    if not isinstance(stored, list) or len(stored) != 2 or stored[0] != "int" or type(stored[1]) is not int:
        raise OpError("export", f"mxnet_version is {quoted(stored)}; expected one such as ['int', 10901]",
                      "Export the net again")
    return stored[1]


def version_text(number: int) -> str:
    """A version of MXNet as people write it. Files of 0.8 and older ones do not have it."""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}" if number > OLDEST else "0.8 or older"


def is_ours(node: Node) -> bool:
    """Whether a node is an operator of gluonops, custom or native."""
    name = node.attrs.get("op_type", "") if node.op == "Custom" else node.op
    return name.startswith(PREFIX)


def our_name(node: Node) -> str:
    """The operator's name without ``gluonops_``."""
    name = node.attrs["op_type"] if node.op == "Custom" else node.op
    return name[len(PREFIX):]


def kind(node: Node) -> str:
    """The operator of a node, for messages. Custom nodes have one each."""
    if node.op != "Custom":
        return node.op
    op_type = node.attrs.get("op_type")
    attribute, _ = _described(op_type)
    return node.attrs.get(attribute, op_type) or node.op


def package_of(node: Node) -> str | None:
    """The registered package of a Custom node; None if there is none."""
    return _described(node.attrs.get("op_type"))[1]


def _described(op_type: str | None) -> tuple[str, str | None]:
    """The attribute that says what a Custom node of this type computes, and the package that has it."""
    if not importing.is_imported():
        return "op_type", None
    from ..backends import registration  # here: it needs MXNet

    return registration.described.get(op_type, ("op_type", None))


def refusal(location: str, error: mx.MXNetError) -> OpError:
    """The error for a graph that MXNet refuses, with the lines of its message that say what is wrong, and where.

    ``location``: such as ' at the node ...'; empty if it is not known.
    """
    lines = str(error).strip().splitlines()
    reason = lines[0] + lines[-1] if lines[-1].startswith(", in operator") else lines[-1]
    return OpError("export", f"MXNet refuses the graph{location}: {shortened(reason, SHOWN)}",
                   "Import the package or load the library that defines the operator that MXNet does not know. If it "
                   "knows all of them, export the net again")
