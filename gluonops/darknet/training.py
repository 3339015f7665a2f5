"""Reads what a cfg says about training: the options of ``[net]`` and of the last head.

Options that are not given have the defaults of the program that the cfg is for. The learning rate is read by
:func:`gluonops.train.darknet_schedule`. Sources: ``parse_net_options`` in ``src/parser.c``, ``train_detector`` and
``train_classifier``.
"""
from __future__ import annotations

import collections
import os

from ..contract.attributes import Float
from .cfg import Section, read_cfg
from .ignored_options import DETECTING, dialect_of
from .net_loss import check_has_loss

CELL = 32              # multi-scale training changes the input by so many pixels
DETECTOR_SIZES = range(320, 640, CELL)     # inputs of pjreddie's multi-scale training
CLASSIFIER_SIZES = range(128, 480, CELL)   # the same of classifiers
LARGEST_FACTOR = 1.4   # AlexeyAB's multi-scale training enlarges images by it, if the cfg has random=1
DRAWS = 32             # factors on either side that stand for his continuous ones
RESIZE_EVERY = {"detection": 10, "classification": 40}   # updates with one size
ADAM_EPSILON = {"pjreddie": 1e-7, "alexeyab": 1e-6}
# Options of [net] that would change the results of a run, and that are ignored here.
NOT_FOLLOWED = (
    "adversarial_lr", "badlabels_rejection_percentage", "blur", "center", "contrastive", "cutmix", "dynamic_minibatch",
    "equidistant_point", "gaussian_noise", "label_smooth_eps", "mixup", "notruth", "num_sigmas_reject_badlabels",
    "track", "unsupervised", "weights_reject_freq")

FROM_ZERO, BELOW_ONE, ABOVE_ZERO = Float(low=0), Float(low=0, below=1), Float(above=0)

FIELDS = (
    "dialect task size batch subdivisions max_batches learning_rate momentum decay adam ema_alpha saturation exposure "
    "hue flip jitter resize mosaic mosaic_bound letter_box angle aspect crops sizes resize_every not_followed")


class TrainingOptions(collections.namedtuple("TrainingOptions", FIELDS)):
    """How a cfg is trained.

    Attributes
    ----------
    dialect : {'pjreddie', 'alexeyab'}
        The program whose defaults count.
    task : {'detection', 'classification'}
        What the net is for.
    size : tuple of int
        (width, height) of the input.
    batch : int
        Images of an update.
    subdivisions : int
        Parts of a batch that pass through the net one after the other. Their gradients add up.
    max_batches : int
        Number of updates; 0: not given.
    learning_rate, momentum, decay : float
        Learning rate, momentum and decay of the optimizer. Only weights decay, not biases and scales.
    adam : dict or None
        Arguments of Adam, if the cfg has ``adam=1``.
    ema_alpha : float
        Decay of an exponential moving average of the parameters; 0: none.
    saturation, exposure, hue : float
        How far colours change: two factors of at least 1, and a part of the colour circle.
    flip : bool
        Whether every second image is mirrored.
    jitter, resize : float
        How far images of detectors are cropped, and AlexeyAB's how far they are scaled.
    mosaic, mosaic_bound, letter_box : bool
        AlexeyAB's: pictures of four images; boxes clipped to their quarter; images that keep their aspect.
    angle, aspect : float
        How far images of classifiers are turned, in degrees, and stretched.
    crops : tuple of float
        The range of the shorter side of an image of a classifier, in widths of the input.
    sizes : list
        The sizes of the input in multi-scale training: sides, or (width, height). One is drawn at a time, so a size
        that stands twice is twice as likely. If the list is empty, all inputs have the size ``size``.
    resize_every : int
        Number of updates until the next size is drawn.
    not_followed : tuple of str
        Options of the cfg that would change the results of a run, and that are ignored here.
    """

    __slots__ = ()

    @property
    def mini_batch(self) -> int:
        """The number of images that pass through the net at once."""
        return self.batch // self.subdivisions


def read_training(cfg: str | os.PathLike, dialect: str | None = None) -> TrainingOptions:
    """Read what a cfg says about training.

    Parameters
    ----------
    cfg : str or os.PathLike
        The file.
    dialect : {'pjreddie', 'alexeyab'}, optional
        As in :func:`gluonops.darknet.load`.

    Raises
    ------
    OpError
        The cfg cannot be read, or an option is out of range. The message has the file and the line.
    """
    sections = read_cfg(cfg)
    net = sections[0]
    dialect = dialect or dialect_of(sections)
    heads = [section for section in sections if section.kind in DETECTING]
    task = "detection" if heads else "classification"
    head = heads[-1] if heads else net
    width, height = (net.integer(key, low=1) for key in ("width", "height"))
    batch, subdivisions = _batch(net)
    return TrainingOptions(
        dialect=dialect,
        task=task,
        size=(width, height),
        batch=batch,
        subdivisions=subdivisions,
        max_batches=net.integer("max_batches", 0, 0),
        learning_rate=net.number("learning_rate", 0.001, FROM_ZERO),
        momentum=net.number("momentum", 0.9, BELOW_ONE),
        decay=net.number("decay", 0.0001, FROM_ZERO),
        adam=_adam(net, dialect),
        ema_alpha=net.number("ema_alpha", 0, BELOW_ONE),
        saturation=_factor(net, "saturation"),
        exposure=_factor(net, "exposure"),
        hue=net.number("hue", 0, BELOW_ONE),
        flip=bool(net.integer("flip", 1)),
        jitter=head.number("jitter", 0.2, BELOW_ONE) if heads else 0.0,
        resize=head.number("resize", 1, ABOVE_ZERO) if heads else 1.0,
        **net.values(mosaic=False, mosaic_bound=False, letter_box=False),
        angle=net.number("angle", 0, FROM_ZERO),
        aspect=_factor(net, "aspect"),
        crops=_crops(net, width),
        sizes=_sizes(net, head, dialect, (width, height)),
        resize_every=RESIZE_EVERY[task],
        not_followed=tuple(key for key in NOT_FOLLOWED if key in net and net.number(key) != 0))


