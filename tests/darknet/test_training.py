"""What a cfg says about training, and cfgs for other classes."""
import pathlib

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.darknet import adapt_cfg, check_trainable, read_training, shorter_policy

NET = "[net]\nwidth=64\nheight=32\nchannels=3\n"
CONV = "[convolutional]\nbatch_normalize=1\nsize=3\nstride=2\npad=1\nfilters={}\nactivation=leaky\n"
YOLO = "[yolo]\nmask={}\nanchors=1,2, 3,4, 5,6\nclasses=2\nnum=3\n"
DETECTOR = (CONV.format(16) + CONV.format(14) + YOLO.format("0,1") + "[route]\nlayers=-2\n" + CONV.format(7)
            + YOLO.format("2"))
CLASSIFIER = CONV.format(10) + CONV.format(5) + "[avgpool]\n[softmax]\n"


@pytest.fixture
def write(tmp_path):
    def file(text):
        path = tmp_path / "net.cfg"
        path.write_text(text)
        return path
    return file


class TestRead:
    def test_defaults(self, write):
        """They are those of pjreddie's parse_net_options; jitter is that of [yolo]."""
        found = read_training(write(NET + DETECTOR))
        assert found == (
            "pjreddie", "detection", (64, 32), 1, 1, 0, 0.001, 0.9, 0.0001, None, 0, 1, 1, 0, True, 0.2, 1, False,
            False, False, 0, 1, (1, 2), [], 10, ())

    def test_options(self, write):
        """Comments and blanks have no meaning."""
        text = ("batch = 64 # images\nsubdivisions=16\nmax_batches=500\nlearning_rate=.01\nmomentum=0.8\ndecay=.0005\n"
                "saturation = 1.5\nexposure=1.6\nhue=.1\nangle=7\nflip=0\nmosaic=1\nadam=1\nB1=.8\nema_alpha=.99\n")
        found = read_training(write(NET + text + DETECTOR + "jitter=.3\nresize=1.5\n"))
        assert (found.batch, found.subdivisions, found.mini_batch, found.max_batches) == (64, 16, 4, 500)
        assert (found.learning_rate, found.momentum, found.decay) == (0.01, 0.8, 0.0005)
        assert (found.saturation, found.exposure, found.hue, found.angle) == (1.5, 1.6, 0.1, 7)
        assert (found.flip, found.mosaic, found.jitter, found.resize) == (False, True, 0.3, 1.5)
        assert found.dialect == "alexeyab"   # alone knows mosaic
        assert found.adam == {"beta1": 0.8, "beta2": 0.999, "epsilon": 1e-6} and found.ema_alpha == 0.99

    def test_classifiers(self, write):
        found = read_training(write(NET + "min_crop=48\nmax_ratio=3\naspect=.8\nrandom=1\n" + CLASSIFIER))
        assert (found.task, found.crops, found.aspect) == ("classification", (0.75, 3), 1.25)
        assert found.sizes == [32 * cells for cells in range(4, 15)] and found.resize_every == 40

    def test_sizes(self, write):
        """pjreddie's (rand() % 10 + 10) * 32. AlexeyAB's are up to 1.4 times larger or smaller, and one step more."""
        assert read_training(write(NET + DETECTOR + "random=1\n")).sizes == list(range(320, 609, 32))
        sizes = read_training(write(NET.replace("32", "416").replace("64", "416") + DETECTOR + "random=1\n"),
                              "alexeyab").sizes
        sides = [width for width, height in sizes]
        assert all(width == height and width % 32 == 0 for width, height in sizes)
        assert min(sides) == 320 and max(sides) == 608
        assert sides.count(416) > len(sides) / 8   # what grows by the step alone stays as it is

    @pytest.mark.parametrize("text, line, message", [
        ("batch=x\n", 5, r"\[net\]: batch is 'x'; expected an integer"),
        ("batch=4\nsubdivisions=8\n", 6, "batch is 4 and subdivisions is 8; expected at most as many"),
        ("saturation=0\n", 5, "saturation is '0'; expected a finite number above 0"),
        ("momentum=1\n", 5, "momentum is '1'; expected a finite number of at least 0 and below 1"),
        ("adam=1\neps=0\n", 6, "eps is '0'; expected a finite number above 0"),
        ("max_crop=32\n", 5, "images are cropped from 1 to 0.5 widths of the input"),
    ])
    def test_errors(self, text, line, message, write):
        with pytest.raises(gops.OpError, match=rf"net.cfg, line {line}: .*{message}"):
            read_training(write(NET + text + DETECTOR))

    def test_not_followed(self, write):
        found = read_training(write(NET + "cutmix=1\nmixup=0\nblur=1\n" + CLASSIFIER))
        assert found.not_followed == ("blur", "cutmix")


