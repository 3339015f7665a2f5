"""The commands on data sets as people have them: one update each; what was repaired and held out is in the results."""
import json

import pytest
from test_layouts import coco_set, paint, parts, voc_beside, write, yaml

DETECT = ("--size", "64", "--epochs", "1", "--head-channels", "8", "8", "--anchors", "1,1", "--pretrained", "none",
          "--pretrain-epochs", "0", "--threads", "0")
CLASSIFY = ("--size", "28", "--epochs", "1", "--model", "mlp", "--pretrained", "none", "--threads", "0")


@pytest.fixture
def gluonops(typed):
    return typed


def results(folder, script):
    return json.loads((folder / "out" / script / "results.json").read_text())


def test_voc(tmp_path, gluonops):
    """Without lists: a fifth is held out, listed, and held out again by the list, although there are more pictures."""
    voc_beside(tmp_path / "set", "images", "annots")
    label = tmp_path / "set" / "annots" / "3.xml"
    label.write_text(label.read_text().replace("<xmin>21", "<xmin>0").replace("<difficult>0</difficult>", ""))
    said = gluonops("train", "set", *DETECT)[1]
    assert said.count("Warning: the data set is used with these repairs") == 1 and "UserWarning" not in said
    assert "1 box reached beyond its picture and is clipped: set/annots/3.xml, line 1\n" in said
    assert "has no part for validation: 2 pictures are held out" in said
    found, listed = results(tmp_path, "finetune_detector"), tmp_path / "out" / "finetune_detector" / "held_out.txt"
    assert found["repairs"] == {reason: {"count": 1, "first": ["set/annots/3.xml, line 1"]}
                                for reason in ("difficult", "clipped")}
    assert found["held_out"] == listed.read_text().split() and len(found["held_out"]) == 2

    for i in range(10, 20):
        paint(tmp_path / "set" / "images" / f"{i}.jpg", i)
        write(tmp_path / "set" / "annots" / f"{i}.xml", (tmp_path / "set" / "annots" / "0.xml").read_text())
    net = "out/finetune_detector/detector"
    printed, _ = gluonops("val", net, "set", "--held-out", str(listed), "--json")
    measured = json.loads(printed)
    assert measured["images"] == 2 and measured["held_out"] == found["held_out"] and "clipped" in measured["repairs"]

    said = gluonops("train", "set", *DETECT, "--strict", "--out", "out/strict", fails=1)[1]
    assert said.startswith("gluonops.data.voc: set/annots/3.xml, line 1: <object> has no <difficult>; expected one <")
    assert said.count("\n") == 1 and not (tmp_path / "out" / "strict").exists()


def test_yolo(tmp_path, gluonops):
    yaml(tmp_path / "set", "train: ../train/images\nval: ../valid/images\nnc: 1\nnames: ['bolt']\n",
         image="{part}/images", label="{part}/labels", rename={"val": "valid"})
    write(tmp_path / "set" / "train" / "labels" / "2.txt", "0 0.2 0.2 0.6 0.2 0.6 0.6\n0 0.5 0.5 0.5 1.2\n")
    gluonops("train", "set/data.yaml", *DETECT)
    found = results(tmp_path, "finetune_detector")
    assert {reason: each["count"] for reason, each in found["repairs"].items()} == {"polygon": 1, "clipped": 1}
    assert found["held_out"] is None and found["classes"] == ["bolt"]


def test_coco(tmp_path, gluonops):
    coco_set(tmp_path / "set", "{part}", "{part}/_annotations.coco.json", rename={"val": "valid"})
    path = tmp_path / "set" / "train" / "_annotations.coco.json"
    content = json.loads(path.read_text())
    content["annotations"][0]["bbox"] = [-1.5, 10, 40.0, 40]
    content["annotations"][1]["bbox"] = [20, 10, 0, 40]
    path.write_text(json.dumps(content))
    gluonops("train", "set", *DETECT)
    assert results(tmp_path, "finetune_detector")["repairs"] == {
        "clipped": {"count": 1, "first": ["set/train/_annotations.coco.json, annotation 0"]},
        "no_area": {"count": 1, "first": ["set/train/_annotations.coco.json, annotation 1"]}}


def test_classes(tmp_path, gluonops):
    for name in ("nut", "bolt"):
        for i, _ in parts():
            paint(tmp_path / "set" / name / f"{i}.jpg", i)
    said = gluonops("train", "set", *CLASSIFY)[1]
    assert "has no part for validation: 4 pictures are held out" in said and "repairs" not in said
    found = results(tmp_path, "finetune_classifier")
    assert found["repairs"] == {}
    assert sorted(name.split("/")[0] for name in found["held_out"]) == ["bolt", "bolt", "nut", "nut"]
    measured = json.loads(gluonops("val", "out/finetune_classifier/classifier", "set", "--json")[0])
    assert measured["held_out"] == found["held_out"] and measured["accuracy"] == found["held_out_accuracy"]


@pytest.mark.parametrize("words, text", [
    (["flat"], "gluonops.data.recognize: flat has 8 pictures and 8 XML files in one folder; expected one of the "
     "layouts in docs/fine_tuning.md. Move the pictures to JPEGImages and the XML files to Annotations, as in Pascal "
     "VOC.\n"),
    (["classes", "--task", "detect"], "gluonops.data.recognize: classes has the layout folder, which is for "
     "classification; expected a layout for detection. Pass a data set for detection, or run: gluonops train "
     "classes.\n"),
    (["classes", "--held-out", "none.txt", *CLASSIFY], "gluonops.train.data_arguments: none.txt cannot be read: No "
     "such file or directory. Pass the held_out.txt of a run.\n")])
def test_one_line_says_what_is_wrong(tmp_path, gluonops, words, text):
    for i in range(8):
        paint(tmp_path / "flat" / f"{i}.jpg")
        write(tmp_path / "flat" / f"{i}.xml", "")
        paint(tmp_path / "classes" / "ab"[i % 2] / f"{i}.jpg", i)
    before = sorted(tmp_path.rglob("*"))
    assert gluonops("train", *words, fails=1)[1] == text
    assert sorted(tmp_path.rglob("*")) == before
