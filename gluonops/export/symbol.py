"""Symbol JSON and parameters of a net, traced with the backend of your choice."""
import json
import os

import mxnet as mx

from .. import ops
from ..core.backend import backend as _backend
from ..core.errors import OpError
from ..core.files import replace

__all__ = ["symbol"]

HEADS = {"softmax_output": ops.softmax_output}


def symbol(net, prefix, data_shape, backend="builtin", head=None, epoch=0, dtype="float32"):
    """Write ``prefix-symbol.json`` and ``prefix-0000.params``.

    The files load with ``mx.model.load_checkpoint`` (so with ``mx.mod.Module``), ``gluon.SymbolBlock.imports`` and
    ``mx.sym.load``. The net itself is not changed: a net hybridized with one backend exports with another. Both files
    are written under temporary names and renamed when complete.

    Parameters
    ----------
    net : HybridBlock
        Initialized; one input, one output or several.
    prefix : str or os.PathLike
        Path of the files, without ``-symbol.json``. The folder must exist.
    data_shape : tuple of int
        Shape of an input, batch included: parameters whose shapes are still open take them from it, and the graph
        is checked with it. The exported graph takes other batch sizes, and other spatial sizes where the net does.
    backend : {'builtin', 'custom', 'native', 'auto'}, default 'builtin'
        ``builtin`` writes MXNet's own operators only: the file runs in a process without gluonops. ``native`` needs
        gluonops, or ``mx.library.load(gluonops.native_library_path())`` alone; ``custom`` needs gluonops.
    head : {None, 'softmax_output'}
        ``softmax_output`` puts that loss head on the net's output, with the label ``softmax_label``, so that
        ``Module.fit`` fine-tunes the file. The net must return logits.
    epoch : int, default 0
        The number in the name of the parameter file.
    dtype : str, default 'float32'
        Type of the input.

    Returns
    -------
    tuple of str
        The paths of the JSON and of the parameters.

    Raises
    ------
    OpError
        The net is not a HybridBlock or not initialized, refuses ``data_shape``, or ``head`` does not fit it.
    """
    prefix = os.fspath(prefix)
    _check(net, prefix, head)
    _finish_initialization(net, data_shape, dtype)
    with _backend(backend):
        graph = net(mx.sym.var("data"))
        if isinstance(graph, (list, tuple)):
            graph = mx.sym.Group(list(graph))
        if head is not None:
            if len(graph.list_outputs()) != 1:
                raise OpError("export.symbol", f"{type(net).__name__} has several outputs; expected one for "
                              f"head={head!r}", "Wrap it in a HybridBlock that returns one of them")
            if _ends_in_softmax(graph):
                raise OpError("export.symbol", f"{type(net).__name__} already ends in a softmax; expected logits for "
                              f"head={head!r}", "Pass the part of the net that returns logits, for instance net.body")
            graph = HEADS[head](graph, name="softmax")
    arguments, states = _parameters(net, graph)
    paths = f"{prefix}-symbol.json", f"{prefix}-{epoch:04d}.params"
    tagged = {**{f"arg:{name}": value for name, value in arguments.items()},
              **{f"aux:{name}": value for name, value in states.items()}}
    replace({paths[0]: graph.save, paths[1]: lambda path: mx.nd.save(path, tagged)})
    return paths


def _check(net, prefix, head):
    if not isinstance(net, mx.gluon.HybridBlock):
        raise OpError("export.symbol", f"net is {type(net).__name__}; expected a HybridBlock",
                      "Derive the net from gluon.HybridBlock, or collect layers in a HybridSequential")
    if head is not None and head not in HEADS:
        raise OpError("export.symbol", f"head is {head!r}; expected None or {', '.join(map(repr, HEADS))}",
                      "Choose one of them")
    folder = os.path.dirname(prefix) or "."
    if not os.path.isdir(folder):
        raise OpError("export.symbol", f"the folder {folder} does not exist", "Create it first")


def _finish_initialization(net, data_shape, dtype):
    """Run the net once: that fixes open shapes, and tells whether it takes this input at all."""
    values = list(net.collect_params().values())
    missing = [p.name for p in values if p._data is None and not p._deferred_init]
    if missing:
        raise OpError("export.symbol", f"the parameter {missing[0]} of {type(net).__name__} is not initialized",
                      "Call net.initialize() or net.load_parameters(path) first")
    context = values[0].list_ctx()[0] if values else mx.cpu()
    net(mx.nd.zeros(data_shape, context, dtype))
    mx.nd.waitall()


def _ends_in_softmax(graph):
    """Whether the output is a softmax, perhaps divided by its sum, copied or renamed on its way out."""
    content = json.loads(graph.tojson())
    node = content["nodes"][content["heads"][0][0]]
    while node["op"] in ("_copy", "squeeze", "expand_dims", "broadcast_div"):
        node = content["nodes"][node["inputs"][0][0]]
    return "softmax" in node["op"] or "softmax" in node.get("attrs", {}).get("op_type", "")


def _parameters(net, graph):
    values = {p.name: p for p in net.collect_params().values()}

    def on_cpu(names):
        return {name: values[name]._reduce() for name in names if name in values}

    return on_cpu(graph.list_arguments()), on_cpu(graph.list_auxiliary_states())
