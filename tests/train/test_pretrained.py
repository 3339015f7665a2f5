"""Files to start from, and the rows of the output that are kept for classes of the same name."""
import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops import train
from gluonops.train import checkpoint
from toy_run import change_checkpoint, encoded

SHAPE = (1, 8, 8)


def refused(text, load, *arguments):
    with pytest.raises(gops.OpError) as caught:
        load(*arguments)
    assert text in str(caught.value), str(caught.value)


def classifier(classes):
    return gops.models.classifier("mlp", list(classes), SHAPE)


@pytest.fixture
def start(tmp_path):
    """The path of start.params, of four outputs."""
    classifier("1234").save_parameters(str(tmp_path / "start.params"))
    return tmp_path / "start.params"


def test_classes_keep_their_rows(start, tmp_path):
    (tmp_path / "names").write_text("1\n2\n3\n4\n")
    net = classifier("345")
    assert train.load_pretrained_classifier(net, start, tmp_path / "names") == ["3", "4"]
    saved = mx.nd.load(str(start))
    np.testing.assert_array_equal(net.output.weight.data().copy().asnumpy()[:2], saved["output.weight"].asnumpy()[2:])
    assert not np.isin(net.output.weight.data().copy().asnumpy()[2], saved["output.weight"].asnumpy()).any()
    for name, parameter in net.embed._collect_params_with_prefix().items():
        np.testing.assert_array_equal(parameter.data().copy().asnumpy(), saved[f"embed.{name}"].asnumpy())
    assert train.load_pretrained_classifier(classifier("345"), start) == []


@pytest.mark.parametrize("content, text", [
    (b"1\n2\n3\n", "names has 3 names; expected 4, one for each output of "),
    (b"1\n2\n3\n3\n", "expected one name or more, all different"), (b"\xff\xff1\n", "names cannot be read"),
    (None, "names cannot be read")])
def test_names_that_are_refused(start, tmp_path, content, text):
    if content is not None:
        (tmp_path / "names").write_bytes(content)
    refused(text, train.load_pretrained_classifier, classifier("345"), start, str(tmp_path / "names"))


def test_an_output_of_another_width_starts_anew(start, tmp_path):
    """It has where the embedding is left out."""
    tensors = mx.nd.load(str(start))
    tensors["output.weight"] = mx.nd.ones((4, 2))
    mx.nd.save(str(tmp_path / "narrow.params"), tensors)
    net = classifier("345")
    assert train.load_pretrained_classifier(net, tmp_path / "narrow.params", list("1234")) == []
    assert net.output.weight.shape[0] == 3


def test_files_that_are_refused(start, tmp_path):
    mx.nd.save(str(tmp_path / "list.params"), [mx.nd.zeros(3)])
    load = train.load_pretrained_classifier
    refused("list.params is not a file of named arrays, because its arrays have no names", load,
            classifier("1"), tmp_path / "list.params")
    refused("none.params cannot be read: No such file", load, classifier("1"), tmp_path / "none.params")
    refused("list.params is not a file of named arrays", train.read_checkpoint, tmp_path / "list.params")
    other = gops.models.classifier("mlp", ["1"], SHAPE, embedding=2)
    refused("lacks embed.2.weight; expected the shape (2, ", load, other, start)
    refused("--pretrained-names is names and --pretrained is x.checkpoint", load, other, "x.checkpoint", "names")


def test_what_is_no_checkpoint(tmp_path):
    """Parameters are none, and neither is one of a format to come."""
    path = tmp_path / "odd.checkpoint"
    mx.nd.save(str(path), {"weight": mx.nd.ones(1)})
    refused("odd.checkpoint is not a checkpoint of gluonops", train.read_checkpoint, path)
    mx.nd.save(str(path), {"checksum": mx.nd.ones(1)})
    change_checkpoint(path, lambda tensors: tensors.update(standing=encoded({"format": 3})))
    refused("odd.checkpoint has format 3; expected 2", train.read_checkpoint, path)


