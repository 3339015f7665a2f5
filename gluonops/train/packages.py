"""Checks, before a run starts, the optional packages that it imports later, such as for metrics and pictures."""
from __future__ import annotations

from ..contract.errors import OpError
from ..io.optional import require

__all__ = ["check_packages"]

PICTURES, EVERY_RUN = ("matplotlib.figure",), ("PIL.Image",)
OF_TASK = {"classification": (), "detection": ("gluoncv.utils.metrics.voc_detection", "pycocotools.coco")}


def check_packages(task: str, draws: bool = True) -> None:
    """Import what a run of a script imports later, so that a missing package is an error before anything is trained.

    Parameters
    ----------
    task : {"classification", "detection"}
        What the script trains for.
    draws : bool, default True
        Whether the script draws its curves.

    Raises
    ------
    OpError
        Packages are missing, or fail when they are imported. The message names all of them.
    """
    errors = []
    for module in (*OF_TASK[task], *EVERY_RUN, *(PICTURES if draws else ())):
        try:
            require(module, "train.check_packages")
        except OpError as error:
            errors.append(error)
    if errors:
        raise OpError("train.check_packages", "; ".join(error.what for error in errors), errors[0].remedy)