def check_trainable(cfg: str | os.PathLike) -> None:
    """Raise an OpError if a cfg cannot be trained here: if it is YOLOv1's, or has a tree of classes.

    Parameters
    ----------
    cfg : str or os.PathLike
        The file.
    """
    for section in read_cfg(cfg):
        check_has_loss(section)


def shorter_policy(cfg: str | os.PathLike, batches: int) -> dict:
    """Options of ``[net]`` for a run of another length, in which the learning rate has the same curve.

    Steps and cycles change in proportion to the length. The burn-in keeps its length, but is at most a tenth of the
    run.

    Parameters
    ----------
    cfg : str or os.PathLike
        The file.
    batches : int
        Number of updates of the run.

    Returns
    -------
    dict
        For :func:`gluonops.darknet.adapt_cfg`.
    """
    net, *_ = read_cfg(cfg)
    factor = batches / net.integer("max_batches", batches, 1)
    options = {"max_batches": batches, "burn_in": min(net.integer("burn_in", 0, 0), batches // 10)}
    if "steps" in net:
        options["steps"] = ",".join(str(max(1, round(step * factor))) for step in net.integers("steps"))
    for key in ("step", "sgdr_cycle"):
        if key in net:
            options[key] = max(1, round(net.integer(key) * factor))
    return options


def _batch(net: Section) -> tuple[int, int]:
    """(batch, subdivisions)"""
    batch, subdivisions = net.integer("batch", 1, 1), net.integer("subdivisions", 1, 1)
    if subdivisions > batch:
        raise net.error(f"batch is {batch} and subdivisions is {subdivisions}; expected at most as many subdivisions "
                        "as images", "Correct batch or subdivisions", "subdivisions")
    return batch, subdivisions


def _adam(net: Section, dialect: str) -> dict | None:
    if not net.flag("adam"):
        return None
    return {"beta1": net.number("B1", 0.9, BELOW_ONE), "beta2": net.number("B2", 0.999, BELOW_ONE),
            "epsilon": net.number("eps", ADAM_EPSILON[dialect], ABOVE_ZERO)}


def _crops(net: Section, width: int) -> tuple[float, float]:
    """The shorter sides that ``min_crop`` and ``max_crop``, or their ratios, allow."""
    low = net.number("min_ratio", net.integer("min_crop", width, 1) / width)
    high = net.number("max_ratio", net.integer("max_crop", 2 * width, 1) / width)
    if not 0 < low <= high:
        raise net.error(f"images are cropped from {low:g} to {high:g} widths of the input; expected numbers above 0, "
                        "the smaller first", "Correct min_crop or max_crop", "max_crop")
    return low, high


def _sizes(net: Section, head: Section, dialect: str, size: tuple[int, int]) -> list:
    """The sizes of the input in multi-scale training. A size that stands twice is twice as likely.

    The option ``random`` of a ``[detection]`` means something else.
    """
    factor = head.number("random", 0, FROM_ZERO)
    if not factor or head.kind == "detection":
        return []
    if head is net:
        return list(CLASSIFIER_SIZES)
    if dialect == "pjreddie":
        return list(DETECTOR_SIZES)
    largest = LARGEST_FACTOR if factor == 1 else max(factor, 1 / factor)
    step = net.integer("resize_step", CELL, 1)
    ups = [1 + (largest - 1) * (draw + 0.5) / DRAWS for draw in range(DRAWS)]
    return [_scaled(size, each, step) for up in ups for each in (up, 1 / up)]


def _scaled(size: tuple[int, int], factor: float, step: int) -> tuple[int, int]:
    """A size times a factor, in whole steps as AlexeyAB's program rounds them: 3.2 steps become 4, and 3.6 become 5."""
    scaled = tuple(max(step, int(factor * side / step + 1 + 0.5) * step) for side in size)
    if factor < 1 and any(new > old for new, old in zip(scaled, size)):
        return size
    return scaled


def _factor(section: Section, key: str) -> float:
    """The largest factor that an option allows, at least 1.

    Darknet draws a factor between 1 and the option, and divides by it in half of the cases. So 0.75 means 4/3.
    """
    value = section.number(key, 1, ABOVE_ZERO)
    return max(value, 1 / value)
