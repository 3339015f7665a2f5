"""Damaged files of every kind that gluonops reads: each is read, or refused by an OpError that names it.

A kind is a small valid file in a folder with all that belongs to it, and the function that reads it. A case is a list
of edits of that file. Nothing else may happen: no other exception, crash, hang, or memory beyond the worker's limit.
What is read is right: an image has the pixels that another decoder finds, a rewritten graph the outputs of the file's.
"""
import atexit
import contextlib
import dataclasses
import functools
import gzip
import importlib
import io
import json
import pathlib
import re
import shutil
import struct
import sys
import tempfile
import time
import unittest.mock
import warnings
import zlib
from collections.abc import Callable

import cv2
import gluonops as gops
import mxnet as mx
import numpy as np
from fuzz_cases import HARMLESS
from gluonops import train
from gluonops.backends import stamp
from gluonops.data import images
from gluonops.data.datasets import records
from mxnet import gluon
from PIL import Image, ImageOps

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests" / "data"), str(ROOT / "tests" / "train")]
folders, toy_run = importlib.import_module("folders"), importlib.import_module("toy_run")

SLOW = 10   # seconds of a processor that a file of a few kilobytes may take; one that waits for ever is the driver's


class Wrong(Exception):
    """What was read is not what the file holds: (how, details)."""


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
    """Read an export as ``gluonops export`` does; what is written computes what MXNet computes of the file itself."""
    prefix, again = path.parent / "net", path.parent / "again" / "net"
    again.parent.mkdir(exist_ok=True)
    gops.export.rewrite(prefix, again, fold_batch_norm=True)
    nodes = json.loads(pathlib.Path(f"{prefix}-symbol.json").read_text(errors="replace"))["nodes"]
    storages = {(node.get("attrs") or {}).get("__storage_type__", "0") for node in nodes}
    if {node["op"] for node in nodes} <= set(HARMLESS) and storages == {"0"}:   # MXNet itself does not crash
        shapes = gops.export.ExportedModel.from_files(again).inputs
        try:
            expected = _outputs(prefix, shapes)
        except (mx.MXNetError, RuntimeError):   # it refuses what gluonops repairs, such as a wrong list of arguments
            return
        got = _outputs(again, shapes)
        if len(expected) != len(got) or not all(
                shape == other and np.allclose(values, others, atol=1e-4, equal_nan=True)
                for (shape, values), (other, others) in zip(expected, got)):
            raise Wrong("is rewritten with other outputs", f"{got}, expected {expected}")


def _outputs(prefix, shapes):
    """What MXNet computes of an exported net: shapes and values. NumPy has no arrays of so many dimensions as MXNet."""
    symbol, arguments, states = mx.model.load_checkpoint(str(prefix), 0)
    executor = symbol.simple_bind(mx.cpu(), grad_req="null", **shapes)
    executor.copy_params_from(arguments, states, allow_extra_params=True)
    for name, shape in shapes.items():
        executor.arg_dict[name][:] = mx.nd.arange(np.prod(shape)).reshape(shape) / 9
    return [(output.shape, output.reshape((-1,)).asnumpy()) for output in executor.forward()]


def _export(folder, write=gops.export.symbol, name="net"):
    """A classifier of images."""
    net = gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(gluon.nn.Conv2D(4, 3), gluon.nn.BatchNorm(), gops.nn.Reorg(2), gluon.nn.Dense(3))
    net.classes = ("a", "b", "c")
    net.preprocessing = {"colours": "grey", "range": [0, 1], "resize": "stretch"}
    mx.random.seed(1)
    net.initialize(mx.init.Xavier())
    return write(net, folder / name, (1, 1, 6, 6))


@kind("symbol_json", _rewrite)
def _symbol(folder):
    return pathlib.Path(_export(folder)[0])


def _classify(path):
    gops.export.load(path).classify(np.zeros((6, 6, 3), "uint8"))


