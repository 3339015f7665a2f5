"""The arguments of ``gluonops convert``, ``detect`` and ``classify``."""
from __future__ import annotations

import argparse
from collections.abc import Callable

from . import kinds

__all__ = ["DETECTION", "add_convert", "add_on_images"]

DETECTION = {"threshold": 0.25, "nms": 0.45, "topk": 400}   # the defaults of a Darknet detector


def _add_detection(command: argparse.ArgumentParser) -> None:
    """The options of a detector's last layers."""
    command.add_argument("--threshold", type=float, help=f"lowest probability (default: {DETECTION['threshold']})")
    command.add_argument("--nms", type=float, help=f"largest IoU of two detections (default: {DETECTION['nms']})")
    command.add_argument("--topk", type=int, help=f"most candidates per image (default: {DETECTION['topk']})")


def _add_resize(command: argparse.ArgumentParser) -> None:
    """The options of how an image gets the net's size."""
    group = command.add_mutually_exclusive_group()
    group.add_argument("--resize", action="store_const", const="stretch",
                       help="stretch images to the net's size, as AlexeyAB's Darknet does; the default of his cfgs")
    group.add_argument("--letterbox", action="store_const", const="letterbox", dest="resize",
                       help="fit images into the net's size, with a grey border, as pjreddie's Darknet does; the "
                       "default of other cfgs; exported files say what they need")


def add_convert(add: Callable) -> None:
    convert = add("convert", "a Darknet network as symbol JSON and parameters, for Module",
                  "Write PREFIX-symbol.json and PREFIX-0000.params of a Darknet cfg and its weights.")
    convert.add_argument("cfg", help="Darknet's .cfg")
    convert.add_argument("weights", help="Darknet's .weights")
    convert.add_argument("prefix", help="path of the files, without -symbol.json")
    convert.add_argument("--backend", default="builtin", choices=("builtin", "custom", "native", "auto"),
                         help="operators to write (default: builtin, which needs no gluonops)")
    convert.add_argument("--detections", action="store_true",
                         help="return ids, scores and boxes, instead of what the last layer returns")
    convert.add_argument("--names", metavar="FILE",
                         help="text file with one class name per line, to store in the files")
    _add_detection(convert)
    _add_resize(convert)
    convert.set_defaults(check=_check_convert)


def _check_convert(args: argparse.Namespace) -> None:
    """Refuse the options of detections without detections."""
    given = [f"--{name}" for name in DETECTION if getattr(args, name) is not None]
    if given and not args.detections:
        verb = "goes" if len(given) == 1 else "go"
        args.parser.error(f"{' and '.join(given)} {verb} with --detections")


def add_on_images(add: Callable, debug: argparse.ArgumentParser) -> None:
    net = ("The first argument is an exported net, PREFIX for PREFIX-symbol.json and PREFIX-0000.params, or an .onnx "
           "file. Or it is a Darknet .cfg, followed by its .weights.")
    detect = add("detect", "a detector on images: an exported one, or Darknet's",
                 f"Print what a detector finds in images, and draw it. {net}", parents=[debug])
    classify = add("classify", "a classifier on images: an exported one, or Darknet's",
                   f"Print the most probable classes of images. {net}", parents=[debug])
    for command in (detect, classify):
        command.usage = (f"{command.prog} [options] PREFIX IMAGE ...\n"
                         f"       {command.prog} [options] CFG WEIGHTS IMAGE ...")
        command.set_defaults(module="on_images")
        command.add_argument("words", nargs="+", metavar="NET, IMAGE", help="the net, and images or folders of them")
        command.add_argument("-o", "--output", metavar="FILE", help="picture to draw into; a folder for several images")
        command.add_argument("--json", nargs="?", const="-", type=kinds.json_file, metavar="FILE.json",
                             help="write JSON into this file; without a file or with -, print JSON and nothing else")
        command.add_argument("--names", metavar="FILE", help="text file with one class name per line; exported files "
                             "usually have the names")
        command.add_argument("--preprocessing", type=kinds.json_object, metavar="JSON", help="how images are prepared, "
                             "for files that do not say it; docs/command_line.md has the table")
        command.add_argument("--data-shape", type=kinds.sizes, metavar="1,3,300,300", help="shape of the input, for "
                             "symbol JSON that does not say it")
    detect.add_argument("--cfg", help="Darknet's .cfg, instead of the net; then all arguments are images")
    detect.add_argument("--weights", help="the .weights of --cfg")
    _add_detection(detect)
    _add_resize(detect)
    classify.set_defaults(**dict.fromkeys(("cfg", "weights", "resize", *DETECTION)))   # which detect has
    classify.add_argument("--top", type=int, default=5, help="how many classes of an image (default: 5)")
