"""The axes that are free in a written net: those that the shape rules take with other sizes."""
import mxnet as mx
import numpy as np
import pytest
from gluonops.export.graph import Graph
from gluonops.export.model import ExportedModel
from gluonops.export.sizes import Sizes
from gluonops.export.torch.free_axes import compared_inputs, free_axes


def model_of(output, **inputs):
    names, shapes = output.list_arguments(), output.infer_shape(**inputs)[0]
    parameters = {name: np.zeros(shape, np.float32) for name, shape in zip(names, shapes) if name not in inputs}
    return ExportedModel(Graph.of(output), parameters, inputs, {"dtype": "float32"})


def freed(output, **inputs):
    """The names of the nodes, and their free axes."""
    model = model_of(output, **inputs)
    axes = free_axes(model, Sizes(model.graph, inputs, model.parameters, "float32", False))
    return {node.name: sorted(axes[node, 0]) for node in model.graph.nodes() if not node.is_variable}


def convolution(data, stride=2, name="conv"):
    return mx.sym.Convolution(data, kernel=(3, 3), pad=(1, 1), stride=(stride, stride), num_filter=4, name=name)


DATA = mx.sym.var("data")


def head(data, pooled):
    data = mx.sym.Pooling(data, global_pool=True, kernel=(1, 1), name="pool") if pooled else data
    return mx.sym.FullyConnected(data, num_hidden=3, name="dense")


@pytest.mark.parametrize("shape", [(1, 3, 32, 32), (2, 3, 30, 45), (1, 3, 7, 7)])
def test_images_are_free_where_they_are_pooled(shape):
    axes = freed(head(convolution(DATA), True), data=shape)
    assert axes == {"conv": [0, 2, 3], "pool": [0], "dense": [0]}


def test_images_are_fixed_by_a_dense_layer():
    assert freed(head(convolution(DATA), False), data=(2, 3, 32, 32)) == {"conv": [0], "dense": [0]}


def test_scales_are_joined_at_multiples_of_their_stride():
    low = mx.sym.UpSampling(convolution(convolution(DATA), name="low"), scale=2, sample_type="nearest", name="up")
    joined = mx.sym.elemwise_add(low, convolution(DATA, name="high"), name="sum")
    for side in (32, 36):
        assert freed(joined, data=(1, 3, side, side))["sum"] == [0, 2, 3]


def test_a_table_as_long_as_the_longest_sequence():
    positions = mx.sym.slice_like(mx.sym.var("table", shape=(1, 16, 5)), mx.sym.Embedding(
        DATA, input_dim=9, output_dim=5, name="words"), axes=(1,), name="positions")
    axes = freed(mx.sym.broadcast_add(mx.sym.Embedding(DATA, input_dim=9, output_dim=5), positions, name="sum"),
                 data=(2, 16))
    assert (axes["sum"], axes["positions"]) == ([0, 1], [1])


def test_a_mask_of_states_whose_batch_is_open():
    state = mx.sym.zeros((0, 3))
    rows = mx.sym.elemwise_add(DATA, mx.sym.FullyConnected(state, num_hidden=3, name="rows"), name="sum")
    mask = mx.sym.Dropout(mx.sym.ones_like(state, name="ones"), p=0.5, name="mask")
    axes = freed(mx.sym.elemwise_mul(rows, mask, name="product"), data=(2, 3))
    assert axes["ones"] == axes["mask"] == axes["product"] == [0]


def test_a_reshape_fixes_the_batch():
    rows = mx.sym.Reshape(DATA, shape=(2, -1), name="rows")
    assert freed(mx.sym.FullyConnected(rows, num_hidden=3, name="dense"), data=(2, 6))["rows"] == []


def test_a_net_is_compared_with_small_images():
    model = model_of(head(convolution(DATA), True), data=(1, 3, 224, 224))
    sizes = Sizes(model.graph, model.inputs, model.parameters, "float32", False)
    assert compared_inputs(model, sizes) == {"data": (2, 3, 40, 40)}
