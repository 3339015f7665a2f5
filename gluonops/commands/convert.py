"""``gluonops convert``: a Darknet network as symbol JSON and parameters."""
from __future__ import annotations

import argparse
import json

from .. import darknet, export
from ..core.files import make_folder
from .progress import layers

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Load ``args.cfg`` and ``args.weights``, and write ``args.prefix``-symbol.json and -0000.params."""
    net = darknet.load(args.cfg, args.weights, progress=layers)
    shape = 1, *net.input_shape
    written = net.detector(args.threshold, args.nms, args.topk) if args.detections else net
    make_folder("convert", args.prefix)
    paths = export.symbol(written, args.prefix, shape, backend=args.backend)
    if args.json:
        print(json.dumps({"symbol": paths[0], "params": paths[1], "input": "data", "shape": shape,
                          "outputs": ["ids", "scores", "boxes"] if args.detections else "maps"}))
    else:
        print(f"{paths[0]}\n{paths[1]}\ninput data {shape}, RGB from 0 to 1")
    return 0
