"""Run the examples shortly, and write docs/gallery.md with their results: ``python docs/gallery.py [EXAMPLE ...]``.

Without names it runs all of them, which takes a few minutes on two cores. With names it runs these, and keeps the
results of the others, which are in docs/gallery/results.json.
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tarfile
import textwrap
from typing import NamedTuple

import gluonops as gops
from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent
WORK = HERE.parent / "out" / "gallery"   # The commands run there.
PICTURES = HERE / "gallery"
RESULTS = PICTURES / "results.json"
CFGS = HERE.parent / "tests" / "golden" / "darknet" / "shipped.tar.xz"
WIDTHS = range(1000, 400, -100)   # pixels: the first one with which a picture is small enough
LARGEST = 300_000                 # bytes of a picture

HEAD = """\
# Gallery

`make gallery` ran each script in `examples/` on two cores, and wrote this page. The runs are short, so the numbers are
lower than with the scripts' defaults. [Fine-tuning](fine_tuning.md) describes the options.
"""


class Example(NamedTuple):
    """A run of an example.

    Attributes
    ----------
    title, words : str
        What it shows, in a heading and in a paragraph.
    commands : tuple of str
        They run in ``WORK``. The first one names the script.
    said : str
        A regular expression: what the script prints of its result.
    picture : str
        A file that the commands write. None if it is empty.
    shows : str
        What is in the picture.
    called : str
        The name of the example. The script's if it is empty.
    """
    title: str
    words: str
    commands: tuple[str, ...]
    said: str
    picture: str = ""
    shows: str = ""
    called: str = ""

    @property
    def script(self) -> str:
        """The script's name, without its ending."""
        return pathlib.Path(self.commands[0].split()[1]).stem

    @property
    def name(self) -> str:
        return self.called or self.script


EXAMPLES = [
    Example("Train a detector",
            "Tiny YOLOv2 at half its width learns to find digits in scenes, from scratch. The script computes the "
            "anchors, pretrains the backbone, measures mAP after each epoch, and exports the detector.",
            ("python examples/finetune_detector.py --size 128 --count 2000 100 --epochs 10 --seed 1",),
            r"On 100 images, .*?average\.", "out/finetune_detector/detections.png",
            "Held-out scenes: what the detector finds, and the ground truth in dashes."),
    Example("Train the net of a Darknet cfg",
            "Tiny YOLOv3 at half its width learns with the options of its cfg: loss, augmentation, momentum, decay and "
            "learning rate. The script gives the cfg the classes and anchors of the scenes. Darknet reads the result.",
            ("python examples/train_darknet.py --cfg yolov3-tiny.cfg --width 0.5 --size 128 --batch 8 --jitter 0.1 "
             "--lr 0.004 --epochs 20",),
            r"On 200 held-out images, .*?\.\d+\."),
    Example("Evaluate a detector",
            "The exported files are enough: classes, anchors and sizes are in them.",
            ("python examples/evaluate.py --net out/finetune_detector/detector --count 100",),
            r"On 100 images, .*? at 0\.75\.", "out/evaluate/confusion.png",
            "Which digits are taken for which, and which are not found."),
    Example("Detect objects in a folder of images",
            "The script writes a picture for each image, and a JSON file with all detections.",
            ("python examples/detect_folder.py scenes --net out/finetune_detector/detector",),
            r"There are \d+ objects in \d+ images\.", "out/detect_folder/scene1.png.png", "One of the images."),
    Example("Train a classifier on digits, and export it",
            "`make demo` runs this script. LeNet has a reorg instead of its first pooling. The exported files run in "
            "Module, with MXNet's own operators only.",
            ("python examples/train_digits.py --epochs 8",),
            r"The net classifies .*? at most\.", "out/train_digits/predictions.png",
            "Held-out digits, the wrong ones first."),
    Example("Make a small data set of shapes",
            "The script writes a few dozen pictures of coloured shapes, as YOLO's folders and as a folder for each "
            "class.",
            ("python examples/make_shapes.py --seed 1",),
            r"\d+ pictures to train on .*? both layouts\."),
    Example("Find coins in a photograph",
            "The photograph comes with scikit-image. A detector learns from its three upper rows. It "
            "finds the six coins of the lowest row, which it has not seen. It does not know other photographs.",
            ("python examples/make_coins.py",
             "gluonops train out/coins --size 192 --batch 8 --out out/coins_detector",
             "gluonops detect out/coins_detector/detector out/coins/images/val/row.png -o out/coins/found.png"),
            r"out/coins/images/val/row.png: .*?(?=\ndrawn)", "out/coins/found.png", "The row that was held out."),
    Example("Draw classes together with the center loss",
            "A layer of two units before the output makes the features visible. The center loss pulls the features of "
            "a class to one point.",
            ("python examples/finetune_classifier.py --embedding 2 --center-loss 0.1 --epochs 15 --seed 1",),
            r"The net classifies .*? correctly\.", "out/finetune_classifier/embedding.png",
            "The two features of each held-out digit, a colour for each class."),
    Example("Compare classes that the net has never seen",
            "ArcFace trains on the digits 0 to 4. Then the script compares pairs of images of 5 to 9 by the angle "
            "between their vectors. [Embeddings](which_loss.md) compares five losses like this.",
            ("python examples/finetune_classifier.py --loss arcface --classes 0 1 2 3 4 --epochs 15 --seed 1",),
            r"Of pairs of .*? is [\d.]+\d\.", "out/finetune_classifier/roc.png",
            "The share of pairs of one class that it accepts, over the share of pairs of two classes that it accepts.",
            called="arcface"),
    Example("Fine-tune on new classes",
            "A net that knows the digits 0 to 4 gets a new output for 5 to 9. The script trains first the output "
            "alone, then the whole net.",
            ("python examples/finetune_digits.py --epochs 4",),
            r"Share of the held-out .*?released +[\d.]+"),
    Example("Fine-tune an exported net with Module",
            "The script loads a net from files, cuts it at an inner output, and adds a `softmax_output` head. "
            "`Module.fit` trains the head. Everything below it stays the same, bit for bit.",
            ("python examples/module_finetune.py --epochs 5",),
            r"The net was cut .*? at most\.", "out/module_finetune/predictions.png",
            "Held-out digits 5 to 9, the wrong ones first."),
    Example("Train an MLP of Symbols",
            "The script works as MXNet's tutorials do, with `mx.sym.Custom`, `Module.fit`, `predict` and `score`.",
            ("python examples/module_mlp.py --epochs 8",
             "gluonops viz out/module_mlp/mlp --data-shape data=32,1,28,28 --data-shape softmax_label=32 "
             "-o out/module_mlp/net.png"),
            r"The net classifies .*? correctly\.", "out/module_mlp/net.png",
            "The net. The operator of gluonops is orange."),
    Example("Two layers in a net of your own",
            "The shortest script puts reorg and SoftmaxCELoss into a net, trains it, exports it and loads it again.",
            ("python examples/drop_in.py", "gluonops viz out/drop_in/drop_in -o out/drop_in/net.png"),
            r"The net classifies .*? at most\.", "out/drop_in/net.png", "The exported net."),
    Example("Train with several processes",
            "The script starts MXNet's parameter server on one machine: a scheduler, a server and two workers. "
            "[Several machines](several_machines.md) need the same script.",
            ("python examples/launch_local.py --workers 2 -- python examples/finetune_classifier.py "
             "--kvstore dist_sync --epochs 3 --out out/two_workers",),
            r"The net classifies .*? correctly\."),
]


