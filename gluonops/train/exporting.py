"""Exports a trained net and checks the files, says how to run them, and loads nets to evaluate or to cut them.

A graph that is cut below its last layer can be given a new one, and be trained with ``Module.fit``.
"""
from __future__ import annotations

import collections
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

import mxnet as mx
import numpy as np

from .. import export
from ..contract.errors import OpError
from ..darknet import read_training
from ..export.operators.rule_registry import traits_named
from ..export.symbol_files import load as load_files
from ..io.optional import require
from ..io.params import as_numpy
from ..runtime import numpy_view
from .run_files import write

__all__ = ["Comparison", "DETECTIONS", "OUTPUTS", "cut_symbol", "export_and_check", "fits", "how_to_run",
           "keep_statistics", "load_module", "load_net", "save_example"]

WHERE = "train.export_and_check"
REMEDY = "Do not use it, and please report this; best.params is sound"
WITHOUT_GLUONOPS = """
import runpy
import sys
import numpy
numpy_view, prefix, images, outputs = sys.argv[1:]
runpy.run_path(numpy_view)["install"]()
import mxnet as mx
net = mx.gluon.SymbolBlock.imports(f"{prefix}-symbol.json", ["data"], f"{prefix}-0000.params")
results = net(mx.nd.array(numpy.load(images)))
results = results if isinstance(results, (list, tuple)) else [results]
numpy.savez(outputs, *(array.asnumpy() for array in results))
assert "gluonops" not in sys.modules
"""
SNIPPETS = {
    "detect": """\
import gluonops as gops
detector = gops.export.load({prefix})
detector.draw({image}).save("found.png")
for found in detector.detect({image}):
    print(found.name, round(found.score, 2), found.box)
""",
    "classify": """\
import gluonops as gops
classifier = gops.export.load({prefix})
classifier.draw({image}).save("classes.png")
for guess in classifier.classify({image}, top=3):
    print(guess.name, round(guess.score, 2))
"""}
PICTURES = {"detect": "found.png", "classify": "classes.png"}
Arrays = Mapping[str, mx.nd.NDArray]


def _outputs(results, expected):
    """The largest difference of two outputs. If their largest number is above 1, it is relative to that number."""
    if [one.shape for one in results] != [other.shape for other in expected]:
        return np.inf
    return float(np.max([np.abs(one - other).max() / max(1, np.abs(other).max())
                         for one, other in zip(results, expected)]))


def _detections(results, expected):
    """How far two lists of detections are apart.

    Detections of the two lists are paired, because detections of equal score may change their order, and one that is
    close to a threshold may be missing. The result is the largest difference within a pair, or the share of all scores
    that belongs to detections without a pair, whichever is larger.
    """
    differences, unmatched, total = [0.0], 0.0, 0.0
    for image, other in zip(zip(*results), zip(*expected)):
        (ids, scores, boxes), (other_ids, other_scores, other_boxes) = _real(image), _real(other)
        distance = _distances(boxes, other_boxes)
        distance = np.maximum(distance, np.abs(scores[:, None] - other_scores))
        distance[(ids[:, None] != other_ids) | np.isnan(distance)] = np.inf
        left, other_left = np.ones(len(ids), bool), np.ones(len(other_ids), bool)
        while distance.size and distance.min() <= PAIRED:
            i, k = np.unravel_index(distance.argmin(), distance.shape)
            differences.append(float(distance[i, k]))
            distance[i], distance[:, k], left[i], other_left[k] = np.inf, np.inf, False, False
        unmatched += float(scores[left].sum() + other_scores[other_left].sum())
        total += float(scores.sum() + other_scores.sum())
    return float(np.max([*differences, unmatched / total if total else 0.0]))


def _real(image):
    """The detections of an image without the empty rows: ids (N,), scores (N,) and boxes (N, 4)."""
    ids, scores, boxes = image
    real = ids[:, 0] >= 0
    return ids[real, 0], scores[real, 0], boxes[real].astype("float64")


def _distances(boxes, others):
    """The largest difference of the sides of each pair of boxes, (N, M), as a share of the second box's longer side.

    A side below one pixel counts as one pixel.
    """
    with np.errstate(invalid="ignore"):   # a box may be infinite
        size = (others[:, 2:] - others[:, :2]).max(1, initial=1)
        apart = np.where(boxes[:, None] == others, 0, np.abs(boxes[:, None] - others))
        return apart.max(2, initial=0) / size


class Comparison(collections.namedtuple("Comparison", "difference tolerance")):
    """How outputs are compared: a function that measures two lists of arrays, and the tolerance."""


