"""Metrics against numbers that follow from their definitions."""
import mxnet as mx
import numpy as np
import pytest
from gluonops import data, train


def test_accuracy_and_confusion():
    outputs, labels = np.eye(3)[[0, 1, 1, 2]], np.array([0, 1, 2, 2])
    assert train.accuracy(outputs, labels) == 0.75
    matrix = train.confusion_matrix(labels, outputs.argmax(1), 3)
    np.testing.assert_array_equal(matrix, [[1, 0, 0], [0, 1, 0], [0, 1, 1]])


@pytest.mark.parametrize("units", [1, 2, 5])
def test_spread(rng, units):
    vectors, labels = rng.standard_normal((20, units)), np.arange(20) % 3
    assert train.class_spread(vectors, labels) > 0 and train.class_spread(vectors, labels * 0) is None
    closer = vectors * 0.1 + labels[:, None]
    assert train.class_spread(closer, labels) < 0.1 * train.class_spread(vectors, labels)


def test_verification(rng):
    """scikit-learn agrees, also where pairs are told with certainty; the length of a vector has no influence."""
    metrics = pytest.importorskip("sklearn.metrics")
    labels = np.arange(30) % 3
    vectors = np.eye(3)[labels] + rng.standard_normal((30, 3))
    found = train.verification(vectors * rng.uniform(0.1, 9, (30, 1)), labels)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    first, second = np.triu_indices(30, 1)
    same, cosines = labels[first] == labels[second], (unit @ unit.T)[first, second]
    assert found.area == pytest.approx(metrics.roc_auc_score(same, cosines), abs=1e-12)
    assert found.accuracy == pytest.approx(metrics.balanced_accuracy_score(same, cosines >= found.threshold - 1e-9))
    certain = train.verification(np.eye(3)[labels], labels)
    assert certain.accuracy == certain.area == 1 and certain.threshold == pytest.approx(1)
    assert train.verification(np.zeros((4, 2)), np.arange(4) % 2).area == 0.5   # Nothing follows from equal cosines.
    assert train.verification(vectors, labels * 0) is None


def test_total_on_several_devices():
    values = [mx.nd.ones((2, 3), ctx=mx.cpu(0)), mx.nd.ones((1, 3), ctx=mx.cpu(1))]
    assert train.total(values).asscalar() == 9 and train.total(values).context == mx.cpu(0)
    np.testing.assert_array_equal(train.total(values, axis=0).asnumpy(), [3, 3, 3])


LABEL = np.array([[0, 0, 10, 10, 0, 0], [20, 20, 40, 40, 1, 0], [50, 50, 60, 60, 1, 1]], "float32")


def found(*rows):
    return np.array(rows, "float32").reshape(-1, 6)


def test_average_precisions():
    """One object has an IoU of 1, one 0.6, and a false alarm is between them; the difficult one does not count."""
    metrics = train.DetectionMetrics(["cat", "dog"])
    metrics.update(found([0, 0.9, 0, 0, 10, 10], [1, 0.8, 100, 100, 110, 110], [1, 0.7, 20, 20, 32, 40]), LABEL)
    summary = metrics.summary()
    # The dog is the second of two detections: precision 0.5 at every recall.
    assert summary["mAP"] == pytest.approx((1 + 0.5) / 2) and summary["mAP_voc07"] == pytest.approx((1 + 0.5) / 2)
    assert summary["AP50"] == pytest.approx((1 + 0.5) / 2, abs=1e-3) and summary["AP75"] == pytest.approx(0.5, abs=1e-3)
    assert summary["AP"] == pytest.approx((1 + 0.5 * 3 / 10) / 2, abs=1e-3)   # the dog counts at 0.50, 0.55 and 0.60
    assert summary["matched_iou"] == pytest.approx((1 + 0.6) / 2)
    assert metrics.per_class() == pytest.approx({"cat": 1, "dog": 0.5})
    np.testing.assert_array_equal(metrics.confusion, [[1, 0, 0], [0, 1, 0], [0, 1, 0]])


def test_nothing_found_and_boxes_that_are_no_numbers():
    metrics = train.DetectionMetrics(["cat", "dog"])
    metrics.update(found(), LABEL)
    metrics.update(found([1, 0.9, -np.inf, 0, np.inf, 9], [0, 0.5, np.nan, 0, 9, 9]), LABEL[:0])
    assert metrics.summary() == {"mAP": 0, "mAP_voc07": 0, "AP": 0, "AP50": 0, "AP75": 0, "matched_iou": 0}
    np.testing.assert_array_equal(metrics.confusion, [[0, 0, 1], [0, 0, 1], [1, 1, 0]])
    assert train.DetectionMetrics(["cat"]).summary()["mAP"] == 0


class Oracle:
    """A detector that knows the truth."""

    def __init__(self, loader):
        self.truths = iter([truth for _, truth, *_ in loader])

    def __call__(self, images):
        truth = next(self.truths)
        middle, sides, ids = truth[:, :, :2] * 96, truth[:, :, 2:4] * 96, truth[:, :, 4:]
        there = sides[:, :, :1] > 0
        boxes = mx.nd.concat(middle - sides / 2, middle + sides / 2, dim=2)
        return mx.nd.where(there, ids, -mx.nd.ones_like(ids)), mx.nd.ones_like(ids), boxes


def test_of_original_pixels():
    """A detector that knows the truth scores 1, through letterbox and back."""
    scenes = data.detection("digits", split="val", count=10)
    loader = mx.gluon.data.DataLoader(data.Letterboxed(scenes, 96), 5, batchify_fn=data.validation_batch)
    metrics = train.evaluate_detector(Oracle(loader), loader, (96, 96), mx.cpu(), scenes.classes)
    summary = metrics.summary()
    assert set(summary) == {"mAP", "mAP_voc07", "AP", "AP50", "AP75", "matched_iou"}
    assert summary == pytest.approx(dict.fromkeys(summary, 1), abs=1e-6)
    assert metrics.confusion.trace() == metrics.confusion.sum()
