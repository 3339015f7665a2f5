"""The arguments of the commands on nets: ``gluonops export``, ``viz``, ``convert``, ``detect`` and ``classify``."""
from __future__ import annotations

import argparse
from collections.abc import Callable

from . import kinds

BACKENDS = ("builtin", "custom", "native", "auto")
DETECTION = {"threshold": 0.25, "nms": 0.45, "topk": 400}   # the defaults of a Darknet detector
PICTURES = (".svg", ".png", ".pdf")
# export.quantize takes these.
QUANTIZE_OPTIONS = ("method", "percentile", "keep", "layer_limit", "limit", "storage", "vnni_only")


def add_export(add: Callable) -> None:
    export = add("export", "convert exported files to ONNX, PyTorch, 8 bits or another backend",
                 "Rewrite files of any version of MXNet, without the source code of the net. IN and OUT are paths "
                 "without -symbol.json: IN means IN-symbol.json and IN-0000.params. IN may also be one of these "
                 "files, a folder or an archive.")
    export.add_argument("source", metavar="IN", help="the exported net")
    export.add_argument("target", metavar="OUT", nargs="?",
                        help="the files to write; may be IN; not needed for --onnx and --torch")
    export.add_argument("--out", metavar="OUT", help="the same as OUT")
    export.add_argument("--backend", default="builtin", choices=BACKENDS,
                        help="what operators of gluonops become (default: builtin, which needs no gluonops)")
    export.add_argument("--fold-batch-norm", action="store_true", help="fold batch norms, where possible")
    export.add_argument("--pad-channels", action="store_true", help="pad convolutions to a multiple of 16 channels, "
                        "which MXNet computes faster on a CPU")
    export.add_argument("--split-channels", action="store_true", help="split convolutions of many input channels, "
                        "whose weights then stay in the processor's cache")
    export.add_argument("--inference", action="store_true", help="remove losses and labels")
    export.add_argument("--epoch", type=int, metavar="N", help="number of the parameter file (default: the highest)")
    export.add_argument("--onnx", metavar="FILE", help="write an ONNX file")
    export.add_argument("--torch", metavar="DIR", help="write PyTorch source, weights and a test")
    export.add_argument("--training", action="store_true", help="for --torch: keep losses and labels")
    export.add_argument("--force", action="store_true", help="write the files even if the comparison with MXNet shows "
                        "a difference, and print the difference as a note")
    export.add_argument("--data-shape", type=kinds.named_sizes, action="append", metavar="[NAME=]1,3,416,416",
                        help="shape of the input, if the file does not store it, or another one to export for; "
                        "name it if there are several inputs")
    export.add_argument("--output", action="append", default=[], metavar="NODE", dest="outputs", help="cut the net at "
                        "this node, and return what it computes; may be given several times. What is behind it is not "
                        "loaded. NODE_output1 is a node's second output")
    export.add_argument("--fixed-batch", action="store_true", help="for --onnx: accept only this batch size")
    export.add_argument("--opset", type=int, metavar="N", help="for --onnx: version of ONNX's operators, 13 to 21 "
                        "(default: 17, or what the net needs)")
    _add_int8(export.add_argument_group("8 bits"))
    export.set_defaults(check=_check_export)


def _add_int8(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--int8", action="store_true", help="quantize convolutions and dense layers: OUT runs on "
                       "MXNet's CPU operators, and the FILE of --onnx has QuantizeLinear and DequantizeLinear. Losses "
                       "are removed and batch norms are folded. The command prints each layer's error, and that of "
                       "the result on every fifth batch of images, which it holds out")
    group.add_argument("--calibrate", metavar="DIR", help="folder with images like those the net will see, a few dozen "
                       "or more; they are prepared as the file says")
    group.add_argument("--preprocessing", type=kinds.json_object, metavar="JSON", help="how images are prepared, "
                       "for files that do not say it, such as '{\"colours\": \"RGB\", \"resize\": \"crop\"}'. "
                       "docs/command_line.md has the table")
    group.add_argument("--method", choices=("entropy", "percentile", "naive"), help="how the range of a tensor is "
                       "chosen (default: that with the least error)")
    group.add_argument("--percentile", type=float, metavar="P", help="for --method percentile (default: 99.99)")
    group.add_argument("--keep", action="append", metavar="LAYER", help="leave this layer in float; may be given "
                       "several times")
    group.add_argument("--layer-limit", type=float, metavar="E", help="leave layers in float whose error, relative to "
                       "the outputs, is larger (default: 0.05)")
    group.add_argument("--storage", choices=("int8", "float32"), help="type of the weights in the parameter file: "
                       "float32 for programs that use MXNet's C predict API (default: int8, a fourth of the size)")
    group.add_argument("--limit", type=float, metavar="E", help="write nothing if the result's error is larger "
                       "(default: 0.1)")
    group.add_argument("--vnni-only", action="store_true", default=None, help="use all 8 bits, for processors with "
                       "VNNI (or Arm's) only: on others the results may be wrong")


def _check_export(args: argparse.Namespace) -> None:
    if args.out is not None:
        if args.target is not None:
            args.parser.error("two output paths are given; expected one OUT")
        args.target = args.out
    if args.target is None and args.onnx is None and args.torch is None:
        args.parser.error("there is nothing to write: pass OUT, --onnx FILE, --torch DIR, or several of them")
    _check_int8(args)
    if args.onnx is None and (args.fixed_batch or args.opset is not None):
        args.parser.error("--fixed-batch and --opset can only be used with --onnx")
    if args.training and args.torch is None:
        args.parser.error("--training can only be used with --torch")
    kinds.name_shapes(args)


