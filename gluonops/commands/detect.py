"""``gluonops detect``: run a Darknet detector on one image; print and draw its detections."""
from __future__ import annotations

import argparse
import colorsys
import json
import os

import mxnet as mx
import numpy as np

from .. import darknet, data
from ..core.errors import OpError
from ..core.files import check_target, make_folder, replace
from .progress import layers

try:
    from PIL import Image, ImageDraw
except ImportError:   # reported when the command runs
    Image = None

__all__ = ["colour", "draw", "run"]

WHERE = "detect"


def run(args: argparse.Namespace) -> int:
    """Find objects in ``args.image`` with ``args.cfg`` and ``args.weights``, and draw them into ``args.output``."""
    if Image is None:
        raise OpError(WHERE, "Pillow is not installed", "Run: pip install pillow")
    kind = _format(args.output)
    picture = _open(args.image)
    net = darknet.load(args.cfg, args.weights, progress=layers)
    detector = net.detector(args.threshold, args.nms, args.topk)
    names = _names(args.names, detector.classes)
    detections = _detect(detector, net.input_shape, picture, names)
    draw(picture, detections)
    output = args.output
    make_folder(WHERE, output)
    check_target(WHERE, output)
    replace(WHERE, {output: lambda path: picture.save(path, format=kind)})
    if args.json:
        print(json.dumps({"output": output, "detections": detections}))
    else:
        for item in detections:
            print(f"{item['name']} {item['score']:.2f} at " + " ".join(f"{side:.0f}" for side in item["box"]))
        print(f"{len(detections)} found; drawn into {output}")
    return 0


def _detect(detector, input_shape, picture, names):
    """A dict per detection, the most probable first; boxes are in pixels of the picture and clipped to it."""
    _, height, width = input_shape
    tensor = mx.nd.array(data.letterbox(np.asarray(picture), width, height)[None])
    ids, scores, boxes = (array[0].asnumpy() for array in detector(tensor))
    valid = ids[:, 0] >= 0
    boxes = data.unletterbox_boxes(boxes, picture.size, (width, height)).clip(0, [*picture.size, *picture.size])
    valid &= (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])   # others lie in the letterbox's border
    return [{"name": names[int(i)], "class": int(i), "score": round(float(score), 6),
             "box": [round(float(side), 2) for side in box]}
            for i, score, box in zip(ids[valid, 0], scores[valid, 0], boxes[valid])]


def draw(picture: Image.Image, detections: list[dict]) -> None:
    """Draw the boxes with their names into a Pillow image; the most probable on top."""
    pen = ImageDraw.Draw(picture)
    line = max(2, min(picture.size) // 200)
    for item in reversed(detections):
        left, top, right, bottom = item["box"]
        pen.rectangle([left, top, right, bottom], outline=colour(item["class"]), width=line)
        text = f"{item['name']} {item['score']:.2f}"
        area = pen.textbbox((left + line, max(top - 12, 0)), text)
        pen.rectangle(area, fill=colour(item["class"]))
        pen.text(area[:2], text, fill=(0, 0, 0))


def colour(index: int) -> tuple[int, ...]:
    """(red, green, blue) of a class; hues are spaced by the golden ratio, so that neighbours differ."""
    return tuple(int(255 * part) for part in colorsys.hsv_to_rgb(index * 0.618034 % 1, 0.9, 0.9))


def _open(path):
    try:
        return Image.open(path).convert("RGB")
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise OpError(WHERE, f"cannot read the image {path}: {error}", "Pass a JPEG, PNG or another image") from error


def _format(path):
    """Pillow's name for the format of the file's extension."""
    suffix = os.path.splitext(path)[1].lower()
    kind = Image.registered_extensions().get(suffix)
    if kind not in Image.SAVE:
        raise OpError(WHERE, f"cannot write {path}: {suffix or 'no extension'} is no image format",
                      "Give the output an extension such as .png or .jpg")
    return kind


def _names(path, count):
    """The classes' names: lines of a file, or numbers."""
    if path is None:
        return [str(i) for i in range(count)]
    try:
        with open(path, encoding="utf-8") as file:
            names = [line.strip() for line in file if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise OpError(WHERE, f"cannot read the names in {path}: {error}",
                      "Pass a text file, one name in a line") from error
    if len(names) != count:
        raise OpError(WHERE, f"{path} has {len(names)} names; the network has {count} classes", "Pass its own names")
    return names
