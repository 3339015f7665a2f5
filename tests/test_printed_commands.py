"""Each command that a page prints works. Those that a test machine can run are typed in the activated environment, page
by page, in a folder with the files that the page assumes. PARSED lists the others: the parser takes their options."""
import argparse
import os
import pathlib
import re
import runpy
import shlex
import subprocess
import sys
import tarfile
import types
import warnings

import gluonops as gops
import mxnet as mx
import numpy as np
import pytest
from benchmarks.harness.machine import KEEPING_MALLOC
from gluonops.commands import cli, scripts
from mxnet import gluon
from mxnet.contrib import quantization
from mxnet.gluon import nn
from mxnet.gluon.model_zoo import vision
from PIL import Image
from typed import Typed

ROOT = pathlib.Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests" / "data"))
import folders  # noqa: E402

DARKNET = ROOT / "tests" / "golden" / "darknet"
ACTIVATE = pathlib.Path(sys.prefix) / "bin" / "activate"
PAGES = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md", "examples/deploy/README.md",
         *(path.relative_to(ROOT).as_posix() for part in ("*.md", "tutorials/*.md")
           for path in sorted((ROOT / "docs").glob(part)))]
TEXTS = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}
FENCE = re.compile(r"^```(\w*).*?\n(.*?)^```$", re.M | re.S)
INLINE = re.compile(r"`((?:gluonops|python|make|pip) (?!-m gluonops`)[^`]+)`")
SCRIPT = ("# role.sh", "#SBATCH")   # a block that begins so is a file; test_several_machines.py runs it
DAILY = ("README.md", "docs/there_and_back.md")   # Their commands train and export.
TARGETS = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))

# The commands that no test types, and why.
PARSED = {
    r"git clone": "the address is not public yet",
    r"pip (un)?install": "it changes the environment; test_packaging.py installs what a wheel has",
    r"gluonops install-mxnet": "it changes the environment; tools/wheels.py runs it in a new one",
    r"python3 -m venv|source ": "test_packaging.py makes environments, and every command is typed in one",
    r"make ": "the targets take up to an hour; .ci/run and tools/fresh_check.py make them",
    r"python -m build": "test_packaging.py runs it",
    r"python -m gluonops\.native\.build": "it compiles for minutes; make test does it",
    r"python -m benchmarks": "they take hours, a GPU or a machine that does nothing else",
    r".*yolov4\.conv\.137": "the weights belong to the first 137 layers of a net, and a batch of YOLOv4 takes minutes",
    r".*--device 0,1": "it takes two GPUs",
    r"mpirun|srun": "they take several hosts",
}
# What makes the others take seconds. The options of the first pattern that is found go to the end of the command.
SHORTER = {
    r"gluonops train FOLDER$": "--epochs 1 --model mlp --size 32",
    r"make_shapes\.py": "--count 8 4",
    r"make_coins\.py": "--count 8",
    r"evaluate\.py|gluonops val \S+$": "--count 4",
    r"train_darknet\.py|finetune_detector\.py --size|--task detect|train --cfg": "--epochs 1 --count 8 4",
    r"gluonops train|examples/(train|module|finetune)_": "--epochs 1",
    r"gluonops bench$|bench --json": "--seconds 0.001",
}


def printed(page):
    """The commands of a page in its order: of its shell blocks, and in its sentences those with arguments."""
    lines = []
    for place in re.finditer(f"{FENCE.pattern}|{INLINE.pattern}", TEXTS[page], re.M | re.S):
        language, block, inline = place.groups()
        if inline and len(inline.split()) > 2 and "COMMAND" not in inline:
            lines.append(inline)
        elif language in ("sh", "console") and not block.startswith(SCRIPT):
            lines += [re.sub(r"(^|\s+)#.*", "", line) for line in block.replace("\\\n", " ").splitlines()]
    commands = [" ".join(command.split()) for line in lines for command in line.split(" && ")]
    return [command for command in commands if command and not command.startswith("cd ")]


