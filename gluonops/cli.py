"""The command ``gluonops`` and the arguments of its subcommands.

Like doctor.py, this file imports nothing of the package at the top: the command runs it as a file, so that it can
say in one line why ``import gluonops`` fails.
"""
from __future__ import annotations

import argparse
import importlib.util
import io
import json
import os
import pathlib
import runpy
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

HERE = pathlib.Path(__file__).parent
EXIT_CODES = """\
exit codes: 0 it worked; 1 it failed, and says why in a line on stderr;
2 the command was misspelled; 130 Ctrl-C"""
DETECTION = {"threshold": 0.25, "nms": 0.45, "topk": 400}   # options of convert --detections
EXAMPLES = {
    "doctor": """\
  gluonops doctor                                 versions, backends, GPUs, and what is missing
  gluonops doctor --json | jq .backends""",
    "install-mxnet": """\
  gluonops install-mxnet                          MXNet for the CPU, beside any NumPy
  gluonops install-mxnet cu117                    for NVIDIA GPUs, with the CUDA libraries
  gluonops install-mxnet -o wheels                the wheel alone, to install it elsewhere""",
    "ops": """\
  gluonops ops                                    the table of all operators
  gluonops ops reorg                              one of them""",
    "convert": """\
  gluonops convert yolov2.cfg yolov2.weights out/yolov2
  gluonops convert yolov2.cfg yolov2.weights out/yolov2 --detections --threshold 0.5
  gluonops convert yolov4.cfg yolov4.weights out/yolov4 --detections --letterbox""",
    "detect": """\
  gluonops detect out/detector street.jpg -o found.png        of out/detector-symbol.json
  gluonops detect detector.onnx a.jpg b.jpg -o found --json found.json
  gluonops detect yolov2.cfg yolov2.weights dog.jpg --names coco.names -o found.png
  gluonops detect yolov3.cfg yolov3.weights dog.jpg --resize""",
    "classify": """\
  gluonops classify out/classifier cat.jpg                    of out/classifier-symbol.json
  gluonops classify classifier.onnx a.jpg b.jpg --top 1 --json -
  gluonops classify darknet19.cfg darknet19.weights dog.jpg --names imagenet.names""",
    "anchors": """\
  gluonops anchors                                for the scenes of digits
  gluonops anchors --dataset voc --root VOCdevkit/VOC2007 -k 9 -o anchors.png""",
    "export": """\
  gluonops export net deploy                      nodes of gluonops become MXNet's own operators
  gluonops export net deploy --fold-batch-norm    and batch norms folded, where possible
  gluonops export net fast --backend native       nodes of the C++ library
  gluonops export trained deploy --inference      without losses and labels
  gluonops export net --onnx net.onnx             ONNX, for any batch size
  gluonops export net small --int8 --calibrate photos   8-bit layers, for MXNet on the CPU
  gluonops export net --onnx small.onnx --int8 --calibrate photos --limit 0.05""",
    "viz": """\
  gluonops viz deploy -o deploy.svg               the net of deploy-symbol.json
  gluonops viz deploy -o deploy.png --data-shape 1,3,416,416
  gluonops viz pair -o pair.png --data-shape left=1,3,32,32 --data-shape right=1,9""",
    "bench": """\
  gluonops bench                                  every operator, in about half a minute
  gluonops bench --op reorg --shape 1,64,26,26    one of them, on data of this shape
  gluonops bench --json > here.json""",
}


