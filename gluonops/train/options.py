"""The options of a script. They are checked, can come from ``--config``, and ``--help`` shows them with defaults."""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ..contract.errors import OpError
from ..data import format_names, recognize
from ..data.base import class_words
from ..io.yaml_text import MOST_BYTES, parse
from ..runtime.near import Parser, kind
from .interrupting import take_option
from .optimizers import OPTIMIZERS, SCHEDULES, Schedule, schedule
from .precision import DTYPES
from .recipe import LEAST_UPDATES, SMALL
from .workers import KVSTORES

__all__ = ["Options", "check_input_sizes", "fraction", "natural", "non_negative", "positive", "reproducible",
           "run_arguments", "schedule_of"]

WHERE = "train.Options"
MOST_JSON = 1 << 26   # bytes of a config: results.json has the confusion of all classes
NOT_IN_CONFIG = ("config", "debug", "out", "resume")   # options that --config does not take over
# Options that may be changed when a run is resumed. They do not change its results, except for the rounding if batches
# are split differently. Other pictures are recognized by the fingerprint of the data.
WITHOUT_EFFECT = (*NOT_IN_CONFIG, "device", "held_out", "pretrained", "save_every", "strict", "tensorboard", "threads")


def _number(parse: type, low: float, high: float, expected: str) -> Callable[[str], Any]:
    number_of = kind(parse, lambda number: low <= number <= high, expected)   # NaN is not
    number_of.__module__ = __name__   # where the reference lists it
    return number_of


positive = _number(int, 1, 2**31 - 1, "a whole number from 1")
natural = _number(int, 0, 2**31 - 1, "a whole number from 0")
freeze_epochs = _number(int, -1, 2**31 - 1, "a whole number from 0, or -1")
seed = _number(int, 0, 2**32 - 1, "a whole number from 0 to 4294967295")
non_negative = _number(float, 0, 1e38, "a number from 0")   # float32 holds it
fraction = _number(float, 0, 1, "a number from 0 to 1")


class _Help(argparse.RawDescriptionHelpFormatter):
    """A formatter of ``--help`` that keeps the lines of the description, and shows only informative defaults."""

    def _get_help_string(self, action):
        says_nothing = action.default is None or action.default is False or action.default == argparse.SUPPRESS
        return action.help if says_nothing else f"{action.help} (default: %(default)s)"


