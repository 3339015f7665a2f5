"""yolo_loss where nearly all predictions of an image are left over: more than a block of a GPU's threads holds."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd

BATCH, CELLS = 129, (21, 20)   # An image has one block of threads, and 840 predictions.
IMAGES = 2                     # So many have boxes: those of more would take the emulator long.


def run():
    """Loss, parts and gradient with the current backend."""
    rng = np.random.RandomState(0)
    data = mx.nd.array(rng.randn(BATCH, 2 * 7, *CELLS))
    truth = np.zeros((BATCH, 40, 5))
    truth[:IMAGES, :, :2] = rng.uniform(size=(IMAGES, 40, 2))
    truth[:IMAGES, :, 2:4] = rng.uniform(0.1, 0.6, size=(IMAGES, 40, 2))
    truth[:IMAGES, :, 4] = rng.randint(0, 2, (IMAGES, 40))
    data.attach_grad()
    with autograd.record():
        loss, parts = gops.ops.yolo_loss(
            data, mx.nd.array(truth), anchors=(3, 4, 6, 5), classes=2, dialect="alexeyab", ignore_thresh=0.01,
            box_loss="giou", iou_thresh=0.3, parts=True)
    loss.backward()
    return loss.asnumpy(), parts.asnumpy(), data.grad.asnumpy()


@pytest.mark.parametrize("backend", ["cuda"], indirect=True)
def test_all_are_computed(backend):
    with gops.backend("native"):
        expected = run()
    with gops.backend(backend):
        got = run()
    for array, wanted in zip(got, expected):
        np.testing.assert_allclose(array, wanted, rtol=2e-4, atol=2e-5)
