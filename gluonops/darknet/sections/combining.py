"""Sections that read several layers: ``[route]``, ``[shortcut]``, ``[scale_channels]`` and ``[sam]``."""
from __future__ import annotations

from collections.abc import Callable

from ..activations import ACTIVATIONS
from ..builder import Builder, Layer, Shape, kind
from ..cfg import Section
from ..merging import Multiply, PartialShortcut, Route, Shortcut
from ..weighted import WeightedShortcut

__all__ = ["route", "sam", "scale_channels", "shortcut"]

NORMALIZATIONS = {"relu": "relu", "avg_relu": "relu", "softmax": "softmax"}
WEIGHTS = ("none", "per_channel", "per_feature", "per_layer")


@kind("route", takes_row=True)
def route(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    sources = [build.earlier(section, "layers", number) for number in section.integers("layers")]
    build.uses(*sources)
    groups = section.integer("groups", 1, 1)
    group = section.integer("group_id", 0, 0)
    shapes = [build.shapes[source] for source in sources]
    channels = [source_shape[0] for source_shape in shapes]
    _check_sides(build, section, sources, "layers")
    if group >= groups or any(count % groups for count in channels):
        raise section.error(f"group_id {group} of {groups} groups of {' and '.join(map(str, channels))} channels "
                            "does not exist", "Correct groups and group_id", "groups")
    block = Route(channels, groups, group, prefix=prefix)
    return Layer(block, (sum(channels) // groups, *shapes[0][1:]), sources)


def _check_sides(build: Builder, section: Section, sources: list[int], key: str) -> None:
    """Raise an OpError if layers are not of one height and width."""
    sides = {build.shapes[source][1:] for source in sources}
    if len(sides) > 1:
        described = ", ".join(f"layer {source} is {build.shapes[source]}" for source in sources)
        raise section.error(f"the layers are not of one height and width: {described}", "Name layers of one size", key)


@kind("shortcut")
def shortcut(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    """pjreddie's adds layers of other sizes by every so many pixels. AlexeyAB's adds several layers, with weights."""
    earlier = [build.earlier(section, "from", number) for number in section.integers("from")]
    activation = section.text("activation", "linear", sorted(ACTIVATIONS))
    before = build.number - 1
    build.uses(before, earlier[0])
    sources = [before, *earlier]
    weights_type = section.text("weights_type", "none", WEIGHTS)
    if weights_type != "none" or len(earlier) > 1:
        _check_sides(build, section, sources, "from")
    channels = [build.shapes[source][0] for source in sources]
    if weights_type != "none":
        normalization = NORMALIZATIONS[section.text("weights_normalization", None, sorted(NORMALIZATIONS))]
        block = WeightedShortcut(channels, weights_type == "per_channel", normalization, activation, prefix=prefix)
        return Layer(block, shape, sources)

    section.skip("weights_normalization")
    alpha = section.number("alpha", 1)
    beta = section.number("beta", 1)
    if len(earlier) == 1 and build.shapes[earlier[0]] == shape:
        return Layer(Shortcut(activation, alpha, beta, prefix=prefix), shape, sources)
    step, repeat = _scale(section, shape, build.shapes[earlier[0]])
    if alpha != 1 and repeat > 1:
        raise section.error(f"alpha={alpha} with a smaller layer is not supported", "Remove alpha", "alpha")
    block = PartialShortcut(channels, activation, alpha, beta, step, repeat, prefix=prefix)
    return Layer(block, shape, sources)


def _scale(section: Section, shape: Shape, other: Shape) -> tuple[int, int]:
    """How many times the other layer's image is larger, and how many times it is smaller."""
    _, *own = shape
    _, *theirs = other
    for step in range(1, max(theirs) + 1):
        if [-(-side // step) for side in theirs] == own and theirs[0] // own[0] == step == theirs[1] // own[1]:
            return step, 1
    for repeat in range(1, max(own) + 1):
        if [side * repeat for side in theirs] == own:
            return 1, repeat
    raise section.error(f"the layer that it adds is {other} (channels, height, width), this one's input is {shape}; "
                        "expected images that are the same, or larger or smaller by a whole factor",
                        "Name a layer of another size", "from")


@kind("scale_channels")
def scale_channels(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    def expected(other: Shape) -> Shape:
        return (1, *other[1:]) if section.flag("scale_wh") else (other[0], 1, 1)

    return _product(build, section, shape, prefix, expected)


@kind("sam")
def sam(build: Builder, section: Section, shape: Shape, prefix: str) -> Layer:
    return _product(build, section, shape, prefix, lambda other: other)


def _product(build: Builder, section: Section, shape: Shape, prefix: str, expected: Callable[[Shape], Shape]) -> Layer:
    """The layer in front times the one that ``from`` names. ``expected``: the former's shape, from the latter's."""
    sources = [build.number - 1, build.earlier(section, "from", section.integer("from"))]
    build.uses(*sources)
    other = build.shapes[sources[1]]
    if shape != expected(other):
        raise section.error(f"its input is {shape} (channels, height, width), and the layer that it multiplies is "
                            f"{other}; expected an input of {expected(other)}", "Name another layer", "from")
    activation = section.text("activation", "linear", sorted(ACTIVATIONS))
    return Layer(Multiply(activation, prefix=prefix), other, sources)
