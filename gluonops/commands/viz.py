"""``gluonops viz``: a picture of an exported net."""
from __future__ import annotations

import argparse
import json

from .. import export


def run(args: argparse.Namespace) -> int:
    """Draw the exported net ``args.source`` into the file ``args.output``. Return the exit code."""
    path = export.picture(args.source, args.output, args.data_shape)
    print(json.dumps({"written": [path]}) if args.json else path)
    return 0
