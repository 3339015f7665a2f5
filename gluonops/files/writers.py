"""Writes files for programs without MXNet: safetensors, folders of NumPy's arrays, and folders of pictures."""
from __future__ import annotations

import csv
import importlib
import json
import os
import pathlib
import tempfile
import urllib.parse
from collections.abc import Callable

import numpy as np

from ..contract.errors import OpError
from ..export.graph import Graph
from ..export.parameters import without_tags
from ..io import params, recordio
from ..io.files import check_writable, replace
from .describe import format_of
from .read import ARRAYS, RECORDS, kind_of, net_of, write

WHERE = "files.convert"
SAFETENSORS, PARAMS = ".safetensors", ".params"
STATES = "auxiliary_states"   # the entry of safetensors' metadata that names what had aux: in front
LIST = "records.csv"


def convert(source: str | os.PathLike, target: str | os.PathLike, epoch: int | None = None) -> str:
    """Convert a file.

    Parameters
    ----------
    source : str or os.PathLike
        A net, or a file that ends in ``.params`` or ``.rec``.
    target : str or os.PathLike
        The ending selects the format:

        - ``NAME.safetensors``: the arrays, without ``arg:`` and ``aux:`` in front of their names. The metadata have the
          names of the auxiliary states. The package safetensors is needed.
        - ``NAME.params``: the arrays as MXNet 1.9.1 writes them, from any older format.
        - Any other name is a new folder. It gets a ``.npy`` file for each array, whose name is quoted as in a URL, and
          the ``symbol.json`` of a net. Of records it gets a file for each, and ``records.csv`` with numbers and labels.
    epoch : int, optional
        Of a net: the number of its parameter file. The default is the highest one.

    Returns
    -------
    str
        The path of what was written.

    Raises
    ------
    OpError
        The source is missing or damaged, the target cannot be written, or is a folder that exists.
    """
    target, kind = os.fspath(target), kind_of(source)
    ending = pathlib.Path(target).suffix
    if kind == RECORDS:
        if ending in (SAFETENSORS, PARAMS):
            raise OpError(WHERE, f"{target} is a file of arrays, and {source} has records; expected a folder",
                          "Pass the name of a new folder")
        _write_folder(target, lambda folder: _write_records(source, folder))
    elif kind == ARRAYS:
        _write_arrays(target, ending, params.read(WHERE, source), None)
    else:
        with net_of(WHERE, source, epoch) as net:
            _write_arrays(target, ending, params.read(WHERE, net.parameters), net.graph)
    return target


def _write_arrays(target: str, ending: str, arrays: dict[str, np.ndarray], graph: Graph | None) -> None:
    if ending == PARAMS:
        write(target, arrays)
    elif ending == SAFETENSORS:
        _write_safetensors(target, arrays)
    else:
        _write_folder(target, lambda folder: _write_npy(folder, arrays, graph))


def _write_safetensors(target: str, arrays: dict[str, np.ndarray]) -> None:
    try:
        safetensors = importlib.import_module("safetensors.numpy")
    except ModuleNotFoundError as error:
        raise OpError(WHERE, "the package safetensors is not installed", "Run: pip install safetensors") from error
    plain = without_tags(WHERE, target, arrays)
    states = [name[len("aux:"):] for name in arrays if name.startswith("aux:")]
    metadata = {"format": "mxnet", STATES: json.dumps(states)}
    check_writable(WHERE, target)
    replace(WHERE, {target: lambda path: safetensors.save_file(
        {name: np.ascontiguousarray(value) for name, value in plain.items()}, path, metadata)})


def _write_npy(folder: str, arrays: dict[str, np.ndarray], graph: Graph | None) -> None:
    for name, value in arrays.items():
        np.save(os.path.join(folder, f"{urllib.parse.quote(name, safe='')}.npy"), value)
    if graph is not None:
        pathlib.Path(folder, "symbol.json").write_text(graph.text(), encoding="utf-8")


def _write_records(source: str | os.PathLike, folder: str) -> None:
    with open(os.path.join(folder, LIST), "w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        for number, item in enumerate(recordio.items(WHERE, source)):
            name = f"{number:08d}.{format_of(item.content)}"
            pathlib.Path(folder, name).write_bytes(item.content)
            lines.writerow([name, item.number, *map(str, item.labels)])


def _write_folder(target: str, fill: Callable[[str], None]) -> None:
    """Make a folder, completely or not at all."""
    if os.path.lexists(target):
        raise OpError(WHERE, f"{target} exists; expected the name of a new folder", "Pass another name")
    parent, name = os.path.split(os.path.abspath(target))
    try:
        with tempfile.TemporaryDirectory(dir=parent, prefix=f".{name}.") as beside:
            folder = os.path.join(beside, name)
            os.mkdir(folder)
            fill(folder)
            os.rename(folder, target)
    except OSError as error:
        raise OpError(WHERE, f"cannot write the folder {target}: {error.strerror}", "Pass another name") from error
