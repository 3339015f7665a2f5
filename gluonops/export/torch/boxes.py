"""Converters of what detectors compute: boxes, and bins of regions of interest."""
from __future__ import annotations

from .registry import Call, Single, converts


def _singles(call: Call, name: str, default: tuple[float, ...]) -> list[Single]:
    return list(map(Single, call.value(name, default)))


@converts("_contrib_box_decode")
def box_decode(call: Call) -> str:
    deviations = [Single(call.value(f"std{place}", 1.0)) for place in range(4)]
    return call.snippet("box_decode", deviations, is_corner=call.text("format") == "corner", limit=call.value("clip"))


@converts("_contrib_box_nms")
def box_nms(call: Call) -> str:
    formats = call.text("in_format", "corner"), call.text("out_format", "corner")
    if call.ndim != 3 or formats != ("corner", "corner"):
        raise call.refuse("has boxes that are not rows of corners for each image")
    names = {"overlap": "overlap_thresh", "valid": "valid_thresh", "topk": "topk", "box": "coord_start",
             "score": "score_index", "class_id": "id_index", "background": "background_id"}
    options = {name: call.value(attribute) for name, attribute in names.items()}
    return call.snippet("box_nms", **options, force=call.flag("force_suppress"))


@converts("_contrib_MultiBoxPrior")
def multi_box_prior(call: Call) -> str:
    sizes, ratios = _singles(call, "sizes", (1.0,)), _singles(call, "ratios", (1.0,))
    steps, offsets = _singles(call, "steps", (-1.0, -1.0)), tuple(_singles(call, "offsets", (0.5, 0.5)))
    return call.snippet("multi_box_prior", sizes, ratios, steps=steps if min(steps) > 0 else None, offsets=offsets,
                        clip=call.flag("clip"))


@converts("_contrib_MultiBoxDetection")
def multi_box_detection(call: Call) -> str:
    if call.value("background_id", 0) != 0:
        raise call.refuse("has another background than class 0")
    return call.snippet("multi_box_detection", threshold=Single(call.value("threshold", 0.01)),
                        variances=_singles(call, "variances", (0.1, 0.1, 0.2, 0.2)),
                        overlap=Single(call.value("nms_threshold", 0.5)), topk=call.value("nms_topk"),
                        force=call.flag("force_suppress"), clip=call.flag("clip", True))


@converts("_contrib_ROIAlign")
def roi_align(call: Call) -> str:
    if call.flag("position_sensitive"):
        raise call.refuse("has channels of their own for each bin")
    return call.snippet("roi_align", call.ints("pooled_size", ()), Single(call.value("spatial_scale")),
                        samples=call.value("sample_ratio"), aligned=call.flag("aligned"))
