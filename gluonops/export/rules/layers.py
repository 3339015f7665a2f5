"""Rules of layers, losses, and what detectors compute."""
from __future__ import annotations

import math

from ..operators.shapes import Call, Shape, shape_of


# -- losses -------------------------------------------------------------------------------------------------------
@shape_of("SoftmaxOutput")
def softmax_output(call: Call) -> Shape:
    label, (batch, _, *rest) = call.shapes[1], call.data
    if call.flag("multi_output"):
        taken = [(batch, math.prod(rest)), (batch, *rest), (batch, 1, *rest), call.data]
        call.expect(1, label if label in taken else taken[0])
    elif label != call.data:
        call.expect(1, call.data[:-1])
    return call.data


@shape_of("LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput")
def regression_output(call: Call) -> Shape:
    label = call.shapes[1]
    if label is None:
        call.expect(1, call.data[:1] if call.data[1:] == (1,) else call.data)
    else:
        call.check(math.prod(label) == math.prod(call.data), 1, call.data)
    return call.data


@shape_of("_contrib_box_nms")
def same(call: Call) -> Shape:
    return call.data


@shape_of("SVMOutput", "softmax_cross_entropy")
def of_rows(call: Call) -> Shape:
    """They read a number for each row."""
    call.expect(1, call.data[:-1])
    return call.data if call.node.op == "SVMOutput" else (1,)


# -- boxes --------------------------------------------------------------------------------------------------------
@shape_of("_contrib_box_decode")
def box_decode(call: Call) -> Shape:
    call.check(len(call.data) == 3 and call.data[2] == 4, 0, "(batch, boxes, 4)")
    call.check(call.shapes[1][1:] == call.data[1:], 1, f"(1, {call.data[1]}, 4)")
    return call.data


@shape_of("_contrib_ROIAlign")
def of_regions(call: Call) -> Shape:
    regions, sizes = call.shapes[1], (call.ints("pooled_size", ()) * 2)[:2]
    call.check(len(regions) == 2 and regions[1] == 5, 1, "rows of an image and a box")
    maps = math.prod(sizes) if call.flag("position_sensitive") else 1
    return (regions[0], call.data[1] // maps, *sizes)


@shape_of("_contrib_MultiBoxPrior")
def multi_box_prior(call: Call) -> Shape:
    call.check(len(call.data) == 4, 0, "images")
    each_pixel = len(call.ints("sizes", (1.0,))) + len(call.ints("ratios", (1.0,))) - 1
    return 1, call.data[2] * call.data[3] * each_pixel, 4


@shape_of("_contrib_MultiBoxTarget")
def multi_box_target(call: Call) -> list[Shape]:
    count, batch = call.data[1], call.shapes[1][0]
    call.expect(0, (1, count, 4))
    call.expect(2, (batch, call.shapes[2][1], count))
    return [(batch, 4 * count), (batch, 4 * count), (batch, count)]


@shape_of("_contrib_MultiBoxDetection")
def multi_box_detection(call: Call) -> Shape:
    batch, _, count = call.data
    call.expect(1, (batch, 4 * count))
    call.expect(2, (1, count, 4))
    return batch, count, 6
