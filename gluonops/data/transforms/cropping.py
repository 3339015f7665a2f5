"""How AlexeyAB's Darknet changes images of detectors, and both programs change images of classifiers.

Sources: ``load_data_detection``, ``blend_truth_mosaic`` and ``fill_truth_detection`` in src/data.c and
``image_data_augmentation`` in src/image_opencv.cpp of AlexeyAB/darknet, commit 59596d78; ``random_augment_image`` and
``rotate_crop_image`` in src/image.c of pjreddie/darknet, commit f6afaabc. There are three differences:

- Pixels are sampled at their centres, in float32. AlexeyAB's program rounds to 8 bits after each step.
- Crops are whole pixels of the canvas. His are whole pixels of the image.
- A mosaic can have letterboxed images, as 14 of his cfgs want. His program refuses it.
"""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...core.attributes import Attr, Bool, Float
from .augment import Augment, Size, flip

MOSAIC_SHARE = 0.5       # so many pictures are mosaics, if there are any
CUTS = (0.2, 0.8)        # range of the point where the four images of a mosaic meet, as a fraction of the canvas
CORNERS = ((True, True), (False, True), (True, False), (False, False))   # whether a mosaic's part is left, and on top


class Crop(Augment):
    """AlexeyAB's augmentation for detectors: a random crop, stretched to the canvas.

    A crop that reaches beyond the image is filled with the image's mean colour. A box is left out if less than a pixel
    of it is visible in width or height.

    Parameters
    ----------
    jitter : float, default 0.2
        How far each side of the crop moves, as a fraction of the image's, from 0 and below 1.
    resize : float, default 1
        Largest factor by which the image grows or shrinks, above 0. Below 1 it only shrinks.
    letter_box : bool, default False
        Whether the image keeps its aspect.
    mosaic : bool, default False
        Whether every second picture is made of four images; see :meth:`mosaic_of`.
    mosaic_bound : bool, default False
        Whether boxes in such a picture end where their part does.
    flip, hue, saturation, exposure
        As in :class:`gluonops.data.Augment`.
    """

    def __init__(self, jitter: float = 0.2, resize: float = 1, letter_box: bool = False, mosaic: bool = False,
                 mosaic_bound: bool = False, flip: float = 0.5, hue: float = 0.1, saturation: float = 1.5,
                 exposure: float = 1.5):
        super().__init__(jitter, (1, 1), flip, hue, saturation, exposure, visible=0)
        where = "data.Crop"
        self.resize = Attr("resize", Float(above=0), 1.0).parse(where, resize)
        self.letter_box = Attr("letter_box", Bool(), False).parse(where, letter_box)
        self.mosaic_bound = Attr("mosaic_bound", Bool(), False).parse(where, mosaic_bound)
        is_mosaic = Attr("mosaic", Bool(), False).parse(where, mosaic)
        self.mosaic_share = MOSAIC_SHARE if is_mosaic else 0.0

    def mosaic_of(self, items: Sequence[tuple[np.ndarray, np.ndarray]], size: Size,
                  rng: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
        """A picture of four images that meet in a random point.

        Each image is augmented as by itself. The picture shows a corner of it. An image with a border of plain colour
        is moved as far as its border is wide, so that the picture shows as little of it as possible.

        Parameters
        ----------
        items : sequence of tuple
            Four images with their boxes, as this class takes them.
        size : tuple of int
            (width, height) of the canvas.
        rng : numpy.random.RandomState

        Returns
        -------
        tuple of numpy.ndarray
            The image, float32 (channels, height, width) from 0 to 1, and its boxes in pixels.
        """
        cut = [int(rng.uniform(*CUTS) * side) for side in size]
        picture = np.empty((items[0][0].shape[2], size[1], size[0]), "float32")
        all_boxes = []
        for (image, boxes), is_first in zip(items, CORNERS):
            new, offset = self._placement(image.shape[1::-1], size, rng)
            is_mirrored = rng.rand() < self.flip
            if rng.rand() < 0.5:   # the image begins in its corner of the picture
                begins = is_first[0] != is_mirrored, is_first[1]   # at the left, and at the top
                offset = tuple(0 if first else room - side for first, room, side in zip(begins, size, new))
            part, boxes = self._placed(image, boxes, size, new, offset, is_mirrored, rng)
            if is_mirrored:
                offset = size[0] - offset[0] - new[0], offset[1]
            spans = [_span(*of_axis) for of_axis in zip(size, cut, is_first, offset, new)]
            (columns, left), (rows, top) = spans
            height, width = rows.stop - rows.start, columns.stop - columns.start
            picture[:, rows, columns] = part[:, top:top + height, left:left + width]
            boxes[:, :4] += np.tile(np.float32([columns.start - left, rows.start - top]), 2)
            part_of_picture = ((columns.start, rows.start), (columns.stop, rows.stop)) if self.mosaic_bound else ()
            all_boxes.append(self._clipped(boxes, size, *part_of_picture))
        return picture, np.concatenate(all_boxes)

    def _placement(self, old, size, rng):
        """(width, height) and (left, top) on the canvas of an image whose crop fills the canvas."""
        edges = np.array([int(side * self.jitter) for side in old])
        before, after = (rng.uniform(-1, 1, (2, 2)) * edges).astype(int)
        first, second = (self._growth(old, rng.rand()) for _ in range(2))
        before, after = before + first, after + second
        if self.letter_box:
            margin = _margin(old, size)
            before, after = before - margin, after - margin
        crop = np.array(old) - before - after
        if (crop <= 0).any() or (before >= old).any():
            before, crop = np.zeros(2, int), np.array(old)
        factor = np.array(size) / crop
        new = tuple(max(1, int(round(side))) for side in old * factor)
        return new, tuple(int(round(side)) for side in -before * factor)

    def _growth(self, old, share):
        """Pixels that ``resize`` takes from an edge of the image, along both axes."""
        shrink, grow = min(self.resize, 1 / self.resize), max(self.resize, 1 / self.resize)
        low = (1 - 1 / shrink) / 2                              # below 0: the image shrinks
        high = (1 - 1 / grow) / 2 if self.resize >= 1 else 0
        return (np.array(old) * (low + share * (high - low))).astype(int)

    def _fill(self, image):
        return image.reshape(-1, image.shape[2]).mean(0, dtype="float64").astype("float32") / 255

    def _least_sides(self, size):
        return np.ones(2)


class Turn(Augment):
    """Both programs' augmentation for classifiers: a turned, stretched and scaled image, cropped at random.

    It takes the arguments of :class:`gluonops.data.Augment` and the ones below. Boxes are not moved.

    Parameters
    ----------
    angle : float, default 0
        Largest turn, in degrees.
    aspect : float, default 1
        Largest factor or divisor of the width, at least 1.
    crops : tuple of float, default (1, 2)
        Range of the image's shorter side, in widths of the canvas.
    flip, hue, saturation, exposure
        As in :class:`gluonops.data.Augment`.
    """

    def __init__(self, angle: float = 0, aspect: float = 1, crops: tuple[float, float] = (1, 2), flip: float = 0.5,
                 hue: float = 0, saturation: float = 1, exposure: float = 1):
        super().__init__(0, crops, flip, hue, saturation, exposure)
        self.angle = Attr("angle", Float(low=0), 0.0).parse("data.Turn", angle)
        self.aspect = Attr("aspect", Float(low=1), 1.0).parse("data.Turn", aspect)

    def __call__(self, image: np.ndarray, boxes: np.ndarray, size: Size,
                 rng: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
        """A changed image, float32 (channels, height, width) from 0 to 1, and the boxes as they are."""
        height, width = image.shape[:2]
        aspect = self._factor(rng, self.aspect)
        shorter = rng.uniform(*self.scale) * size[0]
        scale = shorter / min(height, width * aspect)
        radians = np.deg2rad(rng.uniform(-self.angle, self.angle))
        room = np.array([width * scale / aspect - size[0], height * scale - size[1]]) / 2
        offset = rng.uniform(-1, 1, 2) * room
        out = turned(image, size, radians, scale, aspect, offset)
        if rng.rand() < self.flip:
            out, _ = flip(out, np.zeros((0, 4), "float32"))
        return self._coloured(out, rng), boxes


def turned(image: np.ndarray, size: Size, radians: float, scale: float, aspect: float,
           offset: Sequence[float]) -> np.ndarray:
    """Cut a turned and scaled rectangle of ``size`` out of an image, bilinearly. Beyond the image there is black.

    The image is uint8, (height, width, channels). The result is float32 (channels, height, width) from 0 to 1. A pixel
    of the image has ``scale`` pixels of the result down, and ``scale / aspect`` across. ``offset`` is (x, y) of the
    result's centre against the image's, in pixels of the result before it is turned.
    """
    height, width = image.shape[:2]
    x = (np.arange(size[0]) - size[0] / 2 + offset[0]) * (aspect / scale)
    y = ((np.arange(size[1]) - size[1] / 2 + offset[1]) / scale)[:, None]
    cosine, sine = np.cos(radians), np.sin(radians)
    across, down = cosine * x - sine * y + width / 2, sine * x + cosine * y + height / 2
    left, top = np.floor(across).astype(int), np.floor(down).astype(int)
    right_weight, lower_weight = across - left, down - top
    out = np.zeros((*left.shape, image.shape[2]))
    for rows, row_weight in ((top, 1 - lower_weight), (top + 1, lower_weight)):
        for columns, column_weight in ((left, 1 - right_weight), (left + 1, right_weight)):
            is_inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
            pixels = image[rows.clip(0, height - 1), columns.clip(0, width - 1)]
            out += pixels * (row_weight * column_weight * is_inside)[..., None]
    return np.ascontiguousarray((out / 255).transpose(2, 0, 1), "float32")


def _margin(old, size):
    """Pixels of the image that a letterbox adds to each of its edges, along both axes."""
    (width, height), aspect = old, size[0] / size[1]
    if width / height > aspect:
        return np.array([0, int((width / aspect - height) / 2)])
    return np.array([int((height * aspect - width) / 2), 0])


def _span(room, cut, is_first, offset, new):
    """(where a part of a mosaic lies along an axis, where it begins in its image).

    The part on the left shows the image's right side, and the other way round.
    """
    if is_first:
        border = min(room - cut, max(0, room - offset - new))
        return slice(0, cut), room - cut - border
    return slice(cut, room), min(cut, max(0, offset))
