"""The command ``gluonops`` and the arguments of its subcommands.

Like doctor.py, this file imports nothing of the package at the top: the command runs it as a file, so that it can
say in one line why ``import gluonops`` fails.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import runpy
import shutil
import sys

HERE = pathlib.Path(__file__).parent
EXPORT_EXAMPLES = """\
examples:
  gluonops export net deploy                      Custom and native nodes become MXNet's own operators
  gluonops export net deploy --fold-batch-norm    and batch norms are folded into convolutions and dense layers
  gluonops export net fast --backend native       nodes of the C++ library
  gluonops export trained deploy --inference      without losses and labels
  gluonops export net --onnx net.onnx             ONNX, for any batch size
"""


def main(argv=None):
    """Run the command; returns the exit code: 0, 1 where it failed, 2 where it was misspelled."""
    args = _parser().parse_args(argv)
    try:
        code = args.run(args)
        sys.stdout.flush()
        return code
    except BrokenPipeError:   # the reader has left, as in `gluonops ops | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if args.debug:
            raise
        print(_doctor().explain(error), file=sys.stderr)
        return 1


def _parser():
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="print JSON, for other programs")
    common.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser = argparse.ArgumentParser(prog="gluonops", description="Layers for Gluon on Apache MXNet 1.9.1.")
    version = runpy.run_path(str(HERE / "version.py"))["__version__"]
    parser.add_argument("--version", action="version", version=f"gluonops {version}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    doctor = commands.add_parser(
        "doctor", parents=[common], help="what is installed, what is missing, and what to do about it",
        description="Print versions, backends, GPUs and what is missing. Exits with 1 where gluonops cannot be used.")
    doctor.set_defaults(run=_run_doctor)
    ops = commands.add_parser(
        "ops", parents=[common], help="the operators: layers, backends, types, attributes, gradients",
        description="Print the operators, as their contracts declare them.")
    ops.add_argument("name", nargs="?", help="one operator; all of them if left out")
    ops.set_defaults(run=_run_ops)
    detection = argparse.ArgumentParser(add_help=False)
    detection.add_argument("--threshold", type=float, default=0.25, help="least probability (default: 0.25)")
    detection.add_argument("--nms", type=float, default=0.45, help="largest overlap of two detections (default: 0.45)")
    detection.add_argument("--topk", type=int, default=400, help="most candidates of an image (default: 400)")
    convert = commands.add_parser(
        "convert", parents=[common, detection], help="a Darknet network as symbol JSON and parameters, for Module",
        description="Write PREFIX-symbol.json and PREFIX-0000.params of a Darknet cfg and its weights.")
    convert.add_argument("cfg", help="Darknet's .cfg")
    convert.add_argument("weights", help="its .weights")
    convert.add_argument("prefix", help="path of the files, without -symbol.json")
    convert.add_argument("--backend", default="builtin", choices=("builtin", "custom", "native", "auto"),
                         help="whose operators to write (default: builtin, which needs no gluonops)")
    convert.add_argument("--detections", action="store_true",
                         help="return ids, scores and boxes, instead of what the last layer returns")
    convert.set_defaults(run=_run_convert)
    detect = commands.add_parser(
        "detect", parents=[common, detection], help="a Darknet detector on an image",
        description="Print what a Darknet detector finds in an image, and draw it.")
    detect.add_argument("image", help="the image")
    detect.add_argument("--cfg", required=True, help="Darknet's .cfg")
    detect.add_argument("--weights", required=True, help="its .weights")
    detect.add_argument("-o", "--output", required=True, help="the image to draw into")
    detect.add_argument("--names", help="text file with the classes' names, one in a line")
    detect.set_defaults(run=_run_detect)
    anchors = commands.add_parser(
        "anchors", parents=[common], help="anchors for a data set, by k-means on 1 - IoU",
        description="Print anchors for a data set as Darknet's cfg files have them: widths and heights in grid cells.")
    anchors.add_argument("--dataset", choices=("digits", "voc", "coco", "yolo", "rec"), default="digits",
                         help="its kind (default: digits)")
    anchors.add_argument("--root", help="its folder; not for digits")
    anchors.add_argument("--split", choices=("train", "val"), default="train", help="whose boxes (default: train)")
    anchors.add_argument("--classes", help="file with a class's name per line, where the data set does not have them")
    anchors.add_argument("-k", type=int, default=5, help="number of anchors (default: 5)")
    anchors.add_argument("--input", type=int, default=416, help="width and height of the net's input (default: 416)")
    anchors.add_argument("--stride", type=int, default=32, help="pixels per grid cell (default: 32)")
    anchors.add_argument("--seed", type=int, default=0, help="of the first centres (default: 0)")
    anchors.add_argument("-o", "--output", metavar="FILE", help="plot boxes and anchors: .png, .svg or .pdf")
    anchors.set_defaults(run=_run_anchors)
    _add_export(commands, common)
    viz = commands.add_parser(
        "viz", parents=[common], help="a picture of an exported net, with shapes on its edges",
        description="Draw an exported net: a box for each layer, shapes on the edges, operators of gluonops marked.")
    viz.add_argument("source", metavar="IN", help="the exported net, without -symbol.json")
    viz.add_argument("-o", "--output", required=True, metavar="FILE", help="the picture: .svg, .png or .pdf")
    viz.add_argument("--data-shape", type=_sizes, metavar="1,3,416,416",
                     help="shape of the input, where the file does not note it")
    viz.set_defaults(run=_run_viz)
    return parser


def _add_export(commands, common):
    export = commands.add_parser(
        "export", parents=[common], help="exported files for another backend, with folded batch norm, or as ONNX",
        description="Rewrite exported files without the source code of the net. IN and OUT are paths without "
        "-symbol.json: IN stands for IN-symbol.json and IN-0000.params.", epilog=EXPORT_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    export.add_argument("source", metavar="IN", help="the exported net")
    export.add_argument("target", metavar="OUT", nargs="?", help="the files to write; may be IN; not needed for --onnx")
    export.add_argument("--backend", default="builtin", choices=("builtin", "custom", "native", "auto"),
                        help="what operators of gluonops become (default: builtin, which needs no gluonops)")
    export.add_argument("--fold-batch-norm", action="store_true", help="fold batch norms, where they can be")
    export.add_argument("--inference", action="store_true", help="take out losses and labels")
    export.add_argument("--epoch", type=int, metavar="N", help="number of the parameter file (default: the highest)")
    export.add_argument("--onnx", metavar="FILE", help="write an ONNX file")
    export.add_argument("--data-shape", type=_sizes, metavar="1,3,416,416",
                        help="for --onnx: shape of the input, where the file does not note it")
    export.add_argument("--fixed-batch", action="store_true", help="for --onnx: take that batch size only")
    export.set_defaults(run=_run_export, parser=export)


def _sizes(text):
    """argparse's type for a shape."""
    try:
        shape = tuple(int(part) for part in text.strip("()").split(",") if part.strip())
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1:
        raise argparse.ArgumentTypeError(f"got {text!r}; expected sizes of at least 1, such as 1,3,416,416")
    return shape


