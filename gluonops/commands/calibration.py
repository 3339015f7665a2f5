"""Images of a folder as a net wants them, to calibrate it."""
from __future__ import annotations

import os
from typing import Any

import numpy as np

from ..core.errors import OpError
from ..data import letterbox, resize
from ..data.images import EXTENSIONS, progress, read_image

__all__ = ["images"]

WHERE = "export"
MOST = 128   # images, evenly spaced over the folder: more hardly change the ranges
RESIZES = {"letterbox": letterbox, "stretch": resize}
COLOURS = ("RGB", "BGR", "grey")
KNOWN = ("colours", "mean", "range", "resize", "std")


def images(folder: str, shape: tuple[int, ...], preprocessing: dict[str, Any] | None) -> np.ndarray:
    """The images of a folder and its subfolders, as a net's input.

    Parameters
    ----------
    folder : str
    shape : tuple of int
        Of the input: (batch, channels, height, width).
    preprocessing : dict
        What the net notes: ``resize`` ("letterbox" or "stretch"), ``colours`` ("RGB", "BGR" or "grey"), ``range`` of
        the pixels ([0, 1]); and ``mean`` and ``std``, subtracted and divided by afterwards, if it has them.

    Returns
    -------
    numpy.ndarray
        float32, (N, channels, height, width). N is at most 128.

    Raises
    ------
    OpError
        There is no image, or the net does not say how images become its input.
    """
    _check(preprocessing, shape)
    paths = _paths(folder)
    chosen = np.linspace(0, len(paths) - 1, min(MOST, len(paths))).round().astype(int)
    return np.stack([_input(paths[i], shape, preprocessing) for i in progress(chosen, "images")])


def _check(preprocessing, shape):
    if not preprocessing:
        raise OpError(WHERE, "the file does not note how images become the net's input",
                      "Export a net with an attribute preprocessing, such as {'resize': 'stretch', 'colours': 'RGB', "
                      "'range': [0, 1]}; or call gluonops.export.quantize with arrays")
    unknown = sorted(set(preprocessing).difference(KNOWN))
    if unknown or preprocessing.get("resize") not in RESIZES or preprocessing.get("colours", "RGB") not in COLOURS:
        raise OpError(WHERE, f"the net's preprocessing is {preprocessing}; expected resize ({' or '.join(RESIZES)}), "
                      f"colours ({', '.join(COLOURS)}), range, mean and std",
                      "Call gluonops.export.quantize with arrays")
    channels = 1 if preprocessing.get("colours") == "grey" else 3
    if len(shape) != 4 or shape[1] != channels:
        raise OpError(WHERE, f"the input has shape {shape}; expected (batch, {channels}, height, width) for images",
                      "Call gluonops.export.quantize with arrays")


def _paths(folder):
    found = []
    for place, folders, files in os.walk(folder):
        folders.sort()
        found += [os.path.join(place, file) for file in sorted(files) if file.lower().endswith(EXTENSIONS)]
    if not found:
        raise OpError(WHERE, f"{folder} has no images ({', '.join(EXTENSIONS)})",
                      "Pass a folder with a few dozen like those the net will see")
    return found


def _input(path, shape, preprocessing):
    """One image as (channels, height, width)."""
    colours = preprocessing.get("colours", "RGB")
    pixels = read_image(path, WHERE, flag=0 if colours == "grey" else 1)
    pixels = RESIZES[preprocessing["resize"]](pixels, shape[3], shape[2])
    if colours == "BGR":
        pixels = pixels[::-1]
    low, high = preprocessing.get("range", (0, 1))
    pixels = low + pixels * (high - low)
    for name, apply in (("mean", np.subtract), ("std", np.divide)):
        if name in preprocessing:
            pixels = apply(pixels, np.reshape(preprocessing[name], (-1, 1, 1)))
    return pixels.astype(np.float32)
