"""The bytes of an ONNX file, which we write around protobuf: as protobuf's own, and not copied."""
import tracemalloc

import gluonops as gops
import mxnet as mx
import numpy as np
import onnx
import pytest
from gluonops.export.onnx.write import MOST_BYTES, content
from onnx import helper, numpy_helper

FLOAT = onnx.TensorProto.FLOAT


def model_of(*initializers):
    infos = [helper.make_tensor_value_info(name, FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "graph", infos[:1], infos[1:], initializers)
    model = helper.make_model(graph, producer_name="test")
    helper.set_model_props(model, {"key": "value"})
    return model


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int8", "int64", "bool"])
def test_it_is_what_protobuf_reads(dtype, rng):
    arrays = {"a": rng.uniform(-9, 9, (3, 70)).astype(dtype), "b": rng.uniform(-9, 9, (200, 3)).astype(dtype).T}
    found = onnx.load_from_string(b"".join(content(model_of(), arrays)))
    assert found == model_of(*[numpy_helper.from_array(np.ascontiguousarray(arrays[name]), name) for name in arrays])


def test_a_whole_file_passes_the_checker(tmp_path):
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Conv2D(8, 3), mx.gluon.nn.BatchNorm(), mx.gluon.nn.Dense(10))
    net.initialize()
    model = onnx.load(gops.export.onnx(net, tmp_path / "net.onnx", (1, 3, 8, 8)))
    onnx.checker.check_model(model, full_check=True)
    assert {array.name for array in model.graph.initializer}.isdisjoint(one.name for one in model.graph.input)


def test_large_arrays_are_not_copied():
    arrays = {"a": np.ones((1000, 1000), "float32")}
    tracemalloc.start()
    size = sum(len(memoryview(part).cast("B")) for part in content(model_of(), arrays))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size > arrays["a"].nbytes > 10 * peak


def test_a_file_that_protobuf_cannot_hold():
    arrays = {"a": np.broadcast_to(np.float32(0), (MOST_BYTES // 4,))}
    with pytest.raises(gops.OpError, match=rf"the file would have \d+ bytes; expected at most {MOST_BYTES}"):
        next(content(model_of(), arrays))
