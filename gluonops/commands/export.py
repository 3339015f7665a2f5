"""``gluonops export``: rewrite exported files for another backend, in 8 bits, as ONNX or PyTorch."""
from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import json
import os
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import export
from ..contract.errors import OpError, plural
from ..export.symbol_files import shapes_of_inputs
from ..export.torch.write import port
from ..io.files import check_writable, made_folder, replace
from ..io.optional import require
from .net_arguments import QUANTIZE_OPTIONS

MOST_IMAGES = 128   # Calibration takes so many, evenly spaced over the folder: more hardly change the ranges.
PREPROCESSING = "--preprocessing '{\"colours\": \"RGB\", \"range\": [0, 1]}'"


def run(args: argparse.Namespace) -> None:
    """Write the files. Print their paths, what the comparison shows, and warnings as notes."""
    with contextlib.ExitStack() as stack:
        for path in (args.target, args.onnx, args.torch):
            if path is not None:
                stack.enter_context(made_folder("export", path))
        notes = stack.enter_context(noted())
        result = _quantize(args) if args.int8 else None
        written, differences = _write(args) if result is None else (list(result.paths), [])
    if result is not None and not args.json:
        print(result)
    report(args, written, differences, notes, _plain(result))


@contextlib.contextmanager
def noted() -> Iterator[list[str]]:
    """Collect the texts of ExportWarnings in a list instead of printing them. It is filled when the context ends."""
    notes = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", export.ExportWarning)
        yield notes
    notes += [str(warning.message) for warning in caught if issubclass(warning.category, export.ExportWarning)]


def report(args: argparse.Namespace, written: list[str], differences: list[tuple[str, export.Difference]],
           notes: list[str], further: dict[str, Any]) -> None:
    """Print the paths, each difference with the name of its file, and the notes. JSON has the ``further`` entries."""
    if args.json:
        print(json.dumps({"written": written, "notes": notes, **further, "differences": [
            {"file": name, **difference._asdict()} for name, difference in differences]}, indent=2))
        return
    findings = [f"{name}, {difference}" for name, difference in differences]
    print("\n".join([*written, *findings, *(f"note: {note}" for note in notes)]))


def _write(args):
    """Write symbol JSON and parameters to ``args.target``, and the other formats.

    All files are compared with MXNet first. If one does not agree, none is written. Returns the paths, and each
    difference with the name of the file.
    """
    made, differences = {}, []   # path -> where it is until all are compared
    with contextlib.ExitStack() as stack:
        if args.target is not None:
            beside = _beside(stack, args.target)
            written = export.rewrite(args.source, beside, args.backend, args.fold_batch_norm, args.inference,
                                     args.epoch, args.pad_channels, args.split_channels, args.data_shape,
                                     args.outputs)
            copies = {os.path.join(os.path.dirname(args.target), os.path.basename(path)): path for path in written}
            check_writable("export.rewrite", *copies)
            made.update(copies)
            differences += _compared(args, beside)
        if args.onnx is not None:
            check_writable("export.onnx", args.onnx)
            made[args.onnx] = beside = _beside(stack, args.onnx)
            export.onnx(args.source, beside, args.data_shape, False if args.fixed_batch else None,
                        fold_batch_norm=args.fold_batch_norm, epoch=args.epoch, opset=args.opset, outputs=args.outputs)
            differences += _compared(args, beside)
        ported, apart = ([], []) if args.torch is None else port(args.source, args.torch, args.data_shape, args.epoch,
                                                                 args.training, args.force, args.outputs)
        differences += [(os.path.join(args.torch, "net.py"), one) for one in apart]
        replace("export", {path: functools.partial(os.replace, beside) for path, beside in made.items()})
    return [*made, *(os.path.join(args.torch, os.path.basename(path)) for path in ported)], differences


def _compared(args, path):
    return [(os.path.basename(path), one)
            for one in export.compare(args.source, path, args.data_shape, args.epoch, args.force, args.outputs)]


def _beside(stack, path):
    """The path of a file of the same name in a temporary folder beside it, which is removed at the end."""
    folder = stack.enter_context(tempfile.TemporaryDirectory(dir=os.path.dirname(path) or ".", prefix=".export-"))
    return os.path.join(folder, os.path.basename(path))


def _quantize(args):
    """Write the net in 8 bits, calibrated with the images of a folder. Return what ``export.quantize`` returns."""
    require("PIL.Image", "export", "Run: pip install pillow. It reads the pictures of --calibrate")
    model = export.ExportedModel.from_files(args.source, args.epoch, outputs=args.outputs)
    preprocessing = model.metadata.get("preprocessing") if args.preprocessing is None else args.preprocessing
    try:
        shape = _image_shape(model, args.data_shape)
    except OpError as error:
        if preprocessing is not None or args.data_shape is not None:
            raise
        raise OpError("export", f"{error.what}, and the file does not say how images are prepared for the net",
                      f"Pass both, such as --data-shape 1,3,224,224 {PREPROCESSING}; or call gluonops.export.quantize "
                      "with arrays") from error
    data = calibration_images(args.calibrate, shape, preprocessing)
    typed = {name: getattr(args, name) for name in QUANTIZE_OPTIONS}
    options = {name: value for name, value in typed.items() if value is not None}
    return export.quantize(args.source, args.target, data, onnx=args.onnx, epoch=args.epoch, opset=args.opset,
                           outputs=args.outputs, **options)


def _image_shape(model, data_shape):
    """The shape of the only input. An OpError is raised if there are several."""
    shapes = shapes_of_inputs("export", model.graph, model.parameters, model.inputs, data_shape)
    labels = model.labels()
    images = [shape for name, shape in shapes.items() if name not in labels]
    if len(images) != 1:
        raise OpError("export", f"the net has {plural(len(images), 'input')}; expected one, which takes images",
                      "Call gluonops.export.quantize with arrays")
    return images[0]


def calibration_images(folder: str, shape: tuple[int, ...], preprocessing: dict[str, Any] | None) -> np.ndarray:
    """At most 128 images of a folder and its subfolders, as the input of a net: float32, of the given shape.

    ``preprocessing`` has the values of :class:`gluonops.export.Preprocessing`, from the net or from the user. An
    OpError is raised if there is no image, or if it is not known how images become the input of the net.
    """
    from ..data.images import image_files, progress, read_image  # here: it needs MXNet

    if preprocessing is None:
        raise OpError("export", "the file does not say how images are prepared for the net",
                      f"Pass that, such as {PREPROCESSING}; or call gluonops.export.quantize with arrays")
    prepare = export.Preprocessing.from_metadata(preprocessing)
    size = _image_size(shape, prepare)
    paths = image_files(folder)
    chosen = np.linspace(0, len(paths) - 1, min(MOST_IMAGES, len(paths))).round().astype(int)
    return np.stack([prepare(read_image(paths[i], "export"), size) for i in progress(chosen, "images")])


def _image_size(shape, prepare):
    """(width, height) of the input."""
    is_image = len(shape) == 4 and shape[prepare.layout.index("C")] == prepare.channels
    if not is_image:
        raise OpError("export", f"the input has shape {shape}; expected four dimensions, {prepare.layout}, with "
                      f"{prepare.channels} channels", "Call gluonops.export.quantize with arrays")
    return shape[prepare.layout.index("W")], shape[prepare.layout.index("H")]


def _plain(result: export.Quantized | None) -> dict[str, Any]:
    """The facts about a quantized net that JSON shows."""
    if result is None:
        return {}
    layers = [{**dataclasses.asdict(layer), "int8": layer.is_quantized} for layer in result.layers]
    return {"layers": layers, "method": result.method, "errors": result.errors}
