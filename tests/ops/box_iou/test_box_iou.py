"""box_iou against the definition, MXNet's operator, and boxes without an area."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from in_turn import in_turn
from mxnet import autograd
from op_suite import CUSTOM, Bad, Case, OpSuite, Row
from ops.box_iou import oracle


class TestBoxIou(OpSuite):
    name = "box_iou"
    own_shapes = ("rhs",)
    undefined = ("inf", "-inf", "max", "huge", "nan", "denormal", "equal")   # products of coordinates
    cases = (
        Case("matrix", ((3, 4), (5, 4))),
        Case("more", ((2, 4), (3, 4))),
        Case("batch", ((2, 3, 4), (2, 2, 4)), {"format": "center"}),
        Case("sets", ((2, 1, 3, 4), (2, 1, 37, 4)), {"format": "center"}),
        Case("many", ((19, 4), (67, 4))),
    )
    empty = Case("empty", ((0, 3, 4), (0, 2, 4)))
    # Two boxes of area 4 that share 1, so the union is 7; and one that touches the first.
    table = (
        Row("shifted", ([[0, 0, 2, 2]], [[1, 1, 3, 3], [2, 0, 4, 2]]), {}, [[1 / 7, 0]], [[49, 1]],
            ([[2, 2, 6, 6]], [[-6, -6, -2, -2], [0, 0, 0, 0]])),
        Row("center", ([[1, 1, 2, 2]], [[2, 2, 2, 2]]), {"format": "center"}, [[1 / 7]], [[49]],
            ([[8, 8, 2, 2]], [[-8, -8, 2, 2]])),
    )
    errors = (
        Bad("columns", ((3, 5), (3, 4)), {}, "lhs has shape (3, 5); expected (lhs_boxes, 4)"),
        Bad("batch", ((2, 3, 4), (3, 3, 4)), {}, "rhs has shape (3, 3, 4); expected (2, rhs_boxes, 4)", first=False),
        Bad("format", ((3, 4), (3, 4)), {"format": "xywh"}, "expected 'corner' or 'center'"),
        Bad("dtype", ((3, 4), (3, 4)), {}, "rhs has dtype float64; expected float32, the dtype of lhs",
            ("float32", "float64")),
    )
    texts = {"format": ["center", "Corner", "xywh", ""]}
    determined = (
        ({"lhs": (2, 3, 4), "rhs": (-1, 5, 4)}, {}, {"lhs": (2, 3, 4), "rhs": (2, 5, 4), "output": (2, 3, 5)}),
        ({"lhs": (2, 3, 4), "output": (2, 3, 5)}, {}, {"lhs": (2, 3, 4), "rhs": (2, 5, 4), "output": (2, 3, 5)}),
    )


@pytest.mark.parametrize("backend", ["custom", "reference", "builtin", "cuda"], indirect=True)
def test_degenerate_boxes(backend):
    """A point, a line, exchanged corners, a box, and a NaN: the IoU is 0, 1 or NaN, and no gradient is infinite."""
    boxes = np.array([[1, 1, 1, 1], [0, 1, 2, 1], [2, 2, 0, 0], [0, 0, 2, 2]], "float32")
    array = mx.nd.array(boxes)
    array.attach_grad()
    with gops.backend(backend):
        with autograd.record():
            output = gops.ops.box_iou(array, mx.nd.array(boxes))
        output.backward()
        nan = gops.ops.box_iou(mx.nd.array([[0, np.nan, 1, 1], [0, 0, 1, 1]]), mx.nd.array(boxes)).asnumpy()
    expected = np.zeros((4, 4))
    expected[3, 3] = 1
    np.testing.assert_allclose(output.asnumpy(), expected, atol=1e-6)
    attrs = gops.contract.registry.get("box_iou").op.parse({})
    gradient = oracle.backward(attrs, np.ones((4, 4)), boxes.astype("float64"), boxes.astype("float64"))["lhs"]
    np.testing.assert_allclose(array.grad.asnumpy(), gradient, atol=1e-6)
    assert np.isnan(nan[0]).all() and not np.isnan(nan[1]).any()


@pytest.mark.parametrize("backend", ["native", CUSTOM, "reference", "builtin", "cuda"], indirect=True)
def test_an_infinite_box_leaves_others_their_gradient(backend):
    """A detector's exponential of a width overflows at times. The IoU is 0 then, and moves no other box."""
    lhs, rhs = mx.nd.array([[0, 0, np.inf, 2], [0, 0, 2, 2]]), mx.nd.array([[1, 1, 3, 3], [2, 0, 4, 2]])
    for array in (lhs, rhs):
        array.attach_grad()
    with gops.backend(backend):
        with autograd.record():
            output = gops.ops.box_iou(lhs, rhs)
        output.backward()
    np.testing.assert_allclose(output.asnumpy(), [[0, 0], [1 / 7, 0]], atol=1e-6)
    np.testing.assert_allclose(49 * lhs.grad.asnumpy()[1], [2, 2, 6, 6], rtol=1e-5)
    np.testing.assert_allclose(49 * rhs.grad.asnumpy(), [[-6, -6, -2, -2], [0, 0, 0, 0]], rtol=1e-5)


@in_turn("box_format", ["corner", "center"])
def test_as_mxnet(box_format, rng):
    drawn = oracle.draw(gops.contract.registry.get("box_iou").op.parse({"format": box_format}),
                        {"lhs": (7, 4), "rhs": (9, 4)}, rng)
    lhs, rhs = mx.nd.array(drawn["lhs"]), mx.nd.array(drawn["rhs"])
    expected = mx.nd.contrib.box_iou(lhs, rhs, format=box_format).asnumpy()
    np.testing.assert_allclose(gops.ops.box_iou(lhs, rhs, format=box_format).asnumpy(), expected, atol=1e-6)


def test_block():
    block = gops.nn.BoxIoU("center")
    block.hybridize()
    boxes = mx.nd.array([[1, 1, 2, 2], [2, 2, 2, 2]])
    np.testing.assert_allclose(block(boxes, boxes).asnumpy(), [[1, 1 / 7], [1 / 7, 1]], atol=1e-6)
    assert repr(block) == "BoxIoU(format=center)"
    with pytest.raises(gops.OpError, match="format"):
        gops.nn.BoxIoU("xyxy")