def main(argv: list[str] | None = None) -> int:
    """Run the command and return its exit code; see EXIT_CODES."""
    args = _parser().parse_args(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")   # the name of a file is printed as the system has it
    try:
        code = args.run(args)
        sys.stdout.flush()
        return code
    except BrokenPipeError:   # the reader has exited, as in `gluonops ops | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("\ngluonops was interrupted.", file=sys.stderr)
        return 130
    except Exception as error:
        if args.debug:
            raise
        print(_doctor().explain(error), file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    debug = argparse.ArgumentParser(add_help=False)
    debug.add_argument("--debug", action="store_true", help="show the traceback of an error")
    common = argparse.ArgumentParser(add_help=False, parents=[debug])
    common.add_argument("--json", action="store_true", help="print JSON, for other programs")
    parser = argparse.ArgumentParser(
        prog="gluonops", description="Layers for Gluon on Apache MXNet 1.9.1.",
        epilog=f"examples:\n  gluonops doctor\n  gluonops bench --help\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter)
    version = runpy.run_path(str(HERE / "version.py"))["__version__"]
    parser.add_argument("--version", action="version", version=f"gluonops {version}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def add(name: str, run: Callable, help: str, description: str,
            parents: Sequence[argparse.ArgumentParser] = (common,)) -> argparse.ArgumentParser:
        command = commands.add_parser(
            name, parents=list(parents), help=help, description=textwrap.fill(description, 79),
            epilog=f"examples:\n{EXAMPLES[name]}\n\n{EXIT_CODES}", formatter_class=argparse.RawDescriptionHelpFormatter)
        command.set_defaults(run=run, parser=command)
        return command

    add("doctor", _run_doctor, "what is installed, what is missing, and what to do about it",
        "Print versions, backends, GPUs and what is missing. Exits with 1 if gluonops cannot be used.")
    install = add("install-mxnet", _run_install_mxnet, "MXNet 1.9.1, changed so that it runs with NumPy 2",
                  "Let pip download MXNet's wheel, write a wheel from it that allows NumPy 2 and gives MXNet a view of "
                  "NumPy, and install that.")
    _mxnet_wheel().add_arguments(install)
    ops = add("ops", _run_ops, "the operators: layers, backends, types, attributes, gradients, export",
              "Print the operators, as their contracts declare them.")
    ops.add_argument("name", nargs="?", help="one operator; all of them if left out")
    _add_convert(add)
    _add_on_images(add, debug)
    _add_anchors(add)
    _add_export(add)
    viz = add("viz", _run_viz, "a picture of an exported net, with shapes on its edges",
              "Draw an exported net: a box for each layer, shapes on the edges, operators of gluonops marked.")
    viz.add_argument("source", metavar="IN", help="the exported net, without -symbol.json")
    viz.add_argument("-o", "--output", required=True, metavar="FILE", help="the picture: .svg, .png or .pdf")
    viz.add_argument("--data-shape", type=_named_sizes, action="append", metavar="[NAME=]1,3,416,416",
                     help="shape of the input, if the file does not store it; name it if there are several inputs")
    _add_bench(add)
    return parser


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


def _add_convert(add: Callable) -> None:
    convert = add("convert", _run_convert, "a Darknet network as symbol JSON and parameters, for Module",
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


def _add_on_images(add: Callable, debug: argparse.ArgumentParser) -> None:
    net = ("The first argument is an exported net, PREFIX for PREFIX-symbol.json and PREFIX-0000.params, or an .onnx "
           "file. Or it is a Darknet .cfg, followed by its .weights.")
    detect = add("detect", _run_detect, "a detector on images: an exported one, or Darknet's",
                 f"Print what a detector finds in images, and draw it. {net}", [debug])
    classify = add("classify", _run_classify, "a classifier on images: an exported one, or Darknet's",
                   f"Print the most probable classes of images. {net}", [debug])
    for command in (detect, classify):
        command.usage = (f"{command.prog} [options] PREFIX IMAGE ...\n"
                         f"       {command.prog} [options] CFG WEIGHTS IMAGE ...")
        command.add_argument("words", nargs="+", metavar="NET, IMAGE", help="the net, and the images")
        command.add_argument("-o", "--output", metavar="FILE", help="picture to draw into; a folder for several images")
        command.add_argument("--json", nargs="?", const="-", type=_json_file, metavar="FILE.json",
                             help="write JSON into this file; without a file or with -, print JSON and nothing else")
        command.add_argument("--names", metavar="FILE", help="text file with one class name per line; exported files "
                             "usually have the names")
    detect.add_argument("--cfg", help="Darknet's .cfg, instead of the net; then all arguments are images")
    detect.add_argument("--weights", help="the .weights of --cfg")
    _add_detection(detect)
    _add_resize(detect)
    classify.add_argument("--top", type=int, default=5, help="how many classes of an image (default: 5)")


def _json_file(text: str) -> str:
    """argparse's type for the name of a JSON file. An image after --json would be replaced."""
    if text != "-" and not text.endswith(".json"):
        raise argparse.ArgumentTypeError(f"got {text!r}; expected - or a file that ends in .json")
    return text


def _add_anchors(add: Callable) -> None:
    formats = _load("data", "formats.py").names("detection")
    anchors = add("anchors", _run_anchors, "anchors for a data set, by k-means on 1 - IoU",
                  "Print anchors for a data set as Darknet's cfg files have them: widths and heights in grid cells.")
    anchors.add_argument("--dataset", choices=formats, default=formats[0],
                         help=f"format of the data set (default: {formats[0]})")
    anchors.add_argument("--root", help="folder of the data set; not for digits")
    anchors.add_argument("--split", choices=("train", "val"), default="train",
                         help="part of the data set (default: train)")
    anchors.add_argument("--classes", help="file with a class name per line, if the data set has no names")
    anchors.add_argument("-k", type=int, default=5, help="number of anchors (default: 5)")
    anchors.add_argument("--input", type=int, default=416, help="width and height of the net's input (default: 416)")
    anchors.add_argument("--stride", type=int, default=32, help="pixels per grid cell (default: 32)")
    anchors.add_argument("--seed", type=int, default=0, help="seed of the first centres (default: 0)")
    anchors.add_argument("-o", "--output", metavar="FILE", help="plot boxes and anchors: .png, .svg or .pdf")


def _add_bench(add: Callable) -> None:
    bench = add("bench", _run_bench, "the operators' speed here, beside MXNet's own",
                "Time the operators, as NDArray functions, beside MXNet's own (its peers, the builtin backend, "
                "identity and copyto), after comparing their results. Prints the median of each, and how many times "
                "ours that is. Leave the machine alone meanwhile.")
    bench.add_argument("--op", action="append", help="only this operator; may be given several times")
    bench.add_argument("--shape", type=_sizes, metavar="16,64,52,52", help="shape of the data, with one --op")
    bench.add_argument("--dtype", choices=("float16", "float32", "float64"), default="float32",
                       help="type (default: float32)")
    bench.add_argument("--seconds", type=_seconds, default=0.15,
                       help="time limit for each measurement, in seconds (default: 0.15)")
    bench.add_argument("-o", "--output", metavar="FILE", help="write the figures, as JSON")


def _add_export(add: Callable) -> None:
    export = add("export", _run_export, "exported files for another backend, in 8 bits, or as ONNX",
                 "Rewrite exported files without the source code of the net. IN and OUT are paths without "
                 "-symbol.json: IN means IN-symbol.json and IN-0000.params.")
    export.add_argument("source", metavar="IN", help="the exported net")
    export.add_argument("target", metavar="OUT", nargs="?", help="the files to write; may be IN; not needed for --onnx")
    export.add_argument("--backend", default="builtin", choices=("builtin", "custom", "native", "auto"),
                        help="what operators of gluonops become (default: builtin, which needs no gluonops)")
    export.add_argument("--fold-batch-norm", action="store_true", help="fold batch norms, where possible")
    export.add_argument("--pad-channels", action="store_true", help="pad convolutions to a multiple of 16 channels, "
                        "which MXNet computes faster on a CPU")
    export.add_argument("--split-channels", action="store_true", help="split convolutions of many input channels, "
                        "whose weights then stay in the processor's cache")
    export.add_argument("--inference", action="store_true", help="remove losses and labels")
    export.add_argument("--epoch", type=int, metavar="N", help="number of the parameter file (default: the highest)")
    export.add_argument("--onnx", metavar="FILE", help="write an ONNX file")
    export.add_argument("--data-shape", type=_named_sizes, action="append", metavar="[NAME=]1,3,416,416",
                        help="for --onnx and --int8: shape of the input, if the file does not store it, or another one "
                        "to export for; name it if there are several inputs")
    export.add_argument("--fixed-batch", action="store_true", help="for --onnx: accept only this batch size")
    export.add_argument("--opset", type=int, metavar="N", help="for --onnx: version of ONNX's operators, 13 to 21 "
                        "(default: 17)")
    _add_int8(export.add_argument_group("8 bits"))


def _add_int8(group):
    group.add_argument("--int8", action="store_true", help="quantize convolutions and dense layers: OUT runs on "
                       "MXNet's CPU operators, and the FILE of --onnx has QuantizeLinear and DequantizeLinear. Losses "
                       "are removed and batch norms are folded. The command prints each layer's error, and that of "
                       "the result on every fifth batch of images, which it holds out")
    group.add_argument("--calibrate", metavar="DIR", help="folder with images like those the net will see, a few dozen "
                       "or more; they are prepared as the file says")
    group.add_argument("--preprocessing", type=_json_object, metavar="JSON", help="how images become the net's input, "
                       "for files that do not say it, such as '{\"colours\": \"RGB\", \"resize\": \"crop\"}'; "
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
    group.add_argument("--limit", type=float, metavar="E", help="write nothing if the result's error is larger")


def _sizes(text: str) -> tuple[int, ...]:
    """argparse's type for a shape."""
    try:
        shape = tuple(int(part) for part in text.strip("()").split(",") if part.strip())
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1:
        raise argparse.ArgumentTypeError(f"got {text!r}; expected sizes of at least 1, such as 1,3,416,416")
    return shape


def _named_sizes(text: str) -> tuple[str | None, tuple[int, ...]]:
    """argparse's type for the shape of one input: its name, or None, and the sizes."""
    name, mark, sizes = text.rpartition("=")
    if mark and not name:
        raise argparse.ArgumentTypeError(f"got {text!r}; expected the input's name before '='")
    return name or None, _sizes(sizes)


def _data_shape(args: argparse.Namespace) -> tuple[int, ...] | dict[str, tuple[int, ...]] | None:
    """The options --data-shape as the functions of gluonops.export take them."""
    given = args.data_shape or []
    names = [name for name, _ in given]
    if len(given) > 1 and (None in names or len(set(names)) < len(names)):
        args.parser.error("--data-shape several times: name each input once, as in --data-shape left=1,3,32,32")
    if names == [None]:
        return given[0][1]
    return dict(given) or None


def _json_object(text: str) -> dict[str, Any]:
    """argparse's type for a JSON object."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"got {text!r}; expected a JSON object, such as " + '\'{"range": [0, 255]}\'')
    return value


def _seconds(text: str) -> float:
    """argparse's type for a duration."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"got {text!r}; expected seconds, more than 0")
    return seconds


def _doctor() -> ModuleType:
    """The module doctor.py."""
    return _load("doctor.py")


def _mxnet_wheel() -> ModuleType:
    """The module runtime/mxnet_wheel.py."""
    return _load("runtime", "mxnet_wheel.py")


def _load(*path: str) -> ModuleType:
    """A module of the package, loaded as a file: an import of the package may fail."""
    file = HERE.joinpath(*path)
    spec = importlib.util.spec_from_file_location(f"gluonops_{file.stem}", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _run_doctor(args: argparse.Namespace) -> int:
    doctor = _doctor()
    report = doctor.examine()
    print(json.dumps(report, indent=2) if args.json else doctor.render(report))
    return 0 if report["ok"] else 1


def _run_install_mxnet(args: argparse.Namespace) -> int:
    return _mxnet_wheel().run(args)


def _run_ops(args: argparse.Namespace) -> int:
    from gluonops import table
    from gluonops.core import registry
    names = [registry.get(args.name).op.name] if args.name else None
    if args.json:
        print(json.dumps(table.rows(names), indent=2))
    else:
        print(table.terminal(shutil.get_terminal_size().columns, names))
    return 0


def _run_convert(args: argparse.Namespace) -> int:
    given = [f"--{name}" for name in DETECTION if getattr(args, name) is not None]
    if given and not args.detections:
        verb = "goes" if len(given) == 1 else "go"
        args.parser.error(f"{' and '.join(given)} {verb} with --detections")
    for name, default in DETECTION.items():
        if getattr(args, name) is None:
            setattr(args, name, default)
    from gluonops.commands import convert
    return convert.run(args)


def _run_classify(args: argparse.Namespace) -> int:
    from gluonops.commands import classify
    return classify.run(args)


def _run_detect(args: argparse.Namespace) -> int:
    from gluonops.commands import detect
    return detect.run(args)


def _run_anchors(args: argparse.Namespace) -> int:
    from gluonops.commands import anchors
    return anchors.run(args)


def _run_export(args: argparse.Namespace) -> int:
    if args.target is None and args.onnx is None:
        args.parser.error("nothing to write: give OUT, --onnx FILE, or both")
    _check_int8(args)
    if args.onnx is None and ((args.data_shape and not args.int8) or args.fixed_batch or args.opset is not None):
        args.parser.error("--data-shape, --fixed-batch and --opset go with --onnx")
    args.data_shape = _data_shape(args)
    from gluonops.commands import export
    return export.run(args)


def _check_int8(args: argparse.Namespace) -> None:
    only = {"--calibrate": args.calibrate, "--preprocessing": args.preprocessing, "--method": args.method,
            "--percentile": args.percentile, "--keep": args.keep, "--layer-limit": args.layer_limit,
            "--storage": args.storage, "--limit": args.limit}
    given = [option for option, value in only.items() if value is not None]
    if given and not args.int8:
        args.parser.error(f"{given[0]} goes with --int8")
    if not args.int8:
        return
    if args.calibrate is None:
        args.parser.error("--int8 needs --calibrate DIR, a folder of images")
    if args.backend != "builtin" or args.pad_channels or args.split_channels or args.fixed_batch:
        args.parser.error("--backend, --pad-channels, --split-channels and --fixed-batch do not go with --int8")


def _run_viz(args: argparse.Namespace) -> int:
    args.data_shape = _data_shape(args)
    from gluonops.commands import viz
    return viz.run(args)


def _run_bench(args: argparse.Namespace) -> int:
    if args.shape and len(args.op or ()) != 1:
        args.parser.error("--shape goes with a single --op")
    from gluonops.commands import bench
    return bench.run(args)


if __name__ == "__main__":
    sys.exit(main())
