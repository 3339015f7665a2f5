"""``gluonops import``: the weights of a port, trained in PyTorch, as symbol JSON and parameters."""
from __future__ import annotations

import argparse
import os

from ..export.torch.home import brought_home
from .export import noted, report


def run(args: argparse.Namespace) -> None:
    """Write the files. Print their paths, what the comparison with PyTorch shows, and warnings as notes."""
    with noted() as notes:
        written, differences = brought_home(args.port, args.weights, args.into, args.backend, args.force)
    name = os.path.basename(args.into)
    report(args, written, [(name, difference) for difference in differences], notes, {})