PAIRED = 1e-3   # how far a detection's counterpart may be, in score and in shares of its box's size
OUTPUTS, DETECTIONS = Comparison(_outputs, 1e-4), Comparison(_detections, 1e-2)


def export_and_check(net: mx.gluon.HybridBlock, prefix: str | os.PathLike, images: np.ndarray,
                     comparison: Comparison = OUTPUTS) -> dict[str, float]:
    """Write ``prefix-symbol.json`` and ``prefix-0000.params``, and compare their outputs for ``images`` with the net's.

    The files are run on the CPU. The net is moved to the CPU as well, because a GPU rounds differently.

    Parameters
    ----------
    net : gluon.HybridBlock
        The net, initialized.
    prefix : str or os.PathLike
        Path of the files, without ``-symbol.json``.
    images : numpy.ndarray
        (B, C, H, W).
    comparison : Comparison, default OUTPUTS
        ``OUTPUTS`` compares numbers, ``DETECTIONS`` compares what a detector finds.

    Returns
    -------
    dict of str to float
        The largest difference in ``Module``, as ``module``, and in a process without gluonops, as ``without_gluonops``.

    Raises
    ------
    OpError
        The files do not run, or compute something else.
    """
    net.collect_params().reset_ctx(mx.cpu())
    export.symbol(net, prefix, images.shape)
    expected = net(mx.nd.array(images))
    expected = [array.asnumpy() for array in (expected if isinstance(expected, (list, tuple)) else [expected])]
    differences = {}
    for name, run in (("module", _module), ("without_gluonops", _fresh_process)):
        words = name.replace("_", " ")
        try:
            differences[name] = comparison.difference(run(prefix, images), expected)
        except RuntimeError as error:   # MXNetError is one
            raise OpError(WHERE, f"{prefix}-symbol.json does not run, {words}: {str(error).splitlines()[-1]}",
                          REMEDY) from error
        if not differences[name] <= comparison.tolerance:   # NaN counts as well
            raise OpError(WHERE, f"{prefix}-symbol.json computes other results than the net, {words}: it differs by "
                          f"{differences[name]:.1e}; expected at most {comparison.tolerance:g}", REMEDY)
    return differences


def _module(prefix, images):
    module = mx.mod.Module.load(str(prefix), 0, label_names=None)
    module.bind([("data", images.shape)], for_training=False)
    module.forward(mx.io.DataBatch([mx.nd.array(images)]), is_train=False)
    return [output.asnumpy() for output in module.get_outputs()]


def _fresh_process(prefix, images):
    with tempfile.TemporaryDirectory() as folder:
        inputs, result = (str(pathlib.Path(folder, name)) for name in ("images.npy", "outputs.npz"))
        np.save(inputs, images)
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", WITHOUT_GLUONOPS, numpy_view.__file__, str(prefix),
                               inputs, result], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip() or f"it ended with status {done.returncode}")
        with np.load(result) as outputs:
            return [outputs[f"arr_{i}"] for i in range(len(outputs.files))]


def load_net(path: str | os.PathLike, weights: str | os.PathLike | None = None,
             names: str | Sequence[str] | None = None, threshold: float = 0.01,
             device: mx.Context | None = None) -> export.LoadedDetector | export.LoadedClassifier:
    """Load a net from exported files, or from a Darknet cfg and its weights, as :func:`gluonops.export.load` does.

    An OpError is raised if a file cannot be read, or a detector takes other images than letterboxed RGB from 0 to 1,
    which :func:`evaluate_detector` prepares.

    Parameters
    ----------
    path, weights, names, device
        As :func:`gluonops.export.load` takes them. A detector gets letterboxed images. This holds even if its cfg is
        for AlexeyAB's Darknet, which stretches images.
    threshold : float, default 0.01
        Least probability of a detection. It has no effect on an exported detector, which has its own threshold.
    """
    path = os.fspath(path)
    options = {}
    if path.endswith(".cfg") and read_training(path).task == "detection":
        options = {"threshold": threshold, "resize": "letterbox"}
    net = export.load(path, weights, names, device=device, **options)
    expected = export.Preprocessing()
    if isinstance(net, export.LoadedDetector) and net.preprocessing != expected:
        raise OpError("train.load_net", f"{path} takes images prepared as {net.preprocessing.as_dict()}; expected "
                      f"{expected.as_dict()}", "Run it with gluonops.export.load")
    return net


