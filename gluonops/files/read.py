"""Reads the net, the arrays or the records that a path names."""
from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..contract.errors import OpError
from ..export.graph import VARIABLE, Graph, Node
from ..export.locate import SYMBOL, located, newest_epoch, paths_of
from ..export.operators import traits_of
from ..io import params, recordio
from ..io.files import check_writable, replace

ARRAYS, RECORDS, NET = "arrays", "records", "net"
ENDINGS = {".params": ARRAYS, ".rec": RECORDS}


class Net(NamedTuple):
    """The graph of a net, the paths of its two files, and what the files beside it say."""

    graph: Graph
    symbol: str
    parameters: str
    facts: dict


def kind_of(path: str | os.PathLike) -> str:
    """The kind of file that a path names, by its ending: ``arrays``, ``records``, or else a ``net``."""
    return ENDINGS.get(pathlib.Path(path).suffix, NET)


@contextlib.contextmanager
def net_of(where: str, path: str | os.PathLike, epoch: int | None) -> Iterator[Net]:
    """The net that a path names.

    The files of an archive exist until the context ends. An OpError is raised if there is no net.
    """
    with located(where, path) as location:
        symbol = location.prefix + SYMBOL
        if not os.path.isfile(symbol):
            raise OpError(where, f"there is no file {symbol}", "Pass the path of a net without -symbol.json, or a file "
                          "that ends in .params or .rec")
        graph = Graph.read(where, symbol)
        _list_states(graph)
        if epoch is None:
            epoch = newest_epoch(where, location.prefix) if location.epoch is None else location.epoch
        yield Net(graph, symbol, paths_of(location.prefix, epoch)[1], location.facts)


def _list_states(graph: Graph) -> None:
    """Give the batch norms of MXNet 0.8 the states that its files did not list, in place."""
    for node in graph.nodes():
        if traits_of(node).uses_statistics and len(node.inputs) == 3:
            node.inputs += [(Node(VARIABLE, f"{node.name}_{state}"), 0) for state in ("moving_mean", "moving_var")]


def read(path: str | os.PathLike, epoch: int | None = None) -> dict[str, np.ndarray]:
    """The arrays of a ``.params`` file, or of a net, by the names in the file.

    Parameters
    ----------
    path : str or os.PathLike
        A file that ends in ``.params``, of any version of MXNet; or a net.
    epoch : int, optional
        Of a net: the number of its parameter file. The default is the highest one.

    Returns
    -------
    dict of str to numpy.ndarray
        The arrays of a list, which have no names, are called ``0``, ``1``, ...

    Raises
    ------
    OpError
        The file is missing, is damaged, or has sparse arrays.
    """
    if kind_of(path) == ARRAYS:
        return params.read("files.read", path)
    with net_of("files.read", path, epoch) as net:
        return params.read("files.read", net.parameters)


def write(path: str | os.PathLike, arrays: Mapping[str, np.ndarray] | Sequence[np.ndarray]) -> None:
    """Write a ``.params`` file: the bytes that ``mx.nd.save`` writes.

    Parameters
    ----------
    path : str or os.PathLike
        The file.
    arrays : dict of str to numpy.ndarray, or list of numpy.ndarray
        The arrays, with or without names.

    Raises
    ------
    OpError
        The file cannot be written, or MXNet does not have the type of an array.
    """
    path = os.fspath(path)
    check_writable("files.write", path)
    replace("files.write", {path: lambda name: params.write(name, arrays)})


def records(path: str | os.PathLike) -> Iterator[recordio.Item]:
    """The records of a ``.rec`` file, one after the other.

    Parameters
    ----------
    path : str or os.PathLike
        The file.

    Returns
    -------
    iterator
        A tuple for each record: ``labels``, an array of float32; ``number``; and ``content``, such as the bytes of a
        JPEG file.

    Raises
    ------
    OpError
        The file is missing or damaged, or a record has no header.
    """
    return recordio.items("files.records", path)
