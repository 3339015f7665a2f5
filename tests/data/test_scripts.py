"""What the fine-tuning scripts load, and what they refuse before they train: options, and data that do not fit."""
import importlib
import json
import pathlib
import sys

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from folders import make_coco, make_records, make_yolo, picture, save

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


@pytest.fixture
def script(monkeypatch, tmp_path):
    """A function that imports a script, with these words on its command line and an empty working folder."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.chdir(tmp_path)

    def script(name, *options):
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *options])
        return importlib.import_module(name)

    return script


@pytest.fixture
def detector(script):
    """(training, validation) as finetune_yolov2.py loads them."""
    def load(*options):
        module = script("finetune_yolov2", *options)
        return module.load(module.arguments())

    return load


@pytest.fixture
def classifier(script):
    """Images as finetune_classifier.py loads them."""
    def load(*options):
        module = script("finetune_classifier", *options)
        return module._images.load(module.arguments())

    return load


def refused(text, load, *options):
    with pytest.raises(gops.OpError) as caught:
        load(*options)
    assert text in str(caught.value), str(caught.value)


class TestClasses:
    @pytest.mark.parametrize("classes", [(), ("dog", "cat")])
    def test_of_coco_are_told_by_their_names(self, detector, tmp_path, rng, classes):
        """Held-out labels may name them in another order than those to train on."""
        path, content = make_coco(tmp_path, rng)
        content["categories"].reverse()
        (path.parent / "instances_val2017.json").write_text(json.dumps(content))
        options = ("--classes", *classes) if classes else ()
        training, validation = detector("--dataset", "coco", "--root", ".", *options)
        assert training.classes == validation.classes == (classes or ("cat", "dog"))
        assert training.label(0)[:, 4].tolist() == validation.label(0)[:, 4].tolist()

    def test_that_are_held_out_alone(self, detector, classifier, tmp_path, rng):
        path, content = make_coco(tmp_path / "coco", rng)
        content["categories"].append({"id": 9, "name": "cow"})
        (path.parent / "instances_val2017.json").write_text(json.dumps(content))
        refused("instances_val2017.json has the category 'cow'; expected one of cat, dog",
                detector, "--dataset", "coco", "--root", "coco")
        boxes = [np.float32([2, 5, number, 0, 0, 1, 1]) for number in range(3)]
        for folder, load, low, high in (("boxes", detector, boxes[0], boxes[2]), ("images", classifier, 0.0, 2.0)):
            make_records(tmp_path / folder, rng, [low] * 3)
            make_records(tmp_path / folder, rng, [low, high, low], split="val")
            refused("val.rec, record 6: the class is 2; expected a whole number from 0 to 0",
                    load, "--dataset", "rec", "--root", folder)


@pytest.mark.parametrize("name, options", [
    ("finetune_classifier", "--lr -1"), ("finetune_classifier", "--lr nan"), ("finetune_classifier", "--wd nan"),
    ("finetune_classifier", "--warmup inf"), ("finetune_classifier", "--lr-steps nan"),
    ("finetune_classifier", "--lr-steps 0.5 1.5"), ("finetune_classifier", "--seed -1"),
    ("finetune_classifier", "--seed 5000000000"), ("finetune_classifier", "--embedding -1"),
    ("finetune_classifier", "--center-loss -1"), ("finetune_classifier", "--size 0"),
    ("finetune_classifier", "--freeze -2"), ("finetune_classifier", "--save-every -1"),
    ("finetune_classifier", "--flip 1.1"), ("finetune_yolov2", "--pretrain-epochs -1"),
    ("finetune_yolov2", "--size 0"), ("finetune_yolov2", "--seed -1"), ("finetune_yolov2", "--threads -1"),
    ("finetune_yolov2", "--count 10 0"), ("finetune_yolov2", "--head-channels 0"),
    ("finetune_yolov2", "--coord-scale inf"), ("module_finetune", "--lr nan"), ("module_finetune", "--prefix-epoch x")])
def test_values_are_refused(script, capsys, name, options):
    """By argparse, which names the option; in a word, not in a traceback once it is trained."""
    option, *_, value = options.split()
    module = script(name, *options.split())
    with pytest.raises(SystemExit, match="2"):
        getattr(module, "arguments", module.main)()
    assert f"argument {option}: got {value}; expected " in capsys.readouterr().err


@pytest.mark.parametrize("name", ["finetune_classifier", "finetune_yolov2"])
def test_digits_have_no_other_folder_here(script, capsys, name):
    """--data-dir is for the scripts that read it."""
    with pytest.raises(SystemExit, match="2"):
        script(name, "--data-dir", ".").arguments()
    assert "unrecognized arguments: --data-dir" in capsys.readouterr().err


@pytest.mark.parametrize("sizes", ["64 50", "96 64", "50 64"])
def test_sizes_are_of_whole_cells(script, sizes):
    with pytest.raises(gops.OpError, match=f"--multi-scale is {sizes}; expected multiples of 32, the smaller first"):
        script("finetune_yolov2", "--multi-scale", *sizes.split()).arguments()


def test_a_device_has_a_small_number(script):
    module = script("finetune_classifier", "--ctx", "cpu:99999999999999999999")
    with pytest.raises(gops.OpError, match="expected cpu or gpu with a number below 1000"):
        module.contexts(module.arguments())


def test_a_file_is_no_folder_for_results(script, tmp_path):
    (tmp_path / "file").write_text("")
    for out, why in (("file", "File exists"), ("file/deep", "Not a directory")):
        module = script("finetune_classifier", "--out", out)
        with pytest.raises(SystemExit, match=f"gluonops.examples: --out {out} cannot be made a folder: {why}. Name"):
            module.main()


class TestIgnored:
    """Options that would be, or that would mean other data than it seems."""

    def test_a_file_has_not_both_parts(self, detector, classifier, tmp_path, rng):
        make_records(tmp_path, rng)
        for load in (detector, classifier):
            refused("--root train.rec is a file; expected the folder that has the images to train on and those held "
                    "out", load, "--dataset", "rec", "--root", "train.rec")

    def test_classes(self, detector, classifier):
        refused("--classes is 1 2; scenes of digits always have all ten", detector, "--classes", "1", "2")
        refused("classes are ('5', '5'); expected one name or more, all different", classifier, "--classes", "5", "5")

    def test_names(self, detector, classifier):
        refused("--pretrained-names a beside no --pretrained", detector, "--pretrained-names", "a")
        refused("--pretrained-names a beside x.checkpoint", classifier, "--pretrained-names", "a", "--pretrained",
                "x.checkpoint")


class TestPretrained:
    """Files to start from, and the names of their classes."""

    @pytest.fixture
    def start(self, script):
        """Write start.params, of four outputs; then load it with these options into a classifier of three digits."""
        module = script("finetune_classifier")._classifier

        def make(classes, *options):
            args = script("finetune_classifier", "--model", "mlp", *options).arguments()
            return args, module.make(args, classes, (1, 8, 8))

        make("1234")[1].save_parameters("start.params")

        def start(*options):
            args, net = make("345", "--pretrained", *options)
            return module.start_from(net, args), net

        return start

    def test_names(self, start, tmp_path):
        for content, text in (("1\n2\n3\n", "names has 3 names; expected 4, one for each output of start.params"),
                              ("1\n2\n3\n3\n", "expected one name or more, all different")):
            (tmp_path / "names").write_text(content)
            refused(text, start, "start.params", "--pretrained-names", "names")
        (tmp_path / "names").write_bytes(b"\xff\xfe1\n")
        refused("the class names in names cannot be read", start, "start.params", "--pretrained-names", "names")
        refused("the class names in none cannot be read", start, "start.params", "--pretrained-names", "none")
        (tmp_path / "names").write_text("1\n2\n3\n4\n")
        kept, net = start("start.params", "--pretrained-names", "names")
        rows = mx.nd.load("start.params")["output.weight"].asnumpy()
        assert kept == ["3", "4"]
        np.testing.assert_array_equal(net.output.weight.data().asnumpy()[:2], rows[2:])

    def test_an_output_of_another_width_starts_anew(self, start, tmp_path):
        """As where the embedding is left out."""
        tensors = mx.nd.load("start.params")
        tensors["output.weight"] = mx.nd.ones((4, 2))
        mx.nd.save("narrow.params", tensors)
        (tmp_path / "names").write_text("1\n2\n3\n4\n")
        kept, net = start("narrow.params", "--pretrained-names", "names")
        assert kept == [] and net.output.weight.shape[0] == 3

    def test_a_list_of_tensors(self, start, script):
        mx.nd.save("list.params", [mx.nd.zeros(3)])
        refused("list.params has tensors without names; expected a net's parameters", start, "list.params")
        refused("list.params is no checkpoint of these scripts", script("_checkpoint").read, "list.params")

    def test_parameters_of_a_detector(self, script, tmp_path):
        """best.params is what --resume sends to --pretrained; its rows are told by --pretrained-names."""
        (tmp_path / "names").write_text("cat\ndog\n")
        options = "--head-channels", "8", "--pretrained", "best.params"
        detector = script("finetune_yolov2", *options, "--pretrained-names", "names")
        old = gops.models.tiny_yolov2(classes=["cat", "dog"], anchors=[(1, 1), (2, 2)], head_channels=8)
        old.initialize(mx.init.Xavier())
        old(mx.nd.zeros((1, 3, 32, 32)))
        old.save_parameters("best.params")
        net, kept = detector._detection.make(detector.arguments(), ["dog", "cow"], [(1, 1), (2, 2)])
        assert kept == ["dog"]
        before, after = (part.output.conv.weight.data().asnumpy().reshape(2, 7, -1) for part in (old, net))
        np.testing.assert_array_equal(after[:, [0, 1, 2, 3, 4, 5]], before[:, [0, 1, 2, 3, 4, 6]])
        refused("best.params does not hold the names of its classes", detector._detection.make,
                script("finetune_yolov2", *options).arguments(), ["dog"], [(1, 1), (2, 2)])


def test_parts_without_images(classifier, tmp_path, rng):
    """A class whose folder is empty, and so few images that none is left to choose the epoch on."""
    for part in ("train", "val"):
        for name, count in (("blue", 2 * (part == "train")), ("red", 1)):
            (tmp_path / part / name).mkdir(parents=True)
            for place in range(count):
                save(tmp_path / part / name / f"{place}.png", picture((8, 8), [], rng))
    options = "--dataset", "folder", "--root", ".", "--classes"
    refused("there are 0 images held out of blue; expected at least 1", classifier, *options, "blue")
    refused("there are 1 images to train on of red; expected at least 2", classifier, *options, "red")
    assert [len(part) for part in classifier(*options, "red", "blue")[:3]] == [2, 1, 1]


def test_a_held_out_image_that_does_not_fit(detector, classifier, tmp_path, rng):
    """It is told of before anything is trained."""
    for part in ("train", "val"):
        for place in range(3):
            save(tmp_path / part / "a" / f"{place}.png", picture((300, 2 + 200 * (part == "train")), [], rng))
    refused("val/a/0.png: an image of 300 x 2 would be 28 x 0 in 28 x 28", classifier, "--dataset", "folder",
            "--root", ".")
    make_yolo(tmp_path, rng)
    save(tmp_path / "images" / "wide.png", picture((2000, 10), [], rng))
    (tmp_path / "labels" / "wide.txt").write_text("")
    (tmp_path / "val.txt").write_text("images/wide.png\n")
    refused("images/wide.png: an image of 2000 x 10 would be 128 x 0 in 128 x 128", detector, "--dataset", "yolo",
            "--root", ".")


@pytest.mark.parametrize("model, shape, text", [
    ("darknet19", (1, 28, 28), "darknet19 takes no images of 1 channels, 28 x 28; expected a --model for such"),
    ("alexnet", (3, 28, 28), "alexnet takes no images of 3 channels, 28 x 28"),
    ("yolo3_darknet53_voc", (3, 64, 64), "there is no classifier 'yolo3_darknet53_voc'"),
    ("ssd_300_vgg16_atrous_voc", (3, 64, 64), "there is no classifier 'ssd_300_vgg16_atrous_voc'")])
def test_models_that_take_no_such_images(script, model, shape, text):
    """Or are no classifiers; those are not asked for, as the weights of their base would be downloaded."""
    module = script("finetune_classifier", "--model", model)
    refused(text, module._classifier.make, module.arguments(), ["a", "b"], shape)


class TestStartOfModule:
    """module_finetune.py: files that are no exported net, and nets that are none for the digits."""

    @pytest.fixture
    def load(self, script):
        """What main() does to a net before it trains."""
        for name, channels in (("start", 1), ("three", 3)):
            net = mx.gluon.nn.HybridSequential(prefix=f"{name}_")
            with net.name_scope():
                net.add(mx.gluon.nn.Conv2D(2, 3), mx.gluon.nn.Flatten(), mx.gluon.nn.Dense(5))
            net.initialize()
            net.hybridize()
            gops.export.symbol(net, name, (1, channels, 28, 28))
        module = script("module_finetune")

        def load(prefix, layer=None):
            symbol, arguments, states = module.checkpoint(prefix, 0)
            features = module.cut(symbol, layer)
            module.check_features(features, arguments, states, prefix)
            return features

        return load

    def test_files(self, load, tmp_path):
        symbol, parameters = ((tmp_path / f"start-{part}").read_bytes() for part in ("symbol.json", "0000.params"))
        mx.nd.save("list", [mx.nd.zeros(3)])
        for cut in ((symbol[:200], parameters), (symbol, parameters[:200]), (symbol, b""),
                    (symbol, (tmp_path / "list").read_bytes())):
            for part, content in zip(("symbol.json", "0000.params"), cut):
                (tmp_path / f"bad-{part}").write_bytes(content)
            with pytest.raises(SystemExit, match="bad-symbol.json and bad-0000.params cannot be read as an exported"):
                load("bad")

    def test_nets(self, load, tmp_path):
        assert load("start").list_outputs() == ["start_flatten0_flatten0_output"]
        with pytest.raises(SystemExit, match=r"three takes no images of \(1, 28, 28\), as the digits are"):
            load("three")
        for layer in ("start_conv0_weight", "data"):
            with pytest.raises(SystemExit, match=f"the net has no output {layer}; expected --layer to be one of start"):
                load("start", layer)
        (tmp_path / "start-0000.params").write_bytes((tmp_path / "three-0000.params").read_bytes())
        with pytest.raises(SystemExit, match="start has no parameter start_conv0_bias; expected all of the net's"):
            load("start")
