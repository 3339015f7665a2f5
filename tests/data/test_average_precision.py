"""COCO's average precision of cases that can be worked out by hand."""
import gluonops as gops
import numpy as np
import pytest
from gluonops.data import coco_average_precision

CLASSES = ("cat", "dog")
BOX, OTHER = (10, 10, 50, 50), (60, 20, 90, 80)


def found(*rows):
    return np.array(rows, "float32").reshape(-1, 6)


def labels(*rows):
    return np.array(rows, "float32").reshape(-1, 6)


def test_all_are_found():
    precision = coco_average_precision([found((0, 0.9, *BOX), (1, 0.8, *OTHER)), found()],
                                       [labels((*BOX, 0, 0), (*OTHER, 1, 0)), labels()], CLASSES)
    assert precision == pytest.approx({"AP": 1, "AP50": 1, "AP75": 1})


def test_an_overlap_counts_at_the_thresholds_below_it():
    """An IoU of 0.72 is one of 0.5, 0.55, 0.6, 0.65 and 0.7: five of ten."""
    near = (10, 10, 50, 10 + 40 * 0.72)
    precision = coco_average_precision([found((0, 0.9, *near))], [labels((*BOX, 0, 0))], CLASSES)
    assert precision == pytest.approx({"AP": 0.5, "AP50": 1, "AP75": 0})


def test_a_class_without_detections_counts():
    """One of two classes is found, and one of its two objects: half of the recalls, and 51 of the 101 points."""
    precision = coco_average_precision([found((0, 0.9, *BOX))], [labels((*BOX, 0, 0), (*OTHER, 0, 0), (*BOX, 1, 0))],
                                       CLASSES)
    assert precision["AP"] == pytest.approx(51 / 101 / 2)


def test_a_difficult_object_is_neither_found_nor_missed():
    truth = [labels((*BOX, 0, 0), (*OTHER, 0, 1))]
    assert coco_average_precision([found((0, 0.9, *BOX))], truth, CLASSES)["AP"] == pytest.approx(1)
    assert coco_average_precision([found((0, 0.95, *OTHER), (0, 0.9, *BOX))], truth, CLASSES)["AP"] == pytest.approx(1)


def test_nothing_to_find_and_nothing_found():
    assert np.isnan(coco_average_precision([found((0, 0.9, *BOX))], [labels()], CLASSES)["AP"])
    assert coco_average_precision([found()], [labels((*BOX, 0, 0))], CLASSES) == {"AP": 0, "AP50": 0, "AP75": 0}


def test_an_array_for_every_image():
    with pytest.raises(gops.OpError, match="there are detections of 1 images and labels of 2"):
        coco_average_precision([found()], [labels(), labels()], CLASSES)