class Options:
    """The options of a script.

        options = Options(__doc__)
        options.add("data", "--root", help="folder of the data set")
        options.add_training(epochs=30, batch_size=32, lr=0.03)
        options.add_run(out="out/mine")
        args = options.parse()

    ``--config FILE`` takes options from a JSON or YAML file. The file has a mapping of options, or such a mapping under
    the key ``options``, as ``results.json`` does. Options of the command line replace those of the file. ``--out`` and
    ``--resume`` are not taken from the file.

    Parameters
    ----------
    description : str
        The script's docstring.
    """

    def __init__(self, description: str):
        self.parser = Parser(usage="%(prog)s [options]", description=description, formatter_class=_Help,
                             allow_abbrev=False)
        self._groups: dict[str, Any] = {}
        self._task: str | None = None     # what the data set is for, if its layout tells its format
        self._epochs: int | None = None   # the default of --epochs, if it is one that the images may stretch

    def add(self, group: str, *names: str, **settings) -> None:
        """Add an option to a group of ``--help``. The other arguments are those of ``argparse``'s ``add_argument``."""
        if group not in self._groups:
            self._groups[group] = self.parser.add_argument_group(group)
        self._groups[group].add_argument(*names, **settings)

    def add_run(self, out: str) -> None:
        """Add ``--seed``, ``--out``, ``--config`` and ``--debug``.

        Parameters
        ----------
        out : str
            The default folder for the results.
        """
        self.add("run", "--seed", type=seed, default=0,
                 help="seed of the weights, and of the order and augmentation of the images")
        self.add("run", "--out", type=pathlib.Path, default=pathlib.Path(out), help="folder for the results")
        self.add("run", "--config", metavar="FILE", help="JSON or YAML with options, such as another run's "
                 "results.json; the command line takes precedence")
        self.add("run", "--debug", action="store_true", help="show the traceback of an error")

    def add_data(self, task: str | None = None, size: int | None = None) -> None:
        """Add ``--data``, ``--dataset``, ``--strict`` and ``--held-out``, and with a ``size`` further options.

        Parameters
        ----------
        task : {"detection", "classification"}, optional
            What the data is for. If it is given, ``--dataset`` follows from the layout of the data. Otherwise
            ``dataset`` is None if the option is left out.
        size : int, optional
            Default of ``--size``, for scripts that train. They also get ``--classes`` and ``--flip``.
        """
        self._task = task
        formats = format_names(task) if task else sorted({*format_names("detection"), *format_names("classification")})
        self.add("data", "--data", "--root", metavar="FOLDER", help="the data set (default: digits)")
        self.add("data", "--dataset", choices=formats,
                 help="format of the data set (default: as its layout tells); see docs/fine_tuning.md")
        self.add("data", "--strict", action="store_true", help="refuse labels and pictures that would be repaired or "
                 "left out")
        self.add("data", "--held-out", metavar="FILE", help="the list of the pictures to hold out, where the data set "
                 "has no part for validation: another run's held_out.txt (default: a fifth)")
        if size is not None:
            self.add("data", "--classes", nargs="+", metavar="NAME",
                     help="the classes to train on: names, or a file with one per line")
            self.add("data", "--size", "--imgsz", type=positive, default=size,
                     help="height and width of the net's input")
            self.add("data", "--flip", type=fraction, default=0,
                     help="probability of mirroring an image; 0.5 except for digits and letters")

    def add_pretrained(self) -> None:
        """Add ``--pretrained`` and ``--pretrained-names``."""
        self.add("net", "--pretrained", help="start from a .checkpoint or .params of this script, or from Darknet's "
                 ".weights or .conv.N; auto: from the backbone in the package; none (default: auto for fewer than "
                 f"{SMALL} images, if the net has this backbone)")
        self.add("net", "--pretrained-names",
                 help="file with the class names of a .params or .weights file, one per line")

    def add_net(self, threshold: float) -> None:
        """Add ``--net``, ``--weights``, ``--names`` and ``--threshold``, the arguments of :func:`load_net`.

        Parameters
        ----------
        threshold : float
            Default of ``--threshold``.
        """
        self.add("net", "--net", required=True,
                 help="exported net, without -symbol.json; an .onnx file; or a Darknet cfg")
        self.add("net", "--weights", help="the weights of a Darknet cfg")
        self.add("net", "--names", help="file with one class name per line; exported nets contain them")
        self.add("net", "--threshold", type=fraction, default=threshold, help="least probability of a detection")

    def add_training(self, epochs: int, batch_size: int, lr: float) -> None:
        """Add the options of :class:`gluonops.train.Run`, of optimizers, schedules and devices, with these defaults."""
        group = "training"
        self._epochs = epochs
        self.add(group, "--epochs", type=positive, help=f"passes over the training images (default: {epochs})")
        self.add(group, "--repeat", type=natural, metavar="TIMES", help="how often an epoch shows each image; 0: as "
                 f"often as makes {LEAST_UPDATES} updates in all (default: 0, and 1 with --epochs)")
        self.add(group, "--batch-size", "--batch", type=positive, default=batch_size,
                 help="images of a batch on each worker")
        self.add(group, "--lr", type=non_negative, default=lr, help="highest learning rate")
        self.add(group, "--optimizer", choices=OPTIMIZERS, default="sgd", help="optimizer; sgd uses a momentum of 0.9")
        self.add(group, "--wd", type=non_negative, default=5e-4, help="weight decay")
        self.add(group, "--warmup", type=non_negative, default=1, help="epochs in which the learning rate rises from 0")
        self.add(group, "--warmup-power", type=non_negative, default=1,
                 help="power of this rise: 1 is linear; Darknet uses 4")
        self.add(group, "--lr-schedule", choices=sorted(SCHEDULES), default="cosine",
                 help="how the learning rate changes afterwards")
        self.add(group, "--lr-steps", type=fraction, nargs="+", default=[0.6, 0.85], metavar="SHARE",
                 help="shares of the epochs after which --lr-schedule steps divides it by 10")
        self.add(group, "--freeze", type=freeze_epochs, default=0,
                 help="epochs before the backbone is released; -1: never")
        self.add(group, "--accumulate", type=positive, default=1,
                 help="batches whose gradients are added up for one update")
        self.add(group, "--clip", type=non_negative, default=0, help="largest global norm of the gradients; 0: any; "
                 "10 by default for a detector with few images")
        self.add(group, "--average", type=fraction, default=0, metavar="DECAY", help="decay of an exponential "
                 "moving average of the parameters, such as 0.999, for validation and export; 0: no average")
        self.add("machine", "--dtype", choices=DTYPES, default="float32", help="type of convolutions and dense layers: "
                 "bfloat16 needs a CPU that has it, float16 a GPU")
        self.add_machine()

    def add_machine(self) -> None:
        """Add the options of :class:`gluonops.train.Run` that concern devices and checkpoints."""
        group = "machine"
        self.add_device()
        self.add(group, "--kvstore", choices=KVSTORES, default="device", help="dist_*: see docs/several_machines.md")
        self.add(group, "--threads", type=natural, default=0, help="threads that read images ahead")
        group = "run"
        self.add(group, "--resume", nargs="?", const="auto", metavar="CHECKPOINT", help="continue a checkpoint; auto: "
                 "the last one under --out, where there is one")
        self.add(group, "--save-every", type=natural, default=0, metavar="BATCHES",
                 help="batches between two checkpoints; 0: checkpoints after epochs only")
        self.add(group, "--tensorboard", action="store_true", help="write losses and metrics for TensorBoard, too")

    def add_device(self) -> None:
        """Add ``--device``, the argument of :func:`devices`."""
        self.add("machine", "--device", "--ctx", "--gpus", default="cpu:0", metavar="DEVICES",
                 help="for instance cpu:0,cpu:1, or the GPUs 0,1; a batch is split among them")

    def add_digits(self, epochs: int, batch_size: int = 32) -> None:
        """Add ``--data-dir``, ``--epochs`` and ``--batch-size``, for scripts on :func:`gluonops.data.digits`."""
        self.add("data", "--data-dir", help="folder with MNIST's four idx files, gzipped or not; by default the digits "
                 "that ship inside scikit-learn")
        self.add("training", "--epochs", type=positive, default=epochs, help="passes over the training images")
        self.add("training", "--batch-size", type=positive, default=batch_size, help="images per step")

    def defaults(self, **values) -> None:
        """Change the defaults of options that have been added."""
        self.parser.set_defaults(**values)

    def parse(self, words: Sequence[str] | None = None) -> argparse.Namespace:
        """Parse the options of ``--config``, and then those of the command line.

        Parameters
        ----------
        words : sequence of str, optional
            The words of the command line. The default is ``sys.argv[1:]``.

        Raises
        ------
        OpError
            The config cannot be read, or has an option that does not exist.
        """
        words = list(sys.argv[1:] if words is None else words)
        config, _ = take_option("--config", words)
        args = self.parser.parse_args([*(self._config_words(config) if config else []), *words])
        if self._task and args.dataset is None:
            args.dataset = recognize(args.data, self._task).name
        if getattr(args, "classes", None):
            args.classes = [*class_words(args.classes, WHERE)]
        if self._epochs is not None:
            if args.repeat is None:
                args.repeat = 0 if args.epochs is None else 1
            args.epochs = args.epochs or self._epochs
        return args

    def _config_words(self, path):
        """The options of a config as words of a command line, so that argparse checks them."""
        options = {name.lstrip("-").replace("-", "_"): action.option_strings[-1]
                   for name, action in self.parser._option_string_actions.items()}
        words = []
        for name, value in _read_config(path).items():
            name = name.replace("-", "_")
            if name not in options:
                raise OpError(WHERE, f"{path} has the option {name}; expected one of {', '.join(sorted(options))}",
                              "Remove this option, or name a config that was written for this script")
            if name in NOT_IN_CONFIG:
                continue
            values = value if isinstance(value, list) else [value]
            if any(isinstance(each, (list, dict)) for each in values):
                raise OpError(WHERE, f"{path} has lists or mappings inside the option {name}; expected a value or a "
                              "list of values", "Write the values as on the command line")
            if isinstance(value, list):
                words += [options[name], *map(str, value)]
            elif value is True:
                words.append(options[name])
            elif value is not None and value is not False:
                words.append(f"{options[name]}={value}")
        return words


