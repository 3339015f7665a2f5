"""``gluonops ops``: the table of the operators."""
from __future__ import annotations

import argparse
import json
import shutil

from ..core import registry
from . import table

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Print all operators, or the one that ``args.name`` names. Return the exit code."""
    names = [registry.get(args.name).op.name] if args.name else None
    if args.json:
        print(json.dumps(table.rows(names), indent=2))
    else:
        print(table.terminal(shutil.get_terminal_size().columns, names))
    return 0