def is_typed(command):
    return not any(re.match(pattern, command) for pattern in PARSED)


# -- the files that the pages assume -------------------------------------------------------------------------------
def picture(path):
    Image.effect_noise((90, 60), 80).convert("RGB").save(path)


def pictures(path):
    path.mkdir()
    for number in range(8):   # int8 holds four out
        picture(path / f"{number}.png")


def cfg(name, layers=None):
    """Write a cfg of the tests, or the first layers of one."""
    def write(path):
        sections = re.split(r"(?m)^(?=\[)", (DARKNET / name).read_text(encoding="utf-8"))
        path.write_text("".join(sections[:layers and layers + 2]), encoding="utf-8")
    return write


def weights(name, layers=None):
    """Write random weights of a cfg of the tests, or of its first layers."""
    def write(path):
        cfg(name, layers)(path.with_suffix(".of.cfg"))
        runpy.run_path(str(DARKNET / "random_weights.py"))["write"](path.with_suffix(".of.cfg"), 3, path)
    return write


def shipped(path):
    with tarfile.open(DARKNET / "shipped.tar.xz") as archive:
        path.write_bytes(archive.extractfile(f"pjreddie/{path.name}").read())


def names(count):
    return lambda path: path.write_text("".join(f"class{number}\n" for number in range(count)))


def small_net(path):
    path.parent.mkdir(exist_ok=True)
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3, padding=1), nn.BatchNorm(prefix="norm_"), gops.nn.Reorg(2), nn.Conv2D(4, 1))
    net.classes, net.preprocessing = ["a", "b", "c", "d"], {"colours": "RGB"}
    net.initialize()
    gops.export.symbol(net, path, data_shape=(1, 3, 32, 32))


def resnet(path):
    """Write a ResNet whose nodes have the names of resnet18_v1's, with fewer layers and channels."""
    net = vision.ResNetV1(vision.BasicBlockV1, [1, 1, 1, 2], [8, 8, 12, 16, 32])
    net.initialize(mx.init.Xavier())
    net.hybridize()
    net(mx.nd.ones((1, 3, 224, 224)))
    net.export(str(path))


def port(path):
    """The folder of a net in PyTorch, and trained weights beside it."""
    source = "digits" if pathlib.Path("digits-symbol.json").exists() else "ported"
    if source == "ported":
        small_net(pathlib.Path(source))
    with warnings.catch_warnings():   # without torch the port is not compared
        warnings.simplefilter("ignore", gops.export.ExportWarning)
        gops.export.torch(source, path)
    pathlib.Path("trained.pt").write_bytes((path / "net.safetensors").read_bytes())