def _doctor():
    """doctor.py, loaded as a file, since the package may not import."""
    spec = importlib.util.spec_from_file_location("gluonops_doctor", HERE / "doctor.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _run_doctor(args):
    doctor = _doctor()
    found = doctor.examine()
    print(json.dumps(found, indent=2) if args.json else doctor.render(found))
    return 0 if found["ok"] else 1


def _run_ops(args):
    from gluonops.core import registry, table
    names = [registry.get(args.name).op.name] if args.name else None
    if args.json:
        print(json.dumps(table.rows(names), indent=2))
    else:
        print(table.terminal(shutil.get_terminal_size().columns, names))
    return 0


def _run_convert(args):
    from gluonops.commands import convert
    return convert.run(args)


def _run_detect(args):
    from gluonops.commands import detect
    return detect.run(args)


def _run_anchors(args):
    from gluonops.commands import anchors
    return anchors.run(args)


def _run_export(args):
    if args.target is None and args.onnx is None:
        args.parser.error("nothing to write: give OUT, --onnx FILE, or both")
    if args.onnx is None and (args.data_shape or args.fixed_batch):
        args.parser.error("--data-shape and --fixed-batch go with --onnx")
    from gluonops.commands import export
    return export.run(args)


def _run_viz(args):
    from gluonops.commands import viz
    return viz.run(args)


if __name__ == "__main__":
    sys.exit(main())
