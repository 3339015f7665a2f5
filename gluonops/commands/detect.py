"""``gluonops detect``: a Darknet detector on one image; prints what it finds, and draws it."""
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
except ImportError:   # said when the command runs
    Image = None

__all__ = ["colour", "draw", "run"]

WHERE = "detect"


def run(args):
    """Find objects in ``args.image`` with ``args.cfg`` and ``args.weights``, and draw them into ``args.output``."""
    if Image is None:
        raise OpError(WHERE, "Pillow is not installed", "Run: pip install pillow")
    kind = _format(args.output)
    picture = _open(args.image)
    net = darknet.load(args.cfg, args.weights, progress=layers)
    detector = net.detector(args.threshold, args.nms, args.topk)
    names = _names(args.names, detector.classes)
    found = _detect(detector, net.input_shape, picture, names)
    draw(picture, found)
    output = args.output
    make_folder(WHERE, output)
    check_target(WHERE, output)
    replace(WHERE, {output: lambda path: picture.save(path, format=kind)})
    if args.json:
        print(json.dumps({"output": output, "detections": found}))
    else:
        for item in found:
            print(f"{item['name']} {item['score']:.2f} at " + " ".join(f"{side:.0f}" for side in item["box"]))
        print(f"{len(found)} found; drawn into {output}")
    return 0


def _detect(detector, input_shape, picture, names):
    """A dict for every detection, the most probable first; boxes are in pixels of the picture, and within it."""
    _, height, width = input_shape
    tensor = mx.nd.array(data.letterbox(np.asarray(picture), width, height)[None])
    ids, scores, boxes = (array[0].asnumpy() for array in detector(tensor))
    kept = ids[:, 0] >= 0
    boxes = data.unletterbox_boxes(boxes, picture.size, (width, height)).clip(0, [*picture.size, *picture.size])
    kept &= (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])   # others lie in the letterbox's border
    return [{"name": names[int(i)], "class": int(i), "score": round(float(score), 6),
             "box": [round(float(side), 2) for side in box]}
            for i, score, box in zip(ids[kept, 0], scores[kept, 0], boxes[kept])]


def draw(picture, found):
    """Draw the boxes with their names into a Pillow image; the most probable on top."""
    pen = ImageDraw.Draw(picture)
    line = max(2, min(picture.size) // 200)
    for item in reversed(found):
        left, top, right, bottom = item["box"]
        pen.rectangle([left, top, right, bottom], outline=colour(item["class"]), width=line)
        text = f"{item['name']} {item['score']:.2f}"
        area = pen.textbbox((left + line, max(top - 12, 0)), text)
        pen.rectangle(area, fill=colour(item["class"]))
        pen.text(area[:2], text, fill=(0, 0, 0))


def colour(index):
    """(red, green, blue) of a class; the golden ratio keeps those of neighbouring classes apart."""
    return tuple(int(255 * part) for part in colorsys.hsv_to_rgb(index * 0.618034 % 1, 0.9, 0.9))


def _open(path):
    try:
        return Image.open(path).convert("RGB")
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise OpError(WHERE, f"cannot read the image {path}: {error}", "Pass a JPEG, PNG or another image") from error


def _format(path):
    """Pillow's name for the format that the extension asks for."""
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