def of_8_bits(path):
    """Files that MXNet's quantize_net wrote."""
    net, images = nn.Conv2D(4, 3), mx.nd.random.uniform(shape=(4, 3, 8, 8))
    net.initialize()
    data = gluon.data.DataLoader(gluon.data.ArrayDataset(images, mx.nd.zeros(4)), batch_size=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small = quantization.quantize_net(net, calib_mode="naive", calib_data=data, ctx=mx.cpu())
        small(images)
        small.export(str(path))


def classes(path):
    for split in ("train", "val"):
        for name in ("rose", "tulip"):
            (path / split / name).mkdir(parents=True)
            for number in range(4):
                picture(path / split / name / f"{number}.png")


# One box in each picture, all of another size: k-means finds five anchors.
SCENES = [((64, 48), [(0, 0, 8 + 6 * place, 10 + 5 * place, place % 2)]) for place in range(6)]


def detection(make):
    """Write a data set of tests/data."""
    return lambda path: make(path, np.random.RandomState(0))


FILES = {
    **dict.fromkeys(("dog.jpg", "cat.jpg", "street.jpg", "photograph.jpg"), picture),
    **dict.fromkeys(("photographs", "photos", "scenes"), pictures),
    **dict.fromkeys(("digits", "net", "old/net"), small_net), "port": port,
    **dict.fromkeys(("flowers", "FOLDER"), classes),
    "resnet": resnet, "resnet_int8": of_8_bits,
    "VOCdevkit": detection(folders.make_voc), "COCO": detection(folders.make_coco),
    "coco.names": names(2), "voc.names": names(20),
    "yolov2.cfg": cfg("mini-yolov2.cfg"), "yolov2.weights": weights("mini-yolov2.cfg"),
    "yolov2-voc.cfg": cfg("yolov2-voc.cfg"), "yolov2-voc.weights": weights("yolov2-voc.cfg"),
    "yolov2-tiny-voc.weights": weights("yolov2-tiny-voc.cfg"),
    "yolov3-tiny.cfg": shipped,
    # A small net under the name of a large one.
    **dict.fromkeys(("FILE", "yolov3.cfg"), cfg("mini-yolov3.cfg")), "yolov3.weights": weights("mini-yolov3.cfg"),
    "darknet19.weights": weights("darknet19.cfg"), "darknet19_448.conv.23": weights("darknet19.cfg", 23),
}


def prepare(page):
    """The clone's examples, the files that the page's commands name, and those that its Python writes."""
    pathlib.Path("examples").symlink_to(ROOT / "examples")
    named = {word.rpartition("=")[2] for command in printed(page) if is_typed(command) for word in command.split()}
    if page == "docs/command_line.md":
        exec("".join(block for language, block in FENCE.findall(TEXTS[page]) if language == "python"), {})
    for name in sorted(named & set(FILES)):
        if not pathlib.Path(name).exists():
            FILES[name](pathlib.Path(name))


# -- typed ---------------------------------------------------------------------------------------------------------
def type_into_a_shell(command, environment):
    """The README says to activate this environment after `make demo`."""
    return subprocess.run(["bash", "-c", f"source {ACTIVATE} && {command}"], env=environment, capture_output=True,
                          text=True, check=False)


def run_here(typed):
    """Return a function that runs the same programs in the test's process. What else a shell does is typed."""
    def run(command, environment):
        program, *words = shlex.split(command, comments=True)
        if program not in ("gluonops", "python") or words[:1] == ["-m"] or set(words) & {">", ">>", "|", "&&"}:
            return type_into_a_shell(command, environment)
        out, err = typed(*words) if program == "gluonops" else typed.script(*words)   # they assert that it succeeds
        return subprocess.CompletedProcess(command, 0, out, err)
    return run


TYPED = [page for page in PAGES if any(map(is_typed, printed(page)))]


@pytest.mark.parametrize("page, is_typed_into_a_shell", [
    *[pytest.param(page, True, marks=pytest.mark.slow) for page in TYPED], *[(page, False) for page in DAILY]])
def test_it_can_be_typed(page, is_typed_into_a_shell, tmp_path, monkeypatch, capsys):
    """Every command of a page works in its order."""
    run = type_into_a_shell if is_typed_into_a_shell else run_here(Typed(monkeypatch, capsys, tmp_path))
    if not ACTIVATE.exists():
        pytest.skip("this Python runs in no virtual environment")
    assert "`source .venv/bin/activate`" in TEXTS["README.md"]
    if "gluonops import" in TEXTS[page] and page != "docs/command_line.md":
        pytest.importorskip("torch")   # the page trains a port
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(folders, "SCENES", SCENES)
    prepare(page)
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "OMP_NUM_THREADS": "2"}
    for command in filter(is_typed, printed(page)):
        more = next((options for pattern, options in SHORTER.items() if re.search(pattern, command)), "")
        done = run(f"{command} {more}", environment)
        assert done.returncode == 0, f"{command} {more}\n{done.stdout}\n{done.stderr}"


# -- parsed --------------------------------------------------------------------------------------------------------
class Taken(BaseException):
    """A program has parsed its arguments."""


