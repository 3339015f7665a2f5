"""What is made of an export that computes something else, or does not run."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.train import exporting

BOXES = np.array([[10, 10, 50, 40], [30, 20, 90, 80], [12, 11, 48, 42], [0, 0, 3, 4]], "float32")
IDS, SCORES = np.array([1, 0, 1, 2]), np.array([0.9, 0.5, 0.5, 0.001])
ORDER = [0, 2, 1, 3]   # The two equal scores keep their order.


def slots(ids=IDS, scores=SCORES, boxes=BOXES):
    """Detections of one image as a detector returns them: eight slots, the empty ones -1."""
    found = np.column_stack([ids, scores, boxes]).astype("float32")
    full = np.full((1, 8, 6), -1, "float32")
    full[0, :len(found)] = found
    return [full[..., :1], full[..., 1:2], full[..., 2:]]


def changed(values, place, value):
    out = np.array(values, "float64")
    out[place] = value
    return out


@pytest.mark.parametrize("found", [
    slots(), slots(IDS[ORDER], SCORES[ORDER], BOXES[ORDER]), slots(scores=SCORES + 1e-6, boxes=BOXES * (1 + 1e-6)),
    slots(IDS[:3], SCORES[:3], BOXES[:3])], ids=["same", "another order", "rounding", "one at the threshold"])
def test_the_same_detections(found):
    assert exporting.DETECTIONS.difference(found, slots()) <= 1e-3
    assert exporting.DETECTIONS.difference(slots(), found) <= 1e-3


@pytest.mark.parametrize("found", [
    slots(boxes=changed(BOXES, (0, 2), 52)), slots(changed(IDS, 1, 1)), slots(scores=changed(SCORES, 0, 0.8)),
    slots(scores=changed(SCORES, 0, np.nan)), slots(boxes=changed(BOXES, (1, 1), np.nan)),
    slots(IDS[1:], SCORES[1:], BOXES[1:]), slots(IDS[:0], SCORES[:0], BOXES[:0]),
    slots([*IDS, 0], [*SCORES, 0.5], [*BOXES, BOXES[1]])],
    ids=["box", "class", "score", "score nan", "box nan", "one less", "none", "one twice"])
def test_other_detections(found):
    assert not exporting.DETECTIONS.difference(found, slots()) <= exporting.DETECTIONS.tolerance
    assert not exporting.DETECTIONS.difference(slots(), found) <= exporting.DETECTIONS.tolerance


def test_boxes_that_overflow():
    """They are compared relative to their size, and as equal where both are infinite."""
    huge = changed(BOXES, 0, [-1e24, -1e24, 1e24, 1e24])
    assert exporting.DETECTIONS.difference(slots(boxes=huge * (1 + 1e-6)), slots(boxes=huge)) < 1e-5
    assert exporting.DETECTIONS.difference(slots(boxes=huge * 1.1), slots(boxes=huge)) > 0.1
    endless = slots(boxes=changed(BOXES, 0, [-np.inf, -np.inf, np.inf, np.inf]))
    assert exporting.DETECTIONS.difference(endless, endless) == 0
    assert exporting.DETECTIONS.difference(slots(), endless) > 0.1


@pytest.mark.parametrize("found, difference", [
    ([[1, 2], [3, 1001]], 1e-3), ([[1, 2], [3, np.nan]], np.nan), ([[1, np.nan], [3, 1000]], np.nan),
    ([[1, 2]], np.inf)])
def test_outputs(found, difference):
    found = exporting.OUTPUTS.difference([np.array(found)], [np.array([[1., 2], [3, 1000]])])
    np.testing.assert_allclose(found, difference)


def test_the_export(monkeypatch, tmp_path):
    """A sound one passes; files that compute something else do not, nor files that do not run."""
    net = mx.gluon.nn.Dense(3, in_units=4)
    net.initialize(mx.init.Xavier())
    images, prefix = np.ones((2, 4), "float32"), tmp_path / "net"
    assert max(exporting.export_and_check(net, prefix, images).values()) < 1e-6
    symbol = gops.export.symbol

    def doubled(net, *args):
        symbol(net, *args)
        mx.nd.save(f"{prefix}-0000.params", {name: 2 * value for name, value in mx.nd.load(
            f"{prefix}-0000.params").items()})

    def cut(net, *args):
        symbol(net, *args)
        (tmp_path / "net-0000.params").write_bytes(b"cut")

    for broken, text in ((doubled, "computes other results than the net, module: it differs by .*; expected at most"),
                         (cut, "does not run, module: .*Invalid NDArray file format. Do not use it")):
        monkeypatch.setattr(gops.export, "symbol", broken)
        with pytest.raises(gops.OpError, match=text):
            exporting.export_and_check(net, prefix, images)
    monkeypatch.setattr(gops.export, "symbol", symbol)
    monkeypatch.setattr(exporting, "WITHOUT_GLUONOPS", "raise SystemExit('no such thing')")
    with pytest.raises(gops.OpError, match="does not run, without gluonops: no such thing. Do not use it"):
        exporting.export_and_check(net, prefix, images)
