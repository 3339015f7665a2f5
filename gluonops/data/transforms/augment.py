"""Darknet's augmentation of images and their boxes: random placement on a canvas, mirroring, and changed colours.

Source: load_data_detection and correct_boxes, place_image and random_distort_image of github.com/pjreddie/darknet,
src/data.c and src/image.c. Where it differs: pixels are read at their centres (Darknet's are off by up to half of one),
the canvas need not be square, the image is scaled as well (Darknet has that range in a comment), and a box is dropped
when too little of it is left (``visible``; Darknet keeps slivers down to a thousandth of the image).
"""
import numpy as np

from ...core.attributes import Attr, Float
from ...core.errors import OpError

__all__ = ["Augment", "distort", "flip", "place", "place_boxes"]

Size = tuple[int, int]   # width and height, or left and top
GREY = 0.5   # of the canvas that the image does not cover, as in Darknet's letterbox
MIN_SIDE = 0.01   # side of a box, as a share of the canvas's


class Augment:
    """How images are changed at random; ``augment(image, boxes, size, rng)`` does it.

    Parameters
    ----------
    jitter : float, default 0.2
        Largest change of the height and of the width, as a share, from which the new aspect ratio follows.
    scale : tuple of float, default (0.8, 1.25)
        Range of the image's size on the canvas; at 1 it just fits. Larger ones are cropped.
    flip : float, default 0.5
        Probability of being mirrored left to right. 0 for digits and letters.
    hue : float, default 0.1
        Largest turn of the hue, as a share of the circle.
    saturation, exposure : float, default 1.5
        Largest factor, or divisor, of saturation and value.
    visible : float, default 0.4
        A box is dropped when less than this share of its area is left on the canvas, or a side is under a hundredth
        of the canvas's.
    """

    def __init__(self, jitter: float = 0.2, scale: tuple[float, float] = (0.8, 1.25), flip: float = 0.5,
                 hue: float = 0.1, saturation: float = 1.5, exposure: float = 1.5, visible: float = 0.4):
        where = "data.Augment"
        below, share, factor = Float(low=0, below=1), Float(low=0, below=1 + 1e-9), Float(low=1)
        self.jitter = Attr("jitter", below, 0.2, "").parse(where, jitter)
        self.flip = Attr("flip", share, 0.5, "").parse(where, flip)
        self.hue = Attr("hue", share, 0.1, "").parse(where, hue)
        self.saturation = Attr("saturation", factor, 1.5, "").parse(where, saturation)
        self.exposure = Attr("exposure", factor, 1.5, "").parse(where, exposure)
        self.visible = Attr("visible", share, 0.4, "").parse(where, visible)
        try:
            low, high = (Float(above=0).parse(value) for value in scale)
        except (TypeError, ValueError):
            low, high = 1, 0
        if low > high:
            raise OpError(where, f"scale is {scale!r}; expected two numbers above 0, the smaller first",
                          "Pass another scale")
        self.scale = low, high

    def __call__(self, image: np.ndarray, boxes: np.ndarray, size: Size,
                 rng: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
        """Augment an image and its boxes at random.

        Parameters
        ----------
        image : numpy.ndarray
            uint8, (height, width, channels).
        boxes : numpy.ndarray
            (objects, columns), the first four xmin, ymin, xmax, ymax in pixels.
        size : tuple of int
            (width, height) of the canvas.
        rng : numpy.random.RandomState
            The source of randomness.

        Returns
        -------
        tuple of numpy.ndarray
            float32 (channels, height, width) from 0 to 1, and the remaining boxes, in its pixels.
        """
        new, offset = self._placement(image.shape[1::-1], size, rng)
        out = place(image, new, offset, size)
        moved = place_boxes(boxes, image.shape[1::-1], new, offset)
        mirrored = rng.rand() < self.flip
        turn = rng.uniform(-self.hue, self.hue)
        out = distort(out, turn, _factor(rng, self.saturation), _factor(rng, self.exposure))
        moved = self._clipped(moved, size)
        return flip(out, moved) if mirrored else (out, moved)

    def _placement(self, old, size, rng):
        """(width, height) on the canvas, and (left, top)."""
        wider, higher = 1 + rng.uniform(-self.jitter, self.jitter, 2)
        aspect = old[0] * wider / (old[1] * higher)
        scale = rng.uniform(*self.scale)
        fit = (size[1] * aspect, size[1]) if aspect < size[0] / size[1] else (size[0], size[0] / aspect)
        new = tuple(max(round(scale * value), 1) for value in fit)
        # If the image is larger than the canvas, this draws the position of the crop.
        offset = tuple(int(round(rng.uniform(0, 1) * (room - value))) for room, value in zip(size, new))
        return new, offset

    def _clipped(self, boxes, size):
        out = boxes.copy()
        out[:, :4] = np.clip(boxes[:, :4], 0, np.tile(np.float32(size), 2))
        sides, before = out[:, 2:4] - out[:, :2], boxes[:, 2:4] - boxes[:, :2]
        keep = (sides > MIN_SIDE * np.array(size)).all(1)
        return out[keep & (sides.prod(1) >= self.visible * before.prod(1))]


def _factor(rng, largest):
    factor = rng.uniform(1, largest)
    return factor if rng.rand() < 0.5 else 1 / factor


def place(image: np.ndarray, new: Size, offset: Size, size: Size) -> np.ndarray:
    """An image resized bilinearly to ``new`` and laid at ``offset`` on a grey canvas of ``size``.

    Parameters
    ----------
    image : numpy.ndarray
        uint8, (height, width, channels).
    new, offset, size : tuple of int
        (width, height), (left, top) and (width, height); parts outside the canvas are cut off.

    Returns
    -------
    numpy.ndarray
        float32 (channels, height, width) from 0 to 1.
    """
    out = np.full((image.shape[2], size[1], size[0]), GREY, "float32")
    columns, rows = (slice(*np.clip((start, start + length), 0, room))
                     for start, length, room in zip(offset, new, size))
    left, right, across = _taps(columns, offset[0], new[0], image.shape[1])
    above, below, down = _taps(rows, offset[1], new[1], image.shape[0])
    image = image.astype("float32")
    image *= np.float32(1 / 255)
    lines = _between(image[above], image[below], down[:, None, None])
    placed = _between(np.take(lines, left, 1), np.take(lines, right, 1), across[:, None])
    out[:, rows, columns] = placed.transpose(2, 0, 1)
    return out


def _between(first, second, share):
    """Linear interpolation from ``first`` (share 0) to ``second`` (share 1); overwrites both."""
    second -= first
    second *= share
    first += second
    return first


def _taps(window, start, length, source):
    """For the canvas's pixels in ``window``: the two source pixels between which each lies, and how far along."""
    where = (np.arange(window.start, window.stop) - start + 0.5) * (source / length) - 0.5
    where = np.clip(where, 0, source - 1)
    first = where.astype(int)
    return first, np.minimum(first + 1, source - 1), (where - first).astype("float32")


def place_boxes(boxes: np.ndarray, old: Size, new: Size, offset: Size) -> np.ndarray:
    """The boxes of an image of ``old`` (width, height) after :func:`place`; columns beyond the fourth stay."""
    out = np.array(boxes, "float32")
    out[:, :4] = out[:, :4] * np.tile(np.divide(new, old), 2) + np.tile(offset, 2)
    return out


def flip(image: np.ndarray, boxes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mirror left to right: (channels, height, width) and its boxes in pixels."""
    out = boxes.copy()
    out[:, 0], out[:, 2] = image.shape[2] - boxes[:, 2], image.shape[2] - boxes[:, 0]
    return np.ascontiguousarray(image[:, :, ::-1]), out


def distort(image: np.ndarray, hue: float, saturation: float, exposure: float) -> np.ndarray:
    """Change colours in HSV: turn the hue by a share of the circle, multiply saturation and value, clip to 0..1.

    If the hue does not change, a channel c of a pixel whose largest channel is V becomes
    exposure * (V - saturation * (V - c)), which equals the conversion to HSV and back.

    Parameters
    ----------
    image : numpy.ndarray
        float32 (3, height, width) from 0 to 1; of one channel, only the value changes.
    """
    if image.shape[0] == 1:
        return np.clip(image * np.float32(exposure), 0, 1)
    value = np.maximum(np.maximum(image[0], image[1]), image[2])
    if hue:
        share = _turned(image, value, np.float32(hue * 6))
    else:
        share = value - image
    share *= np.float32(-saturation)
    share += value
    share *= np.float32(exposure)
    return np.clip(share, 0, 1, out=share)


def _turned(image, value, turn):
    """How far each channel lies below the value, after the hue is turned by ``turn`` sixths of the circle."""
    red, green, blue = image
    chroma = value - np.minimum(np.minimum(red, green), blue)
    is_red, is_green = value == red, value == green
    hue = np.where(is_red, green - blue, np.where(is_green, blue - red, red - green))
    hue /= np.maximum(chroma, np.float32(1e-12))   # grey: 0, whatever the divisor
    hue += np.where(is_red, turn, np.where(is_green, turn + np.float32(2), turn + np.float32(4)))
    out = np.empty_like(image)
    for sector, start in zip(out, (5, 3, 1)):
        np.add(hue, np.float32(start), out=sector)
        sector -= np.floor(sector * np.float32(1 / 6)) * np.float32(6)   # the remainder; NumPy's own is slow
        np.minimum(sector, np.float32(4) - sector, out=sector)
        np.clip(sector, 0, 1, out=sector)
        sector *= chroma
    return out
