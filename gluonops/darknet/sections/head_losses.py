"""What the options of a head say about its loss. They are read when a loss is asked for, not when a cfg is loaded.

Sources: ``parse_region``, ``parse_yolo``, ``parse_softmax`` and ``parse_cost`` in ``src/parser.c`` of both programs.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..builder import Builder
from ..cfg import Section
from ..losses import HeadLoss
from ..tree import Tree

__all__ = ["cost_loss", "detection_loss", "gaussian_yolo_loss", "region_loss", "softmax_loss", "yolo_loss"]

BOX_LOSSES = ("mse", "iou", "giou", "diou", "ciou")
# The types of a [cost] behind a loss.
TYPES_BEHIND = {"softmax": ["sse", "masked"], "softmax of a tree": ["masked"]}


def region_loss(build: Builder, section: Section, anchors: np.ndarray, tree: Tree | None) -> HeadLoss:
    """The loss of ``[region]``. ``anchors`` are in cells."""
    section.refuse("focal_loss", "its loss is not computed", neutral=0)
    classes = section.integer("classes", 20, 1)
    options = {
        "anchors": anchors.ravel().tolist(),
        "thresh": section.number("thresh", 0.5),
        "rescore": section.flag("rescore"),
        "bias_match": section.flag("bias_match"),
        **_scales(section)}
    class_map = build.class_map(section, classes)
    if tree is not None:
        return HeadLoss("region of a tree", {**options, "tree": tree}, class_map=class_map)
    options.update(classes=classes, softmax=section.flag("softmax"))
    return HeadLoss("region", options, class_map=class_map)


def detection_loss(section: Section) -> HeadLoss:
    """The loss of ``[detection]``."""
    flags = {key: section.flag(key) for key in ("sqrt", "rescore", "softmax", "forced", "random")}
    if flags["forced"]:
        section.integer("num", 1, 2)
    return HeadLoss("detection", {
        "side": section.integer("side", 7, 1),
        "boxes": section.integer("num", 1, 1),
        "classes": section.integer("classes", 1, 1),
        **flags,
        **_scales(section)})


def _scales(section: Section) -> dict[str, float]:
    keys = ("object_scale", "noobject_scale", "coord_scale", "class_scale")
    return {key: section.number(key, 1) for key in keys}


def yolo_loss(section: Section, dialect: str, anchors: np.ndarray, mask: Sequence[int], stride: int) -> HeadLoss:
    """The loss of ``[yolo]``. ``anchors`` are those of all heads, in pixels."""
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
    """The loss of ``[Gaussian_yolo]``. ``anchors`` are those of all heads, in pixels."""
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


def softmax_loss(section: Section, tree: Tree | None) -> HeadLoss:
    """The loss of ``[softmax]``."""
    section.refuse("groups", "its loss is not computed", neutral=1)
    options = {"temperature": section.number("temperature", 1)}
    weight = 0 if section.flag("noloss") else 1
    if tree is not None:
        return HeadLoss("softmax of a tree", {**options, "tree": tree}, weight)
    return HeadLoss("softmax", options, weight)


def cost_loss(section: Section, before: Callable[[], HeadLoss] | None) -> HeadLoss:
    """The loss of ``[cost]``, which may follow a ``[softmax]``.

    The delta of both is the label minus the probability, and Darknet adds them up. With a tree only the type masked
    leaves out the classes that do not count.
    """
    scale = section.number("scale", 1)
    if before is None:
        section.text("type", "sse", ["sse"])
        return HeadLoss("cost", {}, scale)
    head = before()
    if head.kind not in TYPES_BEHIND:
        raise section.error(f"the loss of a [cost] behind the loss of a {head.kind} is not computed", "Remove [cost]")
    section.text("type", "sse", TYPES_BEHIND[head.kind])
    return head._replace(weight=head.weight + scale)
