"""``gluonops convert``: a Darknet network as symbol JSON and parameters."""
from __future__ import annotations

import argparse
import json

from mxnet.gluon import HybridBlock

from .. import darknet, export
from ..contract.errors import OpError, plural
from ..data.base import class_names
from ..io.files import make_folder
from ..io.progress import layers
from .net_arguments import DETECTION


def run(args: argparse.Namespace) -> None:
    """Load ``args.cfg`` and ``args.weights``, and write ``args.prefix``-symbol.json and -0000.params."""
    net = darknet.load(args.cfg, args.weights, progress=layers)
    shape = 1, *net.input_shape
    if args.resize:
        net.preprocessing = {**net.preprocessing, "resize": args.resize}
    outputs = "maps"
    if args.detections:
        options = {name: getattr(args, name) for name in DETECTION if getattr(args, name) is not None}
        net = net.detector(**options)
        outputs = ["ids", "scores", "boxes"]
    metadata = {"classes": _names(args.names, net)} if args.names else None
    make_folder("convert", args.prefix)
    symbol, params = export.symbol(net, args.prefix, shape, backend=args.backend, metadata=metadata)
    if args.json:
        print(json.dumps({"symbol": symbol, "params": params, "input": "data", "shape": shape, "outputs": outputs}))
    else:
        print(f"{symbol}\n{params}\ninput data {shape}, RGB from 0 to 1")


def _names(path: str, net: HybridBlock) -> tuple[str, ...]:
    """The names of the classes in a file. An OpError is raised if the net has another number of them."""
    names = class_names(path, "convert")
    count = getattr(net, "classes", len(names))
    if count != len(names):
        raise OpError("convert",
                      f"{path} has {plural(len(names), 'name')}; expected {count}, one for each class of the net",
                      "Pass the file with the names of its classes")
    return names
