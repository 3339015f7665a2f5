"""A net, or the files of one, as a graph and its values: where every export starts and symbol files end."""
import inspect
import os
import pathlib
import re

import mxnet as mx

from .. import ops
from ..core.backend import backend as _backend
from ..core.errors import OpError
from ..core.files import replace
from .graph import Graph
from .nodes import strip
from .stamp import net_facts, read

HEADS = {"softmax_output": ops.softmax_output}


def trace(where, net, data_shape, dtype="float32", head=None):
    """The graph of a net, with bare nodes of gluonops, its values, and its facts for the stamp.

    Parameters
    ----------
    where : str
        Who asks, for errors.
    net : HybridBlock
    data_shape : tuple of int or dict of str to tuple of int
        Shape of the input ``data``; or of every input, in the order in which the net takes them.
    dtype : str
    head : {None, 'softmax_output'}

    Returns
    -------
    Graph, dict of str to NDArray, dict
    """
    if not isinstance(net, mx.gluon.HybridBlock):
        raise OpError(where, f"net is {type(net).__name__}; expected a HybridBlock",
                      "Derive the net from gluon.HybridBlock, or collect layers in a HybridSequential")
    shapes = input_shapes(where, data_shape)
    _check_inputs(where, net, shapes)
    _finish_initialization(where, net, shapes, dtype)
    with _backend("custom"):
        outputs = _flat(net(*[mx.sym.var(name) for name in shapes]))
        if head is not None:
            outputs = [_with_head(where, net, outputs, head)]
        graph = Graph.of(mx.sym.Group(outputs))
    strip(graph)
    values = {p.name: p for p in net.collect_params().values()}
    values = {name: values[name]._reduce() for name in graph.variables() if name in values}
    facts = {**net_facts(net), "inputs": {name: list(shape) for name, shape in shapes.items()}, "dtype": str(dtype)}
    return graph, values, facts


def input_shapes(where, data_shape):
    """Name -> shape of every input."""
    shapes = data_shape if isinstance(data_shape, dict) else {"data": data_shape}
    for name, shape in shapes.items():
        if not isinstance(shape, (tuple, list)) or not all(isinstance(n, int) and n > 0 for n in shape) or not shape:
            raise OpError(where, f"the shape of {name} is {shape!r}; expected a tuple of sizes of at least 1, batch "
                          "included", "Pass for instance (1, 3, 224, 224)")
    return {name: tuple(shape) for name, shape in shapes.items()}


def _check_inputs(where, net, shapes):
    if type(net).hybrid_forward is mx.gluon.HybridBlock.hybrid_forward:
        return   # it overrides forward, which takes what it likes
    parameters = list(inspect.signature(net.hybrid_forward).parameters.values())[1:]
    wanted = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty
              and p.name not in net._reg_params]
    if len(shapes) < len(wanted):
        raise OpError(where, f"{type(net).__name__} takes the inputs {', '.join(wanted)}, and data_shape has "
                      f"{len(shapes)} shape", "Pass a dict with the shape of each, such as "
                      f"{{{', '.join(f'{name!r}: (...)' for name in wanted)}}}")


def _finish_initialization(where, net, shapes, dtype):
    """Run the net once: that fixes open shapes, and tells whether it takes this input at all."""
    values = list(net.collect_params().values())
    missing = [p.name for p in values if p._data is None and not p._deferred_init]
    if missing:
        raise OpError(where, f"the parameter {missing[0]} of {type(net).__name__} is not initialized",
                      "Call net.initialize() or net.load_parameters(path) first")
    context = values[0].list_ctx()[0] if values else mx.cpu()
    net(*[mx.nd.zeros(shape, context, dtype) for shape in shapes.values()])
    mx.nd.waitall()


def _flat(outputs):
    if isinstance(outputs, mx.sym.Symbol):
        return [outputs]
    return [symbol for output in outputs for symbol in _flat(output)]


def _with_head(where, net, outputs, head):
    if head not in HEADS:
        raise OpError(where, f"head is {head!r}; expected None or {', '.join(map(repr, HEADS))}", "Choose one of them")
    if len(outputs) != 1 or len(outputs[0].list_outputs()) != 1:
        raise OpError(where, f"{type(net).__name__} has several outputs; expected one for head={head!r}",
                      "Wrap it in a HybridBlock that returns one of them")
    if _ends_in_softmax(Graph.of(outputs[0])):
        raise OpError(where, f"{type(net).__name__} already ends in a softmax; expected logits for head={head!r}",
                      "Pass the part of the net that returns logits, for instance net.body")
    return HEADS[head](outputs[0], name="softmax")


def _ends_in_softmax(graph):
    """Whether the output is a softmax, perhaps divided by its sum, copied or renamed on its way out."""
    node = graph.heads[0][0]
    while node.op in ("_copy", "squeeze", "expand_dims", "broadcast_div"):
        node = node.source()
    return "softmax" in node.op or "softmax" in node.attrs.get("op_type", "")


def load(where, prefix, epoch=None):
    """The graph, with bare nodes, of ``prefix-symbol.json``, and the values of ``prefix-NNNN.params``.

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
    read(graph)
    epoch = _newest(where, prefix) if epoch is None else epoch
    path = f"{prefix}-{epoch:04d}.params"
    if not os.path.isfile(path):
        raise OpError(where, f"there is no file {path}", "Pass another epoch")
    try:
        saved = mx.nd.load(path)
    except mx.MXNetError as error:
        raise OpError(where, f"{path} is not a file of parameters, or it is cut off", "Export the net again") from error
    if not isinstance(saved, dict):
        raise OpError(where, f"{path} has no names; expected parameters saved by name", "Export the net again")
    strip(graph)
    values = {re.sub("^(arg|aux):", "", name): value for name, value in saved.items()}
    used = set(graph.variables())
    return graph, {name: value for name, value in values.items() if name in used}, epoch


def _newest(where, prefix):
    folder, name = os.path.split(prefix)
    found = [int(match.group(1)) for entry in os.listdir(folder or ".")
             for match in [re.fullmatch(re.escape(name) + r"-(\d{4,})\.params", entry)] if match]
    if not found:
        raise OpError(where, f"there is no file {prefix}-NNNN.params", "Save the parameters beside the symbol")
    return max(found)


def save(graph, values, prefix, epoch):
    """Write the files of a symbol, both or none.

    Returns
    -------
    tuple of str
        Their paths.
    """
    symbol = graph.symbol()
    states = set(symbol.list_auxiliary_states())
    tagged = {f"{'aux' if name in states else 'arg'}:{name}": value for name, value in values.items()}
    paths = f"{prefix}-symbol.json", f"{prefix}-{epoch:04d}.params"

    def write_graph(path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(graph.text())

    replace({paths[0]: write_graph, paths[1]: lambda path: mx.nd.save(path, tagged)})
    return paths


def check_folder(where, path):
    """Raise where the folder of a file to be written does not exist."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise OpError(where, f"the folder {folder} does not exist", "Create it first")
