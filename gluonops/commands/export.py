"""``gluonops export``: exported files for another backend, with folded batch norm, or as ONNX."""
from __future__ import annotations

import argparse
import json
import warnings

from .. import export
from ..core.files import make_folder

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Write the files; print their paths, then the export's warnings as notes."""
    written = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", export.ExportWarning)
        for path in (args.target, args.onnx):
            if path is not None:
                make_folder("export", path)
        if args.target is not None:
            written += export.rewrite(args.source, args.target, args.backend, args.fold_batch_norm, args.inference,
                                      args.epoch, args.pad_channels)
        if args.onnx is not None:
            written.append(export.onnx(args.source, args.onnx, args.data_shape, not args.fixed_batch,
                                       fold_batch_norm=args.fold_batch_norm, epoch=args.epoch,
                                       opset=17 if args.opset is None else args.opset))
    notes = [str(warning.message) for warning in caught if issubclass(warning.category, export.ExportWarning)]
    if args.json:
        print(json.dumps({"written": written, "notes": notes}, indent=2))
    else:
        print("\n".join([*written, *(f"note: {note}" for note in notes)]))
    return 0
