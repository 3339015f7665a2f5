"""reorg against loops over indices, and against Darknet itself."""
import pathlib

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from in_turn import in_turn
from mxnet import autograd
from op_suite import CUSTOM, Bad, Case, OpSuite, Row

GOLDEN = np.load(pathlib.Path(__file__).parents[2] / "golden" / "reorg.npz")


def every(shape, stride, name):
    return [Case(f"{mode}_{name}", (shape,), {"stride": stride, "mode": mode}) for mode in ("darknet", "DCR", "CRD")]


class TestReorg(OpSuite):
    name = "reorg"
    exact = True
    cases = (
        Case("darknet", ((2, 4, 4, 6),), {"stride": 2, "mode": "darknet"}),
        *every((1, 4, 2, 2), 2, "one_cell"),
        *every((2, 8, 6, 10), 2, "rows_leak"),
        *every((1, 9, 9, 6), 3, "stride_3"),
        *every((1, 16, 4, 8), 4, "stride_4"),
        *every((3, 5, 7, 11), 1, "stride_1_primes"),
        *every((1, 4, 2, 2062), 2, "beyond_1024"),
        Case("reverse_darknet", ((2, 8, 3, 5),), {"reverse": True}),
        Case("reverse_DCR", ((2, 8, 3, 5),), {"reverse": True, "mode": "DCR"}),
        Case("reverse_CRD", ((2, 18, 3, 5),), {"reverse": True, "mode": "CRD", "stride": 3}),
        Case("odd_channels_DCR", ((2, 3, 4, 4),), {"mode": "DCR"}),
        Case("odd_channels_CRD", ((2, 3, 4, 4),), {"mode": "CRD"}),
    )
    empty = Case("empty", ((0, 4, 4, 4),))
    table = (
        Row("CRD", ([[[[1, 2], [3, 4]]]],), {"mode": "CRD"}, [[[[1]], [[2]], [[3]], [[4]]]],
            [[[[10]], [[20]], [[30]], [[40]]]], ([[[[10, 20], [30, 40]]]],)),
        Row("DCR", ([[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]],), {"mode": "DCR"},
            [[[[1]], [[5]], [[2]], [[6]], [[3]], [[7]], [[4]], [[8]]]],
            [[[[1]], [[2]], [[3]], [[4]], [[5]], [[6]], [[7]], [[8]]]],
            ([[[[1, 3], [5, 7]], [[2, 4], [6, 8]]]],)),
        # (4, 2, 2) read as (1, 4, 4), rows 1-4, 5-8, ...; DCR of that; the 2x2 blocks become four images of 2x2
        Row("darknet", (np.arange(1, 17).reshape(1, 4, 2, 2).tolist(),), {},
            np.array([1, 3, 9, 11, 2, 4, 10, 12, 5, 7, 13, 15, 6, 8, 14, 16]).reshape(1, 16, 1, 1).tolist(),
            np.arange(1, 17).reshape(1, 16, 1, 1).tolist(),
            (np.array([1, 5, 2, 6, 9, 13, 10, 14, 3, 7, 4, 8, 11, 15, 12, 16]).reshape(1, 4, 2, 2).tolist(),)),
    )
    errors = (
        Bad("height", ((1, 64, 13, 12),), {}, "data has shape (1, 64, 13, 12); height 13 is not divisible by stride 2. "
            "Pad the input or choose another stride."),
        Bad("width", ((1, 64, 12, 13),), {"mode": "CRD"}, "width 13 is not divisible by stride 2"),
        Bad("channels", ((1, 6, 4, 4),), {}, "channels 6 is not divisible by stride * stride = 4. Change the number of "
            "channels, choose another stride, or the mode 'DCR' or 'CRD', which take any number."),
        Bad("reverse", ((1, 6, 4, 4),), {"reverse": True}, "channels 6 is not divisible by stride * stride = 4"),
        Bad("rank", ((4, 4, 4),), {},
            "data has shape (4, 4, 4); expected 4 dimensions (batch, channels, height, width)"),
        Bad("stride", ((1, 4, 4, 4),), {"stride": 0}, "expected an integer of at least 1"),
        Bad("fraction", ((1, 4, 4, 4),), {"stride": 1.5}, "expected an integer of at least 1"),
        Bad("mode", ((1, 4, 4, 4),), {"mode": "tensorflow"},
            "mode is 'tensorflow'; expected 'darknet', 'DCR' or 'CRD'"),
        Bad("bool", ((1, 4, 4, 4),), {"reverse": "maybe"}, "reverse is 'maybe'; expected True or False"),
        Bad("attribute", ((1, 4, 4, 4),), {"flatten": 1},
            "'flatten' is not an attribute; expected mode, reverse, stride",
            spelled=False),
    )
    texts = {"stride": ["1", "2", "0", "-1", "1e1", "2.0", "_2", "2_"], "mode": ["CRD", "dcr", "it's", 'a"b', "a\nb"],
             "reverse": ["True", "true", "1", "FALSE", "0", "yes", ""]}
    determined = (
        ({"output": (1, 16, 2, 3)}, {}, {"data": (1, 4, 4, 6), "output": (1, 16, 2, 3)}),
        ({"output": (1, 1, 4, 6)}, {"reverse": True}, {"data": (1, 4, 2, 3), "output": (1, 1, 4, 6)}),
        ({"data": (-1, 4, 4, -1)}, {}, {"data": (-1, 4, 4, -1), "output": (-1, 16, 2, -1)}),
    )


@pytest.mark.parametrize("backend", [CUSTOM, "native", "builtin", "cuda"], indirect=True)
@in_turn("case", range(6))
class TestDarknet:
    """The results are what Darknet computed, bit for bit."""

    def test_forward_and_gradient(self, case, backend):
        data = mx.nd.array(GOLDEN[f"c{case}_input"])
        data.attach_grad()
        with gops.backend(backend), autograd.record():
            output = gops.ops.reorg(data, stride=int(GOLDEN[f"c{case}_stride"]))
        output.backward(mx.nd.array(GOLDEN[f"c{case}_head_grad"]))
        np.testing.assert_array_equal(output.asnumpy(), GOLDEN[f"c{case}_output"])
        np.testing.assert_array_equal(data.grad.asnumpy(), GOLDEN[f"c{case}_input_grad"])

    def test_reverse(self, case, backend):
        with gops.backend(backend):
            output = gops.ops.reorg(mx.nd.array(GOLDEN[f"c{case}_reverse_input"]), reverse=True,
                                    stride=int(GOLDEN[f"c{case}_stride"]))
        np.testing.assert_array_equal(output.asnumpy(), GOLDEN[f"c{case}_reverse_output"])


def test_the_modes_are_what_others_call_them(rng):
    """DCR is MXNet's space_to_depth; reverse undoes DCR and CRD."""
    data = mx.nd.array(rng.randn(2, 8, 6, 4))
    np.testing.assert_array_equal(gops.ops.reorg(data, mode="DCR").asnumpy(), mx.nd.space_to_depth(data, 2).asnumpy())
    for mode in ("DCR", "CRD"):
        there = gops.ops.reorg(data, mode=mode)
        np.testing.assert_array_equal(gops.ops.reorg(there, mode=mode, reverse=True).asnumpy(), data.asnumpy())
