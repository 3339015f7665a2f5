"""Exported files, as symbol JSON and ONNX, run on pictures with nothing but what they say of themselves."""
import io
import json
import pathlib
import sys

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.data import letterbox
from PIL import Image, ImageFile

FORMS = ["symbol", "onnx"]


@pytest.mark.parametrize("form", FORMS)
def test_a_detector(form, detector, export, picture):
    """Boxes come back in pixels of the picture; what lies in the border of the letterbox is none."""
    net = gops.export.load(export(detector, form, (1, 3, 96, 96)))
    assert isinstance(net, gops.export.LoadedDetector) and net.classes == ("cat", "dog") and net.size == (96, 96)
    assert net.threshold == 0.05 and repr(net) == "LoadedDetector(2 classes, 96 x 96 pixels)"
    path, pixels = picture(96, 64)   # it fills rows 16 to 80
    found, = net.detect(path)
    assert (found.name, found.class_id, found.box) == ("dog", 1, (10, 0, 40, 24))
    assert found.score == pytest.approx(0.8) and found.as_dict()["class"] == 1
    assert [one.name for one in net.detect(pixels, threshold=0.05)] == ["dog", "cat"]
    with pytest.raises(gops.OpError, match=r"threshold is 0.01; expected 0.05 to 1, because .* net.detector\(thresh"):
        net.detect(path, threshold=0.01)
    large, _ = picture(192, 128)
    assert net.detect(large)[0].box == (20, 0, 80, 48)


@pytest.mark.parametrize("form", FORMS)
def test_a_classifier(form, means, export, picture):
    """Logits become probabilities; the pixels are prepared as the file says."""
    net = means(colours="BGR", range=[0, 255], mean=[104, 117, 123], std=[50, 51, 52], resize="stretch")
    loaded = gops.export.load(export(net, form, (1, 3, 8, 12)))
    assert loaded.returns == "logits" and loaded.size == (12, 8)
    path, pixels = picture(12, 8)   # It has the net's size: there is nothing to resize.
    values = (pixels[..., ::-1].astype("float64") - [104, 117, 123]) / [50, 51, 52]
    logits = values.mean((0, 1))
    expected = np.exp(logits) / np.exp(logits).sum()
    guesses = loaded.classify(path)
    assert [guess.class_id for guess in guesses] == np.argsort(-expected).tolist()
    np.testing.assert_allclose([guess.score for guess in guesses], np.sort(expected)[::-1], rtol=1e-5)
    assert guesses[0].name == loaded.classes[guesses[0].class_id] and len(loaded.classify(path, top=1)) == 1
    with pytest.raises(gops.OpError, match="top is 0; expected a whole number of at least 1"):
        loaded.classify(path, top=0)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("last, returns", [("SoftmaxActivation", "probabilities"), ("softmax", "probabilities"),
                                           ("log_softmax", "logits")])
