"""What the passes know of operators holds for all of MXNet's names of the same thing, old ones and NumPy's."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.export import ExportedModel, passes
from gluonops.export.graph import Graph
from gluonops.export.training_parts import ends_in_softmax
from mxnet.gluon import nn

v = mx.sym.var
IMAGES = (1, 3, 8, 8)


def saved(prefix, symbol, rng, shape=IMAGES):
    """Write a symbol with drawn parameters. Returns the prefix as text."""
    arguments, _, states = symbol.infer_shape(data=shape)
    sizes = {**{f"arg:{name}": size for name, size in zip(symbol.list_arguments(), arguments) if name != "data"},
             **{f"aux:{name}": size for name, size in zip(symbol.list_auxiliary_states(), states)}}
    symbol.save(f"{prefix}-symbol.json")
    mx.nd.save(f"{prefix}-0000.params", {name: mx.nd.array(
        rng.uniform(0.5, 1.5, size) if name.endswith(("gamma", "var")) else rng.normal(0, 0.2, size))
        for name, size in sizes.items()})
    return str(prefix)


def output(prefix, images):
    symbol, arguments, states = mx.model.load_checkpoint(prefix, 0)
    return symbol.bind(mx.cpu(), {**arguments, "data": mx.nd.array(images)}, aux_states=states,
                       grad_req="null").forward(is_train=False)[0].asnumpy()


@pytest.mark.parametrize("convolution", [mx.sym.Convolution, mx.sym.Convolution_v1])
@pytest.mark.parametrize("norm", [mx.sym.BatchNorm, mx.sym.BatchNorm_v1])
def test_older_names_are_folded(convolution, norm, rng, tmp_path):
    symbol = norm(convolution(v("data"), kernel=(3, 3), num_filter=4, name="c"), fix_gamma=False, name="n")
    prefix, images = saved(tmp_path / "net", symbol, rng), rng.uniform(size=IMAGES)
    gops.export.rewrite(prefix, tmp_path / "folded", fold_batch_norm=True)
    nodes = Graph.read("test", tmp_path / "folded-symbol.json").nodes()
    operators = [node.op for node in nodes if not node.is_variable]
    assert operators == [convolution.__name__, "_copy"]
    np.testing.assert_allclose(output(str(tmp_path / "folded"), images), output(prefix, images), rtol=1e-4, atol=1e-5)


def test_an_older_convolution_and_a_relu6_behind_a_dense_layer_are_of_8_bits(rng, tmp_path):
    """oneDNN computes the clip along with the dense layer, which it takes for a convolution."""
    maps = mx.sym.Convolution_v1(v("data"), kernel=(3, 3), num_filter=8, name="c")
    hidden = mx.sym.clip(mx.sym.FullyConnected(maps, num_hidden=8, name="h"), 0, 6, name="r")
    prefix = saved(tmp_path / "net", mx.sym.FullyConnected(hidden, num_hidden=3, name="o"), rng)
    images = rng.uniform(size=(24, *IMAGES[1:])).astype(np.float32)
    found = gops.export.quantize(prefix, tmp_path / "small", images)
    assert [layer.name for layer in found.layers if layer.is_quantized] == ["c", "h", "o"]
    assert found.errors["MXNet"] < 0.05   # 0.019
    fused = [{inner.op for inner in node.subgraphs[0].nodes() if not inner.is_variable}
             for node in Graph.read("test", tmp_path / "small-symbol.json").nodes() if node.subgraphs]
    assert fused == [{"Convolution", "BatchNorm"}, {"Convolution", "BatchNorm", "LeakyReLU"},
                     {"Convolution", "BatchNorm"}]


class Noise(nn.HybridBlock):
    def hybrid_forward(self, F, x):
        return x + F.np.random.uniform(size=(2, 3))


@pytest.mark.parametrize("export", [gops.export.onnx, gops.export.torch])
def test_random_numbers_of_numpy_are_no_constant(export, tmp_path):
    """They were drawn once, and written as a constant."""
    with mx.util.np_shape(True), mx.util.np_array(True):
        net = Noise()
        net.initialize()
        with pytest.raises(gops.OpError, match="_npi_uniform.* has no converter"):
            export(net, tmp_path / "net", (2, 3))


@pytest.mark.parametrize("behind", [
    mx.sym.identity, mx.sym.BlockGrad, mx.sym.flatten, lambda x: mx.sym.cast(x, "float16"),
    lambda x: mx.sym.broadcast_div(x, mx.sym.sum(x, axis=1, keepdims=True))])
def test_what_is_behind_a_softmax_leaves_it_one(behind):
    assert ends_in_softmax(Graph.of(behind(mx.sym.softmax(v("data")))))
    assert not ends_in_softmax(Graph.of(behind(v("data"))))


def test_our_softmax_in_front_of_the_anchors_is_the_only_one():
    """A detector in SSD's style that ends in gluonops's own softmax got MXNet's behind it."""
    scores = gops.ops.softmax(mx.sym.reshape(mx.sym.slice_axis(v("data"), axis=1, begin=0, end=2), (0, 2, -1)), axis=1)
    anchors = mx.sym.contrib.MultiBoxPrior(v("data"), sizes=(0.5,), ratios=(1.0,))
    offsets = mx.sym.flatten(mx.sym.concat(v("data"), v("data"), dim=1))
    graph = Graph.of(mx.sym.Group([anchors, scores, mx.sym.slice_axis(offsets, axis=1, begin=0, end=4 * 64)]))
    model = passes.detections(ExportedModel(graph, {}, {"data": IMAGES}, {"dtype": "float32"}))
    operators = [node.op for node in model.graph.nodes()]
    assert operators.count("_contrib_MultiBoxDetection") == 1 and "softmax" not in operators
