"""8 bits without VNNI: no sum of two products exceeds 16 bits, by the files' integers, in NumPy and in oneDNN."""
import json
import os

import fresh
import gluonops as gops
import mxnet as mx
import numpy as np
import onnx
import pytest
from gluonops.export import ExportedModel
from gluonops.export.quantization.quantizable import tensor_names
from gluonops.runtime import processor
from mxnet.gluon import nn
from onnx import numpy_helper
from saturating import LARGEST, convolution, largest_pair

SHAPE = (4, 12, 12)
CLOSE = 0.04    # The error of what is right here is at most 0.022; with all 8 bits and saturating sums above 0.1.


class Net(nn.HybridBlock):
    """Bright data and weights of one sign, which saturate, with all that may stand between two layers."""

    def __init__(self):
        super().__init__(prefix="net_")
        with self.name_scope():
            self.first, self.branch = nn.Conv2D(8, 3, padding=1), nn.Conv2D(8, 1)
            self.groups, self.joined = nn.Conv2D(8, 3, padding=1, groups=4), nn.Conv2D(16, 3, strides=2)
            self.hidden, self.output = nn.Dense(12, activation="relu"), nn.Dense(5)

    def hybrid_forward(self, F, data):
        first = F.Activation(self.first(data), act_type="relu")
        second = F.Activation(self.branch(first) + first, act_type="relu")
        third = F.clip(self.groups(second), 0, 6)
        pooled = F.Pooling(third, kernel=(2, 2), stride=(2, 2), pool_type="avg")
        largest = F.Pooling(second, kernel=(2, 2), stride=(2, 2), pool_type="max")
        return self.output(self.hidden(F.relu(self.joined(F.concat(pooled, largest, dim=1)))))


def images(count, seed=0):
    return np.random.RandomState(seed).uniform(0.6, 1, size=(count, *SHAPE)).astype(np.float32)


@pytest.fixture(scope="module")
def net():
    made, rng = Net(), np.random.RandomState(1)
    made.initialize()
    made(mx.nd.array(images(1)))
    for parameter in made.collect_params(".*weight").values():
        weight = rng.uniform(0.2, 1, parameter.shape)
        weight[::3] *= -0.3
        parameter.set_data(mx.nd.array(weight / weight[0].size))
    return made


@pytest.fixture(scope="module")
def folder(net, tmp_path_factory):
    """Files for any processor, and for VNNI only."""
    place = tmp_path_factory.mktemp("saturation")
    for name, options in (("any", {}), ("vnni", {"vnni_only": True})):
        gops.export.quantize(net, place / name, images(24), onnx=place / f"{name}.onnx", limit=1, layer_limit=1,
                             **options)
    np.save(place / "data.npy", images(5, 9))
    return place


def error(ours, theirs):
    return np.linalg.norm(ours - theirs) / np.linalg.norm(theirs)


def weights_of_onnx(path):
    stored = [numpy_helper.to_array(value) for value in onnx.load(path).graph.initializer]
    return [value for value in stored if value.dtype == np.int8 and value.ndim > 1]


def layers_of_mxnet(path):
    """(node, weight) of every layer in 8 bits."""
    model = ExportedModel.from_files(path)
    nodes = [node for node in model.graph.nodes() if node.op == "_sg_mkldnn_conv"]
    return [(node, model.parameters[node.source(1).name].asnumpy().astype(int)) for node in nodes]


def halves(weight):
    """The integers of oneDNN's convolution of int8 without VNNI. MXNet makes 127.5 of the largest one's magnitude."""
    return np.rint(weight * (127.5 / 127) / 2).astype(int)


def test_no_pair_in_the_onnx_file_exceeds_16_bits(folder):
    weights = weights_of_onnx(folder / "any.onnx")
    assert len(weights) == 6
    assert max(largest_pair(weight, 255) for weight in weights) <= LARGEST
    assert min(abs(weight).max() for weight in weights) == 64   # no bit is given away
    assert max(largest_pair(weight, 255) for weight in weights_of_onnx(folder / "vnni.onnx")) > LARGEST


def test_no_pair_in_the_file_of_mxnet_exceeds_16_bits(folder):
    """Every tensor is int8, to which oneDNN adds 128, and the halves of the weights are integers."""
    layers = layers_of_mxnet(folder / "any")
    assert len(layers) == 6
    for _, weight in layers:
        assert ((weight % 2 == 0) | (abs(weight) == 127)).all() and abs(weight).max() == 127
        assert (halves(weight)[abs(weight) < 127] * 2 == weight[abs(weight) < 127]).all()
        assert largest_pair(halves(weight), 255) <= LARGEST
    assert uint8_tensors(folder / "any") == 0 < uint8_tensors(folder / "vnni")


def uint8_tensors(path):
    symbol = mx.sym.load(f"{path}-symbol.json").get_internals()
    return sum(kind == np.uint8 for kind in symbol.infer_type(data="float32")[1])


def test_each_layer_of_mxnet_in_numpy(folder):
    """The integers that a layer reads, times its weights: the same with saturating pairs as without."""
    symbol = mx.sym.load(str(folder / "any-symbol.json")).get_internals()
    parameters = mx.nd.load(str(folder / "any-0000.params"))
    names = tensor_names(ExportedModel.from_files(folder / "any").graph)
    for node, weight in layers_of_mxnet(folder / "any"):
        source, index = node.inputs[0]
        data = evaluated(symbol[names[source.name, index]], parameters)
        assert data.dtype == np.int8
        inner = next(one for one in node.subgraphs[0].nodes() if one.op == "Convolution")
        stride, pad = (json.loads(inner.attrs.get(name, default).replace("(", "[").replace(")", "]"))
                       for name, default in (("stride", "(1, 1)"), ("pad", "(0, 0)")))
        options = {"stride": stride, "pad": pad, "zero": 128}
        shifted = data.astype(int) + 128   # as oneDNN does
        exact = convolution(shifted, halves(weight), False, **options)
        np.testing.assert_array_equal(convolution(shifted, halves(weight), True, **options), exact)
        found = np.where(abs(weight) == 127, np.sign(weight) * 128, weight)
        np.testing.assert_array_equal(2 * exact, convolution(shifted, found, False, **options))