def take(words, monkeypatch):
    """Parse a command as it would be typed, and stop there. SystemExit: it cannot be typed so."""
    parse = argparse.ArgumentParser.parse_args

    def parse_and_stop(*arguments):
        parse(*arguments)
        raise Taken

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_and_stop)
    monkeypatch.setattr(sys, "argv", [*words])
    for name, value in KEEPING_MALLOC.items():   # benchmarks.operators would run itself anew without them
        monkeypatch.setenv(name, value)
    monkeypatch.delattr(os, "execve", raising=False)
    try:
        if words[0] == "python":
            monkeypatch.setattr(sys, "argv", words[2:])
            runpy.run_module(words[2], run_name="__main__")
        elif words[0] != "gluonops":
            runpy.run_path(str(ROOT / words[0]))["arguments"]()
        elif words[1] in ("train", "val"):
            cli.main([*words[1:]])
        else:
            args, rest = cli._parser().parse_known_args(words[1:])
            if rest:
                args.parser.error(f"unrecognized arguments: {rest[0]}")
    except Taken:
        pass


# A benchmark that runs as a program may have been imported by another test.
IMPORTED_BEFORE = pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")


def programs(command):
    """The words of the programs in a command, one of which may start another."""
    words = shlex.split(re.split(" >>? ", command)[0])
    starts = [i for i, word in enumerate(words) if word == "gluonops" and words[i + 1:] or word.startswith("examples/")
              or words[i:i + 2] == ["python", "-m"] and words[i + 2].startswith("benchmarks")]
    return [words[start:] for start in starts]


@IMPORTED_BEFORE
@pytest.mark.parametrize("page", [page for page in PAGES if any(map(programs, printed(page)))])
def test_the_parser_takes_it(page, monkeypatch, capsys):
    """It also takes what the slow test above types."""
    for words in [words for command in printed(page) for words in programs(command)]:
        errors = []
        for task in ("detection", "classification"):   # a folder of the page's user
            monkeypatch.setattr(scripts.data, "recognize", lambda *_, task=task: types.SimpleNamespace(task=task))
            try:
                take(words, monkeypatch)
            except SystemExit as end:
                if end.code:
                    errors.append(capsys.readouterr().err)
        assert len(errors) < 2, f"{' '.join(words)}\n{errors[0]}"


@IMPORTED_BEFORE
@pytest.mark.parametrize("words", ["gluonops trian", "gluonops export net --onx net.onnx", "gluonops train --modle mlp",
                                   "examples/make_shapes.py --cuont 1 2", "python -m benchmarks.gpu --plna x"])
def test_it_sees_a_mistake(words, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        take(words.split(), monkeypatch)


def test_pages_print_commands():
    """The tests above see them; and each reason not to type one is needed."""
    found = [command for page in PAGES for command in printed(page)]
    typed = [command for command in found if is_typed(command)]
    assert len(typed) > 80
    assert {words[1] for command in typed for words in programs(command) if words[0] == "gluonops"} == (
        set(cli.EXAMPLES) - {"install-mxnet"}), "each is shown"
    assert all(any(re.match(pattern, command) for command in found) for pattern in PARSED)
    assert ["gluonops", "train", "--kvstore", "dist_sync"] in programs(
        next(command for command in found if "--servers 1" in command))   # behind another program


@pytest.mark.parametrize("page", PAGES)
def test_targets_of_make(page):
    """They are `make x`, and VARIABLE=value behind it."""
    named = set(re.findall(r"`make ([a-z-]+)", TEXTS[page]))
    assert named <= TARGETS, named - TARGETS


@pytest.mark.parametrize("page", PAGES)
def test_extras_of_pip(page):
    named = set(re.findall(r"pip install '(?:\.|gluonops)\[(\w+)\]'", TEXTS[page]))
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    assert all(f'    "{extra}": [' in setup for extra in named)
