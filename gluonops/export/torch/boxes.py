"""Converters of what detectors compute: boxes, and bins of regions of interest."""
from __future__ import annotations

from .registry import Call, converts


@converts("_contrib_box_decode")
def box_decode(call: Call) -> str:
    deviations = [call.single(f"std{i}", 1.0) for i in range(4)]
    return call.snippet("box_decode", deviations, is_corner=call.text("format") == "corner", limit=call.value("clip"))


@converts("_contrib_box_nms")
def box_nms(call: Call) -> str:
    formats = call.text("in_format", "corner"), call.text("out_format", "corner")
    call.refuse_if(call.ndim != 3 or formats != ("corner", "corner"),
                   "has boxes that are not rows of corners for each image")
    names = {"overlap": "overlap_thresh", "valid": "valid_thresh", "topk": "topk", "box": "coord_start",
             "score": "score_index", "class_id": "id_index", "background": "background_id"}
    options = {name: call.value(attribute) for name, attribute in names.items()}
    return call.snippet("box_nms", **options, force=call.flag("force_suppress"))


@converts("_contrib_MultiBoxPrior")
def multi_box_prior(call: Call) -> str:
    steps = call.singles("steps", (-1.0, -1.0))
    return call.snippet("multi_box_prior", call.singles("sizes", (1.0,)), call.singles("ratios", (1.0,)),
                        steps=steps if min(steps) > 0 else None, offsets=tuple(call.singles("offsets", (0.5, 0.5))),
                        clip=call.flag("clip"))


@converts("_contrib_MultiBoxDetection")
def multi_box_detection(call: Call) -> str:
    call.refuse_if(call.value("background_id", 0) != 0, "has another background than class 0")
    return call.snippet("multi_box_detection", threshold=call.single("threshold", 0.01),
                        variances=call.singles("variances", (0.1, 0.1, 0.2, 0.2)),
                        overlap=call.single("nms_threshold", 0.5), topk=call.value("nms_topk"),
                        force=call.flag("force_suppress"), clip=call.flag("clip", True))


@converts("_contrib_ROIAlign")
def roi_align(call: Call) -> str:
    call.refuse_if(call.flag("position_sensitive"), "has channels of their own for each bin")
    return call.snippet("roi_align", call.ints("pooled_size", ()), call.single("spatial_scale"),
                        samples=call.value("sample_ratio"), aligned=call.flag("aligned"))
