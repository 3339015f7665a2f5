"""The table of converters beside that of MXNet's own exporter: nothing that MXNet converts is missing."""
import pathlib
import re

import gluonops as gops
import mxnet as mx
import numpy as np
import onnx_oracle
import pytest
from gluonops.backends import native
from gluonops.export.onnx.builder import CONVERTERS
from mxnet.gluon import nn

LOSS_HEADS = {"LogisticRegressionOutput", "SoftmaxOutput"}   # they become what they predict
VARIABLE = "null"


def of_mxnet():
    """The names in MXNet's table, whose modules need an older onnx to be imported."""
    folder = pathlib.Path(mx.__file__).parent / "onnx" / "mx2onnx" / "_op_translations"
    found = set()
    for path in folder.glob("_op_translations_opset*.py"):
        found.update(re.findall(r"@mx_op\.register\([\"']([^\"']+)[\"']", path.read_text()))
    return found


def test_nothing_that_mxnet_converts_is_missing():
    names = of_mxnet()
    assert {"Convolution", "RNN", "SoftmaxOutput", "_random_uniform"} <= names and len(names) > 120
    missing = {name for name in names if native.operator_name(name) not in {*CONVERTERS, *LOSS_HEADS, VARIABLE}}
    assert missing == set()


@pytest.mark.filterwarnings("ignore::gluonops.export.ExportWarning")
@pytest.mark.parametrize("name", sorted(LOSS_HEADS))
def test_loss_heads(name, tmp_path, rng):
    net = nn.HybridLambda(lambda F, x: getattr(F, name)(x, F.zeros_like(x)))
    onnx_oracle.agree(net, tmp_path / "net.onnx", {"data": (3,)}, rng=rng)


def first(F, x):
    """The first number of each row."""
    return F.slice_axis(x, axis=1, begin=0, end=1).reshape((-1,))


@pytest.mark.parametrize("draw, mean, deviation", [
    (lambda F, x: F.random.normal(3, 2, shape=(1, 20000)) + 0 * x, 3, 2),
    (lambda F, x: F.random.normal_like(x, loc=-1), -1, 1),
    (lambda F, x: F.random.uniform(1, 4, shape=(1, 20000)) + 0 * x, 2.5, 3 / 12 ** 0.5),
    (lambda F, x: F.random.uniform_like(x), 0.5, 1 / 12 ** 0.5),
    (lambda F, x: F.sample_multinomial(F.slice_axis(F.softmax(x * 0), axis=1, begin=0, end=4), shape=20000), 1.5,
     (5 / 4) ** 0.5),
    (lambda F, x: F.sample_normal(first(F, x) + 2, first(F, x), shape=20000), 3, 1),
    (lambda F, x: F.sample_normal(x * 3, x * 2), 3, 2), (lambda F, x: F.sample_uniform(x, x * 4), 2.5, 3 / 12 ** 0.5)],
    ids=["normal", "normal_like", "uniform", "uniform_like", "multinomial", "normal_of_one", "normal_of_each",
         "uniform_of_each"])
def test_random_numbers(draw, mean, deviation, tmp_path):
    """They are other ones, of the same distribution."""
    gops.export.onnx(nn.HybridLambda(draw), tmp_path / "net.onnx", (1, 20000), dynamic_batch=False)
    runner = onnx_oracle.session(tmp_path / "net.onnx")
    one, other = (runner.run(None, {"data": np.ones((1, 20000), np.float32)})[0] for _ in range(2))
    assert one.shape == (1, 20000) and (one != other).any()
    assert abs(one.mean() - mean) < 0.1 and abs(one.std() - deviation) < 0.1
