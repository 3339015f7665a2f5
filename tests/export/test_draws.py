"""Inputs that are indices, lengths or boxes are drawn in range, however they reach what reads them."""
import warnings

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.export.draws import PIXELS, UNIT, _beginning, drawn
from gluonops.export.graph import Graph
from gluonops.export.model import ExportedModel
from mxnet.gluon import nn

# mx.nd.array, with today's SciPy
pytestmark = pytest.mark.filterwarnings("ignore:Please import `csr_matrix`")
S = mx.sym
data, x, y = S.var("data"), S.var("x"), S.var("y")


def model_of(symbol, shapes, **values):
    return ExportedModel(Graph.of(symbol),
                         {name: mx.nd.array(value) for name, value in values.items()}, dict(shapes),
                         {"dtype": "float32"})


def embedded(indices):
    return S.Embedding(indices, S.var("w"), input_dim=7, output_dim=3)


# What is read -> the bounds of whole numbers that each input has to have.
CASES = {
    "embedding": (embedded(x), {"x": (2, 5)}, {"x": (0, 6)}),
    "behind concat": (embedded(S.concat(x, y, dim=1)), {"x": (2, 5), "y": (2, 3)}, {"x": (0, 6), "y": (0, 6)}),
    "behind slice": (embedded(S.slice_axis(x, axis=1, begin=1, end=3)), {"x": (2, 5)}, {"x": (0, 6)}),
    "plus 0": (embedded(x + 0), {"x": (2, 5)}, {"x": (0, 6)}),
    "behind reshape": (embedded(S.reshape(x, (-1,))), {"x": (2, 5)}, {"x": (0, 6)}),
    "behind two of them": (embedded(S.stack(x + 0, S.cast(S.transpose(y), "float32"))), {"x": (2, 5), "y": (5, 2)},
                           {"x": (0, 6), "y": (0, 6)}),
    "gather": (S.gather_nd(data, S.stack(x, y)), {"data": (4, 6, 2), "x": (3,), "y": (3,)}, {"x": (0, 3), "y": (0, 3)}),
    "lengths": (S.SequenceLast(data, S.reshape(x, (-1,)), use_sequence_length=True), {"data": (5, 2, 3), "x": (2, 1)},
                {"x": (1, 5)}),
    "two readers": (S.Group([embedded(x), S.one_hot(x, depth=4)]), {"x": (2, 5)}, {"x": (0, 3)}),
    "numbers of images": (S.ROIPooling(data, S.concat(x, y, dim=1), pooled_size=(2, 2), spatial_scale=1.0),
                          {"data": (2, 3, 8, 8), "x": (4, 1), "y": (4, 4)}, {"x": (0, 1)}),
}


@pytest.mark.parametrize("name", CASES)
def test_in_range(name):
    symbol, shapes, bounds = CASES[name]
    found = drawn(model_of(symbol, shapes, w=np.ones((7, 3))), shapes, np.random.RandomState(0))
    assert found.out_of_range is None
    for each, (first, last) in bounds.items():
        values = found.values[each]
        assert values.shape == shapes[each] and (values == np.round(values)).all()
        assert first <= values.min() and values.max() <= last
    others = [values for each, values in found.values.items() if each not in bounds and each == "data"]
    assert all((values != np.round(values)).any() for values in others)


def test_smaller_numbers_where_a_sum_would_be_out_of_range():
    symbol = embedded(x + y)
    found = drawn(model_of(symbol, {}, w=np.ones((7, 3))), {"x": (2, 50), "y": (2, 50)}, np.random.RandomState(0))
    assert found.out_of_range is None and (found.values["x"] + found.values["y"]).max() < 7


def test_no_numbers_in_range():
    found = drawn(model_of(embedded(x - 9), {}, w=np.ones((7, 3))), {"x": (2, 5)}, np.random.RandomState(0))
    assert found.out_of_range.op == "Embedding"


@pytest.mark.parametrize("symbol, expected", [
    ((data - 127.5) * 0.0078125, PIXELS), (data / 255, PIXELS), (S.transpose(data, (0, 3, 1, 2)) * (1 / 255), PIXELS),
    ((data - 0.485) / 0.229, UNIT), (data * 2, None), (S.sin(data), None),
    (S.broadcast_div(S.broadcast_sub(data, S.var("mean")), S.var("std")), PIXELS),
    (S.BatchNorm(data, name="bn"), PIXELS)])
def test_what_a_net_begins_with(symbol, expected):
    values = {"mean": np.full((1, 3, 1, 1), 123.0), "std": np.full((1, 3, 1, 1), 58.0), "bn_gamma": np.ones(3),
              "bn_beta": np.ones(3), "bn_moving_mean": np.full(3, 120.0), "bn_moving_var": np.full(3, 3600.0)}
    layer = S.Convolution(symbol, kernel=(1, 1), num_filter=2)
    assert _beginning(model_of(layer, {}, **values), "data") == expected


class Decoder(nn.HybridBlock):
    """Positions reach gather_nd through stack, as in GluonNLP's BERT."""

    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(9, 4), nn.Dense(9, flatten=False)

    def hybrid_forward(self, F, words, positions):
        encoded = F.sin(self.words(words))
        rows = F.broadcast_add(F.expand_dims(F.contrib.arange_like(positions, axis=0), axis=1), F.zeros_like(positions))
        index = F.stack(F.reshape(rows, (-1,)), F.reshape(positions, (-1,)))
        return self.out(F.reshape_like(F.gather_nd(encoded, index), positions, lhs_begin=0, lhs_end=1))


def test_positions_of_words(tmp_path):
    """They were drawn as fractions and negatives, for which MXNet's backward pass writes outside of its array."""
    pytest.importorskip("torch")
    net = Decoder()
    net.initialize(mx.init.Normal(0.5))
    shapes = {"words": (4, 6), "positions": (4, 3)}
    gops.export.torch(net, tmp_path, shapes)
    gops.export.onnx(net, tmp_path / "net.onnx", shapes)
    found = gops.export.compare(net, tmp_path / "net.onnx", shapes)
    assert [one.relative < 1e-5 for one in found] == [True]


@pytest.mark.parametrize("index", [lambda F, x, y: F.concat(x, y, dim=1), lambda F, x, y: F.reshape(x, (-1,)) + 0,
                                   lambda F, x, y: F.slice_axis(y, axis=1, begin=1, end=2)])
def test_rows_of_an_embedding(index, tmp_path):
    class Words(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(5, 4)

        def hybrid_forward(self, F, x, y):
            return self.words(index(F, x, y)), F.sum(x), F.sum(y)

    pytest.importorskip("torch")
    net = Words()
    net.initialize()
    with warnings.catch_warnings():
        warnings.simplefilter("error", gops.export.ExportWarning)
        gops.export.torch(net, tmp_path, {"x": (2, 3), "y": (2, 2)})


def test_a_net_that_no_numbers_fit_is_not_compared(tmp_path):
    pytest.importorskip("torch")
    net = nn.HybridSequential()
    net.add(nn.HybridLambda(lambda F, x: x - 9), nn.Embedding(7, 3))
    net.initialize()
    with pytest.warns(gops.export.ExportWarning, match="no inputs could be drawn for which the node .* reads indices"):
        gops.export.torch(net, tmp_path, (2, 3))
