"""Images of a folder as a net wants them, to calibrate it."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import OpError
from ..data.images import image_files, progress, read_image
from ..export import Preprocessing

WHERE = "export"
MOST = 128   # images, evenly spaced over the folder: more hardly change the ranges


def images(folder: str, shape: tuple[int, ...], preprocessing: dict[str, Any] | None) -> np.ndarray:
    """The images of a folder and its subfolders, as a net's input.

    - ``shape``: shape of the input: (batch, channels, height, width), or (batch, height, width, channels).
    - ``preprocessing``: what the net notes, or the user says: values of :class:`gluonops.export.Preprocessing`.

    The result is float32, (N, channels, height, width) or (N, height, width, channels). N is at most 128. An OpError if
    there is no image, or the net does not say how images become its input.
    """
    if preprocessing is None:
        raise OpError(WHERE, "the file does not say how images are prepared for the net",
                      "Pass it, such as --preprocessing '{\"colours\": \"RGB\", \"range\": [0, 1]}'; or call "
                      "gluonops.export.quantize with arrays")
    prepare = Preprocessing.from_metadata(preprocessing)
    size = _input_size(shape, prepare)
    paths = image_files(folder)
    chosen = np.linspace(0, len(paths) - 1, min(MOST, len(paths))).round().astype(int)
    return np.stack([prepare(read_image(paths[i], WHERE), size) for i in progress(chosen, "images")])


def _input_size(shape, prepare):
    """(width, height) of the input."""
    is_image = len(shape) == 4 and shape[prepare.layout.index("C")] == prepare.channels
    if not is_image:
        raise OpError(WHERE, f"the input has shape {shape}; expected four dimensions, {prepare.layout}, with "
                      f"{prepare.channels} channels", "Call gluonops.export.quantize with arrays")
    return shape[prepare.layout.index("W")], shape[prepare.layout.index("H")]
