"""``gluonops export``: rewrite exported files for another backend, in 8 bits, as ONNX or PyTorch."""
from __future__ import annotations

import argparse
import dataclasses
import json
import warnings
from typing import Any

from .. import export
from ..core.errors import OpError
from ..core.files import make_folder
from ..export.files import shapes_of_inputs
from . import calibration

__all__ = ["run"]

QUANTIZE_OPTIONS = ("method", "percentile", "keep", "layer_limit", "limit", "storage")


def run(args: argparse.Namespace) -> int:
    """Write the files. Print their paths, and the warnings of the export as notes. Return the exit code."""
    for path in (args.target, args.onnx, args.torch):
        if path is not None:
            make_folder("export", path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", export.ExportWarning)
        result = _quantize(args) if args.int8 else None
        written = _write(args) if result is None else list(result.paths)
    notes = [str(warning.message) for warning in caught if issubclass(warning.category, export.ExportWarning)]
    if args.json:
        print(json.dumps({"written": written, "notes": notes, **_plain(result)}, indent=2))
        return 0
    if result is not None:
        print(result)
    print("\n".join([*written, *(f"note: {note}" for note in notes)]))
    return 0


def _write(args):
    """Write symbol JSON and parameters to ``args.target``, and the other formats. Return the paths."""
    written = []
    if args.target is not None:
        written += export.rewrite(args.source, args.target, args.backend, args.fold_batch_norm, args.inference,
                                  args.epoch, args.pad_channels, args.split_channels)
    if args.onnx is not None:
        written.append(export.onnx(args.source, args.onnx, args.data_shape, False if args.fixed_batch else None,
                                   fold_batch_norm=args.fold_batch_norm, epoch=args.epoch, opset=args.opset))
    if args.torch is not None:
        written += export.torch(args.source, args.torch, args.data_shape, args.epoch)
    return written


def _quantize(args):
    """Write the net in 8 bits, calibrated with the images of a folder. Return what ``export.quantize`` returns."""
    model = export.ExportedModel.from_files(args.source, args.epoch)
    noted = model.metadata.get("preprocessing")
    preprocessing = noted if args.preprocessing is None else args.preprocessing
    data = calibration.images(args.calibrate, _image_shape(model, args.data_shape), preprocessing)
    given = {name: getattr(args, name) for name in QUANTIZE_OPTIONS}
    options = {name: value for name, value in given.items() if value is not None}
    return export.quantize(args.source, args.target, data, onnx=args.onnx, epoch=args.epoch, opset=args.opset,
                           **options)


def _image_shape(model, data_shape):
    """The shape of the only input. An OpError if there are several."""
    shapes = shapes_of_inputs("export", model.graph, model.parameters, model.inputs, data_shape)
    images = [shape for name, shape in shapes.items() if not name.endswith("label")]
    if len(images) != 1:
        raise OpError("export", f"the net has {len(images)} inputs; expected one, of images",
                      "Call gluonops.export.quantize with arrays")
    return images[0]


def _plain(result: export.Quantized | None) -> dict[str, Any]:
    """What JSON shows of a quantized net."""
    if result is None:
        return {}
    layers = [{**dataclasses.asdict(layer), "int8": layer.is_quantized} for layer in result.layers]
    return {"layers": layers, "method": result.method, "errors": result.errors}
