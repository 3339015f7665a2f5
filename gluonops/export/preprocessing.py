"""What happens to an image before a net sees it, as an exported file says it."""
from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..contract.errors import OpError, plural
from ..runtime import importing

if importing.is_imported():
    from ..data import letterbox, resize, unletterbox_boxes

CHOICES = {"colours": ("RGB", "BGR", "grey"), "resize": ("letterbox", "stretch", "crop"), "layout": ("NCHW", "NHWC")}
REMEDY = "Correct it, in net.preprocessing if the net noted it; docs/command_line.md has the table"
LUMA = np.array([0.299, 0.587, 0.114], "float32")   # ITU-R BT.601, as in JPEG and in OpenCV


@dataclasses.dataclass(frozen=True)
class Preprocessing:
    """Makes the input of a net from an image, and brings boxes back to the image.

    The pixels are scaled to ``range``. Then the mean is subtracted, and the result is divided by the standard
    deviation.

    Parameters
    ----------
    colours : {"RGB", "BGR", "grey"}, default "RGB"
        The channels.
    range : tuple of float, default (0, 1)
        What black and white become.
    mean, std : tuple of float, default (0,) and (1,)
        A number for each channel, or one for all of them. In the unit of ``range``.
    resize : {"letterbox", "stretch", "crop"}, default "letterbox"
        ``letterbox``: :func:`gluonops.data.letterbox`. ``stretch``: :func:`gluonops.data.resize`, which changes the
        proportions. ``crop``: the shorter side is resized to the input's side divided by ``crop_ratio``, and the middle
        is cut out. A detector cannot have it.
    crop_ratio : float, default 0.875
        224 of 256 pixels, as for ImageNet.
    layout : {"NCHW", "NHWC"}, default "NCHW"
        The order of the dimensions.

    Raises
    ------
    OpError
        A value is none of these.
    """

    colours: str = "RGB"
    range: tuple[float, float] = (0.0, 1.0)
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    resize: str = "letterbox"
    crop_ratio: float = 0.875
    layout: str = "NCHW"

    def __post_init__(self):
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise _refused(name, getattr(self, name), ", ".join(choices[:-1]) + f" or {choices[-1]}")
        for name, lengths in (("range", (2,)), ("mean", (1, self.channels)), ("std", (1, self.channels))):
            value = getattr(self, name)
            if not isinstance(value, (tuple, list)) or len(value) not in lengths or not all(map(_is_number, value)):
                raise _refused(name, value, " or ".join(plural(count, "number") for count in dict.fromkeys(lengths)))
            object.__setattr__(self, name, tuple(map(float, value)))
        if not all(value > 0 for value in self.std):
            raise _refused("std", self.std, "numbers above 0")
        if not _is_number(self.crop_ratio) or not 0 < self.crop_ratio <= 1:
            raise _refused("crop_ratio", self.crop_ratio, "a number above 0, and at most 1")

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any] | Preprocessing) -> Preprocessing:
        """What a file says. What it does not say has its default.

        Raises
        ------
        OpError
            It says something that this gluonops does not know.
        """
        if isinstance(metadata, cls):
            return metadata
        names = [field.name for field in dataclasses.fields(cls)]
        if not isinstance(metadata, Mapping):
            raise OpError("export.load", f"preprocessing is {metadata!r}; expected a dict", REMEDY)
        unknown = [name for name in metadata if name not in names]
        if unknown:
            raise OpError("export.load", f"preprocessing has {unknown[0]!r}; expected {', '.join(names)}", REMEDY)
        return cls(**metadata)

    @property
    def channels(self) -> int:
        """Channels of the input."""
        return 1 if self.colours == "grey" else 3

    def as_dict(self) -> dict[str, Any]:
        """All values, for the metadata of a file."""
        return {name: list(value) if isinstance(value, tuple) else value
                for name, value in dataclasses.asdict(self).items()}

    def __call__(self, image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
        """The input of a net.

        - ``image``: uint8 (H, W, C): RGB for C = 3, grey for C = 1.
        - ``size``: (width, height) of the input.

        The result is float32 (C, height, width), or (height, width, C) for the layout NHWC.
        """
        pixels = self._resized(_with_channels(image, self.channels), size)
        if self.colours == "BGR":
            pixels = pixels[::-1]
        low, high = self.range
        pixels = pixels * np.float32(high - low) + np.float32(low)
        pixels = (pixels - _column(self.mean)) / _column(self.std)
        if self.layout == "NHWC":
            pixels = pixels.transpose(1, 2, 0)
        return np.ascontiguousarray(pixels, "float32")

    def boxes_of_image(self, boxes: np.ndarray, image_size: tuple[int, int], size: tuple[int, int]) -> np.ndarray:
        """Boxes in pixels of the image.

        Parameters
        ----------
        boxes : numpy.ndarray
            (N, 4): left, top, right, bottom in pixels of the input.
        image_size, size : tuple of int
            (width, height) of the image and of the input.
        """
        if self.resize == "letterbox":
            return unletterbox_boxes(boxes, image_size, size)
        return boxes * np.tile(np.divide(image_size, size), 2)

    def _resized(self, image, size):
        if self.resize == "letterbox":
            return letterbox(image, *size)
        if self.resize == "stretch":
            return resize(image, *size)
        height, width = image.shape[:2]
        scale = max(size[0] / width, size[1] / height) / self.crop_ratio
        larger = resize(image, max(size[0], round(width * scale)), max(size[1], round(height * scale)))
        left, top = (larger.shape[2] - size[0]) // 2, (larger.shape[1] - size[1]) // 2
        return larger[:, top:top + size[1], left:left + size[0]]


def _with_channels(image, channels):
    """The image in grey or in colours: uint8 (H, W, channels)."""
    if image.shape[2] == channels:
        return image
    if channels == 1:
        return (image @ LUMA + 0.5).astype("uint8")[..., None]
    return np.repeat(image, channels, axis=2)


def _column(values):
    return np.array(values, "float32").reshape(-1, 1, 1)


def _is_number(value):
    largest = float(np.finfo(np.float32).max)   # NumPy 2 cannot compare it with an int that is no float.
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and abs(value) <= largest


def _refused(name, value, expected):
    return OpError("export.load", f"preprocessing has {name} {value!r}; expected {expected}", REMEDY)
