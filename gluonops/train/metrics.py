"""Metrics of classifiers and detectors."""
from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import mxnet as mx
import numpy as np

from ..data import coco_average_precision
from ..export import Preprocessing
from ..io.optional import require

__all__ = ["DetectionMetrics", "Verification", "accuracy", "class_spread", "confusion_matrix", "detections",
           "evaluate_detector", "total", "verification"]

HIT = 0.5   # IoU from which a detection is a hit, in VOC
CONFIDENT = 0.25   # score from which a detection counts where there is no curve
LARGEST = 1e6   # pixels; pycocotools computes areas, which must stay finite


def accuracy(outputs: np.ndarray, labels: np.ndarray) -> float:
    """The share of the rows whose largest output is that of the label.

    Parameters
    ----------
    outputs, labels : numpy.ndarray
        (N, classes), and (N,).
    """
    return float((outputs.argmax(1) == labels).mean())


def confusion_matrix(labels: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """Counts of (true class, predicted class): int64 (classes, classes).

    Parameters
    ----------
    labels, predicted : numpy.ndarray
        (N,), from 0 to classes - 1.
    classes : int
    """
    matrix = np.zeros((classes, classes), "int64")
    np.add.at(matrix, (np.asarray(labels, int), np.asarray(predicted, int)), 1)
    return matrix


def class_spread(vectors: np.ndarray, labels: np.ndarray) -> float | None:
    """How far vectors spread within their classes, relative to the distance between the classes.

    It is the mean squared distance of a vector from the mean of its class, divided by the mean squared distance of the
    class means from their mean. None if all class means are equal, as with a single class.

    Parameters
    ----------
    vectors, labels : numpy.ndarray
        (N, D), and (N,).
    """
    means = np.stack([vectors[labels == label].mean(0) for label in np.unique(labels)])
    within = np.mean([((vectors[labels == label] - mean)**2).sum(1).mean()
                      for label, mean in zip(np.unique(labels), means)])
    between = ((means - means.mean(0))**2).sum(1).mean()
    return float(within / between) if between else None


class Verification(NamedTuple):
    """How well cosines of embeddings tell pairs of one class from others; see :func:`verification`.

    Attributes
    ----------
    accuracy : float
        Share of the pairs that are compared correctly with the best threshold, where both kinds of pairs count alike.
    threshold : float
        The cosine from which a pair is taken for one class.
    area : float
        Area under the ROC curve.
    false_positives, true_positives : numpy.ndarray
        The ROC curve: shares of the pairs of two classes, and of one class, at falling thresholds.
    """
    accuracy: float
    threshold: float
    area: float
    false_positives: np.ndarray
    true_positives: np.ndarray


def verification(vectors: np.ndarray, labels: np.ndarray) -> Verification | None:
    """Compare every pair of embeddings, as face verification does. The classes need not have been trained on.

    Parameters
    ----------
    vectors, labels : numpy.ndarray
        (N, D), of any length, and (N,). Vectors of zeros have the cosine 0 with all others.

    Returns
    -------
    Verification or None
        None if all pairs are of one class, or if no pair is.
    """
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30)
    first, second = np.triu_indices(len(labels), 1)
    cosines = (unit @ unit.T)[first, second]
    is_same = labels[first] == labels[second]
    if is_same.all() or not is_same.any():
        return None
    order = np.argsort(-cosines, kind="stable")
    is_last = np.append(np.diff(cosines[order]) != 0, True)   # whether it is the last pair with its cosine
    true, false = (np.append(0, np.cumsum(kind[order])[is_last] / kind.sum()) for kind in (is_same, ~is_same))
    balanced = (true + 1 - false) / 2
    best = balanced.argmax()
    thresholds = np.append(np.inf, cosines[order][is_last])
    area = (np.diff(false) * (true[1:] + true[:-1]) / 2).sum()
    return Verification(float(balanced[best]), float(thresholds[best]), float(area), false, true)


def total(values: Iterable[mx.nd.NDArray], axis: int | None = None) -> mx.nd.NDArray:
    """The sum of arrays on several devices, on the device of the first one. Nothing waits for the result.

    Parameters
    ----------
    values : iterable of NDArray
        The arrays.
    axis : int, optional
        Each array is first summed over this axis. By default it is summed over all axes.
    """
    sums = [value.sum() if axis is None else value.sum(axis=axis) for value in values]
    return sum(part.as_in_context(sums[0].context) for part in sums)


