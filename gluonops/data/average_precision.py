"""COCO's average precision, computed by pycocotools, for a data set in any format."""
from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence

import numpy as np

from ..contract.errors import OpError
from ..io.optional import require

STATISTICS = ("AP", "AP50", "AP75")   # the first of pycocotools' twelve


def coco_average_precision(detections: Sequence[np.ndarray], labels: Sequence[np.ndarray],
                           classes: Sequence[str]) -> dict[str, float]:
    """Compute the average precision as COCO's server does: over 101 recalls, all classes, and IoUs from 0.5 to 0.95.

    Parameters
    ----------
    detections : sequence of numpy.ndarray
        One array (detections, 6) per image: class id, score, xmin, ymin, xmax, ymax in pixels of the image.
    labels : sequence of numpy.ndarray
        One array (objects, 6) per image, as :meth:`gluonops.data.DetectionDataset.label` returns it. A difficult
        object is ignored like a crowd in COCO: it is neither a hit nor a miss.
    classes : sequence of str
        Names of the classes.

    Returns
    -------
    dict of str to float
        ``AP``, and ``AP50`` and ``AP75`` for a single IoU. Values are from 0 to 1, or NaN if every object is ignored.

    Raises
    ------
    OpError
        The numbers of detections and labels differ, or pycocotools is not installed.
    """
    where = "data.coco_average_precision"
    if len(detections) != len(labels):
        raise OpError(where, f"there are detections of {len(detections)} images and labels of {len(labels)}; expected "
                      "as many of both",
                      "Pass an array for every image, and an empty one where nothing is detected")
    coco = require("pycocotools.coco", where).COCO()
    evaluation = require("pycocotools.cocoeval", where).COCOeval
    annotations = [_annotation(image, row[4], row[:4], iscrowd=int(row[5]))
                   for image, label in enumerate(labels) for row in np.asarray(label)]
    results = [_annotation(image, row[0], row[2:6], score=float(row[1]))
               for image, rows in enumerate(detections) for row in np.asarray(rows)]
    if all(annotation["iscrowd"] for annotation in annotations):
        return dict.fromkeys(STATISTICS, float("nan"))
    if not results:
        return dict.fromkeys(STATISTICS, 0.0)

    for number, annotation in enumerate(annotations, 1):   # pycocotools uses id 0 for no match
        annotation["id"] = number
    coco.dataset = {"images": [{"id": image} for image in range(len(labels))], "annotations": annotations,
                    "categories": [{"id": number, "name": name} for number, name in enumerate(classes)]}
    with contextlib.redirect_stdout(io.StringIO()):   # pycocotools prints its progress
        coco.createIndex()
        evaluator = evaluation(coco, coco.loadRes(results), "bbox")
        evaluator.evaluate()
        evaluator.accumulate()
        evaluator.summarize()
    return {name: float(value) for name, value in zip(STATISTICS, evaluator.stats)}


def _annotation(image: int, class_id: float, box: np.ndarray, **others: float) -> dict:
    left, top, right, bottom = map(float, box)
    return {"image_id": image, "category_id": int(class_id), "bbox": [left, top, right - left, bottom - top],
            "area": (right - left) * (bottom - top), **others}
