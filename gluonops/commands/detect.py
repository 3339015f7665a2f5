"""``gluonops detect``: run a Darknet detector on an image, and print and draw its detections."""
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
    """Detect the objects in ``args.image``, and draw them into ``args.output``. Return the exit code."""
    if Image is None:
        raise OpError(WHERE, "Pillow is not installed", "Run: pip install pillow")
    image_format = _format(args.output)
    picture = _open(args.image)
    net = darknet.load(args.cfg, args.weights, progress=layers)
    detector = net.detector(args.threshold, args.nms, args.topk)
    names = _names(args.names, detector.classes)
    detections = _detect(detector, net.input_shape, picture, names)
    draw(picture, detections)
    output = args.output
    make_folder(WHERE, output)
    check_target(WHERE, output)
    replace(WHERE, {output: lambda path: picture.save(path, format=image_format)})
    if args.json:
        print(json.dumps({"output": output, "detections": detections}))
    else:
        for item in detections:
            print(f"{item['name']} {item['score']:.2f} at " + " ".join(f"{side:.0f}" for side in item["box"]))
        print(f"{len(detections)} found; drawn into {output}")
    return 0


def _detect(detector, input_shape, picture, names):
    """A dict per detection, sorted by score. The boxes are in pixels of the picture, and clipped to it."""
    _, height, width = input_shape
    tensor = mx.nd.array(data.letterbox(np.asarray(picture), width, height)[None])
    ids, scores, boxes = (array[0].asnumpy() for array in detector(tensor))
    boxes = data.unletterbox_boxes(boxes, picture.size, (width, height))
    boxes = boxes.clip(0, [*picture.size, *picture.size])

    is_detection = ids[:, 0] >= 0
    has_area = (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])   # False in the border of the letterbox
    valid = is_detection & has_area
    detections = []
    for class_id, score, box in zip(ids[valid, 0], scores[valid, 0], boxes[valid]):
        detections.append({"name": names[int(class_id)], "class": int(class_id), "score": round(float(score), 6),
                           "box": [round(float(side), 2) for side in box]})
    return detections


def draw(picture: Image.Image, detections: list[dict]) -> None:
    """Draw boxes with their names into a picture. The box with the highest score is on top.

    Parameters
    ----------
    picture : PIL.Image.Image
    detections : list of dict
        For each detection the keys ``name``, ``class`` (the class id), ``score``, and ``box`` (xmin, ymin, xmax, ymax
        in pixels), sorted by score.
    """
    pen = ImageDraw.Draw(picture)
    line_width = max(2, min(picture.size) // 200)
    for item in reversed(detections):
        left, top, right, bottom = item["box"]
        pen.rectangle([left, top, right, bottom], outline=colour(item["class"]), width=line_width)
        text = f"{item['name']} {item['score']:.2f}"
        area = pen.textbbox((left + line_width, max(top - 12, 0)), text)
        pen.rectangle(area, fill=colour(item["class"]))
        pen.text(area[:2], text, fill=(0, 0, 0))


def colour(index: int) -> tuple[int, ...]:
    """(red, green, blue) from 0 to 255 for a class id. Steps of the golden ratio make the hues of neighbours differ."""
    hue = index * 0.618034 % 1
    return tuple(int(255 * part) for part in colorsys.hsv_to_rgb(hue, 0.9, 0.9))


def _open(path):
    try:
        return Image.open(path).convert("RGB")
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise OpError(WHERE, f"cannot read the image {path}: {error}", "Pass a JPEG, PNG or another image") from error


def _format(path):
    """Pillow's name for the format of the file's extension."""
    suffix = os.path.splitext(path)[1].lower()
    image_format = Image.registered_extensions().get(suffix)
    if image_format not in Image.SAVE:
        raise OpError(WHERE, f"cannot write {path}: {suffix or 'no extension'} is no image format",
                      "Give the output an extension such as .png or .jpg")
    return image_format


def _names(path, count):
    """The names of the classes: the lines of a file, or numbers without a file."""
    if path is None:
        return [str(i) for i in range(count)]
    try:
        with open(path, encoding="utf-8") as file:
            names = [line.strip() for line in file if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise OpError(WHERE, f"cannot read the names in {path}: {error}",
                      "Pass a text file, one name in a line") from error
    if len(names) != count:
        raise OpError(WHERE, f"{path} has {len(names)} names; the network has {count} classes",
                      "Pass the file with the names of its classes")
    return names