class DetectionMetrics:
    """Computes average precisions of a detector from the images that it is updated with.

    It needs gluoncv and pycocotools.

    Parameters
    ----------
    classes : sequence of str
        Names of the classes, in the order of their class ids.
    """

    def __init__(self, classes: Sequence[str]):
        voc = require("gluoncv.utils.metrics.voc_detection", "train.DetectionMetrics")
        self.classes = list(classes)
        self._metrics = {"mAP": voc.VOCMApMetric(HIT, self.classes), "mAP_voc07": voc.VOC07MApMetric(HIT, self.classes)}
        self._detections: list[np.ndarray] = []
        self._labels: list[np.ndarray] = []

    def update(self, detections: np.ndarray, label: np.ndarray) -> None:
        """Add an image.

        Parameters
        ----------
        detections : numpy.ndarray
            (detections, 6): class, score, xmin, ymin, xmax, ymax in the pixels of the image.
        label : numpy.ndarray
            (objects, 6): xmin, ymin, xmax, ymax, class, difficult.
        """
        self._detections.append(detections)
        self._labels.append(label)
        for metric in self._metrics.values():
            metric.update([detections[None, :, 2:]], [detections[None, :, 0]], [detections[None, :, 1]],
                          [label[None, :, :4]], [label[None, :, 4]], [label[None, :, 5]])

    def summary(self) -> dict[str, float]:
        """The averages over the classes, from 0 to 1. They are 0 if no class has an object.

        ``mAP`` is the area under the curve of precision and recall at an IoU of 0.5, ``mAP_voc07`` the mean of VOC
        2007's eleven points. ``AP``, ``AP50`` and ``AP75`` are COCO's: at IoUs from 0.50 to 0.95, at 0.5, at 0.75.
        ``matched_iou`` is the mean IoU of objects and the detections that match them: of the same class, with a score
        of at least 0.25 and an IoU of at least 0.5.
        """
        values = {name: self._per_class(metric)[-1] for name, metric in self._metrics.items()}
        values["matched_iou"] = self._matched_iou()
        # A side is the exponential of an output, and infinite or no number in a net that is far off.
        finite = [detected[~np.isnan(detected).any(1)].clip(-LARGEST, LARGEST) for detected in self._detections]
        values.update(coco_average_precision(finite, self._labels, self.classes))
        return {name: 0.0 if math.isnan(value) else float(value) for name, value in values.items()}

    def per_class(self) -> dict[str, float]:
        """The average precision of each class at an IoU of 0.5. It is NaN for a class without an object."""
        values = self._per_class(self._metrics["mAP"])
        return dict(zip(self.classes, values if len(values) > 1 else [math.nan] * len(self.classes)))

    @property
    def confusion(self) -> np.ndarray:
        """Counts of (true class, detected class), int64 (classes + 1, classes + 1); the last one is "nothing".

        Detections with a score of at least 0.25 are matched to the objects of any class, from the highest score down.
        A match has an IoU of at least 0.5.
        """
        nothing = len(self.classes)
        matrix = np.zeros((nothing + 1,) * 2, "int64")
        for detected, label in self._counted():
            actual = np.append(label[:, 4], nothing).astype(int)
            missed = np.ones(len(actual), bool)
            missed[-1] = False
            for row, object_index, _ in _matches(detected, label):
                missed[object_index] = False
                matrix[actual[object_index], int(row[0])] += 1
            np.add.at(matrix[:, nothing], actual[missed], 1)
        return matrix

    def _counted(self):
        """Each image's detections whose score is high enough, and its objects that are not difficult."""
        for detected, label in zip(self._detections, self._labels):
            yield detected[detected[:, 1] >= CONFIDENT], label[label[:, 5] == 0]

    def _matched_iou(self):
        overlaps = [overlap for detected, label in self._counted() for overlap in matched(detected, label)]
        return float(np.mean(overlaps)) if overlaps else 0.0

    def _per_class(self, metric):
        if not self._detections:
            return [math.nan]
        return np.ravel(metric.get()[1]).tolist()


def detections(detector: Callable, loader: Iterable, size: tuple[int, int], device: mx.Context,
               stretched: bool = False) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The detections of every image, and its label, both in the pixels of the image.

    Parameters
    ----------
    detector : callable
        Takes images (B, 3, H, W), and returns ids, scores and boxes, as ``net.detector()`` does.
    loader : iterable
        A DataLoader of :class:`gluonops.data.Letterboxed` or :class:`gluonops.data.Stretched`, with
        :func:`gluonops.data.validation_batch`.
    size : tuple of int
        (width, height) of the input.
    device : mxnet.Context
    stretched : bool, default False
        Whether the loader's images are stretched to the input: :class:`gluonops.data.Stretched`.

    Yields
    ------
    detections, label : numpy.ndarray
        As :meth:`DetectionMetrics.update` takes them.
    """
    preprocessing = Preprocessing(resize="stretch" if stretched else "letterbox")
    for images, _, labels, shapes in loader:
        outputs = [array.asnumpy() for array in detector(images.as_in_context(device))]
        for ids, scores, boxes, label, shape in zip(*outputs, labels.asnumpy(), shapes.asnumpy()):
            is_real = ids[:, 0] >= 0
            boxes = preprocessing.boxes_of_image(boxes[is_real], tuple(shape), size)
            yield np.column_stack([ids[is_real], scores[is_real], boxes]), label[label[:, 4] >= 0]


def evaluate_detector(detector: Callable, loader: Iterable, size: tuple[int, int], device: mx.Context,
                      classes: Sequence[str], stretched: bool = False) -> DetectionMetrics:
    """The metrics of a detector on a data set. The arguments are those of :func:`detections`."""
    metrics = DetectionMetrics(classes)
    for detected, label in detections(detector, loader, size, device, stretched):
        metrics.update(detected, label)
    return metrics


def matched(detected: np.ndarray, label: np.ndarray) -> list[float]:
    """The IoUs of the objects that are detected: by a detection of their class, with an IoU of at least 0.5.

    ``detected`` and ``label`` are as :meth:`DetectionMetrics.update` takes them.
    """
    overlaps = []
    for class_id in np.unique(label[:, 4]):
        matches = _matches(detected[detected[:, 0] == class_id], label[label[:, 4] == class_id])
        overlaps += [overlap for _, object_index, overlap in matches if object_index >= 0]
    return overlaps


def _matches(detected, label):
    """(detection, index of its object or -1, IoU), from the highest score down. An object has at most one detection."""
    bbox_iou = require("gluoncv.utils.bbox", "train.DetectionMetrics").bbox_iou
    with np.errstate(invalid="ignore", divide="ignore"):   # a box may be infinite, and a point or no number
        overlaps = np.nan_to_num(bbox_iou(detected[:, 2:], label[:, :4]))
    for row in np.argsort(-detected[:, 1], kind="stable"):
        overlap = float(overlaps[row].max(initial=0))
        if overlap < HIT:
            yield detected[row], -1, 0.0
        else:
            best = int(overlaps[row].argmax())
            overlaps[:, best] = 0
            yield detected[row], best, overlap
