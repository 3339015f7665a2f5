"""The last words of a training script: how to run the net that it has exported."""
from __future__ import annotations

import json
import os
import pathlib
import shlex
import shutil
import sys

import mxnet as mx
import numpy as np

from ..core.optional import require
from ..core.params import as_numpy
from .files import write

__all__ = ["how_to_run", "save_example"]

SNIPPETS = {
    "detect": """\
import gluonops as gops
detector = gops.export.load({prefix})
detector.draw({image}).save("found.png")
for found in detector.detect({image}):
    print(found.name, round(found.score, 2), found.box)
""",
    "classify": """\
import gluonops as gops
classifier = gops.export.load({prefix})
classifier.draw({image}).save("classes.png")
for guess in classifier.classify({image}, top=3):
    print(guess.name, round(guess.score, 2))
"""}
OUTPUTS = {"detect": "found.png", "classify": "classes.png"}


def how_to_run(command: str, prefix: str | os.PathLike, image: str | os.PathLike) -> str:
    """A command and five lines of Python that run an exported net on a picture.

    Parameters
    ----------
    command : {"detect", "classify"}
    prefix : str or os.PathLike
        Path of the exported files, without ``-symbol.json``.
    image : str or os.PathLike
        A picture: see :func:`save_example`.
    """
    prefix, image = os.fspath(prefix), os.fspath(image)
    quoted = {"prefix": json.dumps(prefix), "image": json.dumps(image)}
    words = shlex.join([*program(), command, prefix, image, "-o", OUTPUTS[command]])
    return (f"Run the net on a picture, such as {image}:\n\n{words}\n\nThe same in Python:\n\n"
            + SNIPPETS[command].format(**quoted))


def save_example(image: np.ndarray | mx.nd.NDArray, folder: str | os.PathLike) -> pathlib.Path:
    """Write an image as ``example.png``, to try the net on it.

    Parameters
    ----------
    image : numpy.ndarray or NDArray
        uint8: (H, W, 3) in RGB, (H, W, 1) or (H, W) in grey.
    folder : str or os.PathLike

    Returns
    -------
    pathlib.Path
        Of the picture.
    """
    path = pathlib.Path(folder) / "example.png"
    pixels = as_numpy(image)
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    picture = require("PIL.Image", "train.save_example").fromarray(pixels)
    write(path, lambda name: picture.save(name, format="png"), "train.save_example")
    return path


def program() -> list[str]:
    """How this user starts the command ``gluonops``: its folder is not on the PATH of every shell."""
    if shutil.which("gluonops"):
        return ["gluonops"]
    python = os.path.relpath(sys.executable)
    return [sys.executable if python.startswith(os.pardir) else python, "-m", "gluonops"]
