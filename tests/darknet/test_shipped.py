"""Every cfg that pjreddie's and AlexeyAB's Darknet ship: tests/golden/darknet/shipped.tar.xz."""
import gluonops as gops
import pytest

RECURRENT = {
    "pjreddie": ["gru", "rnn", "rnn.train"],
    "alexeyab": ["crnn.train", "gru", "lstm.train", "rnn", "rnn.train", "yolov3-tiny_occlusion_track"],
}
# Large networks whose sections and options, with their values, other ones have, too: make test-all loads them.
REPEATING = {
    "pjreddie": ("densenet201", "resnet152", "resnext101-32x4d", "resnext152-32x4d", "yolov3-openimages", "yolov3-voc"),
    "alexeyab": ("cd53paspp-gamma", "cspx-p7-mish-omega", "csresnext50-panet-spp",
                 "csresnext50-panet-spp-original-optimal", "darknet53_448_xnor", "densenet201", "resnet101",
                 "resnet152", "resnext152-32x4d", "yolov3-openimages", "yolov3-spp", "yolov3-voc", "yolov4-csp-s-mish",
                 "yolov4-csp-x-mish", "yolov4-csp-x-swish", "yolov4-custom", "yolov4-p5", "yolov4-p5-frozen",
                 "yolov4-p6", "yolov4_new", "yolov4x-mish"),
}
# How many load, how many of them are detectors, and how many of these keep an image's proportions.
COUNTS = {("pjreddie", "all"): (42, 13, 0), ("pjreddie", "daily"): (36, 11, 0),
          ("alexeyab", "all"): (81, 54, 14), ("alexeyab", "daily"): (60, 39, 6)}


@pytest.mark.parametrize("chosen", ["daily", pytest.param("all", marks=pytest.mark.slow)])
@pytest.mark.parametrize("program", RECURRENT)
def test_all_but_recurrent_ones_load(program, chosen, shipped):
    refused, detectors, letterboxed = {}, 0, 0
    left_out = REPEATING[program] if chosen == "daily" else ()
    paths = [path for path in sorted((shipped / program).glob("*.cfg")) if path.stem not in left_out]
    for path in paths:
        try:
            net = gops.darknet.load(path)
        except gops.OpError as error:
            refused[path.stem] = str(error)
            continue
        detectors += bool(net._detections)
        if net._detections and "letter_box=1" in path.read_text(errors="replace"):
            letterboxed += 1
            assert net.preprocessing["resize"] == "letterbox"
    assert sorted(refused) == RECURRENT[program]
    assert (len(paths) - len(refused), detectors, letterboxed) == COUNTS[program, chosen]
    assert all(f"gluonops.darknet.load: {name}.cfg, line " in text for name, text in refused.items())


@pytest.mark.parametrize("name, dialect", [("alexeyab/yolov4", "alexeyab"), ("alexeyab/yolov7", "alexeyab"),
                                           ("alexeyab/enet-coco", "alexeyab"), ("pjreddie/yolov3", "pjreddie"),
                                           ("alexeyab/yolov2", "pjreddie")])
def test_dialects(name, dialect, shipped):
    sections = gops.darknet.cfg.read_cfg(shipped / f"{name}.cfg")
    assert gops.darknet.ignored_options.dialect_of(sections) == dialect


@pytest.mark.parametrize("program", RECURRENT)
def test_how_they_are_trained(program, shipped):
    """Every one is understood, with the numbers of the cfg."""
    found = {}
    for path in sorted((shipped / program).glob("*.cfg")):
        if path.stem not in RECURRENT[program]:
            found[path.stem] = options = gops.darknet.read_training(path)
            gops.train.darknet_augment(options)
            assert gops.train.darknet_schedule(path)(options.max_batches // 2) <= options.learning_rate * 10
    tasks = [options.task for options in found.values()]
    assert tasks.count("detection") == {"pjreddie": 13, "alexeyab": 54}[program]
    assert found["darknet19"].crops == {"pjreddie": (0.5, 448 / 256), "alexeyab": (1, 2)}[program]
    assert found["darknet19"].aspect == {"pjreddie": pytest.approx(4 / 3), "alexeyab": 1}[program]
