"""Sections with weights: ``[convolutional]``, ``[connected]`` and ``[local]``."""
from __future__ import annotations

import math

from ..activations import ACTIVATIONS
from ..builder import Builder, Layer, Shape, kind
from ..cfg import MAX_INT, Section
from ..weighted import Connected, Convolution, Local
from .resizing import BLURS, blurred, strides_of

__all__ = ["connected", "convolutional", "local"]

# Options that make another operation of a convolution, and why they are refused.
REFUSED = {
    "binary": "weights are taken as they are",
    "flipped": "weights are taken as they are",
    "coordconv": "another operation than a convolution",
    **dict.fromkeys(("rotate", "stretch", "stretch_sway", "sway"), "AlexeyAB's Darknet ignores it on a CPU"),
}
# What pixels beyond the image of an xnor layer count as.
OUTSIDE = {"pjreddie": 0.0, "alexeyab": -1.0}


@kind("convolutional", "conv")
def convolutional(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    filters = section.integer("filters", 1, 1)
    size = section.integer("size", 1, 1)
    strides = strides_of(section)
    padding = section.integer("padding", 0, 0)
    if section.flag("pad"):
        padding = size // 2
    for key, why in REFUSED.items():
        section.refuse(key, why)
    dilation = section.integer("dilation", 1, 1) if size > 1 else 1
    if size == 1:
        section.skip("dilation")
    xnor = section.flag("xnor")
    groups = _groups(section, shape[0], filters, xnor)
    blur = BLURS[section.text("antialiasing", "0", sorted(BLURS))]
    if xnor:
        _check_xnor(section, strides, dilation, blur)
    _check_weights(section, filters * (shape[0] // groups) * size ** 2)
    activation = section.text("activation", "logistic", sorted(ACTIVATIONS))
    batch_norm = section.flag("batch_normalize") or section.flag("cbn")

    options = {"groups": groups, "batch_norm": batch_norm, "activation": activation, "epsilon": build.epsilon,
               "dilation": dilation, "blur": blur, "outside": OUTSIDE[build.dialect] if xnor else None}
    shared = _shared(build, section, (filters, shape[0] // groups, size, size), batch_norm)
    if shared is not None:
        options["params"] = shared.collect_params()
    block = Convolution(filters, size, shape[0], strides, padding, prefix=prefix, **options)
    if section.flag("bin_output") and xnor:
        build.binary_outputs[build.number] = block
    sides = _convolved(section, shape, size, strides, padding, dilation, blur)
    return Layer(block, (filters, *sides))


def _convolved(section: Section, shape: Shape, size: int, strides: tuple[int, int], padding: int, dilation: int,
               blur: int) -> list[int]:
    """Height and width of a convolution's output."""
    reach = dilation * (size - 1) + 1
    _, *inputs = shape
    steps = (1, 1) if blur else strides
    sides = [(side + 2 * padding * dilation - reach) // step + 1 for side, step in zip(inputs, steps)]
    theirs = [(side + 2 * padding - size) // step + 1 for side, step in zip(inputs, steps)]
    if sides != theirs:
        raise section.error(f"dilation={dilation} with size={size} and a padding of {padding} is not supported "
                            "(Darknet reads beyond the image)", "Take an odd size and pad=1", "dilation")
    return blurred(sides, blur, strides)


def _groups(section: Section, channels: int, filters: int, xnor: bool) -> int:
    """The option ``groups``. AlexeyAB's Darknet has none in an xnor layer."""
    groups = section.integer("groups", 1, 1)
    if xnor:
        return 1
    for what, count in (("channels of the input", channels), ("filters", filters)):
        if count % groups:
            raise section.error(f"{count} {what} do not divide into {groups} groups", "Correct groups", "groups")
    return groups


def _check_xnor(section: Section, strides: tuple[int, int], dilation: int, blur: int) -> None:
    """Raise an OpError for options that Darknet does not compute with signs."""
    rows, columns = strides
    if rows != columns or dilation > 1 or blur:
        raise section.error("xnor with two strides, dilation or antialiasing is not supported (Darknet ignores them "
                            "there)", "Remove xnor, or the other option", "xnor")


def _check_weights(section: Section, count: int) -> None:
    if count > MAX_INT:
        raise section.error(f"it would have {count} weights; expected at most {MAX_INT}, as in Darknet",
                            "Correct filters or size")


def _shared(build: Builder, section: Section, weight_shape: Shape, batch_norm: bool) -> Convolution | None:
    """The convolution that the option ``share_index`` names, if it is given."""
    if "share_index" not in section:
        return None
    number = build.earlier(section, "share_index", section.integer("share_index"))
    block = build.net[number]
    fits = isinstance(block, Convolution) and block.conv.weight.shape == weight_shape
    if not fits or (block.norm is not None) != batch_norm:
        raise section.error(f"share_index names layer {number}, which has no weights {weight_shape} like this layer's",
                            "Name a convolution of the same filters, size, channels and batch_normalize", "share_index")
    return block


@kind("connected", "conn", takes_row=True)
def connected(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    units = section.integer("output", 1, 1)
    activation = section.text("activation", "logistic", sorted(ACTIVATIONS))
    batch_norm = section.flag("batch_normalize")
    count = math.prod(shape)
    _check_weights(section, units * count)
    return Layer(Connected(units, count, batch_norm, activation, build.epsilon, prefix=prefix), (units,))


@kind("local")
def local(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    filters = section.integer("filters", 1, 1)
    size = section.integer("size", 1, 1)
    stride = section.integer("stride", 1, 1)
    padding = section.integer("pad", 0, 0)
    activation = section.text("activation", "logistic", sorted(ACTIVATIONS))
    channels, *sides = shape
    out = tuple((side + 2 * padding - size) // stride + 1 for side in sides)
    theirs = tuple((side - (1 if padding else size)) // stride + 1 for side in sides)
    if out != theirs:
        raise section.error(f"pad={padding} with size={size} is not supported (Darknet reads beyond the image)",
                            "Take pad=1 with size=3, or pad=0", "pad")
    if min(out) > 0:   # otherwise the builder says what is wrong
        _check_weights(section, filters * channels * size ** 2 * math.prod(out))
    return Layer(Local(filters, channels, size, stride, padding, out, activation, prefix=prefix), (filters, *out))
