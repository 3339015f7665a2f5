"""gluonops train and val run the examples on data whose layout tells what it is; and completion knows their options."""
import json
import subprocess

import gluonops as gops
import numpy as np
import pytest
from gluonops.commands import cli, scripts
from PIL import Image
from typed import Typed

QUICK = ("--size", "32", "--epochs", "1", "--batch", "4", "--threads", "0")
DETECTOR = (*QUICK, "--head-channels", "8", "8", "--pretrained", "none", "--pretrain-epochs", "0")


@pytest.fixture
def gluonops(monkeypatch, capsys, tmp_path):
    return Typed(monkeypatch, capsys, tmp_path)


@pytest.fixture
def parts(tmp_path):
    """Nuts and bolts in the layout of VOC, with the labels of labelImg."""
    for folder in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (tmp_path / "parts" / folder).mkdir(parents=True)
    for i, name in enumerate(("nut", "bolt", "nut", "washer")):
        Image.new("RGB", (48, 40), (40 * i, 90, 20)).save(tmp_path / "parts" / "JPEGImages" / f"{i}.jpg")
        (tmp_path / "parts" / "Annotations" / f"{i}.xml").write_text(
            f"<annotation><size><width>48</width><height>40</height></size><object><name>{name}</name><difficult>0"
            "</difficult><bndbox><xmin>5</xmin><ymin>5</ymin><xmax>30</xmax><ymax>28</ymax></bndbox></object></annotation>")
    for part in ("train", "val"):
        (tmp_path / "parts" / "ImageSets" / "Main" / f"{part}.txt").write_text("0\n1\n2\n3\n")
    return tmp_path


@pytest.mark.slow
def test_the_first_command_on_own_boxes(parts, gluonops):
    """The classes are not VOC's; the trained net is measured, and run on a folder."""
    gluonops("train", "parts", *DETECTOR)
    folder = parts / "out" / "finetune_detector"
    found = json.loads((folder / "results.json").read_text())
    assert found["classes"] == ["bolt", "nut", "washer"] and found["options"]["dataset"] == "voc"
    said, _ = gluonops("val", "out/finetune_detector/detector", "parts")
    assert "On 4 images, the mAP at IoU 0.5 is " in said and "  washer " in said
    gluonops("detect", "out/finetune_detector/detector", "parts/JPEGImages", "--threshold", "0.01",
             "-o", "found")
    assert sorted(path.name for path in (parts / "found").iterdir()) == ["0.jpg", "1.jpg", "2.jpg", "3.jpg"]


@pytest.mark.slow
def test_the_classes_of_a_file(parts, gluonops):
    (parts / "two.names").write_text("washer\nnut\n")
    said = gluonops("train", "parts", *DETECTOR, "--classes", "two.names")[1]
    assert "boxes  3\n" in said and "2: washer, nut\n" in said


def test_classes_are_chosen(parts, gluonops):
    """A mistyped one is named; those that are left out are background."""
    said = gluonops("train", "parts", *DETECTOR, "--classes", "nut", "wahser", fails=1)[1]
    assert "there is no class 'wahser'; there are bolt, nut, washer. Perhaps you mean 'washer'." in said
    training, validation = gops.train.detection_parts("voc", parts / "parts", ["washer", "nut"], 32)
    for part in (training, validation):
        assert [part.label(i)[:, 4].tolist() for i in range(4)] == [[1], [], [1], [0]]
        np.testing.assert_array_equal(part[3][1], part.label(3))
    swapped, _ = gops.train.detection_parts("voc", parts / "parts", ["nut", "washer"], 32)
    assert swapped.fingerprint() != training.fingerprint()


def test_own_classes(tmp_path, gluonops):
    for part, count in (("train", 12), ("val", 3)):
        for level, name in ((20, "dark"), (220, "light")):
            (tmp_path / "data" / part / name).mkdir(parents=True)
            for i in range(count):
                Image.new("RGB", (40, 32), (level, level, level + i)).save(tmp_path / "data" / part / name / f"{i}.png")
    gluonops("train", "data", *QUICK, "--model", "mlp", "--device", "cpu")
    exported = "out/finetune_classifier/classifier"
    trained = json.loads((tmp_path / exported).with_name("results.json").read_text())
    measured = json.loads(gluonops("val", exported, "data", "--json")[0])
    assert measured["accuracy"] == trained["held_out_accuracy"] and measured["confusion"] == trained["confusion"]
    assert measured["accuracy_top5"] == 1 and (tmp_path / "out" / "evaluate" / "confusion.png").exists()
    again = ("train", "data", *QUICK, "--model", "mlp", "--classes", "dark", "--resume", "auto")
    said = gluonops(*again, fails=1)[1]
    assert "classes is ['dark']; the run in out/finetune_classifier/last.checkpoint was started with None" in said
    said = gluonops("train", "nowhere", fails=1)[1]
    assert said == "gluonops.data.recognize: there is no file or folder nowhere. Pass the folder of a data set.\n"
    with pytest.raises(gops.OpError):
        gluonops("train", "nowhere", "--debug")


@pytest.mark.parametrize("words, script, arguments", [
    ("", "finetune_classifier", ""), ("--task detect", "finetune_detector", ""),
    ("set.data --cfg a.cfg", "train_darknet", "--data set.data --cfg a.cfg"),
    ("set.data --epochs 3", "finetune_detector", "--data set.data --epochs 3"),
    ("--epochs 3 --data set.data", "finetune_detector", "--epochs 3 --data set.data"),
    ("set.data --task classify", "finetune_classifier", "--data set.data")])
def test_the_script_that_trains(words, script, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "set.data").touch()
    args, args.rest = cli._parser().parse_known_args(["train", *words.split()])
    assert scripts._training(args) == (script, arguments.split())


def test_the_arguments_of_val(capsys):
    for words, arguments in (("out/net", "--net out/net"), ("a.cfg a.weights DIR", "--net a.cfg --weights a.weights "
                             "--data DIR"), ("a.onnx DIR --count 3", "--net a.onnx --data DIR --count 3")):
        args, args.rest = cli._parser().parse_known_args(["val", *words.split()])
        assert scripts._validation(args) == ("evaluate", arguments.split())
    with pytest.raises(SystemExit):
        cli.main(["val", "out/net", "DIR", "another"])
    assert "unrecognized arguments: another" in capsys.readouterr().err


def test_how_a_stopped_training_goes_on(monkeypatch):
    monkeypatch.delenv("LAUNCH_LOCAL", raising=False)
    monkeypatch.setattr("sys.argv", ["gluonops train", "--data", "my set"])
    assert gops.train.command_to_resume() == "gluonops train --data 'my set' --resume auto"


@pytest.mark.parametrize("words, expected", [
    ("tra", "train"), ("c", "classify completion convert"), ("train DIR --embed", "--embedding"),
    ("train --head", "--head-channels"), ("val net --co", "--config --count"), ("export net --on", "--onnx"),
    ("detect photo", "")])
def test_completion(words, expected, capsys):
    """Bash's own completion of files follows where there is no word."""
    assert cli.main(["completion"]) == 0
    count = len(words.split())
    line = f"COMP_WORDS=(gluonops {words}); COMP_CWORD={count}; _gluonops; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", f"{capsys.readouterr().out}\n{line}"], capture_output=True, text=True)
    assert done.stderr == "" and sorted(done.stdout.split()) == expected.split()