def main() -> None:
    names = [example.name for example in EXAMPLES]
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("examples", nargs="*", metavar="EXAMPLE", help=f"one of {', '.join(names)}; the default is all")
    parser.add_argument("--page", action="store_true", help="run nothing; write the page from the kept results")
    args = parser.parse_args()
    chosen = [] if args.page else args.examples or names
    if unknown := set(chosen) - set(names):
        parser.error(f"there is no example {', '.join(sorted(unknown))}; expected one of {', '.join(names)}")
    if chosen:
        prepare()
    said = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for example in EXAMPLES:
        if example.name in chosen:
            said[example.name] = run(example)
    RESULTS.write_text(json.dumps(said, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    sections = [section(example, said[example.name]) for example in EXAMPLES if example.name in said]
    (HERE / "gallery.md").write_text("\n".join([HEAD, *sections]), encoding="utf-8")
    print(f"docs/gallery.md has {len(sections)} examples.")


def prepare() -> None:
    """The folder in which the commands run: with the examples, a cfg, and some images to detect objects in."""
    PICTURES.mkdir(exist_ok=True)
    scenes = WORK / "scenes"
    scenes.mkdir(parents=True, exist_ok=True)
    if not (WORK / "examples").exists():
        (WORK / "examples").symlink_to(HERE.parent / "examples")
    with tarfile.open(CFGS) as archive:
        (WORK / "yolov3-tiny.cfg").write_bytes(archive.extractfile("pjreddie/yolov3-tiny.cfg").read())
    images = gops.data.detection("digits", None, "val", count=6, size=320)
    for number in range(len(images)):
        Image.fromarray(images[number][0]).save(scenes / f"scene{number}.png")


def run(example: Example) -> str:
    """Run an example, keep its picture, and return what it said of its result."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    printed = ""
    for command in example.commands:
        print(command, flush=True)
        done = subprocess.run(shlex.split(command), cwd=WORK, capture_output=True, text=True, check=False,
                              env={**os.environ, "PATH": path})
        if done.returncode:
            sys.exit(f"{done.stdout}\n{done.stderr}\nIt failed: {command}")
        printed += done.stdout
    said = re.search(example.said, printed, re.S)
    if said is None:
        sys.exit(f"{printed}\n{example.name} does not say {example.said!r}. Change docs/gallery.py")
    if example.picture:
        keep(WORK / example.picture, PICTURES / f"{example.name}.png")
    return said.group()


def keep(source: pathlib.Path, target: pathlib.Path) -> None:
    """Save a picture in 256 colours, and so narrow that it is small enough."""
    for width in WIDTHS:
        picture = Image.open(source).convert("RGB")
        picture.thumbnail((width, 2 * width), Image.Resampling.LANCZOS)
        picture.quantize(256).save(target, optimize=True)
        if target.stat().st_size < LARGEST:
            return
    sys.exit(f"{target} has {target.stat().st_size} bytes; expected less than {LARGEST}. Show less in it")


def section(example: Example, said: str) -> str:
    """The Markdown of an example."""
    commands = "\n".join(wrapped(command) for command in example.commands)
    words = textwrap.fill(f"`{example.script}.py`: {example.words}", 120, break_on_hyphens=False)
    parts = [f"## {example.title}", words, f"```sh\n{commands}\n```",
             f"```text\n{said}\n```"]
    if example.picture:
        parts.append(f"![{example.name}](gallery/{example.name}.png)\n\n*{example.shows}*")
    return "\n\n".join(parts) + "\n"


def wrapped(command: str, width: int = 84) -> str:
    """A command in lines that fit the page, which break before an option."""
    lines = [""]
    for part in re.split(r" (?=-)", command):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("   ")
        lines[-1] += f" {part}" if lines[-1] else part
    return " \\\n".join(lines)


if __name__ == "__main__":
    main()
