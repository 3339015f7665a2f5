"""Finds the files of a net: by prefix or by name, in a folder, or in a hosted service's archive. Needs no MXNet."""
from __future__ import annotations

import contextlib
import json
import numbers
import os
import pathlib
import re
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from ..contract.errors import OpError, quoted
from ..io.files import check_name, check_regular, read_lines

SYMBOL = "-symbol.json"
ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip", ".mar", ".model")
# What is taken out of an archive: by the ends of the names.
MEMBERS = (".json", ".params", ".txt")
MOST_MEMBERS = 10_000
# How large an archive may become, unless it is that large itself: a small one can announce petabytes.
MOST_BYTES, MOST_RATIO = 2 ** 30, 100
MOST_TEXT = 2 ** 24   # bytes of a file beside the net
REMEDY = "Correct the file, or remove it"   # It is for a file beside the net.
NAMES = ("synset.txt", "classes.txt", "labels.txt")   # Such files name the classes, one per line.


class Located(NamedTuple):
    """A net's files: the path without ``-symbol.json``, the number of the parameter file, and :func:`_facts`."""

    prefix: str
    epoch: int | None
    facts: dict[str, Any]


@contextlib.contextmanager
def located(where: str, path: str | os.PathLike) -> Iterator[Located]:
    """The files of a net. Those of an archive exist until the context ends.

    ``path``: without ``-symbol.json``; or the name of one of the two files, a folder or an archive with one net. An
    OpError if there is none, or several.
    """
    path = os.fspath(path)
    check_name(where, path)
    if os.path.isfile(path) and path.endswith(ARCHIVES):
        with tempfile.TemporaryDirectory() as folder:
            try:
                _extract(where, path, folder)
                yield _of_folder(where, folder)
            except OpError as error:
                raise OpError(error.where, f"{path}: {error.what}".replace(f"{folder}{os.sep}", ""),
                              error.remedy) from error
    elif os.path.isdir(path) and not os.path.isfile(path + SYMBOL):
        yield _of_folder(where, path)
    else:
        yield Located(*split(path), {})


def split(path: str) -> tuple[str, int | None]:
    """The prefix and the epoch of a net, also from the name of one of its two files."""
    match = re.fullmatch(r"(.+)-(?:symbol\.json|(\d{4,})\.params)", path)
    if match is None:
        return path, None
    return match.group(1), match.group(2) and int(match.group(2))


def paths_of(prefix: str, epoch: int) -> tuple[str, str]:
    """The paths of the JSON and of the parameters."""
    return f"{prefix}{SYMBOL}", f"{prefix}-{epoch:04d}.params"


def newest_epoch(where: str, prefix: str) -> int:
    """The highest number of a parameter file with this prefix."""
    epochs = _epochs(prefix)
    if epochs:
        return max(epochs)
    other = f"{prefix}.params"
    others = f"; {other} is what net.save_parameters writes, with other names" if os.path.isfile(other) else ""
    raise OpError(where, f"there is no file {prefix}-NNNN.params, which has the parameters of {prefix}{SYMBOL}{others}",
                  "Save them beside the symbol; for a graph that has none, write an empty file: "
                  f"mx.nd.save('{os.path.basename(prefix)}-0000.params', {{}})")


def _epochs(prefix: str) -> list[int]:
    """The numbers of the parameter files with this prefix."""
    folder, name = os.path.split(prefix)
    if not os.path.isdir(folder or "."):
        return []
    numbered = map(split, os.listdir(folder or "."))
    return [epoch for stem, epoch in numbered if stem == name and epoch is not None]


def without_graph(where: str, path: str) -> OpError:
    """The OpError for symbol JSON that does not exist. Parameters alone are what ``save_parameters`` writes."""
    prefix = path[:-len(SYMBOL)]
    numbered = [paths_of(prefix, epoch)[1] for epoch in _epochs(prefix)]
    parameter_files = [file for file in (prefix, f"{prefix}.params", *numbered) if file.endswith(".params")
             and os.path.isfile(file)]
    if not parameter_files:
        return OpError(where, f"there is no file {path}", "Pass the path of the exported net without -symbol.json")
    stem = prefix.removesuffix(".params")
    lines = (f"net = ...; net.load_parameters({parameter_files[0]!r}); "
             f"gops.export.symbol(net, {os.path.basename(stem)!r}, (1, 3, 224, 224))")
    return OpError(where, f"there is no file {stem}{SYMBOL}, and {parameter_files[0]} has parameters only: "
                   "save_parameters stores no graph",
                   f"Export in Python, where the net is made: {lines}, with the shape of your data")


def check_epoch(where: str, epoch: int) -> None:
    """Raise an OpError unless ``epoch`` is an integer of at least 0."""
    if isinstance(epoch, bool) or not isinstance(epoch, numbers.Integral) or epoch < 0:
        raise OpError(where, f"epoch is {epoch!r}; expected an integer of at least 0", "Pass one such as 0")


