"""box_nms in ONNX: the same rows as MXNet's, in the same order, -1 behind them."""
import gluonops  # noqa: F401  (first: it makes mxnet importable)
import mxnet as mx
import numpy as np
import onnx_oracle
import pytest
from mxnet import gluon


class Suppress(gluon.HybridBlock):
    def __init__(self, **options):
        super().__init__()
        self.options = options

    def hybrid_forward(self, F, data):
        return F.contrib.box_nms(data, **self.options)


def boxes(rng, shape, classes=3, spread=20.0, centre=False, first=2, score=1, identity=0):
    """Random boxes that overlap often, a third of them with a score too low to count."""
    data = rng.uniform(0, 1, shape).astype(np.float32)
    data[..., identity] = rng.randint(0, classes, shape[:-1])
    scores = rng.permutation(int(np.prod(shape[:-1]))).reshape(shape[:-1]) / np.prod(shape[:-1])
    data[..., score] = scores - 0.3
    corner, side = rng.uniform(0, spread, (*shape[:-1], 2)), rng.uniform(3, 12, (*shape[:-1], 2))
    data[..., first:first + 2] = corner
    data[..., first + 2:first + 4] = side if centre else corner + side
    return data


@pytest.mark.parametrize("options", [
    {"id_index": 0},
    {"id_index": 0, "force_suppress": True},
    {"overlap_thresh": 0.2, "valid_thresh": 0.1},
    {"id_index": 0, "topk": 10, "valid_thresh": 0.01},
    {"topk": 7, "overlap_thresh": 0.9},
    {"topk": 1000},
    {"id_index": 0, "background_id": 1},
    {"valid_thresh": 2},
    {"valid_thresh": -1},
], ids=lambda options: ",".join(f"{k}={v}" for k, v in options.items()))
@pytest.mark.parametrize("columns", [6, 8])
def test_rows_are_mxnets(options, columns, tmp_path, rng):
    model = onnx_oracle.agree(Suppress(**options), tmp_path / "nms.onnx", {"data": ((40, columns), boxes)},
                              batches=(2, 1, 4), rng=rng)
    assert "NonMaxSuppression" in [node.op_type for node in model.graph.node]


def test_centres(tmp_path, rng):
    onnx_oracle.agree(Suppress(in_format="center", out_format="center", id_index=0), tmp_path / "nms.onnx",
                      {"data": ((30, 6), lambda rng, shape: boxes(rng, shape, centre=True))}, rng=rng)


def test_other_columns(tmp_path, rng):
    """gluoncv's order for a single class is the score, then the box."""
    def make(rng, shape):
        return boxes(rng, shape, first=1, score=0, identity=5)

    onnx_oracle.agree(Suppress(coord_start=1, score_index=0, id_index=5), tmp_path / "nms.onnx",
                      {"data": ((30, 6), make)}, rng=rng)


def test_without_a_batch(tmp_path, rng):
    onnx_oracle.agree(Suppress(id_index=0), tmp_path / "nms.onnx", {"data": ((6,), boxes)}, batches=(25,), rng=rng)


def test_formats_are_not_changed(tmp_path):
    with pytest.raises(gluonops.OpError, match=r"\(_contrib_box_nms\) .* has in_format center and out_format corner"):
        gluonops.export.onnx(Suppress(in_format="center"), tmp_path / "nms.onnx", (1, 5, 6))


class Decode(gluon.HybridBlock):
    def __init__(self, **options):
        super().__init__()
        self.options = options
        self.anchors = self.params.get_constant("anchors", boxes(np.random.RandomState(2), (1, 9, 6))[..., 2:] / 20)

    def hybrid_forward(self, F, data, anchors):
        return F.contrib.box_decode(data, anchors, 0.1, 0.2, 0.3, 0.4, **self.options)


@pytest.mark.parametrize("options", [{"format": "corner"}, {"format": "center"}, {"format": "corner", "clip": 0.2}],
                         ids=str)
def test_decoding(options, tmp_path, rng):
    net = Decode(**options)
    net.initialize()
    onnx_oracle.agree(net, tmp_path / "decode.onnx", {"data": (9, 4)}, rng=rng)


class Detector(gluon.HybridBlock):
    """A YOLOv2-like head: a grid, anchors as constants, scores per class, and box_nms behind it all."""

    def __init__(self, classes=3, anchors=((1.0, 2.0), (2.0, 1.5)), side=4):
        super().__init__()
        self.count = classes
        with self.name_scope():
            self.body = gluon.nn.HybridSequential()
            self.body.add(gluon.nn.Conv2D(8, 3, padding=1), gluon.nn.BatchNorm(), gluon.nn.LeakyReLU(0.1),
                          gluonops.nn.Reorg(2), gluon.nn.Conv2D(len(anchors) * (5 + classes), 1))
            self.anchors = self.params.get_constant("anchors", np.array(anchors).reshape(1, 1, -1, 2))
            grid = np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1).reshape(1, -1, 1, 2)
            self.offsets = self.params.get_constant("offsets", grid)

    def hybrid_forward(self, F, data, anchors, offsets):
        raw = F.transpose(F.reshape(self.body(data), (0, 0, -1)), (0, 2, 1))
        raw = F.reshape(raw, (0, 0, -4, -1, 5 + self.count))
        centres = F.broadcast_add(F.sigmoid(F.slice_axis(raw, axis=-1, begin=0, end=2)), F.BlockGrad(offsets))
        halves = F.broadcast_mul(F.exp(F.slice_axis(raw, axis=-1, begin=2, end=4)), F.BlockGrad(anchors)) / 2
        corners = F.concat(centres - halves, centres + halves, dim=-1) * 8
        scores = F.broadcast_mul(F.softmax(F.slice_axis(raw, axis=-1, begin=5, end=None)),
                                 F.sigmoid(F.slice_axis(raw, axis=-1, begin=4, end=5)))
        scores = F.expand_dims(F.reshape(F.transpose(scores, (0, 3, 1, 2)), (0, 0, -1)), axis=-1)
        ids = F.broadcast_add(F.zeros_like(scores), F.reshape(F.contrib.arange_like(scores, axis=1), (1, -1, 1, 1)))
        tiled = F.broadcast_axis(F.expand_dims(F.reshape(corners, (0, -1, 4)), axis=1), axis=1, size=self.count)
        rows = F.reshape(F.concat(ids, scores, tiled, dim=-1), (0, -3, 0))
        rows = F.contrib.box_nms(rows, overlap_thresh=0.2, valid_thresh=0.5, topk=40, id_index=0)
        rows = F.slice_axis(rows, axis=1, begin=0, end=30)
        return (F.slice_axis(rows, axis=-1, begin=0, end=1), F.slice_axis(rows, axis=-1, begin=1, end=2),
                F.slice_axis(rows, axis=-1, begin=2, end=6))


def test_a_detector(tmp_path, rng):
    net = Detector()
    net.initialize(mx.init.Normal(0.5))
    model = onnx_oracle.agree(net, tmp_path / "detector.onnx", {"data": (3, 8, 8)}, rng=rng)
    assert len(model.graph.output) == 3
    assert [d.dim_param or d.dim_value for d in model.graph.output[0].type.tensor_type.shape.dim] == ["batch", 30, 1]
    ids = net(mx.nd.array(rng.uniform(-2, 2, (2, 3, 8, 8))))[0].asnumpy()
    assert (ids >= 0).any() and (ids == -1).any(), "the test should see boxes that stay and boxes that go"