def test_a_damaged_checkpoint(tmp_path):
    """A bit of a value or of the state of training that is changed is found by the checksum."""
    net = classifier("12")
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd")
    path = tmp_path / "last.checkpoint"
    checkpoint.save_checkpoint(path, {"net": net}, trainer, {"epoch": 3})
    tensors, train_state = train.read_checkpoint(path)
    assert train_state["epoch"] == 3 and "checksum" not in tensors
    content = path.read_bytes()
    for damaged in (content.replace(b'"epoch": 3', b'"epoch": 4'), content[:100] + b"\x01" + content[101:]):
        assert damaged != content
        path.write_bytes(damaged)
        refused("last.checkpoint is damaged: its values do not fit its checksum", train.read_checkpoint, path)


def detector(classes, anchors=((1, 1), (2, 2))):
    net = gops.models.tiny_yolov2(classes=list(classes), anchors=list(anchors), head_channels=8, width=0.25)
    net.initialize(mx.init.Xavier())
    net(mx.nd.zeros((1, 3, 32, 32)))
    return net


@pytest.mark.parametrize("suffix", ["params", "weights"])
def test_a_detector(tmp_path, suffix):
    """It keeps its boxes and the class of the same name; the order of the classes is the new one's."""
    old, path = detector(["cat", "dog"]), tmp_path / f"old.{suffix}"
    if suffix == "params":
        old.save_parameters(str(path))
    else:
        gops.darknet.save_weights(old, path)
    net = detector(["dog", "cow"])
    assert train.load_pretrained_detector(net, path, ["cat", "dog"]) == ["dog"] and net.classes == ("dog", "cow")
    before, after = (part.output.conv.weight.data().copy().asnumpy().reshape(2, 7, -1) for part in (old, net))
    np.testing.assert_array_equal(after[:, :6], before[:, [0, 1, 2, 3, 4, 6]])
    np.testing.assert_array_equal(net.head[0].conv.weight.data().copy().asnumpy(),
                                  old.head[0].conv.weight.data().copy().asnumpy())
    refused("does not hold the names of its classes", train.load_pretrained_detector, net, path)
    same = detector(["cat", "dog"])
    assert train.load_pretrained_detector(same, path, ["cat", "dog"]) == ["cat", "dog"]
    np.testing.assert_array_equal(same.output.conv.bias.data().copy().asnumpy(),
                                  old.output.conv.bias.data().copy().asnumpy())


def test_first_layers_and_another_net(tmp_path):
    old, net = detector(["cat"]), detector(["dog"])
    gops.darknet.save_weights(old.backbone, tmp_path / "tiny.conv.11")
    assert train.load_pretrained_detector(net, tmp_path / "tiny.conv.11") == []
    name = "0.conv.weight"
    first = [part.backbone._collect_params_with_prefix()[name].data().copy().asnumpy() for part in (old, net)]
    np.testing.assert_array_equal(*first)
    old.save_parameters(str(tmp_path / "old.params"))
    wide = gops.models.tiny_yolov2(classes=["cat"], anchors=[(1, 1), (2, 2)], head_channels=16, width=0.25)
    wide.initialize()
    wide(mx.nd.zeros((1, 3, 32, 32)))
    refused("old.params has the shape (8, 1024, 3, 3) for head.1.conv.weight; expected the shape (16, 1024, 3, 3)",
            train.load_pretrained_detector, wide, tmp_path / "old.params", ["cat"])


@pytest.mark.slow
def test_darknet19_weights(tmp_path):
    """darknet19.weights start a classifier that computes the same, for the classes whose names are kept."""
    source = gops.models.darknet19(classes=3)
    source.initialize(mx.init.Xavier())
    images = mx.nd.random.uniform(shape=(1, 3, 64, 64))
    expected = source(images).asnumpy()
    gops.darknet.save_weights(source, str(tmp_path / "darknet19.weights"))
    net = gops.models.classifier("darknet19", ["cat", "ant", "dog"], (3, 64, 64))
    kept = train.load_pretrained_classifier(net, tmp_path / "darknet19.weights", ["ant", "bee", "cat"])
    assert kept == ["cat", "ant"]
    np.testing.assert_allclose(net(images).asnumpy()[:, :2], expected[:, [2, 0]], rtol=1e-4, atol=1e-5)
