"""The nodes of a file, before MXNet sees them: which operators it may have, and how many inputs and outputs they have.

MXNet trusts a graph. Some operators call an address, or read the path, that an attribute has. Others read or write
beyond their inputs if a node has another number of them. What older versions of MXNet wrote is completed here: MXNet's
own way to do it trusts the graph, too, and tells stderr of it.
"""
from __future__ import annotations

import collections
import math
import re
from typing import NamedTuple

from ...contract import registry
from ...contract.attributes import Attr, Int, IntOrTuple, Kind
from ...contract.errors import OpError, naming, quoted, shortened
from ...runtime import importing
from .. import rules
from ..cut import HeadError, remaining
from ..graph import (
    CURRENT,
    FLOATS_NEEDED,
    OF_8_BITS,
    VARIABLE,
    Graph,
    Node,
    is_mark,
    is_ours,
    kind,
    our_name,
    refusal,
    version,
    version_text,
)
from . import schema
from .eight_bits import is_of_8_bits

if importing.is_imported():
    import mxnet as mx
    from mxnet._ctypes.symbol import _symbol_creator
    from mxnet.base import MXNetError

    from ...backends import native

# How files call operators that have another name today, and that MXNet 1.9.1 does not know as aliases.
OLD_NAMES = {"CuDNNBatchNorm": "BatchNorm"}
# `_Native` and `_NDArray` call an address. `_CachedOp`, `_CustomFunction` and `_FusedOp` need what another process had
# in memory. `_cvimread` and its like read files, or decode images of any size. `_contrib_dgl_` and `reset_arrays` crash
# with any inputs. The others are made inside of MXNet: gradients, and what its backends compile.
REFUSED = re.compile(r"_Native|_NDArray|_CachedOp.*|_CustomFunction|_FusedOp.*|.*_cvim.*|_imdecode|_NoGradient|"
                     r".*backward.*|_sg_(?!mkldnn_conv$).*|_TensorRT|.*_tvm_.*|_contrib_dgl_.*|reset_arrays")
# The operators with graphs inside: the attributes that say which inputs each of them reads.
LOOPS = {"_foreach": ("in_data_locs", "in_state_locs", "remain_locs"),   # all three for one graph
         "_while_loop": ("cond_input_locs", "func_input_locs"),
         "_cond": ("cond_input_locs", "then_input_locs", "else_input_locs")}
QUANTIZED = "_sg_mkldnn_conv"   # gluonops.export.quantize writes it
OF_PYTHON = ("_Native", "_NDArray")   # the NumpyOp and the NDArrayOp of MXNet before 1.0
FUSED = {"elemwise_add": "sum", "Activation": "act", "LeakyReLU": "act", "clip": "act"}   # It names layers so.
# The attributes that say how many inputs or outputs an operator has: MXNet makes as many, whatever the node has.
COUNTS_OF_INPUTS = ("num_args", "num_arrays", "num_tensors", "num_weights")
COUNTS_OF_OUTPUTS = ("num_outputs", "sections")
MOST_OUTPUTS = 2 ** 16
# The versions of MXNet from which on files list auxiliary states, and -1 is the last axis.
LISTS_STATES, LAST_AXIS = 900, 905
# How older versions spelled __lr_mult__ and its like, also behind the name of an input.
OLD_MARK = re.compile("(?:(.+)_)?(ctx_group|lr_mult|wd_mult|force_mirroring|mirror_stage)")
LONG = re.compile(r"(?<=\d)L(?=\s*[,)])")   # Python 2 wrote (3L, 3L)
TOO_MANY = re.compile(r"Incorrect number of arguments, requires (\d+)")


class Signature(NamedTuple):
    """How many inputs a node needs, the names of those that it lacks, and how many outputs it has."""
    inputs: int
    lacking: tuple[str, ...]
    outputs: float   # infinity if it is not known


def admit(graph: Graph) -> list[str]:
    """Check the nodes of a file, and write them as MXNet 1.9.1 does, in place. An OpError names the node.

    Returns the operators that MXNet itself does not find, and that are written under another name, in words.
    """
    renamed = collections.defaultdict(list)
    written = version(graph)
    check_loadable(graph)
    _check_operators(graph, renamed)
    if written < CURRENT:
        _upgrade(graph, written)
        graph.attrs["mxnet_version"] = ["int", CURRENT]
    _check_sizes(graph)
    return [f"the operator {old}, of MXNet {version_text(written)}, is {new} in MXNet {version_text(CURRENT)}: nodes "
            f"{shortened(', '.join(names), 200)}" for (old, new), names in renamed.items()]


