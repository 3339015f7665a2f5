"""Blocks check their labels where they are called, in every backend, hybridized or not."""
import gluonops as gops
import mxnet as mx
import pytest
from gluonops.backends import label_checks

BOX = [0.5, 0.5, 0.2, 0.3]
ANCHORS = [1.0, 1.0, 2.0, 2.0]


def initialized(block):
    block.initialize()
    return block


# What makes a block, its first input's shape, and labels of which one, and none, is of no class.
BLOCKS = {
    "loss": (gops.loss.SoftmaxCELoss, (2, 3), [0, 7], [0, 2]),
    "loss with the axis kept": (lambda: gops.loss.SoftmaxCELoss(ignore_label=9), (2, 3), [[9], [7]], [[9], [0]]),
    "loss head": (lambda: gops.nn.SoftmaxOutput(axis=1), (1, 3, 2), [[0, 7]], [[0, 2]]),
    "center_loss": (lambda: initialized(gops.loss.CenterLoss(3, 4)), (2, 4), [0, 7], [0, 2]),
    "region_loss": (lambda: initialized(gops.loss.RegionLoss(ANCHORS, 3)), (1, 16, 2, 2), [[[*BOX, 7]]],
                    [[[*BOX, 2]]]),
    "gaussian_yolo_loss": (lambda: gops.loss.GaussianYOLOLoss(ANCHORS, [(0, 1)], [1], 3), (1, 24, 2, 2),
                           [[[*BOX, 7]]], [[[*BOX, 2]]]),
    "yolo_loss": (lambda: gops.loss.YOLOLoss(ANCHORS, [(0, 1)], [1], 3), (1, 16, 2, 2), [[[*BOX, 7]]],
                  [[[*BOX, 2]]]),
}


@pytest.fixture(params=BLOCKS)
def case(request):
    """A block, data, bad and good labels."""
    make, shape, bad, good = BLOCKS[request.param]
    return make(), mx.nd.ones(shape), mx.nd.array(bad), mx.nd.array(good)


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("backend", ["custom", "native", "builtin"], indirect=True)
def test_a_label_that_is_no_class_is_named(case, backend, hybridized, monkeypatch):
    monkeypatch.setenv("GLUONOPS_CHECK_LABELS", "1")
    block, data, bad, good = case
    block.hybridize(hybridized)
    with gops.backend(backend):
        block(data, good)
        with pytest.raises(gops.OpError, match=r"\[\d(, \d)?\].* is .*7.*; expected a "):
            block(data, bad)   # the call raises it, not whoever waits
    mx.nd.waitall()


def test_unchecked_it_passes(case, monkeypatch):
    monkeypatch.setenv("GLUONOPS_CHECK_LABELS", "0")
    block, data, bad, _ = case
    block.hybridize()
    with gops.backend("builtin"):
        block(data, bad)
    mx.nd.waitall()


def test_symbols_pass(case, monkeypatch):
    monkeypatch.setenv("GLUONOPS_CHECK_LABELS", "1")
    with gops.backend("builtin"):
        output = case[0](mx.sym.var("data"), mx.sym.var("label"))
    assert isinstance(output[0], mx.sym.Symbol)


def test_probabilities_are_no_classes(monkeypatch):
    monkeypatch.setenv("GLUONOPS_CHECK_LABELS", "1")
    loss = gops.loss.SoftmaxCELoss(sparse_label=False)
    loss.hybridize()
    with gops.backend("builtin"):
        assert loss(mx.nd.zeros((1, 2)), mx.nd.array([[0.5, 0.5]])).asnumpy() == pytest.approx(0.6931472)


@pytest.mark.parametrize("backend", ["custom", "native", "builtin"], indirect=True)
def test_by_default_the_first_calls_are_checked(case, backend, monkeypatch):
    monkeypatch.delenv("GLUONOPS_CHECK_LABELS")
    block, data, bad, good = case
    with gops.backend(backend):
        with pytest.raises(gops.OpError, match="expected a "):
            block(data, bad)
        for _ in range(label_checks.CHECKED_CALLS):
            block(data, good)
        block(data, bad)   # reading the values of every batch would wait for them
    mx.nd.waitall()


def test_checks_go_on_until_a_label_is_0(monkeypatch):
    """Labels from 1 to N are found in the first batch that has class N, whichever batch it is."""
    monkeypatch.delenv("GLUONOPS_CHECK_LABELS")
    loss, data = gops.loss.SoftmaxCELoss(ignore_label=-1), mx.nd.ones((3, 3))
    for _ in range(50):
        loss(data, mx.nd.array([1, -1, 2]))
    with pytest.raises(gops.OpError, match="Labels start at 0"):
        loss(data, mx.nd.array([3, -1, 2]))
    loss(data, mx.nd.array([0, -1, 2]))
    loss(data, mx.nd.array([3, -1, 2]))   # a batch had the label 0: they start there
    mx.nd.waitall()


def test_labels_that_begin_at_1(monkeypatch):
    monkeypatch.delenv("GLUONOPS_CHECK_LABELS")
    loss = gops.loss.SoftmaxCELoss(ignore_label=-1)
    with pytest.raises(gops.OpError, match="Labels start at 0: subtract 1 from them, or name the value to skip with"):
        loss(mx.nd.ones((3, 3)), mx.nd.array([1, 3, 2]))
