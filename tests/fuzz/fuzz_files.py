"""Damaged files of every kind that gluonops reads: each is read, or refused by an OpError that names it.

A kind is a small valid file in a folder with all that belongs to it, and the function that reads it. A case is a list
of edits of that file. Nothing else may happen: no other exception, crash, hang, or memory beyond the worker's limit.
"""
import atexit
import dataclasses
import functools
import gzip
import importlib
import json
import pathlib
import re
import shutil
import struct
import sys
import tempfile
import time
import warnings
from collections.abc import Callable

import cv2
import gluonops as gops
import mxnet as mx
import numpy as np
from gluonops import train
from gluonops.core import stamp
from mxnet import gluon

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests" / "data"), str(ROOT / "tests" / "train")]
folders, toy_run = importlib.import_module("folders"), importlib.import_module("toy_run")

SLOW = 10   # seconds of a processor that a file of a few kilobytes may take; one that waits for ever is the driver's


@dataclasses.dataclass(frozen=True)
class Kind:
    """``make`` writes a folder and returns the file to be damaged; ``read`` reads it from there."""
    make: Callable[[pathlib.Path], pathlib.Path]
    read: Callable[[pathlib.Path], object]


KINDS: dict[str, Kind] = {}


def kind(name, read):
    """Register the decorated function as ``make`` of a kind."""
    def register(make):
        KINDS[name] = Kind(make, read)
        return make
    return register


# -- exported nets and checkpoints -------------------------------------------------------------------------------
def _rewrite(path):
    """Read an export as ``gluonops export`` does."""
    prefix = path.parent / "net"
    gops.export.rewrite(prefix, path.parent / "again" / "net", fold_batch_norm=True)


def _export(folder):
    net = gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(gluon.nn.Conv2D(4, 3), gluon.nn.BatchNorm(), gops.nn.Reorg(2), gluon.nn.Dense(3))
    net.initialize()
    (folder / "again").mkdir()
    return [pathlib.Path(path) for path in gops.export.symbol(net, folder / "net", (1, 1, 6, 6))]


@kind("symbol_json", _rewrite)
def _symbol(folder):
    return _export(folder)[0]


@kind("params", _rewrite)
def _params(folder):
    """Without the digest in the JSON, which would refuse every change."""
    graph, path = _export(folder)
    content = json.loads(graph.read_text())
    del content["attrs"]["gluonops"]
    graph.write_text(json.dumps(content))
    return path


@kind("digest", _rewrite)
def _digest(folder):
    return _export(folder)[1]


@kind("pretrained", lambda path: train.read_parameters(path))
def _pretrained(folder):
    toy_run.dense().save_parameters(str(folder / "net.params"))
    return folder / "net.params"


@kind("checkpoint", lambda path: toy_run.make(path.parent / "again").resume(path))
def _checkpoint(folder):
    toy_run.finish(toy_run.make(folder / "run"))
    return folder / "run" / "last.checkpoint"


@kind("old_checkpoint", lambda path: toy_run.make(path.parent / "again").resume(path))
def _old_checkpoint(folder):
    """Of format 1, which had no checksum."""
    return shutil.copy(ROOT / "tests" / "golden" / "checkpoints" / "format1.checkpoint", folder / "old.checkpoint")


@kind("library", lambda path: stamp.damage(path))
def _library(folder):
    path = folder / "libgluonops.so"
    path.write_bytes(bytes(range(256)) * 4)
    stamp.append_stamp(path)
    return path


# -- Darknet -----------------------------------------------------------------------------------------------------
CFG = """[net]
width=32
height=32
channels=3

[convolutional]
batch_normalize=1
filters=4
size=3
stride=1
pad=1
activation=leaky

[maxpool]
size=2
stride=2

[convolutional]
filters=4
size=1
activation=leaky

[shortcut]
from=-2
activation=linear

[route]
layers=-1,-3

[reorg]
stride=2

[convolutional]
filters=14
size=1
activation=linear

[region]
anchors=1.5,0.5,0.75,2.0
classes=2
coords=4
num=2
softmax=1
"""


def _load_darknet(path):
    gops.darknet.load(path.parent / "net.cfg", path.parent / "net.weights")


def _darknet(folder):
    (folder / "net.cfg").write_text(CFG)
    net = gops.darknet.load(folder / "net.cfg")
    net.initialize()
    gops.darknet.save_weights(net, folder / "net.weights")


@kind("cfg", _load_darknet)
def _cfg(folder):
    _darknet(folder)
    return folder / "net.cfg"


@kind("weights", _load_darknet)
def _weights(folder):
    _darknet(folder)
    return folder / "net.weights"


# -- data sets ---------------------------------------------------------------------------------------------------
MOST_READ = 100   # a list of a few kilobytes may name one image thousands of times


def _all_of(dataset):
    """Every image and label, up to ``MOST_READ``."""
    return [dataset[place] for place in range(min(len(dataset), MOST_READ))]


def _reads(name, **options):
    """Reads a detection set whose root is the folder ``set`` above the file."""
    def read(path):
        root = next(parent for parent in path.parents if parent.name == "set")
        _all_of(gops.data.detection(name, root, **options))
    return read


def _made(maker, *path):
    def make(folder):
        maker(folder / "set", np.random.RandomState(0))
        return (folder / "set").joinpath(*path)
    return make


