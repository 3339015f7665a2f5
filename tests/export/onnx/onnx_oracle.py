"""What the ONNX tests share: export a net, run the file in onnxruntime, compare with MXNet."""
import pathlib

import gluonops as gops
import mxnet as mx
import numpy as np
import onnx
import pytest
from gluonops.io.optional import require
from mxnet import gluon

ort = pytest.importorskip("onnxruntime")   # it has no wheel for Python 3.15 yet
# The last onnxruntime for Python 3.9, 1.19, lacks kernels for some valid files.
needs_kernels = pytest.mark.skipif(ort.__version__.startswith("1.19."), reason="no kernels in onnxruntime 1.19")
TOLERANCE = 1e-5   # It is relative to the largest value.
IMAGE = (4, 6, 8)   # the input of a case that has no other


def gluoncv():
    """The package, with or without torch beside it."""
    return require("gluoncv", "tests")


def session(path):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def outputs_of(net, *arrays):
    """The net's outputs as a list of NumPy arrays."""
    def flat(values):
        return [values.asnumpy()] if isinstance(values, mx.nd.NDArray) else [a for v in values for a in flat(v)]

    return flat(net(*[mx.nd.array(array, dtype=array.dtype) for array in arrays]))


def agree(net, path, inputs, batches=(2, 1, 5), rng=None, **options):
    """Export and compare at several batch sizes; returns the model.

    ``inputs`` maps names to shapes, or to functions (rng, shape) -> array paired with a shape.
    """
    rng = rng or np.random.RandomState(0)
    makers = {name: item if isinstance(item[0], tuple) else (item, _uniform) for name, item in inputs.items()}
    shapes = {name: (batches[0], *shape) for name, (shape, _) in makers.items()}
    gops.export.onnx(net, path, shapes, dynamic_batch=len(batches) > 1, **options)
    model, runner = onnx.load(str(path)), session(path)
    assert [value.name for value in model.graph.input] == [value.name for value in runner.get_inputs()]
    names = [value.name for value in runner.get_inputs()]
    for batch in batches:
        arrays = {name: make(rng, (batch, *shape)) for name, (shape, make) in makers.items()}
        expected = outputs_of(net, *arrays.values())
        results = runner.run(None, {name: arrays[name] for name in names})
        assert len(results) == len(expected)
        for ours, theirs in zip(expected, results):
            assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
            largest = np.abs(ours).max() if ours.size else 0
            np.testing.assert_allclose(theirs, ours, rtol=0, atol=TOLERANCE * max(largest, 1e-30))
    return model


def _uniform(rng, shape):
    return rng.uniform(-2, 2, shape).astype(np.float32)


class Net(gluon.HybridBlock):
    """``function(F, *inputs, *parameters)``."""

    def __init__(self, function, parameters):
        super().__init__()
        self.function, self.count = function, len(parameters)
        rng = np.random.RandomState(1)
        for i, shape in enumerate(parameters):
            setattr(self, f"p{i}", self.params.get(f"p{i}", shape=shape, init=mx.init.Constant(
                mx.nd.array(rng.uniform(0.5, 1.5, shape)))))

    def hybrid_forward(self, F, *inputs, **parameters):
        return self.function(F, *inputs, *[parameters[f"p{i}"] for i in range(self.count)])


def case(identity, function, *inputs, parameters=(), marks=()):
    """A test of converters; see ``converted``."""
    return pytest.param(function, [item if isinstance(item[0], tuple) else (item, _uniform)
                                   for item in inputs or (IMAGE,)], parameters, id=identity, marks=marks)


def converted(function, inputs, parameters, path, rng, **options):
    """Compare an operator at several batch sizes, the first of which is exported."""
    net = Net(function, parameters)
    net.initialize()
    return agree(net, path, dict(zip("xyzw", inputs)), rng=rng, **options)


def operators(path):
    """The operators of an ONNX file in order."""
    return [node.op_type for node in onnx.load(str(pathlib.Path(path))).graph.node]
