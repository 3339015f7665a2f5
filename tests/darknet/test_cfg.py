"""What a cfg may say, and what is refused, by name and line."""
import gluonops as gops
import mxnet as mx
import pytest
from gluonops.darknet.cfg import read_cfg
from recorded import FOLDER

NET = "[net]\nwidth=64\nheight=64\nchannels=3\n"                     # the next line is the 5th
CONV = "[convolutional]\nfilters=4\nsize=3\npad=1\nactivation=leaky\n"


def load(text, folder, **kwargs):
    path = folder / "my-net.cfg"
    path.write_text(text)
    return gops.darknet.load(path, **kwargs)


def test_blanks_comments_and_lines(tmp_path):
    path = tmp_path / "a.cfg"
    path.write_text("# head\n[net]\n\n width = 32\t\nheight=16 # rows\n;channels=9\nchannels=1\n"
                    "[route]\nlayers = -1, 2\n")
    net, route = read_cfg(path)
    assert (net.kind, net.line, route.kind, route.line) == ("net", 2, "route", 8)
    assert [net.integer(key) for key in ("width", "height", "channels")] == [32, 16, 1]
    assert route.integers("layers") == [-1, 2] and route.line_of("layers") == 9


def test_names_and_shapes(tmp_path):
    net = load(NET + CONV + "[maxpool]\nstride=2\n" + CONV, tmp_path)
    assert list(net._children) == ["layer00_convolutional", "layer01_maxpool", "layer02_convolutional"]
    assert [p.name for p in net[2].collect_params().values()] == [
        "my_net_layer02_convolutional_conv0_weight", "my_net_layer02_convolutional_conv0_bias"]
    assert net[2].conv.weight.shape == (4, 4, 3, 3) and len(net) == 3


def test_darknets_defaults(tmp_path):
    """They are one 1x1 filter with a bias, and a pooling as large as its stride; training's may be given twice."""
    net = load("[network]\nbatch=1\nbatch=64\nwidth=8\nheight=8\nchannels=2\n"
               "[convolutional]\n[maxpool]\nstride=2\n[avgpool]\n", tmp_path)
    assert net[0].conv.weight.shape == (1, 2, 1, 1) and net[0].norm is None
    net.initialize()
    assert [x.shape for x in net.layer_outputs(mx.nd.ones((1, 2, 8, 8)))] == [
        (1, 1, 8, 8), (1, 1, 4, 4), (1, 1, 1, 1)]


def test_a_pooling_of_one_pixel(tmp_path):
    """AlexeyAB's jnet-conv.cfg ends in one: the window reaches beyond the image, and the pixel wins."""
    net = load("[net]\nwidth=3\nheight=3\nchannels=2\n" + "[maxpool]\nsize=2\nstride=2\n" * 3, tmp_path)
    data = mx.nd.arange(-18, 0).reshape((1, 2, 3, 3))
    outputs = net.layer_outputs(data)
    assert [x.shape for x in outputs] == [(1, 2, 2, 2), (1, 2, 1, 1), (1, 2, 1, 1)]
    assert outputs[2].asnumpy().ravel().tolist() == [-10, -1]


TREE = FOLDER / "mini.tree"
REGION = "[convolutional]\nfilters={filters}\n[region]\nclasses=2\nnum=1\nanchors=1,2\n"


