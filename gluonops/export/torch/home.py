"""Brings the weights of a port, trained in PyTorch, home to MXNet: symbol JSON and parameters."""
from __future__ import annotations

import functools
import importlib.util
import os
import pathlib
import shutil
import tempfile
import warnings

import mxnet as mx
import numpy as np

from ...backends.backend import available
from ...contract.errors import OpError
from ...io.files import check_name, check_writable, made_folder, replace
from ..compare import Difference
from ..locate import paths_of
from ..symbol import rewrite
from ..warning import ExportWarning
from . import origin, state_dict
from .write import Converted, values_of

__all__ = ["from_port"]

WHERE = "export.from_port"
STACK = 3


def from_port(folder: str | os.PathLike, weights: str | os.PathLike, prefix: str | os.PathLike,
              backend: str = "builtin", force: bool = False) -> list[str]:
    """Write the weights of a port, trained in PyTorch, as ``prefix-symbol.json`` and ``prefix-0000.params``.

    The graph is that of the net that :func:`gluonops.export.torch` wrote the port from, with its losses, names and
    metadata. Where torch is installed, ``net.py`` of the folder runs with the weights, and MXNet with the parameters
    that are written. Both are compared as in :func:`gluonops.export.torch` before a file is written. This runs the code
    in ``net.py``.

    Parameters
    ----------
    folder : str or os.PathLike
        The port: ``net.py``, ``names.json`` and ``origin-symbol.json``.
    weights : str or os.PathLike
        A ``.safetensors`` file, a file of ``torch.save(net.state_dict(), ...)``, or a checkpoint that has such a dict
        under ``state_dict`` or ``model``. It is read with ``weights_only=True``. A common beginning of all names, such
        as ``module.``, may be there.
    prefix : str or os.PathLike
        Path of the files to write, without ``-symbol.json``. Its folder is made.
    backend : {'builtin', 'custom', 'native', 'auto'}, default 'builtin'
        As in :func:`gluonops.export.symbol`.
    force : bool, default False
        Write the files although the comparison shows a difference, with an ExportWarning.

    Returns
    -------
    list of str
        The paths.

    Raises
    ------
    OpError
        A file is missing or damaged; names or shapes of the weights do not fit the net, and the message lists them; or
        the comparison shows a difference.
    """
    paths, _ = brought_home(folder, weights, prefix, backend, force)
    return paths


def brought_home(folder: str | os.PathLike, weights: str | os.PathLike, prefix: str | os.PathLike, backend: str,
                 force: bool) -> tuple[list[str], list[Difference]]:
    """Do what :func:`from_port` does, and return the paths and what the comparison shows."""
    for path in (folder, prefix):
        check_name(WHERE, path)
    folder, prefix = pathlib.Path(folder), os.fspath(prefix)
    available(backend)   # an OpError if it is not
    source = origin.read(WHERE, folder)
    wanted = source.weights()
    arrays = state_dict.fitted(WHERE, weights, folder, state_dict.read(WHERE, weights), wanted,
                               source.keys.keys() - wanted.keys())
    with made_folder(WHERE, prefix):
        check_writable(WHERE, *paths_of(prefix, 0))
        with tempfile.TemporaryDirectory(dir=os.path.dirname(prefix) or ".", prefix=".import-") as temporary:
            canonical, final = (os.path.join(temporary, name) for name in ("origin", "home"))
            source.model.parameters = {name: mx.nd.array(value, dtype=source.types[name])
                                       for name, value in source.parameters(arrays).items()}
            source.model.save(canonical)
            differences = _compared(canonical, source, arrays, folder, force)
            written = rewrite(canonical, final, backend)
            replace(WHERE, {path: functools.partial(os.replace, made)
                            for path, made in zip(paths_of(prefix, 0), written)})
    return list(paths_of(prefix, 0)), differences


def _compared(prefix: str, source: origin.Origin, arrays: dict[str, np.ndarray], folder: pathlib.Path,
              force: bool) -> list[Difference]:
    """Return what differs between the files of a prefix in MXNet and the port with its trained weights in torch."""
    if importlib.util.find_spec("torch") is None:
        warnings.warn("the files are not compared with PyTorch, because torch is not installed", ExportWarning,
                      stacklevel=STACK)
        return []
    from safetensors.numpy import save

    from .verify import compare
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExportWarning)   # the export to PyTorch has said what it leaves out
        converted = Converted(prefix, None, 0, source.training)
    names = {key: name for key, name in source.keys.items() if key in arrays or name in converted.model.parameters}
    constants = values_of(converted.model, {key: name for key, name in names.items() if key not in arrays})
    content = {**constants, **{key: _floats(value) for key, value in arrays.items()}}
    with tempfile.TemporaryDirectory() as temporary:
        ran = pathlib.Path(temporary)
        if not (folder / "net.py").is_file():
            raise OpError(WHERE, f"there is no file {folder / 'net.py'}", origin.AGAIN)
        shutil.copyfile(folder / "net.py", ran / "net.py")
        (ran / "net.safetensors").write_bytes(save(content))
        _, differences = compare(converted.port(names), ran, force)
    return differences


def _floats(value: np.ndarray) -> np.ndarray:
    """Return what ``load`` of net.py reads: whole numbers are floats there."""
    return np.asarray(value, None if value.dtype.kind == "f" else np.float32, order="C")