def test_a_shorter_run(write):
    """Steps shrink in proportion; a burn-in takes at most a tenth."""
    path = write(NET + "max_batches=1000\nburn_in=50\nsteps=800,900\nsgdr_cycle=250\n" + CLASSIFIER)
    assert shorter_policy(path, 100) == {"max_batches": 100, "burn_in": 10, "steps": "80,90", "sgdr_cycle": 25}
    assert shorter_policy(path, 2000)["burn_in"] == 50


class TestAdapt:
    def test_detector(self, write, tmp_path):
        """The filters in front of each head follow from its anchors; comments stay."""
        path = write(NET + "# a comment\n" + DETECTOR)
        out = tmp_path / "out.cfg"
        adapt_cfg(path, out, classes=10, width=0.5, anchors=[(1.5, 2), (3, 4), (50, 60)],
                  net={"batch": 8, "width": 96, "height": 96}, heads={"random": 0})
        net = gops.darknet.load(out)
        assert [net[i].conv.weight.shape[0] for i in (0, 1, 4)] == [8, 30, 15]
        assert net.input_shape == (3, 96, 96)
        np.testing.assert_allclose(net._detections[1].anchors, [[50, 60]])
        assert "# a comment\n" in out.read_text() and read_training(out).batch == 8

    def test_classifier(self, write):
        path = write(NET + CLASSIFIER)
        adapt_cfg(path, path, classes=3)
        net = gops.darknet.load(path)
        net.initialize()
        assert net(mx.nd.zeros((1, 3, 32, 32))).shape == (1, 3)

    def test_boxes_of_cells(self, write):
        """YOLOv1 is not trained here. Its ``random`` is no multi-scale training."""
        head = "[connected]\noutput=1470\nactivation=linear\n[detection]\nside=7\nnum=3\nclasses=20\nrandom=1\n"
        path = write(NET + CONV.format(4) + head)
        assert read_training(path).sizes == []
        with pytest.raises(gops.OpError, match=r"no \[region\], \[yolo\], \[Gaussian_yolo\] or \[softmax\]"):
            adapt_cfg(path, path, classes=2)
        with pytest.raises(gops.OpError, match=r"\[detection\]: gluonops does not compute the loss of YOLOv1"):
            check_trainable(path)

    def test_errors(self, write, tmp_path):
        path = write(NET + DETECTOR)
        for options, message in (
                ({"anchors": [(1, 2)]}, r"line 23: \[yolo\]: num is 3, and anchors has 1 pair"),
                ({"width": 0}, "width is 0; expected"),
                ({"classes": 0}, "classes is 0; expected")):
            with pytest.raises(gops.OpError, match=message):
                adapt_cfg(path, tmp_path / "out.cfg", **options)
        with pytest.raises(gops.OpError, match=r"no \[region\], \[yolo\], \[Gaussian_yolo\] or \[softmax\]"):
            adapt_cfg(write(NET + CONV.format(4)), path, classes=2)
        with pytest.raises(gops.OpError, match="filters in groups cannot be narrowed"):
            adapt_cfg(write(NET + CONV.format(4) + "groups=2\n" + CLASSIFIER), path, width=0.5)


@pytest.mark.parametrize("layers", [1, 2])
def test_first_layers(layers, write, tmp_path):
    """A .weights file fills them, or one that ends behind them. Other layers keep their values, and nothing is seen."""
    path = write(NET + CLASSIFIER)
    nets = [gops.darknet.load(path) for _ in range(2)]
    for net in nets:
        net.initialize(mx.init.Normal(1))
    file = pathlib.Path(tmp_path / "net.weights")
    gops.darknet.save_weights(nets[0], file, seen=640)
    start = 4 * (4 * 10 + 10 * 3 * 9) + 20
    if layers == 1:
        file = pathlib.Path(tmp_path / "net.conv.1")
        file.write_bytes((tmp_path / "net.weights").read_bytes()[:start])
    kept = nets[1][1].conv.weight.data().copy().asnumpy()
    assert gops.train.load_first_layers(nets[1], file, None if layers == 1 else 1) == 0
    for new, old in zip(nets[1][0].collect_params().values(), nets[0][0].collect_params().values()):
        np.testing.assert_array_equal(new.data().copy().asnumpy(), old.data().copy().asnumpy())
    np.testing.assert_array_equal(nets[1][1].conv.weight.data().copy().asnumpy(), kept)
    assert gops.train.load_first_layers(nets[1], tmp_path / "net.weights") == 640


def test_first_layers_that_do_not_fit(write, tmp_path):
    net = gops.darknet.load(write(NET + CLASSIFIER))
    net.initialize()
    gops.darknet.save_weights(net, tmp_path / "net.weights")
    (tmp_path / "short.conv.1").write_bytes((tmp_path / "net.weights").read_bytes()[:99])
    with pytest.raises(gops.OpError, match=r"short.conv.1 is too short: .*layer00_convolutional.* takes bytes 20 to"):
        gops.train.load_first_layers(net, tmp_path / "short.conv.1")
    with pytest.raises(gops.OpError, match="layers is 5; expected 1 to 4, the layers of the net"):
        gops.train.load_first_layers(net, tmp_path / "net.weights", 5)
