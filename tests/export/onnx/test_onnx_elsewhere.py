"""Exported detectors in OpenVINO and OpenCV, where these packages are installed.

``pip install openvino opencv-python-headless``, then ``pytest tests/export/onnx/test_onnx_elsewhere.py``.
"""
import gluonops as gops
import mxnet as mx
import numpy as np
import onnx_oracle
import pytest

SIDE = 64
THRESHOLD, TOPK = 0.3, 20


@pytest.fixture(scope="module")
def image():
    return np.random.RandomState(3).uniform(0, 1, (1, 3, SIDE, SIDE)).astype("float32")


DEEP = [pytest.param(name, marks=pytest.mark.slow) for name in ("yolov3", "yolov4")]


@pytest.fixture(scope="module", params=["tiny_yolov3", "tiny_yolov4", *DEEP])
def net(request, image):
    """A narrow detector with maps of deviation 1, so that no scores are equal."""
    net = gops.models.get_model(request.param, classes=3, width=0.125)
    mx.random.seed(1)
    net.initialize(mx.init.Xavier(magnitude=2))
    for raw, (output, _) in zip(net(mx.nd.array(image)), net._outputs()):
        weight = list(output.collect_params(".*weight").values())[-1]
        weight.set_data(weight.data() / raw.asnumpy().std())
    return net


def exported(block, image, path):
    """The outputs of a block, and of its file in onnxruntime."""
    gops.export.onnx(block, path, image.shape)
    expected = onnx_oracle.outputs_of(block, image)
    for ours, theirs in zip(expected, onnx_oracle.session(path).run(None, {"data": image})):
        assert_close(theirs, ours)
    return expected


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("detections", [False, True])
def test_openvino(detections, net, image, tmp_path):
    openvino = pytest.importorskip("openvino")
    path = tmp_path / "net.onnx"
    block = net.detector(threshold=THRESHOLD, topk=TOPK) if detections else net
    expected = exported(block, image, path)
    if detections:
        assert (expected[0] >= 0).sum() > 3
    core = openvino.Core()
    model = core.compile_model(core.read_model(str(path)), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    results = model([image])
    for i, ours in enumerate(expected):
        assert_close(results[i], ours)


def test_opencv(net, image, tmp_path):
    """OpenCV 4 has no NonMaxSuppression, so it cannot read a file with detections."""
    cv2 = pytest.importorskip("cv2")
    path = tmp_path / "net.onnx"
    expected = exported(net, image, path)
    reader = cv2.dnn.readNetFromONNX(str(path))
    reader.setInput(image, "data")
    found = dict(zip(reader.getUnconnectedOutLayersNames(), reader.forward(reader.getUnconnectedOutLayersNames())))
    names = [output.name for output in onnx_oracle.session(path).get_outputs()]
    for name, ours in zip(names, expected):
        assert_close(found[name], ours)