def _check_operators(graph: Graph, renamed: dict[tuple[str, str], list[str]]) -> None:
    """Refuse what may not be in a file. Aliases of the others become their names: _Plus becomes elemwise_add."""
    for node in graph.nodes():
        node.op = native.operator_name(node.op) if importing.is_imported() else _name_without_mxnet(node.op)
        if not (node.is_variable or is_ours(node) or _is_known(node.op)):
            renamed[node.op, _todays_name(node)].append(node.name)
            node.op = _todays_name(node)
        if node.subgraphs and node.op not in {*LOOPS, QUANTIZED}:
            raise _bad(node, *_refused(node))
        if node.op not in {VARIABLE, "Custom", *LOOPS}:   # MXNet gives a variable the attributes of its layer
            limits = {**dict.fromkeys(COUNTS_OF_INPUTS, len(node.inputs)),
                      **dict.fromkeys(COUNTS_OF_OUTPUTS, MOST_OUTPUTS)}
            for name, most in limits.items():
                if name in node.attrs and _integer(node, name) > most:
                    raise _bad(node, f"({node.op}) has {name} {quoted(node.attrs[name])}; expected at most {most}")
        for subgraph in node.subgraphs:
            _check_operators(subgraph, renamed)


def check_loadable(graph: Graph) -> None:
    """Raise a HeadError for the first node that nobody can load here, with the outputs of the net below all of them."""
    found = unloadable(graph)
    for node, (what, remedy) in found.items():
        below = () if is_of_8_bits(node.op) else remaining(graph, found)
        raise HeadError("export", f"the node {quoted(node.name)} {what}", remedy, below)


def unloadable(graph: Graph) -> dict[Node, tuple[str, str]]:
    """The nodes of a file that cannot be loaded here: why each, behind its name, and what to do about it."""
    found, written = {}, version(graph)
    for node in graph.nodes():
        inner = [reason for subgraph in node.subgraphs for reason in unloadable(subgraph).values()]
        reason = next(iter(inner), None) or _reason_against(node, written)
        if reason:
            found[node] = reason
    return found


def with_todays_names(graph: Graph) -> None:
    """Write the operators of a graph as MXNet 1.9.1 calls them, in place, as far as it has them. It needs no MXNet."""
    for node in graph.nodes():
        name = _name_without_mxnet(node.op)
        node.op = name if name in schema.names() or f"_contrib_{name}" not in schema.names() else f"_contrib_{name}"


def _reason_against(node: Node, written: int) -> tuple[str, str] | None:
    """Why a node cannot be loaded here, and what to do; None if it can be, as far as its operator says."""
    op = native.operator_name(node.op) if importing.is_imported() else node.op
    if node.is_variable or is_ours(node):
        return None
    if op in OF_PYTHON:
        return (f"is the operator {op}, which may not be in a file: it is a NumpyOp or NDArrayOp of MXNet before 1.0, "
                "and the file has no more than the address of its code in a process that has ended",
                "Build the graph again with gluonops.legacy, and load the parameters")
    if is_of_8_bits(op) and op != QUANTIZED and REFUSED.fullmatch(op):
        return f"is the operator {op}, {OF_8_BITS}", FLOATS_NEEDED
    if REFUSED.fullmatch(op):
        return _refused(node, op)
    if op == "Custom":
        return _without_class(node)
    if not any(map(_mxnet_has, (op, f"_contrib_{op}", OLD_NAMES.get(op, "")))):
        return (f"is the operator {shortened(op, 200)}, which MXNet {version_text(CURRENT)} does not have; the file "
                f"was written by MXNet {version_text(written)}", "Load the library that defines it first")
    return None


def _refused(node: Node, op: str | None = None) -> tuple[str, str]:
    return (f"is the operator {shortened(op or node.op, 200)}, which may not be in a file; expected one that computes "
            "from its inputs alone", "Export the net again")


