"""Darknet's augmentations of images and their boxes: random placement or cropping, mirroring, and changed colours.

Source of :class:`Augment`: pjreddie/darknet, ``load_data_detection`` and ``correct_boxes`` in src/data.c,
``place_image`` and ``random_distort_image`` in src/image.c. There are four differences:

- Pixels are sampled at their centres. Darknet's samples are off by up to half a pixel.
- The canvas may be any rectangle.
- The image is also scaled. In Darknet's source this range is a comment.
- A box is left out if too little of it is visible. Darknet keeps boxes down to a thousandth of the image's size.

Sources of :class:`Crop`: ``load_data_detection``, ``blend_truth_mosaic`` and ``fill_truth_detection`` in src/data.c and
``image_data_augmentation`` in src/image_opencv.cpp of AlexeyAB/darknet, commit 59596d78; of :class:`Turn`:
``random_augment_image`` and ``rotate_crop_image`` in src/image.c of pjreddie/darknet, commit f6afaabc. There are three
differences:

- Pixels are sampled at their centres, in float32. AlexeyAB's program rounds to 8 bits after each step.
- Crops are whole pixels of the canvas. His are whole pixels of the image.
- A mosaic can have letterboxed images, as 14 of his cfgs want. His program refuses it.
"""
from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from ...backends import native
from ...contract.attributes import Attr, Bool, Float, parsed
from ...contract.errors import OpError

Size = tuple[int, int]   # width and height, or left and top
GREY = 0.5   # the canvas around the image is as grey as Darknet's letterbox
MIN_SIDE = 0.01   # smallest width and height of a box, as a fraction of the canvas's
OPTIONS = {"jitter": Float(low=0, below=1), **dict.fromkeys(("flip", "hue", "visible"), Float(low=0, below=1 + 1e-9)),
           **dict.fromkeys(("saturation", "exposure"), Float(low=1))}
OF_CROP = {"resize": Float(above=0), **dict.fromkeys(("letter_box", "mosaic_bound", "mosaic"), Bool())}
MOSAIC_SHARE = 0.5       # so many pictures are mosaics, if there are any
CUTS = (0.2, 0.8)        # range of the point where the four images of a mosaic meet, as a fraction of the canvas
CORNERS = ((True, True), (False, True), (True, False), (False, False))   # whether a mosaic's part is left, and on top