def evaluated(symbol, parameters):
    values = {name.partition(":")[2]: value.astype("float32") for name, value in parameters.items()}
    values["data"] = mx.nd.array(images(2, 9))
    run = symbol.bind(mx.cpu(), {name: values[name] for name in symbol.list_arguments()},
                      aux_states={name: values[name] for name in symbol.list_auxiliary_states()})
    return run.forward()[0].asnumpy()


OPERATORS = {
    "Relu": lambda x: np.maximum(x, 0), "Add": np.add, "Concat": lambda *x, axis: np.concatenate(x, axis),
    "Clip": lambda x, low, high: x.clip(low, high), "Flatten": lambda x, axis: x.reshape(len(x), -1),
    "Reshape": lambda x, shape: x.reshape([x.shape[i] if size == 0 else size for i, size in enumerate(shape)]),
    "AveragePool": lambda x, **_: x.reshape(*x.shape[:2], x.shape[2] // 2, 2, -1, 2).mean((3, 5)),
    "MaxPool": lambda x, **_: x.reshape(*x.shape[:2], x.shape[2] // 2, 2, -1, 2).max((3, 5)),
}


def computed(path, data, saturating):
    """The output of an ONNX file in 8 bits, in NumPy: integers are multiplied, as a runtime does."""
    graph = onnx.load(path).graph
    values = {value.name: numpy_helper.to_array(value) for value in graph.initializer}
    values[graph.input[0].name] = data
    integers = {}   # the integers, the scale and the zero point of what they stand for
    for node in graph.node:
        inputs = [values[name] for name in node.input if name]
        attributes = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
        if node.op_type == "QuantizeLinear":
            value, scale, zero = inputs
            result = (np.rint(value / scale) + zero).clip(0, 255).astype(np.uint8)
        elif node.op_type == "DequantizeLinear":
            value, scale, zero = inputs
            integers[node.output[0]] = value, scale, zero
            wide = [-1, *[1] * (value.ndim - 1)] if np.ndim(scale) else []
            result = (value.astype(int) - zero.reshape(wide)) * scale.astype(np.float64).reshape(wide)
        elif node.op_type in ("Conv", "Gemm"):
            result = layer([integers[name] for name in node.input], saturating, attributes)
        else:
            result = OPERATORS[node.op_type](*inputs, **attributes)
            if node.op_type == "Reshape" and node.input[0] in integers:   # a runtime moves the integers
                value, *scale = integers[node.input[0]]
                integers[node.output[0]] = OPERATORS["Reshape"](value, inputs[1]), *scale
        values[node.output[0]] = result
    return values[graph.output[0].name]


def layer(integers, saturating, attributes):
    (data, step, zero), (weight, scale, _), *bias = integers
    is_dense = weight.ndim == 2
    if is_dense:
        data, weight = data[..., None, None], weight[..., None, None]
    options = {"stride": attributes.get("strides", (1, 1)), "pad": attributes.get("pads", (0, 0))[:2]}
    sums = convolution(data.astype(int), weight, saturating, int(zero), **options)
    if bias:
        sums = sums + bias[0][0].astype(np.int64).reshape(-1, 1, 1)
    result = sums * (float(step) * scale.astype(np.float64)).reshape(-1, 1, 1)
    return result[..., 0, 0] if is_dense else result


def test_the_onnx_file_in_numpy(net, folder):
    data, expected = images(3, 9), net(mx.nd.array(images(3, 9))).asnumpy()
    exact = computed(folder / "any.onnx", data, False)
    assert error(exact, expected) < CLOSE
    np.testing.assert_array_equal(computed(folder / "any.onnx", data, True), exact)
    assert error(computed(folder / "vnni.onnx", data, False), expected) < CLOSE
    assert error(computed(folder / "vnni.onnx", data, True), expected) > 0.1   # the fault that this test looks for
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(folder / "any.onnx"), providers=["CPUExecutionProvider"])
    assert error(session.run(None, {"data": data})[0], exact) < 0.01


PROGRAM = """
import sys
import gluonops, mxnet as mx, numpy as np
data = mx.nd.array(np.load("data.npy"))
for name in ("any", "vnni"):
    module = mx.mod.Module.load(name, 0, label_names=None)
    module.bind([("data", data.shape)], for_training=False)
    module.forward(mx.io.DataBatch([data]), is_train=False)
    np.save(f"{name}_{sys.argv[1]}.npy", module.get_outputs()[0].asnumpy())
"""


@pytest.mark.parametrize("limit", ["AVX2", *(pytest.param(limit, marks=pytest.mark.slow)
                                             for limit in ("SSE41", "AVX512_CORE"))])
def test_oneDNN_without_vnni(limit, net, folder):   # pylint: disable=invalid-name
    """oneDNN reads the limit when it first computes, so it is a process of its own."""
    expected = net(mx.nd.array(images(5, 9))).asnumpy()
    done = fresh.python("-c", PROGRAM, limit, cwd=folder, env={**os.environ, processor.LIMIT: limit})
    assert done.returncode == 0, done.stderr
    assert error(np.load(folder / f"any_{limit}.npy"), expected) < CLOSE
    if processor.used(processor.MXNET) is not None:
        assert error(np.load(folder / f"vnni_{limit}.npy"), expected) > 0.1