def _without_class(node: Node) -> tuple[str, str] | None:
    """Why a Custom node of others cannot be made here: mostly for want of its class, as without MXNet in any case."""
    if "op_type" not in node.attrs:
        return None
    if importing.is_imported():
        try:
            _signature(node)
            return None
        except OpError as error:
            if error.where != "export":   # its own class, or that of gluonops.legacy
                return f"({shortened(kind(node), 200)}) cannot be made: {error.what}", error.remedy
            if "Cannot find custom operator" not in error.what:
                return None
    return (f"is the Custom operator {shortened(kind(node), 200)}, and the class that computes it is not registered "
            "here", "Import the module that registers it first")


def _mxnet_has(op: str) -> bool:
    """Whether MXNet 1.9.1, or a library that is loaded here, has an operator of this name."""
    return op in schema.names() or (importing.is_imported() and _is_known(op))


def _name_without_mxnet(op: str) -> str:
    """MXNet's own name of an operator, of which ``op`` may be an alias, from what is known of operators here."""
    return OLD_NAMES.get(op) or schema.own_name(op)


def _todays_name(node: Node) -> str:
    """The name of an operator that MXNet knows under another one. An OpError if there is none."""
    for name in (f"_contrib_{node.op}", OLD_NAMES.get(node.op, "")):   # MultiBoxPrior and others moved there
        if _is_known(name):
            return name
    raise OpError("export", f"the node {quoted(node.name)} is the operator {shortened(kind(node), 200)}, of which "
                  "gluonops knows nothing without MXNet", "Run: gluonops install-mxnet")


def _is_known(op: str) -> bool:
    """Whether MXNet has an operator. Without MXNet: whether there is a rule for it."""
    if not importing.is_imported():
        return op in rules.RULES
    try:
        native.operator_handle(op)
    except MXNetError:
        return False
    return True


def _upgrade(graph: Graph, version: int) -> None:
    """Write what an older MXNet wrote as this one does, in place."""
    for node in graph.nodes():
        _spell_marks(node)
        node.attrs = {name: LONG.sub("", value) for name, value in node.attrs.items()}
        if version < LISTS_STATES and not node.is_variable:
            lacking = _signature(node).lacking
            node.inputs += [(Node(VARIABLE, f"{node.name}_{name}", node.marks()), 0) for name in lacking]
        if version < LAST_AXIS and node.op in ("argmax", "argmin") and node.attrs.get("axis") == "-1":
            del node.attrs["axis"]   # it meant all axes


def _spell_marks(node: Node) -> None:
    """Spell the old marks of a node as this MXNet does, and move those that are for an input to it, in place."""
    found = [match for match in map(OLD_MARK.fullmatch, node.attrs) if match]
    marks = [(*match.groups(), node.attrs.pop(match.group())) for match in found]
    for owner, mark, value in marks:
        if owner is None:
            node.attrs[f"__{mark}__"] = value
        elif not node.is_variable:
            names = _signature(Node(node.op, node.name, node.attrs)).lacking
            for name, (source, _) in zip(names, node.inputs):
                if name == owner and source.is_variable:
                    source.attrs[f"__{mark}__"] = value


def _check_sizes(graph: Graph) -> None:
    """Check that all nodes have their inputs, and that every output that is read exists: MXNet would crash."""
    outputs = {}
    for node in graph.nodes():
        for subgraph in node.subgraphs:
            _check_sizes(subgraph)
        signature = Signature(0, (), 1) if node.is_variable else _signature(node)
        if len(node.inputs) != signature.inputs:
            raise _bad(node, f"({kind(node)}) has {len(node.inputs)} inputs; expected {signature.inputs}")
        outputs[node] = signature.outputs
    read = [entry for node in outputs for entry in node.inputs]
    for node, index in read + graph.outputs:
        if index >= outputs[node]:
            raise OpError("export", f"it reads output {index} of the node {quoted(node.name)}, which does not have it",
                          "Export the net again")


