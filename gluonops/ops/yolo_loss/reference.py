"""``yolo_loss`` and its gradient, computed with MXNet's own operators."""
from ...backends.emitter import Array
from .._region import yolo_box_reference as boxes
from .._region import yolo_reference as yolo
from .._region.yolo_reference import backward as backward


def forward(F, attrs, data: Array, truth: Array) -> tuple[Array, ...]:
    head = yolo.head_of(F, attrs, F.BlockGrad(data))
    truths = yolo.truths_of(F, attrs, F.BlockGrad(truth))
    matches = yolo.matches_of(F, attrs, head, truths)
    ignored = yolo.is_ignored(F, attrs, head, matches)
    objectness = yolo.objectness_target(F, attrs, head, matches, ignored)
    classes = yolo.class_target(F, attrs, head, truths, matches, matches.by_overlap)
    learned = truths if attrs.dialect == "alexeyab" else boxes.last_truths(F, truths, matches)
    box_errors = boxes.squared_errors if attrs.box_loss == "mse" else boxes.iou_errors
    errors = box_errors(F, attrs, head, learned)
    *deltas, loss = boxes.sum_matches(F, attrs, learned, matches, errors)

    def is_averaged(objectness_delta):
        return objectness_delta != 0 if attrs.iou_thresh < 1 else F.zeros_like(objectness_delta)

    return yolo.result(F, attrs, data, head, truths, matches, objectness, classes, (deltas, loss, is_averaged))
