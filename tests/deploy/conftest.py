"""Small nets for images, trained by nobody, and pictures for them."""
import gluonops as gops
import mxnet as mx
import pytest
from PIL import Image


class Means(mx.gluon.HybridBlock):
    """A classifier whose logits are the means of the channels."""

    def __init__(self, classes, preprocessing, **kwargs):
        super().__init__(**kwargs)
        self.classes, self.preprocessing = classes, preprocessing

    def hybrid_forward(self, F, data):
        return F.mean(data, axis=(2, 3))


class Boxes(mx.gluon.HybridBlock):
    """A detector whose boxes are constants, for one image."""

    classes = ["cat", "dog"]
    preprocessing = {"resize": "letterbox"}
    rows = [[0, 0.9, 10, 0, 40, 12], [1, 0.8, 10, 4, 40, 40], [0, 0.1, 20, 20, 30, 30], [-1] * 6]

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.threshold = 0.05
        with self.name_scope():
            self.found = self.params.get("found", shape=(1, 4, 6), grad_req="null")

    def hybrid_forward(self, F, data, found):
        zero = F.reshape(F.mean(data, axis=(1, 2, 3)), (-1, 1, 1)) * 0   # it has the size of the batch
        rows = F.broadcast_add(zero, found)
        return tuple(F.slice_axis(rows, axis=2, begin=a, end=b) for a, b in ((0, 1), (1, 2), (2, 6)))


@pytest.fixture
def detector():
    """A net that finds a box in the border of a letterbox, one that reaches into it, and a doubtful one."""
    net = Boxes()
    net.initialize()
    net.found.set_data(mx.nd.array([net.rows]))
    return net


@pytest.fixture
def means():
    """A function: a classifier of an image's mean colour, with a preprocessing."""
    def make(classes=("red", "green", "blue"), **preprocessing):
        net = Means(list(classes), preprocessing)
        net.initialize()
        return net

    return make


@pytest.fixture
def export(tmp_path):
    """A function that exports a net as symbol JSON or ONNX, and returns what ``load`` takes."""
    def save(net, form, shape, **options):
        if form == "onnx":
            pytest.importorskip("onnxruntime")   # it has no wheel for Python 3.15 yet
            return gops.export.onnx(net, tmp_path / "net.onnx", shape, **options)
        gops.export.symbol(net, tmp_path / "net", shape, **options)
        return str(tmp_path / "net")

    return save


@pytest.fixture
def picture(tmp_path, rng):
    """A function: a picture of this width and height in a file, and its pixels."""
    def make(width, height, name="street.png"):
        pixels = rng.randint(0, 256, (height, width, 3)).astype("uint8")
        Image.fromarray(pixels).save(tmp_path / name)
        return str(tmp_path / name), pixels

    return make
