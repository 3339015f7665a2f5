"""Writes a cfg for other classes, anchors, widths and options of training, and leaves all other lines as they are."""
from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ..contract.attributes import Attr, Float, Int
from ..contract.errors import OpError, plural
from ..io.files import read_lines, replace
from .cfg import Section, read_cfg
from .heads import NUMBERS

WHERE = "darknet.adapt_cfg"
COUNTS = {"convolutional": "filters", "connected": "output"}   # the option with the number of a layer's outputs


def adapt_cfg(cfg: str | os.PathLike, out: str | os.PathLike, classes: int | None = None, width: float = 1,
              anchors: Sequence[Sequence[float]] | None = None, net: Mapping[str, object] | None = None,
              heads: Mapping[str, object] | None = None) -> None:
    """Write a cfg for other classes, anchors, channels or options of ``[net]``.

    The layers in front of the heads get as many outputs as the heads need. So a cfg for COCO becomes one for a data set
    of ten classes. All other lines stay as they are. Darknet reads the new file, too.

    Parameters
    ----------
    cfg : str or os.PathLike
        The file to read.
    out : str or os.PathLike
        The file to write. It may be the same.
    classes : int, optional
        Number of classes of every head, or of a classifier.
    width : float, default 1
        Factor of the filters of all convolutions but those in front of the heads. Numbers are rounded to even ones.
    anchors : sequence of pairs, optional
        As many widths and heights as the cfg has: in pixels for ``[yolo]``, in cells for ``[region]``.
    net : mapping, optional
        Options of ``[net]``, such as ``{"batch": 16, "flip": 0}``.
    heads : mapping, optional
        Options of every head, such as ``{"random": 0}``.

    Raises
    ------
    OpError
        The cfg cannot be read, has other heads, or has another number of anchors.
    """
    if classes is not None:
        classes = Attr("classes", Int(1), None).parse(WHERE, classes)
    width = Attr("width", Float(above=0), 1.0).parse(WHERE, width)
    sections = read_cfg(cfg)
    lines = read_lines(WHERE, cfg, "Pass the path of a cfg", "the cfg")
    detecting = [section for section in sections if section.kind in NUMBERS]
    # The layers whose outputs follow from the classes.
    outputs = [before for before, section in zip(sections, sections[1:]) if section in detecting]
    if not detecting:
        outputs = [section for section in sections if section.kind in COUNTS][-1:]
    for changed, options in ([sections[:1], net], [detecting, heads]):
        for section in changed:
            for key, value in (options or {}).items():
                _set(lines, section, key, value)
    if width != 1:
        _scale_filters(sections, outputs, width, lines)
    if anchors is not None:
        _set_anchors(detecting, anchors, lines)
    if classes is not None:
        _set_classes(sections, detecting, outputs, classes, lines)
    title = f"# {os.path.basename(os.fspath(cfg))}, adapted by gluonops.darknet.adapt_cfg"

    def write(temporary: str) -> None:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write("\n".join([title, *lines, ""]))

    replace(WHERE, {os.fspath(out): write})


def _set(lines: list[str], section: Section, key: str, value: object) -> None:
    """Give an option of a section a value, in its line or behind the section's header."""
    number, text = section.line_of(key) - 1, f"{key}={value}"
    lines[number] = text if key in section else f"{lines[number]}\n{text}"


def _scale_filters(sections: list[Section], outputs: list[Section], width: float, lines: list[str]) -> None:
    for section in sections:
        if section.kind != "convolutional" or section in outputs:
            continue
        section.refuse("groups", "filters in groups cannot be narrowed", neutral=1)
        filters = section.integer("filters", 1, 1)
        _set(lines, section, "filters", max(2, 2 * round(filters * width / 2)))


def _set_anchors(heads: list[Section], anchors: Sequence[Sequence[float]], lines: list[str]) -> None:
    for head in heads:
        count = head.integer("num", 1, 1)
        if len(anchors) != count:
            raise head.error(f"num is {count}, and anchors has {plural(len(anchors), 'pair')}; expected {count}",
                             f"Pass {plural(count, 'pair')} of width and height as anchors", "num")
        _set(lines, head, "anchors", ", ".join(f"{side:.4g}" for anchor in anchors for side in anchor))


def _set_classes(sections: list[Section], heads: list[Section], outputs: list[Section], classes: int,
                 lines: list[str]) -> None:
    if not heads and "softmax" not in [section.kind for section in sections]:
        raise OpError(WHERE, f"{sections[0].file} has no [region], [yolo], [Gaussian_yolo] or [softmax]; expected a "
                      "section with classes", "Leave classes out")
    for head, layer in zip(heads, outputs):
        if layer.kind != "convolutional":
            raise layer.error(f"a [{head.kind}] follows; expected a [convolutional] before it",
                              "Change the number of classes by hand")
        _set(lines, head, "classes", classes)
    for layer, count in zip(outputs, [_numbers(head, classes) for head in heads] or [classes]):
        _set(lines, layer, COUNTS[layer.kind], count)


def _numbers(head: Section, classes: int) -> int:
    """How many numbers a head takes of each cell."""
    count = head.integer("num", 1, 1)
    if "mask" in head:
        count = len(head.integers("mask"))
    return count * (NUMBERS[head.kind] + classes)
