"""Twelve files of public repositories, from MXNet 0.8 to 1.5: read, repaired, folded and padded, with MXNet's numbers.

``tests/golden/README.md`` says where they come from.
"""
import pathlib
import tarfile

import files_of_others as others
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest

LEGACY = pathlib.Path(__file__).resolve().parents[1] / "golden" / "legacy"
# The shapes of the inputs; smaller images than the nets were made for where that is possible.
FILES = {
    "save000800": {"data": (4, 20), "softmax_label": (4,)}, "gotest": {"data": (10, 1), "softmax_label": (10,)},
    "det1": {"data": (2, 3, 24, 24)},
    "densenet169": {"data": (2, 3, 224, 224), "softmax_label": (2,)}, "squeezenet11": {"data": (2, 3, 48, 48)},
    "mobilefacenet": {"data": (2, 3, 112, 112)}, "mnet25": {"data": (2, 3, 64, 96)},
    "resnet18": {"data": (2, 3, 32, 32), "softmax_label": (2,)},
    "sagemaker_ssd": {"data": (2, 3, 300, 300), "label": (2, 3, 5)}, "myssd": {"data": (2, 3, 256, 256)},
    "vgg16red": {"data": (1, 3, 64, 64), "prob_label": (1, 1000, 2)}, "resnet152": {"data": (2, 3, 64, 64)},
}
LARGE = ("densenet169", "myssd", "resnet152", "sagemaker_ssd", "vgg16red")


def text_of(name):
    path = LEGACY / f"{name}-symbol.json"
    if path.is_file():
        return path.read_text()
    with tarfile.open(LEGACY / "others.tar.xz") as archive:
        return archive.extractfile(f"./{path.name}").read().decode()


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.slow] * (name in LARGE)) for name in FILES])
def legacy(request, tmp_path, rng):
    """(prefix, the symbol as MXNet reads it, its arrays, the shapes of its inputs)."""
    text, shapes = text_of(request.param), FILES[request.param]
    symbol = mx.sym.load_json(text)
    inferred = dict(zip(symbol.list_arguments(), symbol.infer_shape_partial(**shapes)[0]))
    shapes = {name: inferred[name] or shapes[name] for name in shapes}
    arrays = others.arrays_of(symbol, shapes, rng)
    others.save(tmp_path / "net", text, arrays, symbol.list_auxiliary_states(), shapes)
    return tmp_path / "net", symbol, arrays, shapes


@pytest.mark.filterwarnings("ignore:the net is exported for inference")
def test_repaired(legacy):
    """The bits agree in an executor, and the numbers in Module and Gluon, and after folding and padding."""
    prefix, symbol, arrays, shapes = legacy
    expected = others.outputs_of(symbol, arrays)
    out = prefix.parent / "out"
    graph, parameters = gops.export.rewrite(prefix, out)
    written = mx.nd.load(parameters)
    for name, value in mx.nd.load(f"{prefix}-0000.params").items():
        np.testing.assert_array_equal(written[name].asnumpy(), value.asnumpy())
    for found, other in zip(others.outputs_of(mx.sym.load(graph), arrays), expected):
        np.testing.assert_array_equal(found, other)
    others.close(others.in_module(out, arrays, shapes), expected, 1e-4)
    others.close(others.in_gluon(out, arrays, shapes), expected, 1e-4)
    small = prefix.parent / "folded"
    gops.export.rewrite(prefix, small, inference=True, fold_batch_norm=True, pad_channels=True)
    folded = mx.sym.load(f"{small}-symbol.json")
    kept = [output for name, output in zip(symbol.list_outputs(), expected) if name in folded.list_outputs()]
    assert len(kept) == len(folded.list_outputs()) >= 1
    for run in (others.in_module, others.in_gluon):
        others.close(run(small, arrays, shapes), kept, 1e-3)


@pytest.mark.filterwarnings("ignore:the net is exported for inference")
def test_onnx(legacy):
    """onnxruntime agrees, for the batch of the shapes at least."""
    pytest.importorskip("onnxruntime")   # it has no wheel for Python 3.15 yet
    prefix, symbol, _, shapes = legacy
    images = {name: shape for name, shape in shapes.items() if not name.endswith("label")}
    gops.export.onnx(prefix, prefix.parent / "net.onnx", images)
    found = gops.export.compare(prefix, prefix.parent / "net.onnx", images)
    assert found and {one.output for one in found[-1:]} <= set(symbol.list_outputs())
