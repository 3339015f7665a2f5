"""Every section and option of the shipped cfgs against both programs, layer by layer, in small nets."""
import filecmp

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from recorded import cfg, corners, paired, recorded_net

NETS = ("ab-blocks", "ab-gaussian", "ab-tree", "ab-xnor", "ab-yolo", "pj-activations", "pj-extra", "pj-shortcuts",
        "pj-tree", "pj-xnor", "pj-yolov1")
DETECTORS = ("ab-gaussian", "ab-tree", "ab-yolo", "pj-yolov1")
# AlexeyAB's [region] returns its numbers in another order, and x and y without their sigmoid.
OTHER_ORDER = ("ab-tree", 1)


@pytest.mark.parametrize("name", NETS)
def test_every_layer(name, tmp_path):
    """Each is within 1e-5 of its deviation; a row of two images is two images; the weights come back."""
    net, arrays, image = recorded_net(name, tmp_path)
    images = mx.nd.concat(image, image * 0.5, dim=0)
    single, batch = net.layer_outputs(image), net.layer_outputs(images)
    for i, (output, both) in enumerate(zip(single, batch)):
        expected = arrays[f"layer_{i:02d}"]
        np.testing.assert_allclose(both[:1].asnumpy(), output.asnumpy(), rtol=1e-4, atol=1e-5)
        if (name, i) != OTHER_ORDER:
            np.testing.assert_allclose(output.asnumpy().ravel(), expected, rtol=0, atol=1e-5 * (expected.std() or 1),
                                       err_msg=net[i].name)
    gops.darknet.save_weights(net, tmp_path / "again")
    assert filecmp.cmp(tmp_path / f"{name}.weights", tmp_path / "again", shallow=False)


@pytest.mark.parametrize("name", NETS)
def test_symbol_json(name, tmp_path):
    """A graph of MXNet's own operators, with folded batch norms, computes the same."""
    net, _, image = recorded_net(name, tmp_path)
    symbol, params = gops.export.symbol(net, str(tmp_path / "net"), image.shape, backend="builtin",
                                        fold_batch_norm=True)
    again = mx.gluon.SymbolBlock.imports(symbol, ["data"], params)
    for ours, theirs in zip(_tuple(net(image)), _tuple(again(image))):
        np.testing.assert_allclose(theirs.asnumpy(), ours.asnumpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", DETECTORS)
def test_detections(name, tmp_path):
    """Boxes, scores and suppression agree with get_network_boxes and the program's own suppression."""
    net, arrays, image = recorded_net(name, tmp_path)
    detector = net.detector(float(arrays["threshold"]), 0.45, 2000)
    _, height, width = net.input_shape
    theirs = corners(arrays["detections"], height, width)
    for _ in range(2):
        ids, scores, boxes = (a[0].asnumpy() for a in detector(image))
        ours = np.concatenate([ids, scores, boxes], 1)[ids[:, 0] >= 0]
        assert len(ours) > 10 and (np.diff(ours[:, 1]) <= 0).all()
        ours = paired(ours, theirs)
        np.testing.assert_array_equal(ours[:, 0], theirs[:, 0])
        np.testing.assert_allclose(ours[:, 1], theirs[:, 1], rtol=1e-4)
        np.testing.assert_allclose(ours[:, 2:], theirs[:, 2:], rtol=1e-4, atol=1e-3)
        detector.hybridize()


@pytest.mark.parametrize("name", ["ab-blocks", "ab-tree", "ab-xnor", "ab-yolo", "pj-shortcuts", "pj-yolov1"])
def test_onnx(name, tmp_path):
    """onnxruntime computes the same, detections included."""
    net, arrays, image = recorded_net(name, tmp_path)
    if "detections" in arrays:
        net = net.detector(float(arrays["threshold"]), 0.45, 50)
    gops.export.onnx(net, tmp_path / "net.onnx", image.shape)
    session = pytest.importorskip("onnxruntime").InferenceSession(str(tmp_path / "net.onnx"))
    for ours, theirs in zip(_tuple(net(image)), session.run(None, {"data": image.asnumpy()})):
        np.testing.assert_allclose(theirs, ours.asnumpy(), rtol=1e-4, atol=1e-4)


def _tuple(outputs):
    return outputs if isinstance(outputs, (list, tuple)) else (outputs,)


def test_transposed_matrices(tmp_path):
    """A file of version 1001 has a connected layer's matrix the other way round, and so it comes back."""
    net, arrays, image = recorded_net("pj-yolov1", tmp_path)
    expected = net(image).asnumpy()
    header = np.array([1001, 0, 0, 5], "<i4").tobytes()
    net.darknet_header = gops.darknet.Header(1001, 0, 0, 5)
    gops.darknet.save_weights(net, tmp_path / "transposed")
    written = (tmp_path / "transposed").read_bytes()
    assert written[:16] == header and written[16:] != arrays["weights"][20:].tobytes()
    again = gops.darknet.load(cfg("pj-yolov1"), tmp_path / "transposed")
    np.testing.assert_array_equal(again(image).asnumpy(), expected)
    matrix = net[5].dense.weight.data().copy().asnumpy()
    assert matrix.T.astype("<f4").tobytes() in written


@pytest.mark.parametrize("dialect, epsilon, expected", [
    (None, None, 1e-12), ("pjreddie", None, 1e-12), ("alexeyab", None, 1e-5), ("alexeyab", 1e-3, 1e-3)])
def test_dialects_have_their_batch_norms(dialect, epsilon, expected, tmp_path):
    (tmp_path / "a.cfg").write_text("[net]\nwidth=4\nheight=4\nchannels=1\n[convolutional]\nbatch_normalize=1\n")
    net = gops.darknet.load(tmp_path / "a.cfg", epsilon=epsilon, dialect=dialect)
    assert net[0].norm._kwargs["eps"] == expected
    assert isinstance(net[0].norm, gops.darknet.weighted.BatchNorm) == (expected == 1e-12)


@pytest.mark.parametrize("text", [
    "[convolutional]\nactivation=swish\n", "[convolutional]\ndilation=1\n", "[empty]\n", "[dropout]\ndropblock=1\n",
    "[convolutional]\n[shortcut]\nfrom=-1,-1\n"])
def test_the_dialect_follows_from_the_cfg(text, tmp_path):
    (tmp_path / "a.cfg").write_text(f"[net]\nwidth=4\nheight=4\nchannels=1\n{text}[convolutional]\nbatch_normalize=1\n")
    assert gops.darknet.load(tmp_path / "a.cfg")[-1].norm._kwargs["eps"] == 1e-5


def test_an_unknown_dialect(tmp_path):
    (tmp_path / "a.cfg").write_text("[net]\nwidth=4\nheight=4\nchannels=1\n[avgpool]\n")
    with pytest.raises(gops.OpError, match="dialect is 'darkflow'"):
        gops.darknet.load(tmp_path / "a.cfg", dialect="darkflow")