def _signature(node: Node) -> Signature:
    """The signature of a node. An operator that is not here, and is refused later, needs the inputs that it has."""
    if node.op in LOOPS:
        return _signature_of_loop(node)
    if node.op == QUANTIZED:
        return _signature_of_quantized(node)
    count = len(node.inputs)
    if is_ours(node) and our_name(node) in registry.entries():
        op = registry.get(our_name(node)).op
        names = [tensor.name for tensor in op.inputs]
        return Signature(len(names), tuple(names[count:]), len(op.outputs))
    if is_ours(node):
        return Signature(count, (), math.inf)
    if not importing.is_imported():
        operator = schema.find(node.op)
        names = operator.inputs[count:] if operator else ()
        least = 0 if operator and not operator.inputs else 1   # The rules of shapes read the others.
        return Signature(max(count, least), names if count == 0 or node.op == "BatchNorm" else (), math.inf)

    variables = [mx.sym.var(f"input{i}") for i in range(count)]
    attrs = {name: value for name, value in node.attrs.items() if not is_mark(name)}   # op_type is among them
    handle = native.operator_handle(node.op)
    try:   # MXNet makes a variable of every input that it does not get
        symbol = _symbol_creator(handle, variables, None, attrs.keys(), attrs.values(), "node", False)
    except MXNetError as error:
        too_many = TOO_MANY.search(str(error))
        if too_many:
            return Signature(int(too_many.group(1)), (), 0)
        raise refusal(f" at the node {quoted(node.name)}", error) from error
    names = [name[len("node_"):] for name in symbol.list_inputs()]
    return Signature(len(names), tuple(names[count:]), len(symbol))


def _signature_of_loop(node: Node) -> Signature:
    """The signature of a loop or a branch. An OpError if its attributes do not fit the graphs inside."""
    count, outputs = len(node.inputs), _integer(node, "num_outputs")
    reads = [_integers(node, name) for name in LOOPS[node.op]]
    returned = [1] + [outputs] * (len(reads) - 1)   # one output is the condition; the others depend on it
    is_sound = _integer(node, "num_args") == count + len(node.subgraphs)
    if node.op == "_foreach":
        is_sound = is_sound and len(reads[1]) == outputs - _integer(node, "num_out_data")
        reads, returned = [sum(reads, ())], [outputs]
    elif node.op == "_while_loop":
        states = _integers(node, "func_var_locs")
        is_sound = is_sound and len(states) == outputs - _integer(node, "num_out_data")
        is_sound = is_sound and set(states) <= set(range(len(reads[1])))
    for read in reads:
        is_sound = is_sound and set(read) <= set(range(count)) and len(set(read)) == len(read)
    inner = [(len(graph.variables()), len(graph.outputs)) for graph in node.subgraphs]
    if not is_sound or inner != list(zip(map(len, reads), returned)):
        raise _misfit(node)
    return Signature(count, (), outputs)


def _integer(node: Node, name: str) -> int:
    return _attribute(node, name, Int(0))


def _integers(node: Node, name: str) -> tuple[int, ...]:
    value = _attribute(node, name, IntOrTuple(0))
    return value if isinstance(value, tuple) else (value,)


def _attribute(node: Node, name: str, kind: Kind) -> int | tuple[int, ...]:
    with naming(f"the node {quoted(node.name)}"):
        return Attr(name, kind, None).parse("export", node.attrs.get(name))


def _signature_of_quantized(node: Node) -> Signature:
    """The signature of a layer of 8 bits. An OpError if its attributes do not fit the layers inside."""
    layers = [layer for graph in node.subgraphs for layer in graph.nodes() if not layer.is_variable]
    found = collections.Counter(FUSED.get(layer.op, layer.op) for layer in layers)
    expected = collections.Counter({"Convolution": 1, "BatchNorm": node.has("with_bn"), "sum": node.has("with_sum"),
                                    "act": node.has("with_act") + node.has("with_postsum_act")})
    convolution = next((layer for layer in layers if layer.op == "Convolution"), node)
    reads_variables = all(source.is_variable for source, _ in convolution.inputs)
    if len(node.subgraphs) != 1 or found != +expected or not reads_variables:
        raise _misfit(node)
    ranges = 0
    if node.has("quantized"):   # the lowest and the highest value of the data, and of what is added
        ranges = 2 + 2 * node.has("with_sum")
    needed = len(node.subgraphs[0].variables()) + ranges
    return Signature(needed, (), 3 if ranges else 1)


def _misfit(node: Node) -> OpError:
    return _bad(node, f"({node.op}) has attributes that do not fit the graphs inside of it")


def _bad(node: Node, what: str, remedy: str = "Export the net again") -> OpError:
    return OpError("export", f"the node {quoted(node.name)} {what}", remedy)
