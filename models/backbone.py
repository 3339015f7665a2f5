"""Features of strides 16 and 32 out of any classifier of gluoncv's zoo."""
from __future__ import annotations

import json

import mxnet as mx
from gluonops.core.errors import OpError
from gluonops.data.images import require
from mxnet.gluon import SymbolBlock

__all__ = ["gluoncv_features"]

WHERE = "models.yolov2"
PROBE = 224   # pixels


def gluoncv_features(name: str, pretrained: bool = False) -> tuple[SymbolBlock, int, int]:
    """A network of gluoncv's zoo, cut where it has strides 16 and 32.

    A layer is a place to cut if everything flows through it, as it does through the end of a stage and not through a
    branch of a residual unit; of those with the right size the last one is taken.

    Parameters
    ----------
    name : str
        A classifier that ``gluoncv.model_zoo.get_model`` knows.
    pretrained : bool, default False
        Download its weights.

    Returns
    -------
    (SymbolBlock, int, int)
        The block returns features of strides 16 and 32; then their numbers of channels.

    Raises
    ------
    OpError
        gluoncv is missing, does not know the name, or the network has no such layers.
    """
    zoo = require("gluoncv.model_zoo", f"{WHERE}, backbone {name!r}")
    try:
        network = zoo.get_model(name, pretrained=pretrained)
    except (ValueError, AttributeError) as error:
        raise OpError(WHERE, f"backbone is {name!r}; expected 'darknet19' or a network of gluoncv's zoo",
                      "gluoncv.model_zoo.get_model_list() lists them") from error
    graph = network(mx.sym.var("data"))
    graph = graph[0] if isinstance(graph, (list, tuple)) else graph
    try:
        fine, coarse = (_cut(name, graph, stride) for stride in (16, 32))
    except mx.MXNetError as error:
        raise _unfit(name, "it does not take them") from error
    channels = [_shape(layer)[1] for layer in (fine, coarse)]
    block = SymbolBlock([fine, coarse], [mx.sym.var("data")], params=network.collect_params())
    return (block, *channels)


def _unfit(name, why):
    return OpError(WHERE, f"backbone {name!r} does not fit: {why}; expected a classifier of images of {PROBE} pixels, "
                   "with features of strides 16 and 32", "Choose another network")


def _shape(layer):
    return layer.infer_shape(data=(1, 3, PROBE, PROBE))[1][0]


def _cut(name, graph, stride):
    """The last layer of this stride that everything flows through."""
    internals, nodes = graph.get_internals(), json.loads(graph.tojson())["nodes"]
    shapes = dict(zip(internals.list_outputs(), internals.infer_shape(data=(1, 3, PROBE, PROBE))[1]))
    carries = _carries_data(nodes)
    last_use = {}
    for position, node in enumerate(nodes):
        for source, *_ in node["inputs"]:
            last_use[source] = position
    cut_layer, open_until = None, 0
    for position, node in enumerate(nodes):
        if not carries[position] or node["op"] == "null":
            continue
        shape = shapes.get(f"{node['name']}_output")
        # What was computed before this layer is not used behind it.
        if open_until <= position and shape and len(shape) == 4 and shape[2] == shape[3] == PROBE // stride:
            cut_layer = node["name"]
        open_until = max(open_until, last_use.get(position, 0))
    if cut_layer is None:
        raise _unfit(name, f"it has no layer of stride {stride} that everything flows through")
    return internals[f"{cut_layer}_output"]


def _carries_data(nodes):
    """Whether a node depends on the image, rather than on parameters only."""
    carries = []
    for node in nodes:
        carries.append(node["name"] == "data" or any(carries[source] for source, *_ in node["inputs"]))
    return carries
