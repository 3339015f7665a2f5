"""The table of converters beside that of MXNet's own exporter: nothing that MXNet converts is missing."""
import pathlib
import re

import gluonops as gops
import mxnet as mx
import onnx_oracle
import pytest
from gluonops.core import native
from gluonops.export.onnx.registry import CONVERTERS
from mxnet.gluon import nn

RANDOM = "draws random numbers, so that no file computes the same as the net"
REFUSED = dict.fromkeys(("_random_normal", "_random_uniform", "_random_uniform_like", "_sample_multinomial"), RANDOM)
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
    assert missing == set(REFUSED)


@pytest.mark.filterwarnings("ignore::gluonops.export.ExportWarning")
@pytest.mark.parametrize("name", sorted(LOSS_HEADS))
def test_loss_heads(name, tmp_path, rng):
    net = nn.HybridLambda(lambda F, x: getattr(F, name)(x, F.zeros_like(x)))
    onnx_oracle.agree(net, tmp_path / "net.onnx", {"data": (3,)}, rng=rng)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_the_refusals_say_why(name, tmp_path):
    draw = {"_random_normal": lambda F, x: F.random.normal(shape=(2, 3)) + x,
            "_random_uniform": lambda F, x: F.random.uniform(shape=(2, 3)) + x,
            "_random_uniform_like": lambda F, x: F.random.uniform_like(x),
            "_sample_multinomial": lambda F, x: F.sample_multinomial(F.softmax(x))}[name]
    with pytest.raises(gops.OpError, match=rf"draws random numbers \({name}\)"):
        gops.export.onnx(nn.HybridLambda(draw), tmp_path / "net.onnx", (2, 3))
