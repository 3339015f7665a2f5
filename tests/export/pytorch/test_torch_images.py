"""preprocess, detect and classify of net.py: what gluonops itself finds in a picture."""
import importlib.util
import pathlib

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from mxnet.gluon import nn

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
SIZE = 32, 24   # the input's width and height
PREPARED = {
    "letterbox": {"resize": "letterbox"},
    "stretch": {"resize": "stretch", "colours": "BGR", "range": (0, 255), "mean": (103.5, 116.25, 123.7)},
    "grey": {"colours": "grey", "range": (-1, 1), "std": (0.5,)},
    "crop": {"resize": "crop", "mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)},
}


class Detector(nn.HybridBlock):
    """Boxes around each cell of 8 x 8 pixels."""

    classes = ("cat", "a 'big' dog")
    threshold = 0.3

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.conv = nn.Conv2D(6, 8, 8)

    def hybrid_forward(self, F, x):
        rows = F.reshape(F.transpose(self.conv(x), (0, 2, 3, 1)), (0, -1, 6))
        scores = F.sigmoid(F.slice_axis(rows, axis=2, begin=0, end=1))
        kept = scores > self.threshold
        ids = F.where(kept, F.slice_axis(rows, axis=2, begin=1, end=2) > 0, -F.ones_like(scores))
        middle = F.sigmoid(F.slice_axis(rows, axis=2, begin=2, end=4)) * 30
        half = F.sigmoid(F.slice_axis(rows, axis=2, begin=4, end=6)) * 8
        return ids, scores, F.concat(middle - half, middle + half, dim=2)


def export(net, folder, preprocessing):
    mx.random.seed(1)
    net.initialize(mx.init.Normal(0.001 if preprocessing.get("range") == (0, 255) else 0.1))
    net.preprocessing = preprocessing
    shape = 1, 1 if preprocessing.get("colours") == "grey" else 3, *SIZE[::-1]
    gops.export.symbol(net, folder / "net", shape)
    gops.export.torch(folder / "net", folder / "port")
    spec = importlib.util.spec_from_file_location("port", folder / "port" / "net.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return gops.export.load(folder / "net"), module


def picture(rows, columns):
    return np.random.RandomState(0).randint(0, 256, (rows, columns, 3)).astype(np.uint8)


@pytest.mark.parametrize("name", ["letterbox", "stretch", "grey"])
@pytest.mark.parametrize("shape", [(50, 40), (24, 90), (7, 5)])
def test_detections_are_those_of_gluonops(name, shape, tmp_path):
    theirs, ours = export(Detector(), tmp_path, PREPARED[name])
    pixels = picture(*shape)
    tensor = torch.from_numpy(pixels).permute(2, 0, 1)
    np.testing.assert_allclose(ours.preprocess(tensor)[0].numpy(), theirs.preprocessing(pixels, SIZE), atol=1e-6,
                               rtol=1e-6)
    expected, found = theirs.detect(pixels), ours.detect(ours.load(), tensor)
    assert len(found) == len(expected) > 2 and {name for name, _, _ in found} <= set(Detector.classes)
    assert [name for name, _, _ in found] == [each.name for each in expected]
    np.testing.assert_allclose([[score, *box] for _, score, box in found],
                               [[each.score, *each.box] for each in expected], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("ends_in_softmax", [False, True])
@pytest.mark.parametrize("name", PREPARED)
def test_classes_are_those_of_gluonops(name, ends_in_softmax, tmp_path):
    net = nn.HybridSequential()
    net.add(nn.Dense(4))
    if ends_in_softmax:
        net.add(nn.HybridLambda("softmax"))
    net.classes = ["one", "two", "three", "four"]
    theirs, ours = export(net, tmp_path, PREPARED[name])
    pixels = picture(50, 40)
    found = ours.classify(ours.load(), torch.from_numpy(pixels).permute(2, 0, 1), top=3)
    expected = theirs.classify(pixels, top=3)
    assert [name for name, _ in found] == [each.name for each in expected]
    np.testing.assert_allclose([score for _, score in found], [each.score for each in expected], rtol=1e-4, atol=1e-6)
    with pytest.raises(TypeError, match="the image is of torch.float32; expected torch.uint8"):
        ours.preprocess(torch.rand(3, 50, 40))   # it has been divided by 255


def test_names_with_any_characters(tmp_path):
    net = nn.HybridSequential()
    net.add(nn.HybridLambda(lambda F, x: F.LRN(x, nsize=3, alpha=0.1)), nn.Dense(4))
    net.classes = ["single(bed)", "a 'b' \"c\"", "two\nlines\\n", " é\0"]
    _, ours = export(net, tmp_path, PREPARED["letterbox"])
    assert net.classes == ours.CLASSES


def test_many_names_are_wrapped(tmp_path):
    net = nn.HybridSequential()
    net.add(nn.Dense(100))
    net.classes = [f"the class number {number}" for number in range(100)]
    _, ours = export(net, tmp_path, PREPARED["letterbox"])
    assert net.classes == ours.CLASSES
    assert max(map(len, pathlib.Path(tmp_path / "port" / "net.py").read_text().splitlines())) <= 100
