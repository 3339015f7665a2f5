"""The one step that makes the labels of a detection data set fit their pictures.

A reader hands over what its files say, as a :class:`Labelled` for each picture. :func:`fit` leaves out the pictures
that cannot be read, clips the boxes, and leaves out boxes without an area. It notes all of that in
:class:`gluonops.data.repairs.Repairs`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Callable, NamedTuple

import numpy as np

from ..contract.errors import OpError
from .images import Header, is_on_its_side
from .repairs import Repairs, check_readable

COLUMNS = 6   # a label has xmin, ymin, xmax, ymax, class id, difficult
MIN_BOX_SIZE = 1e-6   # smallest width and height, as a fraction of the image's; float32 still represents it
# A box that exceeds its picture by a smaller share was rounded by float64, or by float32: that is no change.
NOISE, NOISE_OF_FLOAT32 = 1e-9, 1e-6
MAX_SHARE = 2      # a larger number is no share of a picture's size
MISPLACED = 0.5    # So is one of which a larger share of the boxes lies outside of their pictures.


class Labelled:
    """A picture and its label, as the files say.

    Parameters
    ----------
    picture : str or OpError
        Its path, or its name in errors. An error: the reader did not find the picture.
    label : str
        The file that its label is in.
    rows : sequence of tuple
        xmin, ymin, xmax, ymax, class, difficult of each object.
    lines : sequence of str or callable
        Where in the file each row stands, such as "line 3", or a function that finds out.
    stated : tuple of float, optional
        The (width, height) that the label states for the picture. By default the format has no place for it.
    stated_at : str, default ""
        Where it does so, for errors.
    """

    __slots__ = ("label", "lines", "picture", "rows", "stated", "stated_at")

    def __init__(self, picture: str | OpError, label: str, rows: Sequence[tuple], lines: Sequence[str] | Callable,
                 stated: tuple | None = None, stated_at: str = ""):
        self.picture, self.label, self.rows, self.lines = picture, label, rows, lines
        self.stated, self.stated_at = stated, stated_at

    def place(self, row: int) -> str:
        """The file and the line of a row."""
        lines = self.lines() if callable(self.lines) else self.lines
        return f"{self.label}, {lines[row]}"


class Fitted(NamedTuple):
    """The result of :func:`fit`: the index, the label and the size of each picture that is kept.

    A label is float32 (objects, 6), in pixels. A size is (width, height).
    """
    kept: list[int]
    labels: list[np.ndarray]
    sizes: list[tuple[int, int]]


def fit(pictures: Sequence[Labelled], headers: Sequence[Header | OpError], repairs: Repairs, *, shares: bool = False,
        noise: float = NOISE, origin: int = 0) -> Fitted:
    """Make labels fit their pictures: repair what can be repaired, and leave out what cannot.

    Parameters
    ----------
    pictures : sequence of Labelled
    headers : sequence of Header or OpError
        What stands in the header of each picture, or why it cannot be read.
    repairs : Repairs
    shares : bool, default False
        Whether edges are shares of the picture's width and height instead of pixels.
    noise : float, default 1e-9
        The share of the picture's size by which the format rounds.
    origin : int, default 0
        The number of the first pixel in the files, for errors. In the rows it is 0.

    Raises
    ------
    OpError
        More than 1 in 10 pictures cannot be read, more than half of the boxes lie outside of their pictures, or the
        repairs are strict and one is necessary.
    """
    kept = readable(headers, repairs)
    pictures, headers = [pictures[i] for i in kept], [headers[i] for i in kept]
    sizes = [header.size for header in headers]
    counts = [len(picture.rows) for picture in pictures]
    rows = np.array([row for picture in pictures for row in picture.rows], "float64").reshape(-1, COLUMNS)
    bounds = np.cumsum([0, *counts])
    for picture, header, start, end in zip(pictures, headers, bounds, bounds[1:]):
        if picture.stated is not None and tuple(picture.stated) != header.size:
            _use_own_size(picture, header, rows[start:end], repairs)

    boxes = _Boxes(rows, np.repeat(np.arange(len(pictures)), counts), np.array(sizes, "float64").reshape(-1, 2), shares)
    keep = boxes.clip(noise)
    boxes.tell(pictures, bounds, origin, repairs)
    rows = rows.astype("float32")
    labels = [rows[start:end][keep[start:end]] for start, end in zip(bounds, bounds[1:])]
    return Fitted(kept, labels, sizes)


def readable(headers: Sequence[Header | OpError], repairs: Repairs) -> list[int]:
    """The indices of the pictures that can be read. The others are noted.

    An OpError is raised if more than 1 in 10 pictures cannot be read. If the repairs are strict, it is raised if one
    picture cannot be read.
    """
    errors = [header for header in headers if isinstance(header, OpError)]
    if errors and (repairs.strict or len(errors) == len(headers)):
        raise errors[0]
    if errors:
        check_readable(repairs.where, len(errors), len(headers), errors[0])
    for error in errors:
        repairs.note("unreadable", error.what, "", "")
    return [i for i, header in enumerate(headers) if not isinstance(header, OpError)]


def note_missing(pictures: Sequence[Labelled], missing: Sequence[int], repairs: Repairs) -> None:
    """Note the pictures without a label file. An OpError is raised if no picture has one."""
    if missing and len(missing) == len(pictures):
        first = pictures[missing[0]]
        raise OpError(repairs.where, f"no picture has a label, of {len(pictures)} in all; expected {first.label} for "
                      f"{first.picture}, and so on",
                      "Put the labels there; the label of a picture without objects may be empty")
    for i in missing:
        repairs.note("no_label", str(pictures[i].picture), "it has no label", pictures[i].label)


def _use_own_size(picture: Labelled, header: Header, rows: np.ndarray, repairs: Repairs) -> None:
    """Compare the size that a label states with that of its picture, and note a difference.

    If it is the size of the picture before it was turned upright, the boxes are turned as well.
    """
    width, height = picture.stated
    got = f"it states the size {width:g} x {height:g}"
    expected = f"{header.size[0]} x {header.size[1]}, the size of {picture.picture}"
    if not (is_on_its_side(header.orientation) and (height, width) == header.size):
        repairs.note("size", picture.stated_at, got, expected)
        return
    repairs.note("turned", picture.stated_at, got, expected)
    left, top, right, bottom = rows[:, :4].T.copy()
    if header.orientation in (6, 7):
        top, bottom = height - bottom, height - top
    if header.orientation in (7, 8):
        left, right = width - right, width - left
    rows[:, :4] = np.stack([top, left, bottom, right], 1)


class _Boxes:
    """The boxes of all pictures in one array.

    ``rows`` is (boxes, 6). ``owner``, (boxes,), is the index of each box's picture. ``sizes`` are those of the
    pictures.
    """

    def __init__(self, rows: np.ndarray, owner: np.ndarray, sizes: np.ndarray, shares: bool):
        self.rows, self.owner, self.shares = rows, owner, shares
        self.written, self.room = rows[:, :4].copy(), sizes[owner]

    def clip(self, noise: float) -> np.ndarray:
        """Convert the boxes to pixels and clip them to their pictures. Returns which boxes are left, bool (boxes,)."""
        scale = np.tile(self.room, 2)
        edges = self.written * scale if self.shares else self.written
        clipped = np.clip(edges, 0, scale)
        tiny = MIN_BOX_SIZE * self.room
        beyond = np.abs(clipped - edges).max(1, initial=0)
        no_area = (edges[:, 2:] - edges[:, :2] < tiny).any(1)
        self.misplaced = (clipped[:, 2:] - clipped[:, :2] < tiny).any(1) & ~no_area
        if self.shares:
            self.misplaced |= np.abs(self.written).max(1, initial=0) > MAX_SHARE
        is_moved = beyond > noise * self.room.max(1, initial=0)
        self.reasons = np.select([self.misplaced, no_area, is_moved & (beyond < 1), is_moved],
                                 ["outside", "no_area", "rounded", "clipped"], "")
        self.rows[:, :4] = clipped
        return ~(self.misplaced | no_area)

    def tell(self, pictures: Sequence[Labelled], bounds: np.ndarray, origin: int, repairs: Repairs) -> None:
        """Note what :meth:`clip` has done, in the order of the pictures."""
        lost = np.flatnonzero(self.misplaced)
        expected = "shares of the picture's size from 0 to 1" if self.shares else "a box inside of its picture"
        expected += ", with xmin < xmax and ymin < ymax"
        if len(lost) > MISPLACED * len(self.rows):
            place = pictures[self.owner[lost[0]]].place(lost[0] - bounds[self.owner[lost[0]]])
            raise OpError(repairs.where, f"{len(lost)} of {len(self.rows)} boxes lie outside of their pictures, the "
                          f"first in {place}: {self._describe(lost[0], origin)}; expected {expected}",
                          "Create the labels again")
        for i in np.flatnonzero(self.reasons != ""):
            picture, row = pictures[self.owner[i]], i - bounds[self.owner[i]]
            repairs.note(str(self.reasons[i]), lambda picture=picture, row=row: picture.place(row),
                         self._describe(i, origin), expected)

    def _describe(self, i: int, origin: int) -> str:
        edges = " ".join(f"{edge:g}" for edge in self.written[i] + origin)
        return f"the box is {edges} in an image of {self.room[i, 0]:g} x {self.room[i, 1]:g}"
