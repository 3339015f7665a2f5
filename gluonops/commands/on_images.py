"""``gluonops detect`` and ``gluonops classify``: run a net on images, and print and draw what it finds."""
from __future__ import annotations

import argparse
import functools
import json
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .. import export
from ..contract.errors import OpError
from ..data import image_files
from ..deploy.load import is_exported
from ..io.files import check_writable, make_folder, replace
from ..io.optional import require
from ..io.progress import layers, over


class Task(NamedTuple):
    """What differs between the two commands: the nets, the text of the progress bar, and the results for an image."""

    net: type
    doing: str
    find: Callable[[Any, str, argparse.Namespace], Sequence[Any]]
    key: str   # the JSON's key for what is found
    lines: Callable[[str, Sequence[Any]], Iterator[str]]   # the lines that a terminal shows of it


def run(args: argparse.Namespace) -> None:
    """Run the net on the images."""
    where, task = args.command, TASKS[args.command]
    net, images = _load_net(args, where, task.net)
    paths = _output_paths(args.output, images, where)
    results_of = {image: task.find(net, image, args) for image in over(images, task.doing, "image")}
    rows = []
    for image, results in results_of.items():
        drawn = {"output": paths[image]} if image in paths else {}
        rows.append({"image": image, **drawn, task.key: [result.as_dict() for result in results]})
    text = json.dumps(rows, indent=2)
    savers = {path: functools.partial(_draw, net, image, results_of[image], _format(path))
              for image, path in paths.items()}
    if args.json not in (None, "-"):
        savers[args.json] = lambda temporary: pathlib.Path(temporary).write_text(text + "\n", encoding="utf-8")
    for path in savers:
        make_folder(where, path)
        check_writable(where, path)
    replace(where, savers)   # all or none
    if args.json == "-":
        print(text)
        return
    for image, results in results_of.items():
        print("\n".join(task.lines(image, results)))
    if args.output:
        print(f"drawn into {args.output}")


def _detections(image: str, detections: Sequence[export.Detection]) -> Iterator[str]:
    yield f"{image}: {len(detections)} found"
    width = max((len(one.name) for one in detections), default=0)
    for one in detections:
        yield f"  {one.name:{width}}  {one.score:.2f}  at " + " ".join(f"{side:.0f}" for side in one.box)


def _predictions(image: str, predictions: Sequence[export.Prediction]) -> Iterator[str]:
    yield image
    for guess in predictions:
        yield f"  {guess.score:6.1%}  {guess.name}"


TASKS = {
    "detect": Task(export.LoadedDetector, "detecting", lambda net, image, args: net.detect(image, args.threshold),
                   "detections", _detections),
    "classify": Task(export.LoadedClassifier, "classifying", lambda net, image, args: net.classify(image, args.top),
                     "predictions", _predictions),
}


def _load_net(args: argparse.Namespace, where: str, kind: type) -> tuple[Any, dict[str, str]]:
    """The net that the arguments name, and the images, as :func:`_images` returns them.

    ``kind`` is the class that the net must have.

    An OpError is raised if the first argument names no net, the net cannot be loaded, it is for the other command, or a
    folder has no images.
    """
    path, weights, sources = _split(args, where)
    if not sources:
        args.parser.error("no image was passed; expected at least one image or folder")
    images = _images(sources)
    if args.output and any(map(os.path.isdir, sources)):
        args.output = os.path.join(args.output, "")   # a folder, however many images there are
    threshold = args.threshold if weights else None   # an exported detector has its own; the command leaves out more
    net = export.load(path, weights, args.names, args.preprocessing, progress=layers, resize=args.resize,
                      data_shape=args.data_shape, threshold=threshold, nms=args.nms, topk=args.topk)
    if not isinstance(net, kind):
        is_classifier = isinstance(net, export.LoadedClassifier)
        other, command = ("classifier", "classify") if is_classifier else ("detector", "detect")
        raise OpError(where, f"{path} is a {other}, for which there is another command",
                      f"Run: gluonops {command} {path} ...")
    return net, images


def _split(args, where):
    """Split the words of the command into (path, weights or None, images)."""
    first, *rest = args.words
    if (args.cfg is None) != (args.weights is None):
        args.parser.error("--cfg and --weights can only be used together")
    if args.cfg is not None:
        return args.cfg, args.weights, args.words
    if first.endswith(".cfg"):
        if not rest:
            args.parser.error(f"no weights were passed for {first}. Write: gluonops {where} CFG WEIGHTS IMAGE ...")
        return first, rest[0], rest[1:]
    if first.endswith(".onnx") or is_exported(first):
        return first, None, rest
    raise OpError(where, f"{first} is neither an exported net (there is no {first}-symbol.json, and it is no .onnx "
                  "file) nor a Darknet .cfg",
                  f"Write gluonops {where} PREFIX IMAGE ..., or gluonops {where} CFG WEIGHTS IMAGE ...")


def _images(sources: Sequence[str]) -> dict[str, str]:
    """The images that files and folders stand for: the path of each, and its relative path in a folder of pictures.

    The relative path counts from the folder that was named. If two images would get the same one, it counts from the
    folder that all images have in common.
    """
    names = {}
    for source in sources:
        inside = image_files(source) if os.path.isdir(source) else [source]
        folder = source if os.path.isdir(source) else os.path.dirname(source)
        names.update((image, os.path.relpath(image, folder or os.curdir)) for image in inside)
    if len(set(map(_picture_name, names.values()))) < len(names):
        common = os.path.commonpath([os.path.dirname(os.path.abspath(image)) for image in names])
        names = {image: os.path.relpath(image, common) for image in names}
    return names


def _output_paths(output: str | None, images: Mapping[str, str], where: str) -> dict[str, str]:
    """The picture to write for each image. ``output`` is the picture of the only image, or a folder, or None for none.

    An OpError is raised if a picture has no format, would replace an image or another picture, or ``output`` is one for
    several images.
    """
    if output is None:
        return {}
    is_folder = len(images) > 1 or os.path.isdir(output) or output.endswith(os.sep)
    if not is_folder:
        paths = dict.fromkeys(images, output)
    elif os.path.isfile(output) or _format(output):
        raise OpError(where, f"-o {output} is one picture, and there are {len(images)} images", "Pass a folder as -o")
    else:
        paths = {image: os.path.join(output, _picture_name(name)) for image, name in images.items()}
    for image, path in paths.items():
        if _format(path) is None:
            suffix = pathlib.Path(path).suffix.lower()
            raise OpError(where, f"cannot write {path}: {suffix or 'no extension'} is not an image format",
                          "Give the output an extension such as .png or .jpg, or name a folder that exists")
        if os.path.realpath(image) == os.path.realpath(path):
            raise OpError(where, f"{path} is one of the images, and would be replaced", "Pass another path as -o")
    if len(set(paths.values())) < len(paths):
        names = sorted(paths.values())
        twice = next(name for name, other in zip(names, names[1:]) if name == other)
        raise OpError(where, f"two images would be drawn into {twice}", "Rename one of the two")
    return paths


def _picture_name(name):
    return name if _format(name) else f"{name}.png"


def _format(path):
    """Pillow's name of the format that a file's extension stands for. None if Pillow cannot write it."""
    image = require("PIL.Image", "export.draw")
    name = image.registered_extensions().get(pathlib.Path(path).suffix.lower())
    return name if name in image.SAVE else None


def _draw(net: Any, image: str, results: Sequence[Any], picture_format: str, path: str) -> None:
    """Draw the results for an image, and save the picture under a temporary name."""
    net.draw(image, results).save(path, format=picture_format)
