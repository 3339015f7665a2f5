"""Reads weights of PyTorch from a file, and fits them to the weights that a port has."""
from __future__ import annotations

import collections
import os
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from ... import convert
from ...contract.errors import OpError, shortened
from ...io.files import check_downloaded, check_name, opened
from ..parameters import listed
from ..sizes import last_line

INSIDE = ("state_dict", "model", "model_state_dict")   # Checkpoints have the weights under one of these names.
LENGTH = 200   # characters of a reason
SAVE = "Save the weights alone in PyTorch: torch.save(net.state_dict(), 'weights.pt')"
Expected = Mapping[str, tuple[str, tuple[int, ...]]]   # name -> type and shape


def read(where: str, path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Return the arrays of a file by name: a ``.safetensors`` file, a ``state_dict``, or a checkpoint with one inside.

    Only weights are loaded, no code. An OpError is raised if the file is missing or damaged, or has no weights.
    """
    check_name(where, path)
    path = os.fspath(path)
    with opened(where, path, "Pass the file with the weights", "the file of weights") as file:
        beginning = file.read(9)
    check_downloaded(where, path)
    content = _of_safetensors(where, path) if beginning[8:] == b"{" else _of_torch(where, path)
    return convert.arrays_of(where, _inside(where, path, content))


def _of_safetensors(where: str, path: str) -> Mapping[str, Any]:
    try:
        from safetensors.torch import load_file  # it knows bfloat16, and needs torch
    except ImportError:
        from safetensors.numpy import load_file
    try:
        return load_file(path)
    except Exception as error:   # safetensors raises several classes
        raise OpError(where, f"{path} cannot be read: {shortened(last_line(error), LENGTH)}", SAVE) from error


def _of_torch(where: str, path: str) -> Any:
    try:
        import torch
    except ImportError as error:
        raise OpError(where, f"{path} is not a safetensors file, and the package torch, which reads others, is not "
                      "installed", "Run: pip install 'gluonops[torch]'; or save the weights as .safetensors") from error
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:   # torch raises many classes
        reason = shortened(str(error).strip().split("\n")[0], LENGTH) or type(error).__name__
        raise OpError(where, f"{path} cannot be read as weights: {reason}", SAVE) from error


def _inside(where: str, path: str, content: Any) -> Mapping[str, Any]:
    """Return the weights in what a file has. An OpError is raised if there are none."""
    for name in INSIDE:
        if isinstance(content, Mapping) and isinstance(content.get(name), Mapping):
            return _inside(where, path, content[name])
    is_weights = isinstance(content, Mapping) and any(hasattr(value, "shape") for value in content.values())
    if is_weights:
        return content
    is_mapping = isinstance(content, Mapping)
    contained = f"the entries {listed(map(str, content))}" if is_mapping else type(content).__name__
    raise OpError(where, f"{path} has {contained}; expected a state_dict, or one under "
                  f"{' or '.join(map(repr, INSIDE[:2]))}", SAVE)


def fitted(where: str, path: str | os.PathLike, folder: str | os.PathLike, stored: Mapping[str, np.ndarray],
           expected: Expected, constants: Collection[str]) -> dict[str, np.ndarray]:
    """Return the given arrays by the names of ``expected``, in its types. The arrays of constants are left out.

    What stands in front of all names, such as ``module.`` of DataParallel, is taken away. One OpError lists the names
    and shapes that do not fit, and another one the weights that are not finite.
    """
    around = _around(stored, expected)
    weights = {name[len(around):]: value for name, value in stored.items() if name.startswith(around)}
    missing = [f"{name} {shape}" for name, (_, shape) in expected.items() if name not in weights]
    others = [f"{name} {weights[name].shape} where {shape} is expected" for name, (_, shape) in expected.items()
              if name in weights and weights[name].shape != shape]
    surplus = [name for name in stored if not name.startswith(around)
               or (name[len(around):] not in expected and name[len(around):] not in constants)]
    kinds = {"it lacks": missing, "it has other shapes:": others, "the net does not have its": surplus}
    faults = [f"{words} {listed(names)}" for words, names in kinds.items() if names]
    if faults:
        raise OpError(where, f"{os.fspath(path)} does not fit {os.fspath(folder)}: {'; '.join(faults)}. Nothing was "
                      "written", "Pass the weights of the net in this folder. If you have changed its layers in "
                      "net.py, change them in MXNet, and export that net first")
    arrays = {name: weights[name].astype(dtype) for name, (dtype, _) in expected.items()}
    infinite = [name for name, value in arrays.items() if value.dtype.kind == "f" and not np.isfinite(value).all()]
    if infinite:
        raise OpError(where, f"{os.fspath(path)} has numbers that are not finite in {listed(infinite)}. Nothing was "
                      "written", "Pass a checkpoint from before the training diverged")
    return arrays


def _around(stored: Collection[str], names: Collection[str]) -> str:
    """Return what stands in front of most names: nothing where as many fit as they are."""
    counts = collections.Counter({"": sum(name in names for name in stored)})
    for name in stored:
        parts = name.split(".")
        for depth in range(1, len(parts)):
            if ".".join(parts[depth:]) in names:
                counts[".".join([*parts[:depth], ""])] += 1
    return max(counts, key=lambda around: counts[around])
