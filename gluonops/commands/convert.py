"""``gluonops convert``: a Darknet network as symbol JSON and parameters."""
from __future__ import annotations

import argparse
import json

from .. import darknet, export
from ..core.files import make_folder
from .progress import layers

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Load ``args.cfg`` and ``args.weights``, and write ``args.prefix``-symbol.json and -0000.params.

    Return the exit code.
    """
    net = darknet.load(args.cfg, args.weights, progress=layers)
    shape = 1, *net.input_shape
    outputs = "maps"
    if args.detections:
        net = net.detector(args.threshold, args.nms, args.topk)
        outputs = ["ids", "scores", "boxes"]
    make_folder("convert", args.prefix)
    symbol, params = export.symbol(net, args.prefix, shape, backend=args.backend)
    if args.json:
        print(json.dumps({"symbol": symbol, "params": params, "input": "data", "shape": shape, "outputs": outputs}))
    else:
        print(f"{symbol}\n{params}\ninput data {shape}, RGB from 0 to 1")
    return 0
