"""Every cfg that pjreddie's and AlexeyAB's Darknet ship: tests/golden/darknet/shipped.tar.xz."""
import gluonops as gops
import pytest

RECURRENT = {
    "pjreddie": ["gru", "rnn", "rnn.train"],
    "alexeyab": ["crnn.train", "gru", "lstm.train", "rnn", "rnn.train", "yolov3-tiny_occlusion_track"],
}
COUNTS = {"pjreddie": 42, "alexeyab": 81}


@pytest.mark.parametrize("program", RECURRENT)
def test_all_but_recurrent_ones_load(program, shipped):
    refused, detectors, letterboxed = {}, 0, set()
    paths = sorted((shipped / program).glob("*.cfg"))
    for path in paths:
        try:
            net = gops.darknet.load(path)
        except gops.OpError as error:
            refused[path.stem] = str(error)
            continue
        detectors += bool(net._detections)
        if net._detections and "letter_box=1" in path.read_text(errors="replace"):
            letterboxed.add(path.stem)
            assert net.preprocessing["resize"] == "letterbox"
    assert sorted(refused) == RECURRENT[program] and len(paths) - len(refused) == COUNTS[program]
    assert all(f"gluonops.darknet.load: {name}.cfg, line " in text for name, text in refused.items())
    assert detectors == {"pjreddie": 13, "alexeyab": 54}[program]
    assert len(letterboxed) == {"pjreddie": 0, "alexeyab": 14}[program]


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
