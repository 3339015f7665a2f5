"""What follows from a cfg: how images change, how long a run is, and where detections in stretched images lie."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops import data, train
from gluonops.darknet import read_training
from mxnet import gluon

NET = "[net]\nwidth=64\nheight=64\nchannels=3\nhue=.1\nsaturation=1.5\nexposure=1.25\nbatch=8\nsubdivisions=4\n"
CONV = "[convolutional]\nsize=1\nstride=16\nfilters=14\nactivation=linear\n"
YOLO = "[yolo]\nmask=0,1\nanchors=8,9, 20,24\nclasses=2\nnum=2\njitter=.3\n"


@pytest.fixture
def read(tmp_path):
    def options(text, dialect=None):
        (tmp_path / "net.cfg").write_text(text)
        return read_training(tmp_path / "net.cfg", dialect)
    return options


def test_images_change_as_the_cfg_says(read):
    detector, resize = NET + CONV + YOLO, "resize=1.5\n"
    theirs, his = (train.darknet_augment(read(detector + text, dialect)) for text, dialect in (
        ("", "pjreddie"), (resize, "alexeyab")))
    for augment in (theirs, his):
        assert (augment.hue, augment.saturation, augment.exposure, augment.flip, augment.jitter) == (
            0.1, 1.5, 1.25, 0.5, 0.3)
    assert type(theirs) is data.Augment and theirs.scale == (1, 1)
    assert type(his) is data.Crop and his.resize == 1.5 and not his.mosaic_share
    assert train.darknet_augment(read(detector.replace("[conv", "mosaic=1\nflip=0\n[conv"))).mosaic_share == 0.5
    turn = train.darknet_augment(read(NET + "angle=7\naspect=1.3\nmax_crop=96\n" + CONV + "[avgpool]\n[softmax]\n"))
    assert type(turn) is data.Turn and (turn.angle, turn.aspect, turn.scale) == (7, 1.3, (1, 1.5))


def test_length(read):
    """An epoch has at least about 100 updates of 8 images, or as many as are left."""
    options = read(NET + "max_batches=1000\n" + CONV + YOLO)
    assert train.darknet_epochs(options, 1600) == (5, 1)      # 200 updates an epoch
    assert train.darknet_epochs(options, 80) == (10, 10)      # 10 updates a pass
    assert train.darknet_epochs(options, 80, seen=8 * 980) == (1, 2)
    two, alone = train.Workers(count=2, kind="dist_sync"), train.Workers(count=2, kind="dist_async")
    assert train.darknet_epochs(options, 1600, workers=two) == (10, 1)    # 100 updates of 16 images an epoch
    assert train.darknet_epochs(options, 80, seen=16 * 980, workers=two) == (1, 4)
    assert train.darknet_epochs(options, 1600, workers=alone) == (5, 1)   # 200 updates, each of one worker's 8 images
    with pytest.raises(gops.OpError, match="the weights have seen 8000 images, 1000 batches"):
        train.darknet_epochs(options, 80, seen=8000)
    with pytest.raises(gops.OpError, match="the cfg has no max_batches"):
        train.darknet_epochs(read(NET + CONV + YOLO), 80)


def test_optimizer(read):
    assert train.darknet_optimizer(read(NET + "momentum=.8\n" + CONV + YOLO)) == ("sgd", {"momentum": 0.8})
    name, options = train.darknet_optimizer(read(NET + "adam=1\n" + CONV + YOLO))
    assert name == "adam" and options == {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-7}


@pytest.mark.parametrize("head, unit", [(YOLO, 1), (YOLO.replace("[yolo]\nmask=0,1", "[region]"), 16)])
def test_anchors(tmp_path, head, unit):
    """They are in pixels for [yolo], in cells for [region]: those of boxes of two sizes."""
    (tmp_path / "net.cfg").write_text(NET + CONV + head)

    class Boxes(data.DetectionDataset):
        def size(self, index):
            return 128, 128

    boxes = [np.float32([[0, 0, 16, 20, 0, 0], [0, 0, 60, 80, 1, 0]])] * 3
    found = train.darknet_anchors(tmp_path / "net.cfg", Boxes("test", ["a", "b"], labels=boxes))
    np.testing.assert_allclose(np.array(found) * unit, [[8, 10], [30, 40]])


def test_detections_in_stretched_images():
    """A detector that returns the ground truth of a 40 x 20 image finds it where it is."""
    label = np.float32([[4, 6, 24, 16, 1, 0]])
    stretched = data.Stretched([(np.zeros((20, 40, 3), "uint8"), label)], (64, 96))
    truth = stretched[0][1]
    np.testing.assert_allclose(truth, [[14 / 40, 11 / 20, 0.5, 0.5, 1]], rtol=1e-6)
    centre, half = truth[:, :2] * (64, 96), truth[:, 2:4] * (64, 96) / 2
    boxes = mx.nd.array(np.concatenate([centre - half, centre + half], 1)[None])

    def detector(images):
        assert images.shape == (1, 3, 96, 64)
        return mx.nd.ones((1, 1, 1)), mx.nd.ones((1, 1, 1)), boxes

    loader = gluon.data.DataLoader(stretched, 1, batchify_fn=data.validation_batch)
    (found, _), = train.detections(detector, loader, (64, 96), mx.cpu(), stretched=True)
    np.testing.assert_allclose(found, [[1, 1, 4, 6, 24, 16]], rtol=1e-5)