def reproducible(args: argparse.Namespace) -> dict[str, Any]:
    """The options that have to be the same when a run is resumed, because they change its results."""
    return {name: value for name, value in vars(args).items() if name not in WITHOUT_EFFECT}


def run_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """The arguments of :class:`gluonops.train.Run` that are options of :meth:`Options.add_training`."""
    names = ("epochs", "batch_size", "out", "seed", "accumulate", "clip", "average", "dtype", "save_every",
             "tensorboard")
    return {**{name: getattr(args, name) for name in names}, "options": reproducible(args)}


def schedule_of(args: argparse.Namespace, updates: int) -> Schedule:
    """The schedule that the options of :meth:`Options.add_training` describe.

    Parameters
    ----------
    args : argparse.Namespace
        The options.
    updates : int
        Number of updates in an epoch: see :func:`gluonops.train.updates_per_epoch`.
    """
    total = args.epochs * updates
    options = {}
    if args.lr_schedule == "steps":
        options["steps"] = sorted({max(1, round(share * total)) for share in args.lr_steps})
    return schedule(args.lr_schedule, args.lr, total, round(args.warmup * updates), args.warmup_power, **options)


def check_input_sizes(size: int, multi_scale: Sequence[int] | None, multiple: int) -> None:
    """Raise an OpError for ``--size`` or ``--multi-scale`` that a net with cells of ``multiple`` pixels cannot take.

    Parameters
    ----------
    size : int
        Height and width of the input.
    multi_scale : sequence of int, optional
        The smallest and the largest size.
    multiple : int
        Pixels of a cell.
    """
    cells = f"a cell of the net has {multiple} pixels"
    if size % multiple:
        lower = size // multiple * multiple
        raise OpError(WHERE, f"--size is {size}; expected a multiple of {multiple}: {cells}",
                      f"Choose {f'{lower} or ' if lower else ''}{lower + multiple}")
    sizes = list(multi_scale or [])
    if any(side % multiple for side in sizes) or sizes != sorted(sizes):
        raise OpError(WHERE, f"--multi-scale is {' '.join(map(str, sizes))}; expected multiples of {multiple}, the "
                      "smaller first", f"Choose such sizes: {cells}")


def _read_config(path):
    if not os.path.isfile(path):
        raise OpError(WHERE, f"there is no config {path}", "Name a JSON or YAML file, such as a run's results.json")
    is_yaml = pathlib.Path(path).suffix in (".yaml", ".yml")
    size, most = os.path.getsize(path), MOST_BYTES if is_yaml else MOST_JSON
    if size > most:
        raise OpError(WHERE, f"the config {path} has {size} bytes; expected at most {most}",
                      "Shorten the file, or write it in JSON" if is_yaml else "Shorten the file")
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
        content = parse(text, WHERE) if is_yaml else json.loads(text)
    except OpError:
        raise
    except Exception as error:   # yaml's errors have a base class of their own
        raise OpError(WHERE, f"the config {path} cannot be read: {error}", "Correct the file") from error
    if isinstance(content, dict) and isinstance(content.get("options"), dict):
        content = content["options"]
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise OpError(WHERE, f"the config {path} is not a mapping of options", "Write `name: value` for each option")
    return content
