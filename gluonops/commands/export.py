"""``gluonops export``: rewrite exported files for another backend, with folded batch norms, or as ONNX."""
from __future__ import annotations

import argparse
import json
import warnings

from .. import export
from ..core.files import make_folder

__all__ = ["run"]

DEFAULT_OPSET = 17


def run(args: argparse.Namespace) -> int:
    """Write the files. Print their paths, and the warnings of the export as notes. Return the exit code."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", export.ExportWarning)
        written = _write(args)
    notes = [str(warning.message) for warning in caught if issubclass(warning.category, export.ExportWarning)]
    if args.json:
        print(json.dumps({"written": written, "notes": notes}, indent=2))
    else:
        print("\n".join([*written, *(f"note: {note}" for note in notes)]))
    return 0


def _write(args):
    """Write symbol JSON and parameters to ``args.target`` and ONNX to ``args.onnx``. Return the paths."""
    for path in (args.target, args.onnx):
        if path is not None:
            make_folder("export", path)
    written = []
    if args.target is not None:
        written += export.rewrite(args.source, args.target, args.backend, args.fold_batch_norm, args.inference,
                                  args.epoch, args.pad_channels)
    if args.onnx is not None:
        opset = DEFAULT_OPSET if args.opset is None else args.opset
        written.append(export.onnx(args.source, args.onnx, args.data_shape, not args.fixed_batch,
                                   fold_batch_norm=args.fold_batch_norm, epoch=args.epoch, opset=opset))
    return written