DETECTION = {
    "voc_xml": ("voc", folders.make_voc, "Annotations", "000000.xml"),
    "voc_list": ("voc", folders.make_voc, "ImageSets", "Main", "train.txt"),
    "jpeg": ("voc", folders.make_voc, "JPEGImages", "000000.jpg"),
    "coco_json": ("coco", folders.make_coco, "annotations", "instances_train2017.json"),
    "yolo_label": ("yolo", folders.make_yolo, "labels", "0.txt"),
    "yolo_list": ("yolo", folders.make_yolo, "train.txt"),
    "names": ("yolo", folders.make_yolo, "my.names"),
    "png": ("yolo", folders.make_yolo, "images", "0.png"),
    "rec": ("rec", folders.make_records, "train.rec"),
    "rec_index": ("rec", folders.make_records, "train.idx"),
}
for _name, (_format, _maker, *_path) in DETECTION.items():
    KINDS[_name] = Kind(_made(_maker, *_path), _reads(_format, **folders.OTHERS[_format]))


def _mnist(folder):
    for split, count in (("train", 12), ("t10k", 4)):
        for name, shape in (("images-idx3", (count, 5, 5)), ("labels-idx1", (count,))):
            head = struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape)
            numbers = np.arange(np.prod(shape)) % 10
            (folder / f"{split}-{name}-ubyte").write_bytes(head + numbers.astype(np.uint8).tobytes())
    return folder / "train-images-idx3-ubyte"


kind("idx", lambda path: gops.data.digits(path.parent))(_mnist)


@kind("idx_gz", lambda path: gops.data.digits(path.parent))
def _gzipped(folder):
    path = _mnist(folder)
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    return packed


def _image_folder(extension):
    def make(folder):
        for name in ("train/a", "train/b", "val/a", "val/b"):
            (folder / "set" / name).mkdir(parents=True)
            rows = np.arange(7 * 9 * 3).reshape(7, 9, 3).astype("uint8")
            cv2.imwrite(str(folder / "set" / name / f"picture.{extension}"), rows)
        return folder / "set" / "train" / "a" / f"picture.{extension}"
    return make


def _read_images(path):
    _all_of(gops.data.classification("folder", path.parents[2]))


KINDS["bmp"] = Kind(_image_folder("bmp"), _read_images)


# -- options -----------------------------------------------------------------------------------------------------
def _parse(path):
    options = train.Options("A script.")
    options.add_training(epochs=9, batch_size=16, lr=0.01)
    options.add_run(out="out")
    try:
        options.parse(["--config", str(path)])
    except SystemExit as error:   # argparse has printed which option is wrong
        assert error.code == 2


CONFIG = {"epochs": 3, "batch_size": 8, "lr": 0.05, "seed": 1, "schedule": "cosine", "lr_steps": [0.5, 0.8]}


@kind("config_json", _parse)
def _json_config(folder):
    (folder / "config.json").write_text(json.dumps({"options": CONFIG}, indent=1))
    return folder / "config.json"


@kind("config_yaml", _parse)
def _yaml_config(folder):
    (folder / "config.yaml").write_text("".join(f"{name}: {value}\n" for name, value in CONFIG.items()))
    return folder / "config.yaml"


# -- edits -------------------------------------------------------------------------------------------------------
NUMBER = re.compile(rb"-?\d+(\.\d+)?")


def _number(content, place, value):
    """Write another text for the next number."""
    found = NUMBER.search(content, place)
    return content if found is None else content[:found.start()] + value + content[found.end():]


def _line(content, place, value):
    """Write another line in place of the one at a place."""
    start, end = content.rfind(b"\n", 0, place) + 1, content.find(b"\n", place)
    return content[:start] + value + content[end if end >= 0 else len(content):]


EDITS = {
    "set": lambda content, place, value: content[:place] + value + content[place + len(value):],
    "insert": lambda content, place, value: content[:place] + value + content[place:],
    "remove": lambda content, place, value: content[:place] + content[place + len(value):],
    "repeat": lambda content, place, value: content[:place] + content[place:place + 200] * len(value) + content[place:],
    "cut": lambda content, place, value: content[:place],
    "number": _number,
    "line": _line,
}


def damaged(content, edits):
    """The content with edits ``(what, place, value)``: the place in 65536ths of the length, the value in hex."""
    for what, place, value in edits:
        content = EDITS[what](content, len(content) * place >> 16, bytes.fromhex(value))
    return content


# -- the check ---------------------------------------------------------------------------------------------------
@functools.cache
def original(name):
    """The path and the content of the kind's file, in a folder that is there until the process ends."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"gluonops-{name}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = KINDS[name].make(folder)
    return path, path.read_bytes()


def check(case):
    """What is wrong, a list of (where, how, details)."""
    path, content = original(case.op)
    path.write_bytes(damaged(content, case.edits))
    try:
        return outcome(case.op, path)
    finally:
        path.write_bytes(content)


def outcome(name, path):
    """Read a file as one of its kind."""
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            KINDS[name].read(path)
            mx.nd.waitall()
    except gops.OpError as error:
        if path.stem not in str(error) and str(path.parent) not in str(error):   # or what belongs to it
            return [("file", "refused without its name", str(error)[:300])]
    except Exception as error:
        return [("file", f"raises {type(error).__name__}", str(error)[:300])]
    taken = time.process_time() - start
    return [("file", f"takes more than {SLOW} s", f"{taken:.1f} s")] if taken > SLOW else []
