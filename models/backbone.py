"""Cuts a classifier of gluoncv's model zoo, so that it returns features with strides 16 and 32."""
import json

import mxnet as mx
from gluonops.contract.errors import OpError
from gluonops.io.optional import require
from mxnet.gluon import SymbolBlock

WHERE = "models.yolov2"
SIDE = 224   # height and width in pixels of the image for shape inference


def gluoncv_features(name: str, pretrained: bool = False) -> tuple[SymbolBlock, int, int]:
    """The features of a classifier of gluoncv's model zoo, at strides 16 and 32.

    The network can be cut at a layer if all data flows through this layer. This is true for the end of a stage, and not
    for a branch of a residual unit. The features are the last such layer of each stride.

    Returns a block and two numbers. The block takes images (B, 3, H, W), and returns the features of stride 16 and of
    stride 32. The numbers are the channels of both. An OpError is raised if gluoncv is missing, does not know the name,
    or the network has no such layers.
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
        (fine, fine_channels), (coarse, coarse_channels) = (_cut(name, graph, stride) for stride in (16, 32))
    except mx.MXNetError as error:
        raise _unfit(name, "it does not take them") from error
    block = SymbolBlock([fine, coarse], [mx.sym.var("data")], params=network.collect_params())
    return block, fine_channels, coarse_channels


def _unfit(name, why):
    return OpError(WHERE, f"backbone {name!r} does not fit: {why}; expected a classifier of images of {SIDE} pixels, "
                   "with features of strides 16 and 32", "Choose another network")


def _cut(name, graph, stride):
    """The last layer with this stride that all data flows through, and its channels."""
    internals = graph.get_internals()
    _, shapes, _ = internals.infer_shape(data=(1, 3, SIDE, SIDE))
    shapes = dict(zip(internals.list_outputs(), shapes))
    nodes = json.loads(graph.tojson())["nodes"]
    last_reader = {source: position for position, node in enumerate(nodes) for source, *_ in node["inputs"]}

    cut_layer = None
    last_use_of_earlier = 0   # position of the last node that reads an earlier layer
    depends_on_data = []      # others depend on parameters only
    for position, node in enumerate(nodes):
        depends_on_data.append(node["name"] == "data" or any(depends_on_data[source] for source, *_ in node["inputs"]))
        if not depends_on_data[position] or node["op"] == "null":
            continue
        all_data_flows_through = last_use_of_earlier <= position
        output = f"{node['name']}_output"
        if all_data_flows_through and shapes.get(output, ())[2:] == (SIDE // stride, SIDE // stride):
            cut_layer = output
        last_use_of_earlier = max(last_use_of_earlier, last_reader.get(position, 0))
    if cut_layer is None:
        raise _unfit(name, f"it has no layer of stride {stride} that everything flows through")
    return internals[cut_layer], shapes[cut_layer][1]
