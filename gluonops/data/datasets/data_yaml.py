"""``data.yaml`` of Ultralytics and Roboflow: where the pictures of each split are, and the names of the classes.

Keys that count: ``path``, the folder that the others count from; ``train`` and ``val`` (or ``valid``, ``test``), each a
folder, a list of pictures or several of them; ``names``, a list or a mapping from class ids; ``nc``, the number of
classes; ``kpt_shape`` of files with key points. Roboflow's paths begin with ``../`` and mean the file's own folder.

PyYAML reads the file, because these files use every notation of YAML: lists and mappings in one line or in many, with
and without quotes. The extra ``detection`` installs it, and ``--config`` needs it as well.
"""
from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from ...contract.errors import OpError, quoted
from ...io.files import read_lines
from ...io.yaml_text import MOST_BYTES, parse
from .. import layouts
from ..base import ALIASES, class_names
from .darknet import listed_images, suffixes

WHERE = "data.yolo"
ENDINGS = (".yaml", ".yml")
USUAL = ("data.yaml", "data.yml", "dataset.yaml", "dataset.yml")
REMEDY = "Correct the file"


class DataYaml(NamedTuple):
    """What the file says.

    ``names`` are the names of the classes by their ids, ``parts`` the paths of each split as they are written, and
    ``keypoints`` is how many numbers of key points follow a box.
    """
    path: str
    names: dict[int, str]
    parts: dict[str, list[str]]
    folder: str
    keypoints: int

    def images(self, split: str) -> list[str | OpError]:
        """The pictures of a split. In the place of a listed picture that does not exist there is an OpError."""
        pictures = []
        for written in self.parts[split]:
            place = self._find(split, written)
            if os.path.isfile(place):
                pictures += listed_images(place, (*self._bases(), os.path.dirname(place)), WHERE, "Pass another root")
            else:
                pictures += layouts.pictures_below(place)
        if not pictures:
            written = " and ".join(self.parts[split])
            raise OpError(WHERE, f"{self.path}, {split}: {written} has no pictures; expected at least one", REMEDY)
        return pictures

    def _find(self, split: str, written: str) -> str:
        """The folder or the list that a path means."""
        path = next((path for path in self._candidates(written) if os.path.exists(path)), None)
        if path is None:
            raise OpError(WHERE, f"{self.path}, {split}: there is no {written}; expected a folder or a list of "
                          f"pictures, from {' or '.join(dict.fromkeys(self._bases()))}", REMEDY)
        return os.path.normpath(path)

    def _bases(self) -> list[str]:
        own = os.path.dirname(self.path) or os.curdir
        return [os.path.normpath(os.path.join(own, self.folder)), own, os.path.join(own, os.pardir)]

    def _candidates(self, written: str) -> Iterator[str]:
        written = written.replace("\\", "/")
        inside = re.sub(r"^(\.\./)+", "", written)
        for base in self._bases()[:2]:
            yield os.path.join(base, inside)
        for base in (*self._bases(), os.curdir):
            yield os.path.join(base, written)
        for suffix in suffixes(written):
            yield os.path.join(self._bases()[1], suffix)


def is_data_yaml(path: str) -> bool:
    """Whether a file has the ending of YAML, and contains names of classes."""
    if not path.lower().endswith(ENDINGS) or not os.path.isfile(path) or os.path.getsize(path) > MOST_BYTES:
        return False
    with open(path, "rb") as file:
        return bool(re.search(rb"^(names|nc)\s*:", file.read(), re.MULTILINE))


def find_data_yaml(folder: str) -> str | None:
    """The file in a folder, or None if there is none. Its usual names come first."""
    names = [name for name in layouts.files_and_folders(folder)[0] if name.lower().endswith(ENDINGS)]
    names.sort(key=lambda name: (name.lower() not in USUAL, name))
    return next((path for path in (os.path.join(folder, name) for name in names) if is_data_yaml(path)), None)


def read_data_yaml(path: str) -> DataYaml:
    """Read such a file. An OpError is raised if it cannot be read, has no ``train``, or does not name its classes."""
    text = "\n".join(read_lines(WHERE, path, "Pass the path of a text file"))
    try:
        content = parse(text, WHERE, plain=True)
    except OpError:
        raise
    except Exception as error:   # PyYAML's errors have a base class of their own
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        raise OpError(WHERE, f"{path}{line}: {problem}; expected YAML", REMEDY) from error
    if not isinstance(content, dict):
        raise _bad(path, "it is not a mapping", "lines such as train: images/train")
    parts = {split: _part(path, content, keys) for split, keys in ALIASES.items()}
    if not any(parts.values()):
        raise _bad(path, "it has neither train nor val", "a folder or a list of pictures for each")
    folder = content.get("path") or "."
    points = content.get("kpt_shape") or []
    return DataYaml(path, _names(path, content), parts, folder.replace("\\", "/") if isinstance(folder, str) else ".",
                    _product(points))


def _bad(path, got, expected):
    return OpError(WHERE, f"{path}: {got}; expected {expected}", REMEDY)


def _part(path, content, keys):
    """The paths of a split, as they are written. The tuple is empty if the file has no such split."""
    key = next((key for key in keys if content.get(key)), None)
    written = content.get(key) or []
    written = [written] if isinstance(written, str) else written
    if not isinstance(written, list) or not all(isinstance(each, str) for each in written):
        raise _bad(path, f"{key} is {quoted(written)}",
                   "the path of a folder or of a list of pictures, or several paths")
    return written


def _names(path, content):
    names, count = content.get("names"), content.get("nc")
    if names is None and count is not None and str(count).isdecimal():
        return {number: str(number) for number in range(min(int(count), 100_000))}
    if isinstance(names, list):
        names = dict(enumerate(names))
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise _bad(path, f"names is {quoted(names)}", "a list of names, or a mapping from class ids to names")
    try:
        names = {int(number): name for number, name in sorted(names.items(), key=lambda item: int(item[0]))}
    except ValueError as error:
        raise _bad(path, f"names has the class ids {quoted(list(names))}", "whole numbers") from error
    if str(count or 0).isdecimal() and int(count or 0) > len(names):
        raise _bad(path, f"nc is {count}, and there are {len(names)} names", "a name for each class")
    class_names([*names.values()], f"{WHERE}: {path}")
    return names


def _product(points):
    """How many numbers key points of this shape have."""
    try:
        total = 1
        for side in points:
            total *= int(side)
    except (TypeError, ValueError):
        return 0
    return total if points else 0
