"""``gluonops viz``: a picture of an exported net."""
from __future__ import annotations

import argparse
import json

from .. import export


def run(args: argparse.Namespace) -> None:
    """Draw the exported net ``args.source`` into the file ``args.output``."""
    path = export.picture(args.source, args.output, args.data_shape, outputs=args.outputs)
    print(json.dumps({"written": [path]}) if args.json else path)