@pytest.mark.parametrize("text, line, message", [
    (NET + "[lstm]\noutput=3\n", 5, "[lstm]: a section of this kind is not supported"),
    (NET + CONV + "dilate=2\n", 10, "[convolutional]: the option 'dilate' is not understood; expected activation"),
    (NET + "colours=1\n" + CONV, 5, "[net]: the option 'colours' is not understood"),
    (NET + "time_steps=3\n" + CONV, 5, "time_steps=3 is not supported: gluonops does not run recurrent networks"),
    (NET + CONV + "size=5\n", 10, "the option 'size' is there twice, first in line 7"),
    (NET + "[convolutional]\nfilters=many\n", 6, "filters is 'many'; expected an integer of at least 1"),
    (NET + "[convolutional]\nactivation=swoosh\n", 6, "activation is 'swoosh'; expected one of elu, gelu, hard_mish"),
    (NET + CONV + "binary=1\n", 10, "binary=1 is not supported"),
    (NET + CONV + "sway=1\n", 10, "sway=1 is not supported: AlexeyAB's Darknet ignores it on a CPU"),
    (NET + CONV + "xnor=1\ndilation=2\n", 10,
     "xnor is not supported together with two strides, dilation or antialiasing"),
    (NET + "[convolutional]\nsize=3\ndilation=2\n", 7, "dilation=2 with size=3 and a padding of 0 is not supported"),
    (NET + CONV + "antialiasing=3\n", 10, "antialiasing is '3'; expected one of 0, 1, 2"),
    (NET + CONV + "[convolutional]\nshare_index=-1\n", 11,
     "share_index names layer 0; expected a convolution with weights of the shape (1, 4"),
    (NET + CONV + "[avgpool]\n[convolutional]\nshare_index=1\n", 12,
     "share_index names layer 1; expected a convolution with weights"),
    (NET + "[connected]\noutput=many\n", 6, "output is 'many'"),
    (NET + "[connected]\noutput=1000000\n", 5, "it would have 12288000000 weights"),
    (NET + "[connected]\noutput=3\n" + CONV, 7, "the layer before it returns a row of numbers"),
    (NET + "[local]\nsize=5\npad=1\n", 7, "pad=1 with size=5 is not supported, because Darknet reads beyond the image"),
    (NET + "[local]\nsize=99\n", 5, "its output would be (1, -34, -34)"),
    (NET + "[crop]\ncrop_height=65\ncrop_width=3\n", 6, "it crops 65 x 3 pixels from an image of 64 x 64"),
    (NET + "[detection]\nclasses=2\nside=3\n", 7, "its input has 12288 numbers; expected 3 * 3 cells * (2 classes"),
    (NET + "[maxpool]\nmaxpool_depth=1\nout_channels=2\n", 7,
     "its input has 3 channels, and out_channels is 2; expected a divisor of 3"),
    (NET + "[maxpool]\nmaxpool_zero_nonmax=1\n", 6, "maxpool_zero_nonmax=1 is not supported"),
    (NET + CONV + "[reorg3d]\nstride=3\n", 11, "its input is (4, 64, 64) (channels, height, width), and stride is 3"),
    (NET + CONV + "[reorg3d]\nstride=2\nreverse=1\n", 12, "reverse=1 is not supported"),
    (NET + CONV + "groups=3\n", 10, "groups is 3, and the number of filters is 4"),
    (NET + CONV + "dontload=1\n", 10, "dontload=1 is not supported: it changes what the weights file holds"),
    (NET + CONV + "[reorg]\nstride=2\nflatten=1\n", 12,
     "flatten=1 is not supported: it is another operation than reorg"),
    (NET + CONV + "[reorg]\nextra=-1\n", 11, "extra is '-1'; expected an integer of at least 0"),
    (NET + CONV + "[reorg]\nstride=3\n", 11, "its input is (4, 64, 64) (channels, height, width), and stride is 3"),
    (NET + CONV + "[route]\nlayers=-2\n", 11, "layers names layer -2, and this is layer 1; expected -1 to 0"),
    (NET + CONV + "[route]\nlayers=1\n", 11, "layers names layer 1, and this is layer 1"),
    (NET + CONV + "[route]\nlayers=\n", 11, "'layers='; expected [section], or key=value"),
    (NET + CONV + "[route]\n", 10, "the option 'layers' is missing"),
    (NET + CONV + "[maxpool]\nstride=2\n[route]\nlayers=0,1\n", 13, "the layers differ in height or width"),
    (NET + CONV + "[route]\nlayers=0\ngroups=2\ngroup_id=2\n", 12,
     "group_id is 2, groups is 2, and the layers have 4 channels"),
    (NET + CONV + "[shortcut]\nfrom=-5\n", 11, "from names layer -5"),
    (NET + CONV + "[maxpool]\nstride=5\n[shortcut]\nfrom=0\n", 13, "the layer that it adds is (4, 64, 64) (channels"),
    (NET + CONV + "[maxpool]\nstride=2\n[shortcut]\nfrom=0,-1\n", 13, "the layers differ in height or width"),
    (NET + CONV + "[shortcut]\nfrom=-1\nweights_type=each\n", 12, "weights_type is 'each'; expected one of none, per_"),
    (NET + CONV + "[shortcut]\nfrom=-1\nweights_type=per_channel\n", 10, "'weights_normalization' is missing"),
    (NET + CONV + "[upsample]\n[shortcut]\nfrom=0\nalpha=2\n", 13,
     "alpha=2.0 is not supported with a layer that is smaller"),
    (NET + CONV + "[shortcut]\nfrom=\n", 11, "'from='; expected [section], or key=value"),
    (NET + CONV + "[scale_channels]\nfrom=-1\n", 11, "its input is (4, 64, 64) (channels, height"),
    (NET + CONV + "[upsample]\n[sam]\nfrom=0\n", 12, "expected an input of (4, 64, 64)"),
    (NET + CONV + "[maxpool]\nsize=2\npadding=3\n", 12, "padding is 3; expected 0 to 2"),
    (NET + "[maxpool]\nsize=99\npadding=0\n", 5, "its output would be (3, -34, -34)"),
    (NET + CONV + "[upsample]\nstride=-2\n", 11, "stride is '-2'; expected an integer of at least 1"),
    (NET + CONV + "[dropout]\nprobability=1\n", 11, "probability is '1'; expected a finite number"),
    (NET + "[softmax]\ntree=data/9k.tree\n", 6, "the tree data/9k.tree is neither in the current folder nor"),
    (NET + "[softmax]\nspatial=1\n", 6, "spatial=1 is not supported"),
    (NET + "[softmax]\n" + CONV, 6, "the layer before it returns a row of numbers"),
    (NET + CONV + "[softmax]\n[route]\nlayers=-1\n", 12, "layers names layer -1, which returns a row of numbers"),
    (NET + REGION.format(filters=7) + f"tree={TREE}\n", 11, "mini.tree has 10 classes; expected 2"),
    (NET + REGION.format(filters=7) + "coords=5\n", 11, "coords=5 is not supported: a box has four numbers"),
    (NET + REGION.format(filters=7) + "background=1\n", 11, "background=1 is not supported"),
    (NET + REGION.format(filters=8), 8, "its input has 8 channels; expected 1 anchors * (5 + 2 classes)"),
    (NET + REGION.format(filters=7).replace("1,2", "1,2,3"), 10,
     "anchors has 3 numbers, the smallest of which is 1.0; expected 2"),
    (NET + REGION.format(filters=7).replace("1,2", "1,-2"), 10, "anchors has 2 numbers, the smallest of which is -2.0"),
    (NET + REGION.format(filters=7).replace("region", "yolo") + "mask=1\n", 11, "mask is [1]; expected numbers"),
    (NET + REGION.format(filters=7).replace("region", "yolo") + "nms_kind=new\n", 11, "nms_kind is 'new'; expected"),
    (NET + REGION.format(filters=7).replace("region", "Gaussian_yolo"), 8, "expected 1 anchors * (9 + 2 classes)"),
    (NET.replace("64", "50", 1) + "[maxpool]\nstride=32\n" + REGION.format(filters=7), 9, "2 x 2 cells for images"),
    (NET + f"[convolutional]\nfilters={2**31}\n", 6, "filters is '2147483648'; expected an integer of at most 21474"),
    (NET + "[convolutional]\nsize=100000\npad=1\n", 5, "it would have 30000000000 weights; expected at most"),
    (NET + "[upsample]\nstride=2000\n", 5, "it would have 49152000000 numbers in its output, (3, 128000, 128000)"),
    (NET.replace("64", "100000") + CONV, 1, "it would have 30000000000 numbers in its input"),
    (NET + "[convolutional\n", 5, "opens a section without closing the bracket"),
    ("width=3\n", 1, "'width=3'; expected [section], or key=value inside a section"),
])
def test_refused_by_name_and_line(text, line, message, tmp_path):
    with pytest.raises(gops.OpError) as caught:
        load(text, tmp_path)
    assert str(caught.value).startswith(f"gluonops.darknet.load: my-net.cfg, line {line}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize("text, message", [
    ("", "the first section is missing; expected [net]"),
    (CONV, "the first section is [convolutional]; expected [net]"),
    (NET, "[net] is not followed by any layer")])
def test_not_a_network(text, message, tmp_path):
    with pytest.raises(gops.OpError) as caught:
        load(text, tmp_path)
    assert message in str(caught.value)


def test_unreadable_files(tmp_path):
    with pytest.raises(gops.OpError, match="the cfg .*missing.cfg cannot be read: No such file or directory"):
        gops.darknet.load(tmp_path / "missing.cfg")
    (tmp_path / "a.weights").write_bytes(bytes(range(256)))
    with pytest.raises(gops.OpError, match="it is not a text file"):
        gops.darknet.load(tmp_path / "a.weights")
