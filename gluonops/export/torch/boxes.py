"""Converters of what detectors compute: boxes, and bins of regions of interest."""
from __future__ import annotations

from typing import Any

from .registry import Call, Single, converts


def _singles(call: Call, name: str, default: tuple[float, ...]) -> list[Single]:
    return list(map(Single, call.value(name, default)))


def _options(values: dict[str, tuple[Any, Any]]) -> str:
    """The arguments that are not their default. ``values``: name -> value and default."""
    return "".join(f", {name}={value!r}" for name, (value, default) in values.items() if value != default)


@converts("_contrib_box_decode")
def box_decode(call: Call) -> str:
    deviations = [Single(call.value(f"std{place}", 1.0)) for place in range(4)]
    options = {"is_corner": (call.text("format", "center") == "corner", False),
               "limit": (float(call.value("clip", -1.0)), -1.0)}
    return f"box_decode({{0}}, {{1}}, {deviations}{_options(options)})"


@converts("_contrib_box_nms")
def box_nms(call: Call) -> str:
    formats = call.text("in_format", "corner"), call.text("out_format", "corner")
    if call.ndim != 3 or formats != ("corner", "corner"):
        raise call.refuse("has boxes that are not rows of corners for each image")
    names = {"overlap": ("overlap_thresh", 0.5), "valid": ("valid_thresh", 0.0), "topk": ("topk", -1),
             "box": ("coord_start", 2), "score": ("score_index", 1), "class_id": ("id_index", -1),
             "background": ("background_id", -1), "force": ("force_suppress", False)}
    values = {name: (type(default)(call.value(key, default)), default) for name, (key, default) in names.items()}
    return f"box_nms({{0}}{_options(values)})"


@converts("_contrib_MultiBoxPrior")
def multi_box_prior(call: Call) -> str:
    sizes, ratios = _singles(call, "sizes", (1.0,)), _singles(call, "ratios", (1.0,))
    steps = _singles(call, "steps", (-1.0, -1.0))
    options = {"steps": (steps if min(steps) > 0 else None, None),
               "offsets": (tuple(_singles(call, "offsets", (0.5, 0.5))), (0.5, 0.5)),
               "clip": (call.flag("clip"), False)}
    return f"multi_box_prior({{0}}, {sizes}, {ratios}{_options(options)})"


@converts("_contrib_MultiBoxDetection")
def multi_box_detection(call: Call) -> str:
    variances = (0.1, 0.1, 0.2, 0.2)
    if call.value("background_id", 0) != 0:
        raise call.refuse("has another background than class 0")
    options = {"threshold": (Single(call.value("threshold", 0.01)), None),
               "variances": (_singles(call, "variances", variances), None),
               "overlap": (Single(call.value("nms_threshold", 0.5)), 0.5), "topk": (call.value("nms_topk", -1), -1),
               "force": (call.flag("force_suppress"), False), "clip": (call.flag("clip", True), True)}
    return f"multi_box_detection({{0}}, {{1}}, {{2}}{_options(options)})"


@converts("_contrib_ROIAlign")
def roi_align(call: Call) -> str:
    options = {"samples": (call.value("sample_ratio", -1), -1), "aligned": (call.flag("aligned"), False),
               "own_channels": (call.flag("position_sensitive"), False)}
    scale = Single(call.value("spatial_scale"))
    return f"roi_align({{0}}, {{1}}, {call.ints('pooled_size', ())}, {scale!r}{_options(options)})"


@converts("_contrib_PSROIPooling")
def position_sensitive_pooling(call: Call) -> str:
    scale, bins = Single(call.value("spatial_scale")), call.shape[2]
    return f"position_sensitive_pool({{0}}, {{1}}, {bins}, {call.value('group_size', 0) or bins}, {scale!r})"
