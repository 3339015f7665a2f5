"""The arguments of ``gluonops export`` and ``viz``."""
from __future__ import annotations

import argparse
from collections.abc import Callable

from . import kinds

__all__ = ["QUANTIZE_OPTIONS", "add_export", "add_viz"]

QUANTIZE_OPTIONS = ("method", "percentile", "keep", "layer_limit", "limit", "storage")   # of gluonops.export.quantize


def add_export(add: Callable) -> None:
    export = add("export", "exported files for another backend, in 8 bits, as ONNX or PyTorch",
                 "Rewrite files of any version of MXNet, without the source code of the net. IN and OUT are paths "
                 "without -symbol.json: IN means IN-symbol.json and IN-0000.params. IN may also be one of these "
                 "files, a folder or an archive.")
    export.add_argument("source", metavar="IN", help="the exported net")
    export.add_argument("target", metavar="OUT", nargs="?",
                        help="the files to write; may be IN; not needed for --onnx and --torch")
    export.add_argument("--out", metavar="OUT", help="the same as OUT")
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
    export.add_argument("--torch", metavar="DIR", help="write PyTorch source, weights and a test")
    export.add_argument("--training", action="store_true", help="for --torch: keep losses and labels")
    export.add_argument("--data-shape", type=kinds.named_sizes, action="append", metavar="[NAME=]1,3,416,416",
                        help="shape of the input, if the file does not store it, or another one to export for; "
                        "name it if there are several inputs")
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
    group.add_argument("--limit", type=float, metavar="E", help="write nothing if the result's error is larger")


def _check_export(args: argparse.Namespace) -> None:
    if args.out is not None:
        if args.target is not None:
            args.parser.error("OUT is given twice")
        args.target = args.out
    if args.target is None and args.onnx is None and args.torch is None:
        args.parser.error("nothing to write: give OUT, --onnx FILE, --torch DIR, or several of them")
    _check_int8(args)
    if args.onnx is None and (args.fixed_batch or args.opset is not None):
        args.parser.error("--fixed-batch and --opset go with --onnx")
    if args.training and args.torch is None:
        args.parser.error("--training goes with --torch")
    kinds.name_shapes(args)


def _check_int8(args: argparse.Namespace) -> None:
    given = [name for name in ("calibrate", "preprocessing", *QUANTIZE_OPTIONS) if getattr(args, name) is not None]
    if given and not args.int8:
        args.parser.error(f"--{given[0].replace('_', '-')} goes with --int8")
    if not args.int8:
        return
    if args.torch is not None:
        args.parser.error("--torch does not go with --int8")
    if args.calibrate is None:
        args.parser.error("--int8 needs --calibrate DIR, a folder of images")
    if args.backend != "builtin" or args.pad_channels or args.split_channels or args.fixed_batch:
        args.parser.error("--backend, --pad-channels, --split-channels and --fixed-batch do not go with --int8")


def add_viz(add: Callable) -> None:
    viz = add("viz", "a picture of an exported net, with shapes on its edges",
              "Draw an exported net: a box for each layer, shapes on the edges, operators of gluonops marked.")
    viz.add_argument("source", metavar="IN", help="the exported net, without -symbol.json")
    viz.add_argument("-o", "--output", required=True, metavar="FILE", help="the picture: .svg, .png or .pdf")
    viz.add_argument("--data-shape", type=kinds.named_sizes, action="append", metavar="[NAME=]1,3,416,416",
                     help="shape of the input, if the file does not store it; name it if there are several inputs")
    viz.set_defaults(check=kinds.name_shapes)