def test_what_mxnets_operators_return(last, returns, form, export, picture):
    """The softmax of the logarithms is what they are the logarithms of."""
    net = mx.gluon.nn.HybridLambda(lambda F, data: getattr(F, last)(10 * F.mean(data, axis=(2, 3))))
    net.classes, net.preprocessing = ["a", "b", "c"], {}
    loaded = gops.export.load(export(net, form, (1, 3, 6, 6)))
    assert loaded.returns == returns
    path, pixels = picture(6, 6)
    values = np.exp(10 * pixels.mean((0, 1)) / 255)
    scores = [guess.score for guess in loaded.classify(path)]
    np.testing.assert_allclose(scores, np.sort(values / values.sum())[::-1], rtol=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_probabilities_stay(form, export, picture):
    """The net ends in a softmax."""
    net = gops.models.mlp(classes=3, hidden=4)
    net.initialize(mx.init.Normal(1))
    net.classes, net.preprocessing = ["a", "b", "c"], {"colours": "grey"}
    loaded = gops.export.load(export(net, form, (1, 1, 6, 6)))
    assert loaded.returns == "probabilities"
    path, pixels = picture(6, 6)
    grey = pixels @ np.array([0.299, 0.587, 0.114])
    expected = net(mx.nd.array((grey + 0.5).astype("uint8")[None, None] / 255)).asnumpy()[0]
    np.testing.assert_allclose([guess.score for guess in loaded.classify(path)], np.sort(expected)[::-1], atol=1e-4)


@pytest.mark.parametrize("dynamic", [True, False])
def test_onnx_batches(dynamic, means, export):
    """A file with a fixed batch takes any number of images, too."""
    net = means(resize="stretch")
    loaded = gops.export.load(export(net, "onnx", (3, 3, 4, 4), dynamic_batch=dynamic))
    images = mx.nd.random.uniform(shape=(7, 3, 4, 4))
    np.testing.assert_allclose(loaded.net(images)[0].asnumpy(), net(images).asnumpy(), rtol=1e-5)


def test_other_types_and_layouts(means, export, picture):
    """They are float16, and NHWC: the mean is over the wrong axes, and is a result all the same."""
    path, _ = picture(8, 8)
    net = means()
    half = gops.export.load(export(net, "symbol", (1, 3, 8, 8), dtype="float16"))
    assert half.classify(path)[0].score == pytest.approx(
        gops.export.load(export(net, "symbol", (1, 3, 8, 8))).classify(path)[0].score, abs=1e-3)
    columns = means(classes=list("abcdefgh"), layout="NHWC")
    assert gops.export.load(export(columns, "symbol", (1, 8, 8, 3))).size == (8, 8)


def test_the_names_of_the_files_are_taken_too(means, export):
    path = export(means(), "symbol", (1, 3, 8, 8))
    for name in (path, f"{path}-symbol.json", f"{path}-0000.params", pathlib.Path(path)):
        assert gops.export.load(name).classes == ("red", "green", "blue")


def test_a_file_for_training(means, export, picture):
    """Its loss head becomes the softmax that it computes."""
    path, _ = picture(8, 8)
    net = means()
    trained = gops.export.load(export(net, "symbol", (1, 3, 8, 8), head="softmax_output", backend="custom"))
    assert trained.returns == "probabilities"
    plain = gops.export.load(export(net, "symbol", (1, 3, 8, 8)))
    for one, other in zip(trained.classify(path), plain.classify(path)):
        assert one.name == other.name and one.score == pytest.approx(other.score, rel=1e-5)


def test_pictures_in_memory(detector, export, picture, monkeypatch):
    net = gops.export.load(export(detector, "symbol", (1, 3, 96, 96)))
    path, pixels = picture(96, 64)
    same = [path, pathlib.Path(path), pixels, mx.nd.array(pixels, dtype="uint8"), Image.fromarray(pixels)]
    assert len({tuple(net.detect(image)) for image in same}) == 1
    assert net.detect(pixels[..., 0]) and net.detect(Image.fromarray(pixels).convert("L"))
    Image.fromarray(pixels).save(path.replace("png", "webp"), lossless=True)
    assert net.detect(path.replace("png", "webp"))   # MXNet does not decode it
    cut = io.BytesIO(pathlib.Path(path).read_bytes()[:-100])
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", False)   # gluoncv sets it
    with pytest.raises(gops.OpError, match="Pillow does not decode the image: .*truncated"):
        net.detect(Image.open(cut))   # decoded only now
    for wrong in (pixels.astype("float32"), pixels[None], pixels[:0]):
        with pytest.raises(gops.OpError, match=r"expected a file, or uint8 pixels of shape \(height, width, 3\)"):
            net.detect(wrong)


def test_drawings(detector, means, export, picture):
    """A box has its colour, and a small picture is enlarged above its caption."""
    path, pixels = picture(96, 64)
    net = gops.export.load(export(detector, "symbol", (1, 3, 96, 96)))
    drawn = np.asarray(net.draw(path))
    assert drawn.shape == pixels.shape and (drawn != pixels).any() and (drawn[30:] == pixels[30:]).all()
    assert (np.asarray(net.draw(path, [])) == pixels).all()
    classifier = gops.export.load(export(means(), "symbol", (1, 3, 8, 8)))
    page = np.asarray(classifier.draw(path))
    assert page.shape[1] == 288 and page.shape[0] > 192 and (page[:192:3, ::3] == pixels).all()
    assert (page[192:] == 0).any() and (page[-1] == 255).all()


def metadata_changed(prefix, **changes):
    """Change the metadata of exported files; None removes a value."""
    path = pathlib.Path(f"{prefix}-symbol.json")
    graph = json.loads(path.read_text())
    note = json.loads(graph["attrs"]["gluonops"][1])
    note.update(changes)
    graph["attrs"]["gluonops"][1] = json.dumps({name: value for name, value in note.items() if value is not None})
    path.write_text(json.dumps(graph))


def test_older_files(means, detector, export, picture):
    """What they do not say follows from the graph, or from the caller."""
    path, _ = picture(96, 64)
    prefix = export(detector, "symbol", (1, 3, 96, 96))
    before = gops.export.load(prefix).detect(path)
    metadata_changed(prefix, task=None, threshold=None)   # gluonops before 0.2 had none
    assert gops.export.load(prefix).detect(path) == before
    metadata_changed(prefix, preprocessing=None)
    with pytest.raises(gops.OpError, match="does not say how images are prepared .* older gluonops"):
        gops.export.load(prefix)
    assert gops.export.load(prefix, preprocessing={"resize": "letterbox"}).detect(path) == before
    metadata_changed(prefix, classes=None, preprocessing={})
    with pytest.raises(gops.OpError, match="does not contain the names of its classes: .* --names FILE"):
        gops.export.load(prefix)
    assert gops.export.load(prefix, classes=["a", "b"]).detect(path)[0].name == "b"
    metadata_changed(prefix, inputs=None)
    with pytest.raises(gops.OpError, match="does not contain the shape of its input: .* older gluonops"):
        gops.export.load(prefix)


@pytest.mark.parametrize("classes", [10 ** 12, 0, -3, 1e308, True, "nine", {"a": 1}, [], [["a"]], [None]])
@pytest.mark.parametrize("format_", ["symbol", "onnx"])
def test_classes_that_are_none(format_, classes, means, export):
    """They are refused at once: 10 ** 12 names would take all memory."""
    net = means()
    path = export(net, format_, (1, 3, 8, 8), metadata={"classes": classes})
    with pytest.raises(gops.OpError, match="has the classes .*; expected a list of names, or their number, from 1 to"):
        gops.export.load(path)
    with pytest.raises(gops.OpError, match="has the classes"):
        gops.export.load(path, classes=["a", "b", "c"])


@pytest.mark.parametrize("preprocessing, text", [
    ({"colours": "CMYK"}, "preprocessing has colours 'CMYK'; expected RGB, BGR or grey"),
    ({"mean": [1, 2]}, r"has mean \[1, 2\]; expected 1 number or 3 numbers"), ({"std": [0]}, "has std .*above 0"),
    ({"zoom": 2}, "preprocessing has 'zoom'; expected colours, range"),
    ("RGB", "preprocessing is 'RGB'; expected a dict"),
    ({"colours": "grey"}, "takes images of 3 channels, and its preprocessing has colours 'grey'"),
    ({"resize": "crop"}, "preprocessing has resize 'crop', and the net is a detector"),
    ({"range": [0, 10 ** 400]}, "has range .*; expected 2 numbers"),
    ({"crop_ratio": 2}, "crop_ratio 2; expected a number above 0, and at most 1")])
def test_a_preprocessing_that_is_none(preprocessing, text, detector, export):
    with pytest.raises(gops.OpError, match=text):
        gops.export.load(export(detector, "symbol", (1, 3, 96, 96)), preprocessing=preprocessing)


def test_the_middle_of_an_image(rng):
    """The shorter side is resized, and the middle is cut out, as for ImageNet."""
    image = rng.randint(0, 256, (40, 80, 3)).astype("uint8")
    crop = gops.export.Preprocessing(resize="crop", crop_ratio=0.5)
    np.testing.assert_allclose(crop(image, (20, 20)), image[10:30, 30:50].transpose(2, 0, 1) / 255, rtol=1e-6)
    assert (gops.export.Preprocessing()(image, (32, 32)) == letterbox(image, 32, 32)).all()


def test_refused(tmp_path, means, detector, export, monkeypatch):
    """A net that is not for images is refused, and so are options for the other kind of file."""
    pytest.importorskip("onnxruntime")
    dense = mx.gluon.nn.Dense(2, in_units=3)
    dense.initialize()
    gops.export.symbol(dense, tmp_path / "dense", (1, 3))
    export(means(), "symbol", (1, 3, 8, 8))
    (tmp_path / "bad.onnx").write_bytes(b"none")
    for name, options, text in (
            ("dense", {}, r"takes data of shape \(1, 3\), and is neither a detector nor a classifier of images"),
            ("none", {}, "there is no file .*none-symbol.json"), ("none.onnx", {}, "there is no file .*none.onnx"),
            ("bad.onnx", {}, "onnxruntime cannot read .*bad.onnx"), ("none.cfg", {},
                                                                     "no weights were passed for .*none.cfg"),
            ("net", {"weights": "a.weights"}, "weights were passed for .*net, which is not a .cfg file"),
            ("net", {"nms": 0.5}, "nms was passed for the exported net .* in which it is fixed"),
            ("net", {"classes": ["a"]}, "classes has 1 name; expected 3, one for each class of the net")):
        with pytest.raises(gops.OpError, match=text):
            gops.export.load(tmp_path / name, **options)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(gops.OpError, match="onnxruntime, .* is not installed. Run: pip install onnxruntime"):
        gops.export.load(tmp_path / "bad.onnx")


@pytest.mark.parametrize("form", FORMS)
def test_fewer_names_than_classes(form, means, detector, export, picture):
    """A file may say anything."""
    means, (path, _) = means(), picture(96, 64)
    means.classes, detector.classes = ["a", "b"], ["cat"]
    for net, shape, run in ((means, (1, 3, 8, 12), "classify"), (detector, (1, 3, 96, 96), "detect")):
        loaded = gops.export.load(export(net, form, shape))
        with pytest.raises(gops.OpError, match="net.* has at least [23] classes, and classes has [12] names?"):
            getattr(loaded, run)(path)


def test_metadata_of_the_users(tmp_path):
    """A net of one's own may have no attributes that say it."""
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.GlobalAvgPool2D(), mx.gluon.nn.Flatten())
    net.initialize()
    given = {"classes": ["a", "b", "c"], "preprocessing": {"resize": "crop"}}
    gops.export.symbol(net, tmp_path / "net", (1, 3, 8, 8), metadata=given)
    loaded = gops.export.load(tmp_path / "net")
    assert loaded.classes == ("a", "b", "c") and loaded.preprocessing.resize == "crop"
    with pytest.raises(gops.OpError, match="export.symbol: metadata is .* expected a dict of what JSON can store"):
        gops.export.symbol(net, tmp_path / "net", (1, 3, 8, 8), metadata={"classes": {1, 2}})


@pytest.mark.parametrize("old, new, text", [
    (b"classification", b"\xfflassification", "damaged.onnx has metadata that is not text"),
    (b"Conv", b"\xffonv", "onnxruntime cannot read .*damaged.onnx"),
])
def test_onnx_with_bytes_that_are_no_text(old, new, text, tmp_path, capfd):
    pytest.importorskip("onnxruntime")
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Conv2D(2, 3), mx.gluon.nn.Dense(2))
    net.initialize()
    content = pathlib.Path(gops.export.onnx(net, tmp_path / "net.onnx", (1, 3, 8, 8))).read_bytes()
    assert old in content
    (tmp_path / "damaged.onnx").write_bytes(content.replace(old, new))
    capfd.readouterr()
    with pytest.raises(gops.OpError, match=text):
        gops.export.load(tmp_path / "damaged.onnx")
    assert not capfd.readouterr().out
