"""What quantize refuses to write, and what it warns of."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.export import ExportWarning, QuantizedLayer
from gluonops.export.quantization.verdict import check_outputs, check_result
from mxnet.gluon import nn

LAYERS = (QuantizedLayer("first", "Convolution", 0.02, ""), QuantizedLayer("second", "Convolution", 0.045, ""),
          QuantizedLayer("third", "Convolution", 0.5, "asked for"),
          QuantizedLayer("fourth", "FullyConnected", 0.01, ""), QuantizedLayer("fifth", "FullyConnected", 0.03, ""))
RANGES = {"data": (0.0, 1.0), "first_output": (-1.0, 2.0)}


def check(error, limit=None, scores=None, ranges=RANGES):
    check_result({"ONNX": 0.001, "MXNet": error}, scores or {}, limit, LAYERS, ranges)


@pytest.mark.parametrize("error, limit", [(0.03, None), (0.2, 0.2), (0.09, 0.1)])
def test_what_is_accepted(error, limit):
    check(error, limit)
    check(0.09, scores={"float": 1, "MXNet": 1, "ONNX": 1})   # the score says more than a warning would


def test_a_bad_result():
    with pytest.raises(gops.OpError, match=r"the result for MXNet has an error of 0.1001 on the held-out data; "
                       r"expected at most 0.1. The layers that cost most are 'second' \(0.045\), 'fifth' \(0.03\), "
                       r"'first' \(0.02\). Keep these in float \(keep, or --keep\), lower layer_limit, calibrate "
                       r"with more pictures, or accept the result with a larger limit \(limit, or --limit\)"):
        check(0.1001)
    with pytest.raises(gops.OpError, match="error of 0.1001 .* expected at most 0.1"):
        check(0.1001, scores={"float": 1, "MXNet": 1, "ONNX": 1})   # a good score on few images says little
    with pytest.raises(gops.OpError, match="error of inf .* expected a finite error"):
        check(float("inf"), limit=1)
    with pytest.raises(gops.OpError, match="error of nan .* expected a finite error"):
        check(float("nan"))


def test_a_limit_of_the_score():
    check(0.3, 0.1, {"float": 0.9, "MXNet": 0.8, "ONNX": 0.9})
    with pytest.raises(gops.OpError, match="the score for MXNet is 0.7 on the held-out data, 0.2 below the float "
                       "net's"):
        check(0.01, 0.1, {"float": 0.9, "MXNet": 0.7, "ONNX": 0.9})


def test_a_doubtful_result():
    with pytest.warns(ExportWarning, match=r"MXNet has an error of 0.05 on the held-out data. .* image.* 'second'"):
        check(0.05)


def test_values_that_vanish(tmp_path):
    """MXNet's 8-bit operators make zeros of what is below 1e-6. The error says so, and blames no layer."""
    with pytest.raises(gops.OpError, match="error of 1 .* make zeros of a tensor whose values are all below 1e-06, "
                       "and the largest of 'deep' is 2e-11. Load the net's trained parameters"):
        check(1.0, ranges={**RANGES, "deep": (-2e-11, 1e-11)})
    small = nn.HybridSequential()
    small.add(nn.Conv2D(4, 3), nn.Conv2D(4, 3, activation="relu"), nn.Dense(3))
    small.initialize(mx.init.Normal(1e-5))
    data = np.random.RandomState(0).uniform(size=(8, 3, 12, 12)).astype(np.float32)
    with pytest.raises(gops.OpError, match="the result for MXNet has an error of 1 .* zeros of a tensor"):
        gops.export.quantize(small, tmp_path / "net", data, layer_limit=2)


def test_outputs_of_zeros():
    zeros = [[np.zeros((2, 3))], [np.zeros((1, 3))]]
    check_outputs(zeros, 0.5)
    check_outputs([[np.zeros((2, 3)), np.ones(2)]], None)
    with pytest.raises(gops.OpError, match="all outputs of the float net are zero on the held-out data"):
        check_outputs(zeros, None)


def test_nothing_is_written(tmp_path):
    """A ReLU that is never above zero; a net whose layers are all bad."""
    dead = nn.HybridSequential()
    dead.add(nn.Conv2D(4, 3, activation="relu", bias_initializer=mx.init.Constant(-100)))
    dead.initialize()
    data = np.random.RandomState(0).uniform(size=(8, 3, 12, 12)).astype(np.float32)
    with pytest.raises(gops.OpError, match="all outputs of the float net are zero"):
        gops.export.quantize(dead, tmp_path / "net", data)
    outlier = nn.HybridSequential()
    outlier.add(nn.Conv2D(4, 3), nn.Dense(3))
    outlier.initialize(mx.init.Xavier())
    data[:, :, 0, 0] = 1e4   # The range that it needs leaves no levels for the other pixels.
    data[4:, :, 0, 0] = 0
    with pytest.raises(gops.OpError, match="expected at most 0.1. The layers that cost most are "):
        gops.export.quantize(outlier, tmp_path / "net", data[:4], data[4:], method="naive", layer_limit=10)
    assert not list(tmp_path.iterdir())