def how_to_run(command: str, prefix: str | os.PathLike, image: str | os.PathLike) -> str:
    """A command and five lines of Python that run an exported net on a picture.

    Parameters
    ----------
    command : {"detect", "classify"}
        The command of ``gluonops`` that runs the net.
    prefix : str or os.PathLike
        Path of the exported files, without ``-symbol.json``.
    image : str or os.PathLike
        A picture: see :func:`save_example`.
    """
    prefix, image = os.fspath(prefix), os.fspath(image)
    quoted = {"prefix": json.dumps(prefix), "image": json.dumps(image)}
    words = shlex.join([*program(), command, prefix, image, "-o", PICTURES[command]])
    return (f"Run the net on a picture, such as {image}:\n\n{words}\n\nThe same in Python:\n\n"
            + SNIPPETS[command].format(**quoted))


def save_example(image: np.ndarray | mx.nd.NDArray, folder: str | os.PathLike) -> pathlib.Path:
    """Write an image as ``example.png``, to try the net on it.

    Parameters
    ----------
    image : numpy.ndarray or NDArray
        uint8: (H, W, 3) in RGB, (H, W, 1) or (H, W) in grey.
    folder : str or os.PathLike
        Folder of the picture.

    Returns
    -------
    pathlib.Path
        Path of the picture.
    """
    path = pathlib.Path(folder) / "example.png"
    pixels = as_numpy(image)
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    picture = require("PIL.Image", "train.save_example").fromarray(pixels)
    write(path, lambda name: picture.save(name, format="png"), "train.save_example")
    return path


def program() -> list[str]:
    """The words that start the command ``gluonops`` here. Its folder may not be on the PATH."""
    if shutil.which("gluonops"):
        return ["gluonops"]
    python = os.path.relpath(sys.executable)
    return [sys.executable if python.startswith(os.pardir) else python, "-m", "gluonops"]


def load_module(prefix: str | os.PathLike, epoch: int = 0) -> tuple[mx.sym.Symbol, Arrays, Arrays]:
    """(symbol, arguments, auxiliary states) of an exported net.

    Parameters
    ----------
    prefix : str or os.PathLike
        Path of the files, without ``-symbol.json``.
    epoch : int, default 0
        Number of the file with the parameters.

    Raises
    ------
    OpError
        A file is missing or damaged.
    """
    graph, values, _ = load_files("train.load_module", os.fspath(prefix), epoch)
    symbol = graph.symbol()
    arguments, states = ({name: values[name] for name in names if name in values}
                         for names in (symbol.list_arguments(), symbol.list_auxiliary_states()))
    return symbol, arguments, states


def cut_symbol(symbol: mx.sym.Symbol, layer: str | None = None) -> mx.sym.Symbol:
    """Cut a graph at an inner output.

    Parameters
    ----------
    symbol : mxnet.sym.Symbol
        The graph.
    layer : str, optional
        Name of the output. By default it is the input of the last fully connected layer.

    Raises
    ------
    OpError
        There is no such output, or no fully connected layer.
    """
    where, internals = "train.cut_symbol", symbol.get_internals()
    if layer is None:
        dense = [node for node in json.loads(symbol.tojson())["nodes"] if node["op"] == "FullyConnected"]
        if not dense:
            raise OpError(where, "the net has no fully connected layer to replace", "Name the output to cut the net at")
        return internals[f"{dense[-1]['name']}_output"].get_children()[0]
    inputs = set(symbol.list_inputs())
    inner = [name for name in internals.list_outputs() if name not in inputs]
    if layer not in inner:
        raise OpError(where, f"the net has no output {layer}; expected one of {', '.join(inner)}",
                      "Pass one of these names")
    return internals[layer]


def keep_statistics(symbol: mx.sym.Symbol) -> mx.sym.Symbol:
    """The graph with batch norms that use their running statistics and do not change them.

    Frozen layers must not change, and Module's ``fixed_param_names`` does not cover running statistics.
    """
    graph = json.loads(symbol.tojson())
    for node in graph["nodes"]:
        if traits_named(node["op"]).uses_statistics:
            node.setdefault("attrs", {})["use_global_stats"] = "True"
    return mx.sym.load_json(json.dumps(graph))


def fits(symbol: mx.sym.Symbol, shape: tuple[int, ...], parameters: Arrays) -> bool:
    """Whether parameters have the shapes that an input ``data`` of this shape needs."""
    arguments = set(symbol.list_arguments())
    sizes = {name: value.shape for name, value in parameters.items() if name in arguments}
    try:
        return bool(symbol.infer_shape(data=shape, **sizes)[1])
    except mx.MXNetError:
        return False