def _check_int8(args: argparse.Namespace) -> None:
    typed = [name for name in ("calibrate", "preprocessing", *QUANTIZE_OPTIONS) if getattr(args, name) is not None]
    if typed and not args.int8:
        args.parser.error(f"--{typed[0].replace('_', '-')} can only be used with --int8")
    if not args.int8:
        return
    if args.torch is not None:
        args.parser.error("--torch cannot be used with --int8")
    if args.calibrate is None:
        args.parser.error("--int8 needs --calibrate DIR, a folder of images")
    if args.backend != "builtin" or args.pad_channels or args.split_channels or args.fixed_batch:
        args.parser.error("--backend, --pad-channels, --split-channels and --fixed-batch cannot be used with --int8")


def add_import(add: Callable) -> None:
    command = add("import", "bring weights that were trained in PyTorch back to MXNet",
                  "Bring a net home that gluonops export --torch has written to the folder PORT, and that was trained "
                  "in PyTorch. Its graph, names and losses are those of the net that was exported. The net runs in "
                  "PyTorch and in MXNet, and both are compared before a file is written. This runs the code in "
                  "PORT/net.py.")
    command.add_argument("port", metavar="PORT", help="the folder, with net.py, names.json and origin-symbol.json")
    command.add_argument("weights", metavar="WEIGHTS", help="the trained weights: a .safetensors file, what "
                         "torch.save(net.state_dict(), FILE) has written, or a checkpoint with such a state_dict in it")
    command.add_argument("--into", metavar="PREFIX", required=True, help="the files to write are PREFIX-symbol.json "
                         "and PREFIX-0000.params")
    command.add_argument("--backend", default="builtin", choices=BACKENDS,
                         help="what operators of gluonops become (default: builtin, which needs no gluonops)")
    command.add_argument("--force", action="store_true", help="write the files even if the comparison shows a "
                         "difference, and print the difference as a note")
    command.set_defaults(module="import_port")


def add_viz(add: Callable) -> None:
    viz = add("viz", "draw a picture of an exported net",
              "Draw an exported net, with a box for each layer and the shapes on the edges. Operators of gluonops "
              "are marked.")
    viz.add_argument("source", metavar="IN", help="the exported net, without -symbol.json")
    viz.add_argument("-o", "--output", required=True, action="append", metavar="FILE", help="the picture: .svg, .png "
                     "or .pdf. --output NODE beside it cuts the net at this node, as in gluonops export")
    viz.add_argument("--data-shape", type=kinds.named_sizes, action="append", metavar="[NAME=]1,3,416,416",
                     help="shape of the input, if the file does not store it; name it if there are several inputs")
    viz.set_defaults(check=_check_viz)


def _check_viz(args: argparse.Namespace) -> None:
    """Tell the picture and the nodes apart, which share one option. The picture is the one that ends in a format."""
    pictures = [name for name in args.output if name.lower().endswith(PICTURES)] or args.output[:1]
    args.outputs = [name for name in args.output if name not in pictures]
    args.output = pictures[-1]
    kinds.name_shapes(args)


def _add_detection(command: argparse.ArgumentParser) -> None:
    command.add_argument("--threshold", type=float, help=f"lowest probability (default: {DETECTION['threshold']})")
    command.add_argument("--nms", type=float, help=f"largest IoU of two detections (default: {DETECTION['nms']})")
    command.add_argument("--topk", type=int, help=f"most candidates per image (default: {DETECTION['topk']})")


def _add_resize(command: argparse.ArgumentParser) -> None:
    """Add the options that say how an image gets the size of the net's input."""
    group = command.add_mutually_exclusive_group()
    group.add_argument("--resize", action="store_const", const="stretch",
                       help="stretch images to the net's size, as AlexeyAB's Darknet does; the default of his cfgs")
    group.add_argument("--letterbox", action="store_const", const="letterbox", dest="resize",
                       help="fit images into the net's size, with a grey border, as pjreddie's Darknet does; the "
                       "default of other cfgs; exported files say what they need")


def add_convert(add: Callable) -> None:
    convert = add("convert", "convert a Darknet network to symbol JSON and parameters",
                  "Write PREFIX-symbol.json and PREFIX-0000.params of a Darknet cfg and its weights.")
    convert.add_argument("cfg", help="Darknet's .cfg")
    convert.add_argument("weights", help="Darknet's .weights")
    convert.add_argument("prefix", help="path of the files, without -symbol.json")
    convert.add_argument("--backend", default="builtin", choices=BACKENDS,
                         help="operators to write (default: builtin, which needs no gluonops)")
    convert.add_argument("--detections", action="store_true",
                         help="return ids, scores and boxes, instead of what the last layer returns")
    convert.add_argument("--names", metavar="FILE",
                         help="text file with one class name per line, to store in the files")
    _add_detection(convert)
    _add_resize(convert)
    convert.set_defaults(module="from_darknet", check=_check_convert)


def _check_convert(args: argparse.Namespace) -> None:
    typed = [f"--{name}" for name in DETECTION if getattr(args, name) is not None]
    if typed and not args.detections:
        args.parser.error(f"{' and '.join(typed)} can only be used with --detections")


def add_on_images(add: Callable, debug: argparse.ArgumentParser) -> None:
    net = ("The first argument is an exported net, PREFIX for PREFIX-symbol.json and PREFIX-0000.params, or an .onnx "
           "file. Or it is a Darknet .cfg, followed by its .weights.")
    detect = add("detect", "run a detector on images: an exported one, or Darknet's",
                 f"Print what a detector finds in images, and draw it. {net}", parents=[debug])
    classify = add("classify", "run a classifier on images: an exported one, or Darknet's",
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
    classify.set_defaults(**dict.fromkeys(("cfg", "weights", "resize", *DETECTION)))   # Only detect has them.
    classify.add_argument("--top", type=int, default=5, help="how many classes of an image (default: 5)")