def _of_folder(where: str, folder: str) -> Located:
    """The only net of a folder, or of the folders in it."""
    root = pathlib.Path(folder)
    symbols = sorted(map(str, root.glob(f"*{SYMBOL}"))) or sorted(map(str, root.glob(f"*/*{SYMBOL}")))
    if len(symbols) != 1:
        names = ", ".join(os.path.relpath(path, folder) for path in symbols[:10])
        has = f"the files {names}; expected one" if names else "no file"
        raise OpError(where, f"{folder} has {has} that ends in {SYMBOL}",
                      "Pass the path of one net, without -symbol.json")
    prefix = symbols[0][:-len(SYMBOL)]
    return Located(prefix, None, _facts(where, os.path.dirname(prefix)))


def _extract(where: str, path: str, folder: str) -> None:
    """Write the files of an archive to a folder: regular files of a net only, each under its last name."""
    left = max(MOST_BYTES, MOST_RATIO * os.path.getsize(path))
    try:
        with contextlib.closing(_members(path)) as members:
            for number, (name, file) in enumerate(members):
                extracted = os.path.join(folder, os.path.basename(name))
                if number >= MOST_MEMBERS or os.path.exists(extracted):
                    raise OpError(where, f"it has {name!r} a second time, or more than {MOST_MEMBERS} files; expected "
                                  "the files of one net", "Extract it, and pass the folder")
                with file, open(extracted, "wb") as copy:
                    left -= _copy(file, copy, left)
                if left < 0:
                    raise OpError(where, f"its files are {MOST_RATIO} times as large as the archive", "Extract it, and "
                                  "pass the folder")
    except (OSError, EOFError, ValueError, RuntimeError, NotImplementedError, zlib.error, tarfile.TarError,
            zipfile.BadZipFile) as error:
        raise OpError(where, f"it is not an archive of files, or it is damaged: {error}",
                      f"Pass one that ends in {', '.join(ARCHIVES)}") from error


def _members(path: str) -> Iterator[tuple[str, BinaryIO]]:
    """The names of the files in an archive that belong to a net, and their contents."""
    check_regular(path)
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if not member.is_dir() and member.filename.endswith(MEMBERS):
                    yield member.filename, archive.open(member)
        return
    with tarfile.open(path) as archive:
        for member in archive:
            if member.isreg() and member.name.endswith(MEMBERS):
                yield member.name, archive.extractfile(member)


def _copy(file: BinaryIO, copy: BinaryIO, most: int) -> int:
    """Copy a file until it ends or ``most`` bytes are exceeded. Returns how many bytes were copied."""
    size = 0
    while size <= most and (content := file.read(2 ** 20)):
        size += copy.write(content)
    return size


def _facts(where: str, folder: str) -> dict[str, Any]:
    """What the files beside a net say of it, as the metadata of gluonops call it.

    ``hyperparams.json`` and ``model-shapes.json`` are SageMaker's, ``signature.json`` and ``synset.txt`` MXNet's model
    server's. Returns ``inputs``, ``classes`` and ``hyperparameters`` if they are there.
    """
    facts = {}
    hyperparameters = _json(where, folder, "hyperparams.json", dict)
    if hyperparameters:
        facts["hyperparameters"] = hyperparameters
        count = str(hyperparameters.get("num_classes", ""))
        if count.isascii() and count.isdigit() and int(count):
            facts["classes"] = int(count)
        sizes = re.findall(r"\d+", str(hyperparameters.get("image_shape", "")), re.ASCII)
        if len(sizes) in (1, 3):
            sizes = [3, *2 * sizes] if len(sizes) == 1 else sizes
            facts["inputs"] = {"data": _shape(where, "data", [1, *map(int, sizes)])}
    listed = [(item.get("name"), item.get("shape")) for item in _json(where, folder, "model-shapes.json", list)]
    signature = _json(where, folder, "signature.json", dict).get("inputs") or []
    listed += [(item.get("data_name"), item.get("data_shape")) for item in signature if isinstance(item, dict)]
    if listed:
        facts["inputs"] = {name: _shape(where, name, shape) for name, shape in listed}
    names = [path for path in (os.path.join(folder, name) for name in NAMES) if os.path.isfile(path)]
    if names:
        lines = read_lines(where, names[0], REMEDY)
        facts["classes"] = [line for line in lines if line.strip()]
    return facts


def _shape(where: str, name: object, shape: object) -> list[int]:
    """The shape of an input; a size of 0 is that of any batch."""
    is_shape = isinstance(name, str) and isinstance(shape, list) and len(shape) > 0
    if not is_shape or not all(type(size) is int and 0 <= size < 2 ** 31 for size in shape) or not all(shape[1:]):
        raise OpError(where, f"the input {quoted(name)} beside the net has the shape {quoted(shape)}; expected sizes",
                      REMEDY)
    return [shape[0] or 1, *shape[1:]]


def _json(where: str, folder: str, name: str, kind: type) -> Any:
    """The content of a JSON file; empty if it does not exist."""
    path = os.path.join(folder, name)
    if not os.path.isfile(path):
        return kind()
    try:
        if os.path.getsize(path) > MOST_TEXT:
            raise ValueError(f"it has more than {MOST_TEXT} bytes")
        content = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        if not isinstance(content, kind) or kind is list and not all(isinstance(item, dict) for item in content):
            raise TypeError(f"it is not the {kind.__name__} that the service writes")
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise OpError(where, f"{path} cannot be read: {error}", REMEDY) from error
    return content
