"""SSDs of others: what MXNet computes of a picture, as detections. Small, old, of a hosted service, of gluoncv."""
import pathlib
import sys

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from gluonops.commands import cli

EXPORT = pathlib.Path(__file__).parents[1] / "export"
sys.path += [str(EXPORT), str(EXPORT / "onnx")]
import files_of_others as others  # noqa: E402
import test_files_of_others  # noqa: E402
import test_legacy_files  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore:Please import `csr_matrix`"),   # mx.nd.array, with today's SciPy
              pytest.mark.filterwarnings("ignore::gluonops.export.ExportWarning")]
PREPARED = {"resize": "stretch", "range": [0, 255], "mean": [123, 117, 104], "std": [64]}


def of_mxnet_09():
    return test_files_of_others.ssd()[0], 64, -1


def of_a_service():
    return test_legacy_files.text_of("sagemaker_ssd"), 300, -1


def without_detections():
    """It returns anchors, scores and offsets, and something else."""
    return test_legacy_files.text_of("myssd"), 256, None


def rows_of(symbol, arrays, detections):
    """The rows of MultiBoxDetection, which are added if the net lacks them."""
    if detections is None:
        _, anchors, scores, offsets = symbol
        scores = mx.sym.transpose(mx.sym.softmax(scores, axis=-1), axes=(0, 2, 1))
        symbol, detections = mx.sym.contrib.MultiBoxDetection(scores, offsets, anchors), 0
    return others.outputs_of(symbol, arrays)[detections][0]


def check(found, rows, side, least):
    """The detections are MXNet's rows of class, score and box, as far as these have an area."""
    rows[:, 2:] = rows[:, 2:].clip(0, side)
    rows = rows[(rows[:, 0] >= 0) & (rows[:, 1] >= least) & (rows[:, 4:] > rows[:, 2:4]).all(1)]
    assert len(found) == len(rows) > 3
    for one in found:
        assert np.abs(rows - [one.class_id, one.score, *one.box]).max(1).min() < 1e-2


@pytest.mark.parametrize("make", [of_mxnet_09, pytest.param(of_a_service, marks=pytest.mark.slow),
                                  pytest.param(without_detections, marks=pytest.mark.slow)])
def test_detections(make, picture, tmp_path, rng):
    text, side, detections = make()
    symbol = mx.sym.load_json(text)
    shapes = {"data": (1, 3, side, side)}
    if "label" in symbol.list_arguments():
        shapes["label"] = (1, 3, 5)
    arrays = others.arrays_of(symbol, shapes, rng)
    others.save(tmp_path / "net", text, arrays, symbol.list_auxiliary_states(), shapes)
    path, pixels = picture(side, side)
    net = gops.export.load(tmp_path / "net", preprocessing=PREPARED, data_shape=shapes["data"])
    assert isinstance(net, gops.export.LoadedDetector)

    arrays["data"][:] = (pixels.transpose(2, 0, 1)[None] - np.reshape([123, 117, 104], (3, 1, 1))) / 64
    rows = rows_of(symbol, arrays, detections)
    rows[:, 2:] *= side
    found = net.detect(path, threshold=0.3)
    check(found, rows, side, 0.3)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert net.classes == tuple(map(str, range(len(net.classes))))


def test_the_command(picture, tmp_path, rng, capsys):
    text, side, _ = of_mxnet_09()
    symbol = mx.sym.load_json(text)
    shapes = {"data": (1, 3, side, side)}
    others.save(tmp_path / "net", text, others.arrays_of(symbol, shapes, rng), symbol.list_auxiliary_states(), shapes)
    path, _ = picture(90, 60)
    command = ["detect", str(tmp_path / "net"), path]
    assert cli.main(command) == 1
    assert "does not contain the shape of its input" in capsys.readouterr().err
    command += ["--data-shape", f"1,3,{side},{side}"]
    assert cli.main(command) == 1
    error = capsys.readouterr().err
    assert "does not say how images are prepared" in error and "or --preprocessing '{" in error
    assert cli.main([*command, "--preprocessing", '{"resize": "stretch"}']) == 0
    assert "found\n  " in capsys.readouterr().out
    assert cli.main(["export", str(tmp_path / "net"), str(tmp_path / "new"), "--data-shape", "1,3,64,64"]) == 0
    assert cli.main(["detect", str(tmp_path / "new"), path, "--preprocessing", "{}"]) == 0   # the file has the shape
    with pytest.raises(gops.OpError, match="data_shape was passed for a.onnx, in which it is fixed"):
        gops.export.load("a.onnx", data_shape=(1, 3, 64, 64))


def gap_in(scores):
    """A threshold with 5 to 19 scores above it: the middle of the widest gap, where rounding decides nothing."""
    best = np.sort(scores)[-20:-4]
    place = np.diff(best).argmax()
    return float(best[place:place + 2].mean())


def test_an_ssd_of_gluoncv(picture, tmp_path, rng):
    """The drawn weights give scores that differ: as the net draws them, all are 1 and all boxes the whole picture.

    For ten seeds, five detections or more are above the threshold, and no score is nearer to it than 0.0001.
    """
    gluoncv = pytest.importorskip("gluoncv")
    net = gluoncv.model_zoo.get_model("ssd_300_mobilenet0.25_voc", pretrained_base=False)
    net.initialize()
    net.hybridize()
    shape = (1, 3, 300, 300)
    net(mx.nd.zeros(shape))
    drawn = others.arrays_of(net(mx.sym.var("data"))[0], {"data": shape}, rng)
    for name, parameter in net.collect_params().items():
        if not isinstance(parameter, mx.gluon.Constant):   # the anchors
            parameter.set_data(drawn[name] * (100 if name.endswith("weight") and "pred" in name else 1))
    net.export(str(tmp_path / "net"))
    path, pixels = picture(300, 300)
    loaded = gops.export.load(tmp_path / "net", classes=net.classes, preprocessing={"resize": "stretch"},
                              data_shape=shape)
    ids, scores, boxes = (value[0].asnumpy() for value in net(mx.nd.array(pixels.transpose(2, 0, 1)[None] / 255)))
    least = gap_in(scores[:, 0])
    found = loaded.detect(path, threshold=least)
    check(found, np.concatenate([ids, scores, boxes], axis=1), 300, least)
    assert {one.name for one in found} <= set(net.classes)