class Augment:
    """A random augmentation of images and their boxes. Call it as ``augment(image, boxes, size, rng)``.

    Parameters
    ----------
    jitter : float, default 0.2
        Largest relative change of the height and of the width, at least 0 and below 1. It changes the aspect ratio.
    scale : tuple of float, default (0.8, 1.25)
        Range of the image's size on the canvas, above 0. An image of size 1 fits exactly. A larger image is cropped.
    flip : float, default 0.5
        Probability that the image is mirrored left to right. Use 0 for digits and letters.
    hue : float, default 0.1
        Largest rotation of the hue, as a fraction of the colour circle, from 0 to 1.
    saturation, exposure : float, default 1.5
        Largest factor or divisor of saturation and value, at least 1.
    visible : float, default 0.4
        A box is left out if less than this fraction of its area is on the canvas, or if its width or height is below a
        hundredth of the canvas's.
    """

    def __init__(self, jitter: float = 0.2, scale: tuple[float, float] = (0.8, 1.25), flip: float = 0.5,
                 hue: float = 0.1, saturation: float = 1.5, exposure: float = 1.5, visible: float = 0.4):
        (self.jitter, self.flip, self.hue, self.visible, self.saturation, self.exposure) = parsed(
            "data.Augment", OPTIONS, jitter=jitter, flip=flip, hue=hue, visible=visible, saturation=saturation,
            exposure=exposure).values()
        try:
            low, high = (Float(above=0).parse(value) for value in scale)
        except (TypeError, ValueError):
            low, high = 1, 0
        if low > high:
            raise OpError("data.Augment", f"scale is {scale!r}; expected two numbers above 0, the smaller first",
                          "Pass for instance (0.8, 1.25)")
        self.scale = low, high

    def __call__(self, image: np.ndarray, boxes: np.ndarray, size: Size,
                 rng: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
        """The image, float32 (channels, height, width) from 0 to 1, on a canvas of ``size``, and its remaining boxes.

        ``image`` is uint8, (height, width, channels). ``boxes`` is (objects, columns), the first four xmin, ymin,
        xmax, ymax in pixels; the result has them in pixels of the canvas.
        """
        new, offset = self._placement(image.shape[1::-1], size, rng)
        is_mirrored = rng.rand() < self.flip
        return self._placed(image, boxes, size, new, offset, is_mirrored, rng)

    def _placed(self, image, boxes, size, new, offset, is_mirrored, rng):
        """An image on its canvas, with other colours, and its boxes."""
        out = self._coloured(place(image, new, offset, size, self._fill(image)), rng)
        moved = self._clipped(place_boxes(boxes, image.shape[1::-1], new, offset), size)
        return flip(out, moved) if is_mirrored else (out, moved)

    def _coloured(self, image, rng):
        rotation = rng.uniform(-self.hue, self.hue)
        return distort(image, rotation, self._factor(rng, self.saturation), self._factor(rng, self.exposure))

    @staticmethod
    def _factor(rng, largest):
        """A random factor from 1 to ``largest``, or its inverse."""
        factor = rng.uniform(1, largest)
        return factor if rng.rand() < 0.5 else 1 / factor

    def _fill(self, image):
        """The colour of the canvas around the image: a number, or one for each channel."""
        return GREY

    def _least_sides(self, size):
        """Width and height from which a box is kept, in pixels of the canvas."""
        return MIN_SIDE * np.array(size)

    def _placement(self, old, size, rng):
        """(width, height) and (left, top) of the image on the canvas."""
        width_factor, height_factor = 1 + rng.uniform(-self.jitter, self.jitter, 2)
        aspect = old[0] * width_factor / (old[1] * height_factor)
        scale = rng.uniform(*self.scale)
        canvas_width, canvas_height = size
        if aspect < canvas_width / canvas_height:
            fit = canvas_height * aspect, canvas_height
        else:
            fit = canvas_width, canvas_width / aspect
        new = tuple(max(round(scale * side), 1) for side in fit)
        # If the image is larger than the canvas, the offset is negative: it is the position of the crop.
        offset = tuple(int(round(rng.uniform(0, 1) * (room - side))) for room, side in zip(size, new))
        return new, offset

    def _clipped(self, boxes, size, start=(0, 0), end=None):
        """The boxes clipped to the canvas or a part of it, without those of which too little is visible."""
        out = boxes.copy()
        out[:, :4] = np.clip(boxes[:, :4], np.tile(np.float32(start), 2), np.tile(np.float32(end or size), 2))
        visible_sides = out[:, 2:4] - out[:, :2]
        full_sides = boxes[:, 2:4] - boxes[:, :2]
        large_enough = (visible_sides > self._least_sides(size)).all(1)
        visible_enough = visible_sides.prod(1) >= self.visible * full_sides.prod(1)
        return out[large_enough & visible_enough]


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
        self.resize, self.letter_box, self.mosaic_bound, mosaic = parsed(
            "data.Crop", OF_CROP, resize=resize, letter_box=letter_box, mosaic_bound=mosaic_bound,
            mosaic=mosaic).values()
        self.mosaic_share = MOSAIC_SHARE if mosaic else 0.0

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
        """How many pixels ``resize`` cuts from each edge of the image, along both axes."""
        shrink, grow = min(self.resize, 1 / self.resize), max(self.resize, 1 / self.resize)
        low = (1 - 1 / shrink) / 2                              # below 0: the image shrinks
        high = (1 - 1 / grow) / 2 if self.resize >= 1 else 0
        return (np.array(old) * (low + share * (high - low))).astype(int)

    def _fill(self, image):
        return image.reshape(-1, image.shape[2]).mean(0, dtype="float64").astype("float32") / 255

    def _least_sides(self, size):
        return np.ones(2)


class Turn(Augment):
    """The augmentation for classifiers of both programs: the image is turned, stretched, scaled and cropped at random.

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


def place(image: np.ndarray, new: Size, offset: Size, size: Size, fill: float | np.ndarray = GREY) -> np.ndarray:
    """Resize an image bilinearly to ``new``, and place it at ``offset`` on a plain canvas of ``size``, which crops it.

    The image is uint8, (height, width, channels). The result is float32 (channels, height, width) from 0 to 1.
    ``fill`` is the canvas's colour, from 0 to 1: a number, or one for each channel.
    """
    out = np.empty((image.shape[2], size[1], size[0]), "float32")
    out[:] = np.reshape(fill, (-1, 1, 1))
    columns, rows = (slice(*np.clip((start, start + length), 0, room))
                     for start, length, room in zip(offset, new, size))
    across = _neighbours(columns, offset[0], new[0], image.shape[1])
    down = _neighbours(rows, offset[1], new[1], image.shape[0])
    window = out[:, rows, columns]
    sample = _sample_native if native.loaded() and image.dtype == np.uint8 and window.size else _sample
    sample(image, down, across, window)
    return out


def _sample(image, down, across, window):
    """Interpolate an image into a part of a canvas, (channels, rows, columns), at the neighbours along both axes."""
    above, below, below_weight = down
    left, right, right_weight = across
    image = image.astype("float32")
    image *= np.float32(1 / 255)
    lines = _interpolate(image[above], image[below], below_weight[:, None, None])
    placed = _interpolate(np.take(lines, left, 1), np.take(lines, right, 1), right_weight[:, None])
    window[:] = placed.transpose(2, 0, 1)


def _sample_native(image, down, across, window):
    """The same in the native library, to the bit, several times as fast and without holding Python's lock."""
    image = np.ascontiguousarray(image)
    _, canvas_height, canvas_width = window.base.shape
    arrays = [np.ascontiguousarray(array) for array in (*down, *across)]
    above, below, below_weight, left, right, right_weight = (ctypes.c_void_p(array.ctypes.data) for array in arrays)
    width, channels, row_count, column_count, height, stride = map(
        ctypes.c_int64, (image.shape[1], image.shape[2], len(arrays[0]), len(arrays[3]), canvas_height, canvas_width))
    native.function("gluonops_place")(
        ctypes.c_void_p(image.ctypes.data), width, channels, above, below, below_weight, row_count,
        left, right, right_weight, column_count, ctypes.c_void_p(window.ctypes.data), height, stride)


def _interpolate(first, second, weight):
    """Linear interpolation from ``first`` (weight 0) to ``second`` (weight 1). It overwrites both."""
    second -= first
    second *= weight
    first += second
    return first


def _neighbours(window, start, length, source):
    """The two source pixels around each pixel of the canvas, and the second one's weight in the interpolation.

    Along one axis: ``window`` are pixels of the canvas, ``start`` and ``length`` place the resized image there, and
    ``source`` is the original image's size.
    """
    position = (np.arange(window.start, window.stop) - start + 0.5) * (source / length) - 0.5
    position = np.clip(position, 0, source - 1)
    first = position.astype(int)
    second = np.minimum(first + 1, source - 1)
    return first, second, (position - first).astype("float32")


def place_boxes(boxes: np.ndarray, old: Size, new: Size, offset: Size = (0, 0)) -> np.ndarray:
    """The boxes of an image of the size ``old`` after :func:`place`. Columns behind the first four do not change."""
    out = np.array(boxes, "float32")
    out[:, :4] = out[:, :4] * np.tile(np.divide(new, old), 2) + np.tile(offset, 2)
    return out


def flip(image: np.ndarray, boxes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mirror an image, (channels, height, width), and its boxes in pixels left to right."""
    width = image.shape[2]
    out = boxes.copy()
    out[:, 0] = width - boxes[:, 2]
    out[:, 2] = width - boxes[:, 0]
    return np.ascontiguousarray(image[:, :, ::-1]), out


def distort(image: np.ndarray, hue: float, saturation: float, exposure: float) -> np.ndarray:
    """Change the colours of an image, float32 (3, height, width) from 0 to 1, in HSV. The result is clipped to 0..1.

    ``hue`` is a rotation, as a fraction of the colour circle; ``saturation`` and ``exposure`` are factors of saturation
    and value. Of a grey image, (1, height, width), only the value changes. If the hue does not change, a channel c of a
    pixel with the largest channel V becomes ``exposure * (V - saturation * (V - c))``. This is equal to the conversion
    to HSV and back.
    """
    if image.shape[0] == 1:
        return np.clip(image * np.float32(exposure), 0, 1)
    value = np.maximum(np.maximum(image[0], image[1]), image[2])
    if hue:
        out = _rotated_differences(image, value, np.float32(hue * 6))
    else:
        out = value - image   # V - c
    out *= np.float32(-saturation)
    out += value
    out *= np.float32(exposure)
    return np.clip(out, 0, 1, out=out)


def _rotated_differences(image, value, rotation):
    """The value minus each channel, after the hue is rotated by ``rotation`` sixths of the colour circle."""
    red, green, blue = image
    chroma = value - np.minimum(np.minimum(red, green), blue)
    is_red, is_green = value == red, value == green
    hue = np.where(is_red, green - blue, np.where(is_green, blue - red, red - green))
    hue /= np.maximum(chroma, np.float32(1e-12))   # 0 / 1e-12 = 0 for grey
    hue += np.where(is_red, rotation, np.where(is_green, rotation + np.float32(2), rotation + np.float32(4)))

    out = np.empty_like(image)
    for sector, start in zip(out, (5, 3, 1)):
        np.add(hue, np.float32(start), out=sector)
        sector -= np.floor(sector * np.float32(1 / 6)) * np.float32(6)   # the remainder; np.remainder is slow
        np.minimum(sector, np.float32(4) - sector, out=sector)
        np.clip(sector, 0, 1, out=sector)
        sector *= chroma
    return out


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