kind("onnx", _classify)(lambda folder: pathlib.Path(_export(folder, gops.export.onnx, "net.onnx")))


def _with_note(path):
    """Read an export whose note is the file's text."""
    graph = path.parent / "net-symbol.json"
    content = json.loads(graph.read_text())
    content["attrs"]["gluonops"] = ["str", path.read_text(errors="replace")]
    graph.write_text(json.dumps(content, ensure_ascii=False))
    _rewrite(path)
    _classify(path.parent / "net")


@kind("note_json", _with_note)
def _note(folder):
    graph = pathlib.Path(_export(folder)[0])
    (folder / "note.json").write_text(json.loads(graph.read_text())["attrs"]["gluonops"][1])
    return folder / "note.json"


@kind("params", _rewrite)
def _params(folder):
    """An export without the digest in the JSON, which would refuse every change."""
    graph, path = map(pathlib.Path, _export(folder))
    content = json.loads(graph.read_text())
    del content["attrs"]["gluonops"]
    graph.write_text(json.dumps(content))
    return path


@kind("digest", _rewrite)
def _digest(folder):
    return pathlib.Path(_export(folder)[1])


@kind("pretrained", lambda path: train.read_parameters(path))
def _pretrained(folder):
    toy_run.dense().save_parameters(str(folder / "net.params"))
    return folder / "net.params"


@kind("checkpoint", lambda path: toy_run.make(path.parent / "again").resume(path))
def _checkpoint(folder):
    toy_run.finish(toy_run.make(folder / "run"))
    return folder / "run" / "last.checkpoint"


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


def _read_packed(path):
    """Read a record that holds the image."""
    folders.make_records(path.parent / "set", np.random.RandomState(0), images=[path.read_bytes()] * 3)
    _all_of(gops.data.detection("rec", path.parent / "set", **folders.OTHERS["rec"]))


@kind("rec_jpeg", _read_packed)
def _packed(folder):
    folders.save(folder / "set" / "picture.jpg", folders.picture(*folders.SCENES[0], np.random.RandomState(0)))
    return (folder / "set" / "picture.jpg").rename(folder / "picture.jpg")


decode_image = images.decode_image
CLOSE = 3   # decoders of JPEG differ by so much
SENTINEL = 0xA5


def _decoded(content, name, where, *options, **others):
    """An image as gluonops decodes it, which is also one of other decoders', and has the size that its header says."""
    plain = folders.encoded(np.full((*images.encoded_size(content, name, where)[::-1], 3), SENTINEL, "uint8"))
    kept = [mx.image.imdecode(plain) for _ in range(8)]   # what fills no image shows this, freed memory
    mx.nd.waitall()
    del kept
    image = decode_image(content, name, where, *options, **others)
    if image.shape[1::-1] != images.encoded_size(content, name, where):
        raise Wrong("is decoded in another size than it states", str(image.shape))
    others = list(_others(content))
    if not others:
        raise Wrong("is decoded, but not by other decoders", str(image.shape))
    far = CLOSE if content.startswith(JPEG) else 0
    if not any(other.shape == image.shape and np.abs(other - image.astype(int)).max() <= far for other in others):
        raise Wrong("is decoded otherwise than by other decoders", f"{image.shape}, {(image == SENTINEL).mean():.0%} "
                    f"foreign memory; expected {[other.shape for other in others]}")
    return image


def _others(content):
    """What Pillow and OpenCV make of an image, upright as EXIF says."""
    with contextlib.suppress(Exception):
        yield np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(content))).convert("RGB"))
    found = cv2.imdecode(np.frombuffer(content, "uint8"), cv2.IMREAD_COLOR)
    if found is not None:
        yield found[:, :, ::-1]


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


PNG, JPEG = b"\x89PNG", b"\xff\xd8"


