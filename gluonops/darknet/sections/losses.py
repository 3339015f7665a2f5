"""What the options of a head say about its loss. They are read when a loss is asked for, not when a cfg is loaded.

Sources: ``parse_region``, ``parse_yolo``, ``parse_softmax`` and ``parse_cost`` in ``src/parser.c`` of both programs.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..cfg import Section
from ..losses import HeadLoss

__all__ = ["cost_loss", "gaussian_yolo_loss", "region_loss", "softmax_loss", "yolo_loss"]

BOX_LOSSES = ("mse", "iou", "giou", "diou", "ciou")


def region_loss(section: Section, anchors: np.ndarray) -> HeadLoss:
    """Of ``[region]``. ``anchors`` are in cells."""
    for key in ("tree", "map", "focal_loss"):
        section.refuse(key, "its loss is not computed", neutral=None if key in ("tree", "map") else 0)
    scales = {key: section.number(key, 1) for key in ("object_scale", "noobject_scale", "coord_scale", "class_scale")}
    return HeadLoss("region", {
        "anchors": anchors.ravel().tolist(),
        "classes": section.integer("classes", 20, 1),
        "thresh": section.number("thresh", 0.5),
        "rescore": section.flag("rescore"),
        "bias_match": section.flag("bias_match"),
        "softmax": section.flag("softmax"),
        **scales})


def yolo_loss(section: Section, dialect: str, anchors: np.ndarray, mask: Sequence[int], stride: int) -> HeadLoss:
    """Of ``[yolo]``. ``anchors`` are those of all heads, in pixels."""
    options = {**_head_options(section, anchors, mask, stride), "dialect": dialect}
    if dialect == "pjreddie":
        return HeadLoss("yolo", options)
    options.update(
        _alexeyab_options(section),
        box_loss=section.text("iou_loss", "mse", BOX_LOSSES),
        new_coords=section.flag("new_coords"),
        focal_loss=section.flag("focal_loss"))
    return HeadLoss("yolo", options, section.number("delta_normalizer", 1))


def gaussian_yolo_loss(section: Section, anchors: np.ndarray, mask: Sequence[int], stride: int) -> HeadLoss:
    """Of ``[Gaussian_yolo]``. ``anchors`` are those of all heads, in pixels."""
    box_loss = section.text("iou_loss", "mse", BOX_LOSSES)
    options = {
        **_head_options(section, anchors, mask, stride),
        **_alexeyab_options(section),
        "box_loss": "nll" if box_loss == "mse" else box_loss,
        "uc_normalizer": section.number("uc_normalizer", 1),
        "point": section.text("yolo_point", "center")}
    return HeadLoss("gaussian_yolo", options, section.number("delta_normalizer", 1))


def _head_options(section, anchors, mask, stride) -> dict:
    """The options that both programs have."""
    section.refuse("map", "its loss is not computed", neutral=None)
    return {
        "anchors": anchors.ravel().tolist(),
        "classes": section.integer("classes", 20, 1),
        "masks": tuple(mask),
        "strides": stride,
        "ignore_thresh": section.number("ignore_thresh", 0.5),
        "truth_thresh": section.number("truth_thresh", 1)}


def _alexeyab_options(section) -> dict:
    """The options that AlexeyAB's heads have in common."""
    for key in ("counters_per_class", "embedding_layer"):
        section.refuse(key, "its loss is not computed", neutral=None)
    section.text("iou_thresh_kind", "iou", ["iou"])
    return {
        "iou_thresh": section.number("iou_thresh", 1),
        "iou_normalizer": section.number("iou_normalizer", 0.75),
        "obj_normalizer": section.number("obj_normalizer", 1),
        "max_delta": section.number("max_delta", 0),
        "scale_x_y": section.number("scale_x_y", 1),
        "label_smooth_eps": section.number("label_smooth_eps", 0),
        "objectness_smooth": section.flag("objectness_smooth")}


def softmax_loss(section: Section) -> HeadLoss:
    """Of ``[softmax]``."""
    section.refuse("tree", "its loss is not computed", neutral=None)
    section.refuse("groups", "its loss is not computed", neutral=1)
    section.refuse("temperature", "its loss is not computed", neutral=1)
    return HeadLoss("softmax", {}, 0 if section.flag("noloss") else 1)


def cost_loss(section: Section, softmax: Callable[[], HeadLoss] | None) -> HeadLoss:
    """Of ``[softmax]`` with a ``[cost]`` behind it.

    The delta of both is the label minus the probability, and Darknet adds them up.
    """
    head = softmax() if softmax else None
    if head is None or head.kind != "softmax":
        raise section.error("the loss of a [cost] without a [softmax] before it is not computed",
                            "Compute the loss of the net's output yourself")
    section.text("type", "sse", ["sse"])
    return head._replace(weight=head.weight + section.number("scale", 1))