def _chunk(name, data):
    """A chunk of a PNG."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _header(content, place, value):
    """A second header of an image, in front of the first or behind it, which states another size."""
    width, height = value[:2]
    frame = re.search(rb"\xff[\xc0-\xc2]\x00", content)
    if content.startswith(PNG):
        start, end = 8, 33
        other = _chunk(b"IHDR", struct.pack(">II", width, height) + content[24:29])
    elif frame:
        start, end = frame.start(), frame.start() + 2 + int.from_bytes(content[frame.end() - 1:frame.end() + 1], "big")
        other = content[start:start + 5] + struct.pack(">HH", height, width) + content[start + 9:end]
    else:
        return content
    at = (start, end)[place % 2]
    return content[:at] + other + content[at:]


def _exif(content, place, value):
    """EXIF's orientation in a JPEG or PNG."""
    exif = Image.Exif()
    exif[0x112] = value[0]
    data = exif.tobytes()
    if content.startswith(PNG):
        return content[:33] + _chunk(b"eXIf", data[6:]) + content[33:]
    return content[:2] + b"\xff\xe1" + struct.pack(">H", len(data) + 2) + data + content[2:]


def _checksums(content, place, value):
    """A PNG with the right checksums, without which it refuses every other edit."""
    start = 8
    while content.startswith(PNG) and start + 12 <= len(content):
        end = start + 8 + int.from_bytes(content[start:start + 4], "big")
        content = content[:end] + struct.pack(">I", zlib.crc32(content[start + 4:end])) + content[end + 4:]
        start = end + 4
    return content


# What is changed in JSON: an operator's name, a number of inputs, the node or output that is read, an attribute, all.
IN_JSON = {
    "op": lambda holder, key: key == "op",
    "inputs": lambda holder, key: key == "inputs",
    "entry": lambda holder, key: isinstance(holder, list) and isinstance(holder[key], int),
    "attr": lambda holder, key: isinstance(holder[key], str) and key not in ("op", "name"),
    "json": lambda holder, key: True,
}


def _values(value):
    """(holder, key) of every value in a JSON document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield value, key
        yield from _values(item)


def _json(chosen, content, place, value):
    """Write another value for one of the chosen, or take it out; inputs are repeated or cut to a number of them."""
    try:
        document = json.loads(content)
        values = [(holder, key) for holder, key in _values(document) if chosen(holder, key)]
    except (ValueError, RecursionError):   # another edit came first
        return content
    if values:
        holder, key = values[len(values) * place // (len(content) + 1)]
        if not value:
            del holder[key]
        elif chosen is IN_JSON["inputs"]:
            holder[key] = (holder[key] * int(value))[:int(value)]
        else:
            holder[key] = json.loads(value)
    return json.dumps(document, ensure_ascii=False).encode()


EDITS = {
    "set": lambda content, place, value: content[:place] + value + content[place + len(value):],
    "insert": lambda content, place, value: content[:place] + value + content[place:],
    "remove": lambda content, place, value: content[:place] + content[place + len(value):],
    "repeat": lambda content, place, value: content[:place] + content[place:place + 200] * len(value) + content[place:],
    "cut": lambda content, place, value: content[:place],
    "number": _number,
    "line": _line,
    "header": _header,
    "exif": _exif,
    "checksums": _checksums,
    **{name: functools.partial(_json, chosen) for name, chosen in IN_JSON.items()},
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
        with warnings.catch_warnings(), unittest.mock.patch.object(images, "decode_image", _decoded), \
                unittest.mock.patch.object(records, "decode_image", _decoded):
            warnings.simplefilter("ignore")
            KINDS[name].read(path)
            mx.nd.waitall()
    except gops.OpError as error:
        if path.stem not in str(error) and str(path.parent) not in str(error):   # it may name what belongs to it
            return [("file", "refused without its name", str(error)[:300])]
    except Wrong as error:
        return [("file", *error.args)]
    except Exception as error:
        return [("file", f"raises {type(error).__name__}", str(error)[:300])]
    taken = time.process_time() - start
    return [("file", f"takes more than {SLOW} s", f"{taken:.1f} s")] if taken > SLOW else []
